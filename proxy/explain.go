package proxy

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/toolgate/toolgate/audit"
	"github.com/toolgate/toolgate/broker"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/killswitch"
)

// Question is a call that might be made.
type Question struct {
	Tool, Token string
	URL         string // absolute http or https URL, or host:port for a tunnel alone
	Method      string
	Workload    string // of a gateway: who comes for the caller, taken as verified
	Absolute    bool   // the client asks the proxy for the https URL itself, without a tunnel
	Exchange    bool   // verify the token's signature, and ask for the credential as the call would
	Network     bool   // verify the token's signature, resolve the host's name and judge its addresses
}

// Explanation is the decision that the proxy would take, gate by gate, up to the gates that need an upstream.
type Explanation struct {
	Decision       string   `json:"decision"` // allow or deny
	Code           Code     `json:"code,omitempty"`
	Status         int      `json:"status,omitempty"`
	Detail         string   `json:"detail,omitempty"`
	NextSteps      []string `json:"next_steps,omitempty"`
	Tool           string   `json:"tool"`
	Handling       string   `json:"handling,omitempty"`   // relay, intercept or forward
	WouldDeny      Code     `json:"would_deny,omitempty"` // in report mode: what enforcing would deny it with
	Rule           string   `json:"rule,omitempty"`
	PolicyRevision string   `json:"policy_revision"`
	Steps          []Step   `json:"steps"`

	Exchange *broker.Trial `json:"exchange,omitempty"` // of an allowed call that needs a credential, where it was asked for
}

// Explain takes the decision on q with the code that decides calls. Without q.Network it touches no network: the
// token's claims are read without checking its signature, and no name is resolved.
func Explain(ctx context.Context, g *Gates, kill *killswitch.Switch, q Question) Explanation {
	records := audit.New(io.Discard, audit.Options{})
	defer func() { _ = records.Close(0) }()
	p := &Proxy{kill: kill, audit: records, log: slog.New(slog.DiscardHandler)}
	p.gates.Store(g)
	e := &explainer{proxy: p, question: q}
	e.result.Tool, e.result.PolicyRevision = q.Tool, g.snapshot.Revision
	e.explain(ctx)
	if q.Exchange && e.result.Decision == "allow" {
		e.exchange(ctx)
	}
	return e.result
}

type explainer struct {
	proxy    *Proxy
	question Question
	result   Explanation
	allowed  *call // the last that was; nil: none
}

var errUnreadable = errors.New("the URL cannot be parsed")

// explain asks for the tunnel first where a client would, then for the request in it.
func (e *explainer) explain(ctx context.Context) {
	q := e.question
	if !strings.Contains(q.URL, "://") {
		e.connect(ctx, q.URL)
		return
	}
	u, err := url.Parse(q.URL)
	if err != nil { // its text quotes the URL
		e.ask(ctx, &ask{method: q.Method, malformed: errUnreadable})
		return
	}
	r := &http.Request{Method: q.Method, URL: u, Host: u.Host}
	gateway := e.proxy.gates.Load().listener(e.listener()).Kind == config.Gateway // where everything is a tunnel
	if (u.Scheme != "https" || q.Absolute) && !gateway {
		e.ask(ctx, plainAsk(r))
		return
	}
	authority := u.Host
	if u.Port() == "" && !strings.HasSuffix(authority, ":") {
		authority += ":" + strconv.Itoa(int(schemePort(u.Scheme)))
	}
	u.User = nil // of an https URL it does not reach the request line: clients make a header of it
	c := e.connect(ctx, authority)
	if c != nil && c.intercept {
		e.ask(ctx, innerAsk(r, &tunnel{target: c.target}, "https"))
	}
}

func (e *explainer) connect(ctx context.Context, authority string) *call {
	return e.ask(ctx, &ask{tunnel: true, method: http.MethodConnect, authority: authority})
}

// handling says what becomes of an allowed call.
func handling(a *ask, c *call) string {
	switch {
	case a.within != nil || c.intercept:
		return "intercept"
	case a.tunnel:
		return "relay"
	}
	return "forward"
}

func stage(a *ask) string {
	switch {
	case a.within != nil:
		return "request in the tunnel"
	case a.tunnel:
		return "tunnel"
	}
	return "request"
}

