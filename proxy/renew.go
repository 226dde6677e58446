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
