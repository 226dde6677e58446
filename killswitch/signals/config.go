package signals

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"time"

	"github.com/toolgate/toolgate/identity"
)

// Config is whom to listen to. The zero value listens to nobody.
type Config struct {
	Transmitters  []Transmitter
	Alertmanagers []Alertmanager
}

// Transmitter sends security events.
type Transmitter struct {
	Name string // in paths, metrics, logs and the By of revocations
	// Keys says whose events they are and for whom: its URL is the exact iss of the SETs. NewReceiver sets Types.
	Keys           identity.Issuer
	SubjectIssuers []string      // whose sub values rules may use, of iss_sub subjects; empty: Keys.URL
	Leeway         time.Duration // how far in the future iat may be; 0: 30 s
	MaxAge         time.Duration // how far in the past; 0: 7 days
	Push           *Push         // nil: POSTs are refused
	Poll           *Poll         // nil: not polled
	Rules          []Rule
	Reason         ReasonFrom
}

// Push is how a transmitter proves who it is.
type Push struct{ TokenFile string } // one bearer token a line

// Poll is where a transmitter is asked for its events.
type Poll struct {
	URL       string // https, or http on a loopback address
	TokenFile string // a bearer token
	MaxEvents int    // of one answer; 0: 50
	Wait      time.Duration
	Client    *http.Client // nil: one with the system's roots. Redirects and the environment's proxies are never followed.
}

// ReasonFrom says which of an event's texts becomes part of a revocation's reason, which callers may read.
type ReasonFrom string

// The sources of reasons.
const (
	ReasonAdmin ReasonFrom = "admin" // reason_admin; the zero value means it, too
	ReasonUser  ReasonFrom = "user"  // reason_user
	ReasonNone  ReasonFrom = "none"  // the type of the event alone
)

// Alertmanager sends alerts by its webhook.
type Alertmanager struct {
	Name      string
	TokenFile string        // one bearer token a line
	Expires   time.Duration // after the alert's start; 0: until restored
	Restore   bool          // a resolved alert restores what it revoked
}

// Defaults and bounds of a configuration.
const (
	DefaultLeeway    = 30 * time.Second
	DefaultMaxAge    = 7 * 24 * time.Hour
	DefaultMaxEvents = 50
	MaxEvents        = 200
	DefaultWait      = time.Minute
)

var validName = regexp.MustCompile(`^[a-z][a-z0-9_.-]{0,62}$`)

// Check returns an error that says why the transmitter cannot be used.
func (t *Transmitter) Check() error {
	switch {
	case !validName.MatchString(t.Name):
		return errors.New("its name is not of a-z, 0-9, _ . - or is too long")
	case t.Push == nil && t.Poll == nil:
		return errors.New("it neither pushes nor is polled")
	case t.Push != nil && t.Push.TokenFile == "":
		return errors.New("push needs a token file")
	case len(t.Rules) == 0:
		return errors.New("it has no rules")
	case t.Leeway < 0 || t.Leeway > 10*time.Minute || t.MaxAge < 0 || t.MaxAge > 366*24*time.Hour:
		return errors.New("a time is out of range")
	case !slices.Contains([]ReasonFrom{"", ReasonAdmin, ReasonUser, ReasonNone}, t.Reason):
		return fmt.Errorf("reason %q is not known", t.Reason)
	}
	for i := range t.Rules {
		if err := t.Rules[i].Check(); err != nil {
			return fmt.Errorf("rule %d: %w", i+1, err)
		}
	}
	if t.Poll != nil {
		return t.Poll.check()
	}
	return nil
}

func (p *Poll) check() error {
	u, err := url.Parse(p.URL)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" {
		return errors.New("poll: not an absolute URL without user and fragment")
	}
	if addr, _ := netip.ParseAddr(u.Hostname()); u.Scheme != "https" && (u.Scheme != "http" || !addr.IsLoopback()) {
		return errors.New("poll: not an https URL (plain http is for loopback addresses only)")
	}
	if p.TokenFile == "" {
		return errors.New("poll: it needs a token file")
	}
	if p.MaxEvents < 0 || p.MaxEvents > MaxEvents || p.Wait < 0 || p.Wait > 10*time.Minute {
		return errors.New("poll: a number is out of range")
	}
	return nil
}

// Check returns an error that says why the Alertmanager cannot be used.
func (a *Alertmanager) Check() error {
	switch {
	case !validName.MatchString(a.Name):
		return errors.New("its name is not of a-z, 0-9, _ . - or is too long")
	case a.TokenFile == "":
		return errors.New("it needs a token file")
	case a.Expires < 0 || a.Expires > MaxExpires:
		return fmt.Errorf("expires %s is not within 0 and %s", a.Expires, MaxExpires)
	}
	return nil
}