// ask runs the gates on one question and keeps the outcome. It returns the call if it was allowed.
func (e *explainer) ask(ctx context.Context, a *ask) *call {
	a.proxyAuthorization, a.explained = e.authorization(), e.question.Workload
	c := e.proxy.begin(e.listener(), "explain")
	c.trace = func(s Step) {
		s.Stage = stage(a)
		e.result.Steps = append(e.result.Steps, s)
	}
	c.unverified = !e.question.Network && !e.question.Exchange
	d := c.decide(ctx, a)
	if d == nil && e.question.Network && (!a.tunnel || !c.intercept) {
		d = c.checkAddress(ctx)
	}
	if d == nil && c.gates.way != nil && !c.intercept {
		c.step("gateway", nil, c.gates.way.place()+" decides again")
	}
	if c.release != nil {
		c.release(nil)
	}
	r := &e.result
	r.Decision, r.Rule, r.Handling = "allow", c.rec.Rule, handling(a, c)
	if r.WouldDeny == "" {
		r.WouldDeny = Code(c.rec.Code)
	}
	if d != nil {
		m := d.meaning()
		r.Decision, r.Code, r.Status, r.Detail, r.NextSteps, r.Handling = "deny", d.Code, m.status, d.Detail, m.nextSteps, ""
		r.WouldDeny = ""
		return nil
	}
	e.allowed = c
	return c
}

// exchange asks for the credential of the call that was allowed, past the cache.
func (e *explainer) exchange(ctx context.Context) {
	c := e.allowed
	if c.binding == nil {
		return
	}
	c.ctx = ctx
	t := c.gates.broker.Try(ctx, c.binding, c.subject())
	e.result.Exchange = &t
	if err := t.Err(); err != nil {
		d := c.brokerDenial(err)
		m := d.meaning()
		r := &e.result
		r.Decision, r.Code, r.Status, r.Detail, r.NextSteps, r.Handling = "deny", d.Code, m.status, d.Detail, m.nextSteps, ""
	}
}

// authorization is how a client would name tool and caller.
func (e *explainer) authorization() []string {
	if e.question.Token == "" && e.single() {
		return nil
	}
	return []string{"Basic " + base64.StdEncoding.EncodeToString([]byte(e.question.Tool+":"+e.question.Token))}
}

func (e *explainer) single() bool {
	return e.proxy.gates.Load().listener(e.listener()).Tool != ""
}

// listener returns the name of a listener that serves the tool; none serves an unknown one.
func (e *explainer) listener() string {
	for _, l := range e.proxy.gates.Load().snapshot.Listeners {
		if l.Kind != config.DNS && (l.Tool == e.question.Tool || slices.Contains(l.Tools, e.question.Tool)) {
			return l.Name
		}
	}
	return ""
}

// checkAddress is gate 7 without the dial.
func (c *call) checkAddress(ctx context.Context) *Denial {
	c.ctx = ctx
	err := c.dialer().Check(ctx, c.tool.Name, c.target.Host, c.target.Port)
	var d *Denial
	if err != nil {
		d = c.failure(err)
	}
	text := "addresses judged, none contacted"
	if c.gates.way != nil {
		text = "judged if it is an address; a name is the gateway's to resolve"
	}
	c.step("dial", d, text)
	return d
}

// Step is what one gate said of a call that is being explained.
type Step struct {
	Stage  string `json:"stage"` // tunnel, request, or request in the tunnel
	Gate   string `json:"gate"`
	Result string `json:"result"` // "pass" or a code
	Detail string `json:"detail,omitempty"`
}

// step tells an explained call's listener what a gate said. It costs a running call one comparison.
func (c *call) step(gate string, d *Denial, detail string) {
	if c.trace == nil {
		return
	}
	s := Step{Gate: gate, Result: "pass", Detail: detail}
	if d != nil {
		s.Result, s.Detail = string(d.Code), d.Detail
	}
	c.trace(s)
}

func (c *call) callerText() string {
	if c.trace == nil || c.caller == nil {
		return ""
	}
	if c.caller.Subject == "" {
		return "nobody (identity is not required)"
	}
	parts := []string{"subject " + c.caller.Subject}
	for _, p := range [][2]string{{"tenant", c.caller.Tenant}, {"agent", c.caller.Agent}, {"task", c.caller.Task}, {"run", c.caller.Run}} {
		if p[1] != "" {
			parts = append(parts, p[0]+" "+p[1])
		}
	}
	if c.unverified {
		parts = append(parts, "signature not checked")
	}
	return strings.Join(parts, ", ")
}

func (c *call) bindingText() string {
	switch {
	case c.trace == nil:
		return ""
	case c.binding == nil && c.intercept:
		return "none; intercepted for its rules"
	case c.binding == nil:
		return "none"
	default:
		return "binding " + c.binding.Name + " (" + c.binding.Kind() + ")" + audienceText(c.binding)
	}
}

func audienceText(b *broker.Binding) string {
	var audience, resource string
	switch {
	case b.TokenExchange != nil:
		audience, resource = b.TokenExchange.Audience, b.TokenExchange.Resource
	case b.ClientCredentials != nil:
		audience, resource = b.ClientCredentials.Audience, b.ClientCredentials.Resource
	}
	if audience == "" {
		audience = resource
	}
	if audience == "" {
		return ""
	}
	return " for " + audience
}
