package proxy

import (
	"errors"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/identity"
)

// judgeReplay is gate 3b: whether this token may be used again, and by this workload. It stands behind the gateway's own gate, so that
// a workload which may not speak for the caller cannot take a token from the one that may.
func (c *call) judgeReplay() *Denial {
	if c.trace != nil || !c.caller.Limited() { // explain uses up nothing
		return nil
	}
	err := c.proxy.replays.Use(c.caller, c.usage(), c.user())
	switch {
	case err == nil:
		return nil
	case errors.Is(err, identity.ErrReplayFull):
		return deny(NotReady, "More task tokens are in use than can be told apart.", err)
	}
	return callerDenial(err)
}

// usage names what a token that is good for one call is used for. Requests inside a tunnel are part of the call that opened it, if they are
// made with its token.
func (c *call) usage() string {
	if c.within != nil && c.within.connect != nil {
		if opener := c.within.connect.caller; opener != nil && opener.Issuer == c.caller.Issuer && opener.TokenID == c.caller.TokenID {
			return c.within.connect.rec.ID
		}
	}
	return c.rec.ID
}

// user names the workload that brings the token. A gateway is told by what the workload shows. A sidecar serves one pod, and knows of
// those in it only at which listener they come, so all listeners for the same tools are one workload; the user name by which a client
// chooses among several tools proves nothing.
func (c *call) user() string {
	switch {
	case c.listener.Kind != config.Gateway:
		if c.listener.Tool != "" {
			return "tools:" + c.listener.Tool
		}
		return "tools:" + strings.Join(slices.Sorted(slices.Values(c.listener.Tools)), ",")
	case c.workload == nil:
		return ""
	}
	return c.workload.issuer + " " + c.rec.Workload
}
