package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/toolgate/toolgate/broker"
)

// maxHeld bounds the bytes of bodies that are held at once, for credentials that have to see them whole, and by the decoders of answers.
const maxHeld = 64 << 20

var errHeldTooLarge = errors.New("the body is larger than what may be held")

// held counts the bytes of bodies that are in memory. A tool, and likewise a tenant, that has some gets more only as long as it has no
// more than would be left: bodies that come slowly must not keep out everybody else's.
type held struct {
	mu    sync.Mutex
	bytes int64
	tools map[string]int64 // what each has
	// tenants has none for callers without a tenant, whom nothing tells apart.
	tenants map[string]int64
}

func (h *held) take(tool, tenant string, n int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	left := maxHeld - h.bytes - n
	if left < 0 || h.tools[tool] > left || h.tenants[tenant] > left {
		return false
	}
	if h.tools == nil {
		h.tools, h.tenants = map[string]int64{}, map[string]int64{}
	}
	h.bytes += n
	h.tools[tool] += n
	if tenant != "" {
		h.tenants[tenant] += n
	}
	return true
}

func (h *held) give(tool, tenant string, n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bytes -= n
	for _, of := range []struct {
		bytes map[string]int64
		name  string
	}{{h.tools, tool}, {h.tenants, tenant}} {
		if of.bytes[of.name] -= n; of.bytes[of.name] <= 0 {
			delete(of.bytes, of.name)
		}
	}
}

// applyCredential puts cred on the request. A body that the credential has to see is read whole first, and is sent as the credential
// leaves it; its memory is the call's until letGo. A refusal has been answered where it reports false.
func (c *call) applyCredential(ctx context.Context, to *client, out *http.Request, cred *broker.Credential) bool {
	var body []byte
	if limit := cred.BodyLimit(out); limit > 0 && !to.body.none {
		var ok bool
		if body, ok = c.hold(ctx, to, limit); !ok {
			return false
		}
	}
	if ctx.Err() != nil { // revoked since it was given
		c.roundTripFailed(ctx, to, ctx.Err())
		return false
	}
	if err := c.put(ctx, to, out, cred, body); err != nil {
		c.refuseRequest(to, c.brokerDenial(err))
		return false
	}
	if to.body.isHeld {
		c.settle(int64(len(body)) + to.body.instead.Size())
	}
	return true
}

// settle gives back what a body turned out not to need, since an answer may take its time.
func (c *call) settle(needed int64) {
	if spare := c.holds - needed; spare > 0 {
		c.proxy.held.give(c.tool.Name, c.rec.Tenant, spare)
		c.holds = needed
	}
}

// put applies cred to a request whose body is held, or is nil.
func (c *call) put(ctx context.Context, to *client, out *http.Request, cred *broker.Credential, body []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	held := to.body.isHeld
	if held {
		out.Header.Del("Expect") // the client has been asked for its body
	}
	sent, err := cred.Apply(out, body)
	if err != nil {
		return err
	}
	if held {
		to.body.send(sent)
		if out.ContentLength = int64(len(sent)); len(out.Trailer) > 0 {
			out.ContentLength = -1
		}
	}
	return nil
}

// hold reads the request's body into memory, within the limit of all bodies.
func (c *call) hold(ctx context.Context, to *client, limit int64) ([]byte, bool) {
	if !c.proxy.held.take(c.tool.Name, c.rec.Tenant, limit) {
		c.refuseRequest(to, deny(Overloaded, "The sidecar's limit of bodies in memory is reached.", nil))
		return nil, false
	}
	c.holds = limit
	if to.h1 { // there is no exchange yet that sees to it
		defer context.AfterFunc(ctx, to.interrupt)()
	}
	body, err := to.body.hold(limit)
	switch {
	case errors.Is(err, errHeldTooLarge):
		c.rec.ErrorClass = "credential"
		c.refuseRequest(to, deny(CredentialDenied, "The body is larger than the "+strconv.FormatInt(limit, 10)+
			" bytes that the credential of binding "+c.binding.Name+" can be used with.", err))
		return nil, false
	case err != nil:
		c.roundTripFailed(ctx, to, err)
		return nil, false
	}
	return body, true
}

// letGo gives back the memory of what the call holds. It is deferred, since a call may end in a panic (http.ErrAbortHandler).
func (c *call) letGo() {
	if c.holds > 0 {
		c.proxy.held.give(c.tool.Name, c.rec.Tenant, c.holds)
		c.holds = 0
	}
}

// hold reads the whole body, of at most limit bytes.
func (b *requestBody) hold(limit int64) ([]byte, error) {
	if b.length > limit {
		return nil, errHeldTooLarge
	}
	all, err := io.ReadAll(io.LimitReader(b, limit+1))
	if err == nil && int64(len(all)) > limit {
		err = errHeldTooLarge
	}
	b.held, b.isHeld = all, true
	return all, err
}

// send makes all what the body is from now on. It has been read, counted and described as it came.
func (b *requestBody) send(all []byte) {
	b.expect = false
	b.instead, b.sent = bytes.NewReader(all), make(chan struct{})
}

// resendable reports whether the request can be sent once more: it has no body, or a held one that is out. As long as the transport may
// still read it, nothing else can.
func (b *requestBody) resendable() bool {
	if b.none || !b.isHeld {
		return b.none
	}
	late := time.NewTimer(sentWait)
	defer late.Stop()
	select {
	case <-b.sent:
		return true
	case <-late.C:
		return false
	}
}
