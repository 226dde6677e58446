package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"

	"golang.org/x/net/http2"

	"github.com/toolgate/toolgate/broker"
	"github.com/toolgate/toolgate/egress"
	"github.com/toolgate/toolgate/killswitch"
)

// failure turns an error of the way to the upstream into what the tool may know of it, and notes its class. The error's
// text stays here: it quotes addresses, URLs and headers. The call's own end is looked at first, since a call that was
// cut fails in whatever way it was busy.
func (c *call) failure(err error) *Denial {
	cause := context.Cause(c.ctx)
	var tripped *killswitch.Tripped
	var via *egress.ProxyError
	var address *egress.AddressError
	var name *net.DNSError
	var stream http2.StreamError
	switch {
	case errors.As(cause, &tripped) || errors.As(err, &tripped):
		return c.killDenial(tripped)
	case errors.As(err, &via): // before what it wraps, which is about the proxy and not about the host
		return c.proxyFailure(via)
	case errors.As(err, &address):
		c.rec.ErrorClass = "address"
		return deny(PrivateNetwork, "The host's address is out of bounds for tools.", err)
	case errors.Is(err, errToolTimeout):
		c.rec.ErrorClass = "timeout"
		return deny(ToolTimeout, "No answer within the "+c.tool.Timeout.String()+" of the tool's timeoutMs.", err)
	case errors.As(err, &name):
		c.rec.ErrorClass = "dns"
		if name.IsTimeout {
			return deny(UpstreamTimeout, "The host's name could not be resolved in time.", err)
		}
		return deny(UpstreamUnreachable, "The host's name could not be resolved.", err)
	case isTLS(err):
		c.rec.ErrorClass = "tls"
		return deny(UpstreamTLS, "The TLS handshake with the upstream failed.", err)
	case isTimeout(err):
		c.rec.ErrorClass = "timeout"
		return deny(UpstreamTimeout, "The upstream did not answer in time.", err)
	case isDial(err):
		c.rec.ErrorClass = "dial"
		return deny(UpstreamUnreachable, "The upstream refused or dropped the connection.", err)
	case errors.As(err, &stream):
		c.rec.ErrorClass = "upstream_protocol"
		return deny(UpstreamProtocol, "The upstream reset the request's stream: "+stream.Code.String()+".", err)
	default:
		c.rec.ErrorClass = "upstream_protocol"
		return deny(UpstreamProtocol, "The upstream's answer is malformed or broke off.", err)
	}
}

// proxyFailure is failure for a connection that the upstream proxy, or the egress gateway, did not give.
func (c *call) proxyFailure(err *egress.ProxyError) *Denial {
	switch {
	case err.Gateway:
		return c.gatewayFailure(err)
	case isTimeout(err.Err):
		c.rec.ErrorClass = "timeout"
		return deny(UpstreamTimeout, "The upstream proxy did not connect to the host in time.", err)
	case err.Reason == egress.ProxyAuth, err.Reason == egress.ProxyCredentials:
		c.rec.ErrorClass = "upstream_proxy_auth"
		return deny(UpstreamUnreachable, "The upstream proxy does not let the sidecar in.", err)
	default:
		c.rec.ErrorClass = "upstream_proxy"
		return deny(UpstreamUnreachable, "The upstream proxy did not connect to the host.", err)
	}
}

func isTLS(err error) bool {
	var verify *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var op *net.OpError
	return errors.As(err, &verify) || errors.As(err, &record) || errors.As(err, &alert) || errors.As(err, &authority) ||
		errors.As(err, &host) || errors.As(err, &invalid) ||
		errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error") // how crypto/tls wraps alerts
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &t) && t.Timeout()
}

func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// brokerDenial turns a broker's error into a denial.
func (c *call) brokerDenial(err error) *Denial {
	var tripped *killswitch.Tripped
	if errors.As(context.Cause(c.ctx), &tripped) {
		return c.killDenial(tripped)
	}
	c.rec.ErrorClass = "credential"
	var e *broker.Error
	if errors.As(err, &e) && e.Detail != "" {
		return deny(CredentialDenied, "A placeholder of binding "+e.Binding+" cannot be replaced here. These are replaced: "+e.Detail+". Reason: "+string(e.Reason)+".", err)
	}
	if errors.As(err, &e) && e.Reason.Advice() != "" {
		return deny(CredentialDenied, "The credential of binding "+e.Binding+" cannot be put on this request: "+e.Reason.Advice()+". Reason: "+string(e.Reason)+".", err)
	}
	if errors.As(err, &e) && !e.Temporary {
		return deny(CredentialDenied, "The issuer gives no credential for binding "+e.Binding+": "+string(e.Reason)+".", err)
	}
	d := deny(CredentialUnavailable, "The credential cannot be had at the moment.", err)
	if e != nil {
		d.Detail, d.RetryAfter = "The credential of binding "+e.Binding+" cannot be had at the moment: "+string(e.Reason)+".", e.RetryAfter
	}
	return d
}
