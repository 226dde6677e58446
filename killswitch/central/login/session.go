package login

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/toolgate/toolgate/killswitch/central"
	"github.com/toolgate/toolgate/killswitch/central/api"
)

// Sessions remember who has logged in, in a cookie that only who has the key can read or make.
type Sessions struct {
	aead   cipher.AEAD
	secure bool
	life   time.Duration
	tokens api.Tokens
	now    func() time.Time
}

// Life is how long a session lasts when nothing else is said. An issuer that still knows the person costs them one click.
const Life = time.Hour

// maxCookie is what every browser keeps of a cookie (RFC 6265, section 6.1), less its attributes.
const maxCookie = 3800

// NewSessions returns sessions under a key of 32 bytes, the same for all replicas. secure says that browsers come by HTTPS.
// Sessions that a token began hold while tokens knows it. now nil is time.Now.
func NewSessions(key []byte, secure bool, life time.Duration, tokens api.Tokens, now func() time.Time) (*Sessions, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	if now == nil {
		now = time.Now
	}
	return &Sessions{aead, secure, life, tokens, now}, nil
}

// session is what the cookie says.
type session struct {
	Principal central.Principal `json:"p"`
	Token     []byte            `json:"t,omitempty"` // SHA-256 of the token that began it; Principal then counts for nothing
	Ends      time.Time         `json:"e"`
}

// cookie names, and what each is for: sealed as one, a text does not open as the other.
const (
	sessionCookie = "toolgate-killswitch"
	flowCookie    = "toolgate-killswitch-login"
)

// Begin logs p in, whoever the browser was before.
func (s *Sessions) Begin(w http.ResponseWriter, p central.Principal) error {
	return s.begin(w, session{Principal: p})
}

// BeginWith logs in whoever a token of the API belongs to.
func (s *Sessions) BeginWith(w http.ResponseWriter, token string) (central.Principal, error) {
	sum := sha256.Sum256([]byte(token))
	p, known := s.tokens[sum]
	if !known {
		return p, refuse(UnknownToken, nil, "this token is not known")
	}
	return p, s.begin(w, session{Token: sum[:]})
}

func (s *Sessions) begin(w http.ResponseWriter, in session) error {
	in.Ends = s.now().Add(s.life)
	return s.set(w, sessionCookie, in, s.life)
}

// End logs out in this browser.
func (s *Sessions) End(w http.ResponseWriter) { s.clear(w, sessionCookie) }

// Who returns who is logged in and until when; false when nobody is.
func (s *Sessions) Who(r *http.Request) (central.Principal, time.Time, bool) {
	var in session
	if !s.get(r, sessionCookie, &in) || !s.now().Before(in.Ends) {
		return central.Principal{}, time.Time{}, false
	}
	if in.Token == nil {
		return in.Principal, in.Ends, true
	}
	if len(in.Token) != sha256.Size {
		return central.Principal{}, time.Time{}, false
	}
	p, known := s.tokens[[sha256.Size]byte(in.Token)]
	return p, in.Ends, known
}

// Authenticate is Who for the API's handlers.
func (s *Sessions) Authenticate(r *http.Request) (central.Principal, error) {
	p, _, ok := s.Who(r)
	if !ok {
		return p, &central.Error{Code: api.Unauthenticated, Text: "nobody is logged in"}
	}
	return p, nil
}

// name has the prefix with which a browser takes the cookie from this very host alone, and by HTTPS alone (RFC 6265bis,
// section 4.1.3.2): no neighbour in the domain can set it.
func (s *Sessions) name(name string) string {
	if s.secure {
		return "__Host-" + name
	}
	return name
}

func (s *Sessions) set(w http.ResponseWriter, name string, v any, life time.Duration) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	text := base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, b, []byte(name)))
	if len(text) > maxCookie {
		return refuse(TooLong, nil, "your name and tenants do not fit into a cookie: %d bytes", len(text))
	}
	s.write(w, name, text, int(life/time.Second))
	return nil
}

func (s *Sessions) clear(w http.ResponseWriter, name string) { s.write(w, name, "", -1) }

// write sets a cookie. Lax and not Strict: a browser that comes back from the issuer must show it. Requests that change
// something are guarded by their origin.
func (s *Sessions) write(w http.ResponseWriter, name, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{
		Name: s.name(name), Value: value, Path: "/", MaxAge: maxAge, Secure: s.secure, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}

// get opens a cookie. One that stands there twice is nobody's: a neighbour may have set the other.
func (s *Sessions) get(r *http.Request, name string, into any) bool {
	all := r.CookiesNamed(s.name(name))
	if len(all) != 1 {
		return false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(all[0].Value)
	if err != nil {
		return false
	}
	plain, err := s.aead.Open(nil, nil, b, []byte(name))
	return err == nil && json.Unmarshal(plain, into) == nil
}

// reduce drops what a principal has twice, so that it fits.
func reduce(p central.Principal) central.Principal {
	slices.Sort(p.Tenants)
	p.Tenants = slices.Compact(p.Tenants)
	return p
}
