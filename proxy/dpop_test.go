package proxy

import (
	"crypto"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// provenUpstream believes a token only with a proof for this very request, that was not seen before and holds its nonce.
type provenUpstream struct {
	t       *testing.T
	mu      sync.Mutex
	seen    map[string]bool // jti
	keys    map[string]bool // thumbprints
	nonce   string
	asked   int
	refused int
}

func (u *provenUpstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.asked++
	w.Header().Set("DPoP-Nonce", u.nonce)
	if why := u.judge(r); why != "" {
		u.refused++
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`DPoP error="%s"`, why))
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	_, _ = io.Copy(w, r.Body)
}

// judge is RFC 9449, section 4.3.
func (u *provenUpstream) judge(r *http.Request) string {
	proofs, token := r.Header.Values("DPoP"), strings.TrimPrefix(r.Header.Get("Authorization"), "DPoP ")
	if len(proofs) != 1 || token == r.Header.Get("Authorization") || len(r.Header.Values("Authorization")) != 1 {
		u.t.Errorf("headers %v", r.Header)
		return "invalid_token"
	}
	tok, err := jwt.ParseSigned(proofs[0], []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		u.t.Error(err)
		return "invalid_dpop_proof"
	}
	var p struct {
		JTI   string `json:"jti"`
		HTM   string `json:"htm"`
		HTU   string `json:"htu"`
		ATH   string `json:"ath"`
		Nonce string `json:"nonce"`
	}
	if err := tok.Claims(tok.Headers[0].JSONWebKey, &p); err != nil {
		u.t.Error(err)
		return "invalid_dpop_proof"
	}
	sum := sha256.Sum256([]byte(token))
	jkt, _ := tok.Headers[0].JSONWebKey.Thumbprint(crypto.SHA256)
	u.keys[string(jkt)] = true
	if p.HTM != r.Method || p.HTU != "https://"+r.Host+r.URL.EscapedPath() || p.ATH != base64.RawURLEncoding.EncodeToString(sum[:]) || u.seen[p.JTI] {
		u.t.Errorf("proof %+v for %s %s%s", p, r.Method, r.Host, r.URL)
		return "invalid_dpop_proof"
	}
	u.seen[p.JTI] = true
	if p.Nonce != u.nonce {
		return "use_dpop_nonce"
	}
	return ""
}

// dpopLab has a token endpoint that gives opaque tokens bound to a key.
func dpopLab(t *testing.T) (*lab, *provenUpstream) {
	t.Helper()
	as := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("DPoP") == "" {
			t.Error("no proof at the token endpoint")
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token":"bound-token-value","issued_token_type":"urn:ietf:params:oauth:token-type:access_token","token_type":"DPoP","expires_in":600,"scope":"read"}`)
	}))
	t.Cleanup(as.Close)
	l := newLab(t, func(f *labFiles) {
		i := strings.Index(f.config, `tokenURL: "`)
		f.config = f.config[:i] + `tokenURL: "` + as.URL + `"` + "\n        dpop: true" + f.config[i+strings.Index(f.config[i:], "\n"):]
	})
	u := &provenUpstream{t: t, seen: map[string]bool{}, keys: map[string]bool{}, nonce: "first"}
	l.mux.Handle("/", u)
	return l, u
}

// TestDPoPBoundCalls: each request has its own proof, none of the tool's gets through, and an upstream's nonce costs one more request
// where that can be sent again.
func TestDPoPBoundCalls(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("h2=%v", h2), func(t *testing.T) {
			l, u := dpopLab(t)
			client := l.client(l.token, h2)
			do := func(method, path, body string) (int, string) {
				t.Helper()
				req, err := http.NewRequestWithContext(t.Context(), method, l.url("https", "bound.ok.test", path), strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				if body == "" {
					req.Body, req.ContentLength = nil, 0
				}
				req.Header = http.Header{"DPoP": {"tool"}, "Dpop": {"tool"}, "dpop": {"tool"}, "Authorization": {"DPoP tool"}}
				res, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = res.Body.Close() }()
				b, err := io.ReadAll(res.Body)
				if err != nil {
					t.Fatal(err)
				}
				return res.StatusCode, string(b)
			}
			for i, c := range []struct {
				nonce, method, body    string
				status, asked, refused int
			}{
				{"first", "GET", "", 200, 2, 1},
				{"first", "GET", "", 200, 3, 1},
				{"second", "POST", "body", 401, 4, 2}, // it cannot be sent again
				{"second", "POST", "body", 200, 5, 2},
				{"third", "DELETE", "", 200, 7, 3}, // a request that is refused for its nonce has done nothing
				{"third", "GET", "", 200, 8, 3},
			} {
				u.mu.Lock()
				u.nonce = c.nonce
				u.mu.Unlock()
				status, body := do(c.method, "/a%2Fb/c?q=1", c.body)
				if status != c.status || status == 200 && body != c.body || u.asked != c.asked || u.refused != c.refused {
					t.Errorf("call %d: %d %q, %d asked, %d refused", i, status, body, u.asked, u.refused)
				}
			}
			if len(u.keys) != 1 {
				t.Errorf("%d keys for one task", len(u.keys))
			}
			if p := l.printed(); strings.Contains(p, "bound-token-value") {
				t.Error("the token is printed")
			}
		})
	}
}
