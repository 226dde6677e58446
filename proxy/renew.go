package proxy

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/toolgate/toolgate/broker"
)

// maxUnwanted is how much of an answer that is not passed on is read, so that its connection can be used again.
const maxUnwanted = 64 << 10

// renewed takes 401 for the word of an upstream that no longer believes a cached credential, such as one whose key it has rotated or that was
// revoked at its issuer. The credential is forgotten. Where there may be another and the request can be sent again as it was, it is, once:
// 401 says that it was not processed (RFC 9110, section 15.5.2), whatever its method. In all other cases the answer stands.
func (c *call) renewed(ctx context.Context, to *client, res *http.Response, upgrade bool, cred *broker.Credential) (*http.Response, *broker.Credential, error) {
	if !c.gates.broker.Forget(cred) || !to.body.resendable() {
		return res, cred, nil
	}
	start := time.Now()
	next, err := c.gates.broker.Credential(ctx, c.binding, c.subject())
	c.rec.CredentialTime += time.Since(start)
	if err != nil || next.Same(cred) { // the upstream's answer says more to the tool than that there is no other
		return res, cred, nil
	}
	next = next.After(cred)
	out := c.request(to.r, &to.body, upgrade)
	if err := c.put(ctx, to, out, next, to.body.held); err != nil {
		return res, cred, nil
	}
	_, _ = io.CopyN(io.Discard, res.Body, maxUnwanted)
	_ = res.Body.Close()
	c.rec.Attempt = 2
	c.credentialRef(next.Ref())
	res, err = c.roundTrip(ctx, to, out, upgrade, next)
	return res, next, err
}

// secondTry sends a request again whose credential was refused, where another one or another proof of it may be taken.
func (c *call) secondTry(ctx context.Context, to *client, out *http.Request, res *http.Response, upgrade bool, cred *broker.Credential) (*http.Response, *broker.Credential, error) {
	switch {
	case cred.Answered(out, res): // nothing but the proof's nonce was refused
		res, err := c.sendAgain(ctx, to, res, upgrade, cred)
		return res, cred, err
	case res.StatusCode == http.StatusUnauthorized:
		return c.renewed(ctx, to, res, upgrade, cred)
	}
	return res, cred, nil
}

// sendAgain sends the request once more with the same credential, put on anew.
func (c *call) sendAgain(ctx context.Context, to *client, res *http.Response, upgrade bool, cred *broker.Credential) (*http.Response, error) {
	if !to.body.resendable() {
		return res, nil
	}
	out := c.request(to.r, &to.body, upgrade)
	if err := c.put(ctx, to, out, cred, to.body.held); err != nil {
		return res, nil
	}
	_, _ = io.CopyN(io.Discard, res.Body, maxUnwanted)
	_ = res.Body.Close()
	c.rec.Attempt = 2
	res, err := c.roundTrip(ctx, to, out, upgrade, cred)
	if err == nil {
		cred.Answered(out, res)
	}
	return res, err
}
