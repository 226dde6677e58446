package proxy

import (
	"context"
	"mime"
	"time"

	"github.com/toolgate/toolgate/audit"
	"github.com/toolgate/toolgate/redact"
)

// intentWait bounds how long a call may wait for the word that its intent is recorded.
const intentWait = 2 * time.Second

// intend is called when the call is about to be made, with its body where that is held. It records that a tool with side effects is about
// to act, and returns when that is safe: whatever becomes of this process then, the record says that the call may have been made. An
// error means that it must not be.
func (c *call) intend(contentType string, body []byte) error {
	c.proxy.runs.touch(runOf(c.caller), c.tool.CapabilityClasses)
	if !c.tool.SideEffecting() {
		return nil
	}
	intent := c.rec
	intent.Kind, intent.Decision = audit.KindIntent, "allow"
	intent.InputType = mediaType(contentType)
	if len(body) > 0 && len(body) <= maxCapture && described(intent.InputType) {
		c.rec.InputShape = redact.Shape(body, c.tool.InputFields) // the call's record has the same
		intent.InputShape = c.rec.InputShape
	}
	ctx, cancel := context.WithTimeout(c.ctx, intentWait)
	defer cancel()
	start := time.Now()
	err := c.proxy.audit.Save(ctx, intent)
	c.rec.IntentTime = time.Since(start)
	return err
}

// intendTunnel is intend for a tunnel that is relayed.
func (c *call) intendTunnel() *Denial {
	err := c.intend("", nil)
	switch {
	case err == nil:
		return nil
	case c.ctx.Err() != nil:
		return c.failure(context.Cause(c.ctx))
	}
	return unrecorded(err)
}

func unrecorded(err error) *Denial {
	return deny(NotReady, "The call could not be recorded before it is made, and this tool has side effects.", err)
}

// mediaType returns a Content-Type without its parameters, in lower case, or nothing of one that cannot be read.
func mediaType(contentType string) string {
	if contentType == "" || contentType == "application/json" {
		return contentType
	}
	t, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return ""
	}
	return t
}
