package broker

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	federatedSecret = "federated-SECRET"
	testProvider    = "//iam.googleapis.com/projects/123/locations/global/workloadIdentityPools/tools/providers/idp"
	testAccount     = "orders@tools.iam.gserviceaccount.com"
	readOnly        = "https://www.googleapis.com/auth/devstorage.read_only"
)

// google is its STS and its IAM.
type google struct {
	*httptest.Server
	mu        sync.Mutex
	exchange  func(w http.ResponseWriter, form url.Values, n int) // nil: a good answer
	generate  func(w http.ResponseWriter, n int)                  // nil: a good answer
	exchanged []url.Values
	generated []string // path, authorization and body
}

func newGoogle(t testing.TB) *google {
	t.Helper()
	g := &google{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/token", func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		g.mu.Lock()
		g.exchanged = append(g.exchanged, r.PostForm)
		n, f := len(g.exchanged), g.exchange
		g.mu.Unlock()
		if f == nil {
			write(w, 200, `{"access_token":"`+federatedSecret+`","issued_token_type":"`+typeAccessToken+`","token_type":"Bearer","expires_in":3599}`)
			return
		}
		f(w, r.PostForm, n)
	})
	mux.HandleFunc("POST /v1/projects/-/serviceAccounts/", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		g.mu.Lock()
		g.generated = append(g.generated, r.URL.Path+" "+r.Header.Get("Authorization")+" "+string(body))
		n, f := len(g.generated), g.generate
		g.mu.Unlock()
		if f == nil {
			write(w, 200, fmt.Sprintf(`{"accessToken":"%s","expireTime":"%s"}`, issuedSecret, time.Now().Add(15*time.Minute).UTC().Format(time.RFC3339)))
			return
		}
		f(w, n)
	})
	g.Server = httptest.NewServer(mux)
	t.Cleanup(g.Close)
	return g
}

func gcpBinding(t testing.TB, base string) Binding {
	return Binding{
		Name: "objects", Tools: []string{"orders_tool"}, Targets: []string{"api.orders.test:443"},
		GCP: &GCP{
			Provider: testProvider, ServiceAccount: testAccount, Scopes: []string{readOnly}, SubjectTokenFile: writeFile(t, actorSecret),
			STSURL: base + "/v1/token", IAMURL: base,
		},
	}
}

func TestGCPIssuer(t *testing.T) {
	for _, impersonate := range []bool{true, false} {
		t.Run(fmt.Sprintf("impersonate=%v", impersonate), func(t *testing.T) {
			testIssuer(t, func(t *testing.T) issuerUnderTest {
				g := newGoogle(t)
				bd := gcpBinding(t, g.URL)
				first := issuedSecret
				spoil := func() {
					g.mu.Lock()
					defer g.mu.Unlock()
					g.generate = func(w http.ResponseWriter, _ int) {
						write(w, 403, `{"error":{"code":403,"message":"Permission 'iam.serviceAccounts.getAccessToken' denied: `+federatedSecret+`","status":"PERMISSION_DENIED"}}`)
					}
				}
				if !impersonate {
					bd.GCP.ServiceAccount, first = "", federatedSecret
					spoil = func() {
						g.mu.Lock()
						defer g.mu.Unlock()
						g.exchange = func(w http.ResponseWriter, form url.Values, _ int) {
							write(w, 400, `{"error":"invalid_grant","error_description":"`+form.Get("subject_token")+`"}`)
						}
					}
				}
				never := make(chan struct{})
				t.Cleanup(func() { close(never) })
				hang := func() {
					g.mu.Lock()
					defer g.mu.Unlock()
					g.exchange = func(http.ResponseWriter, url.Values, int) { <-never }
				}
				return issuerUnderTest{
					issuer: mustExchanger(t, bd), subject: alice(), secrets: []string{first, federatedSecret, subjectSecret, actorSecret},
					spoil: spoil, hang: hang,
				}
			})
		})
	}
}

func TestGCPAsks(t *testing.T) {
	form := func(subject, scope string) url.Values {
		return url.Values{
			"grant_type": {grantType}, "audience": {testProvider}, "scope": {scope}, "requested_token_type": {typeAccessToken},
			"subject_token": {subject}, "subject_token_type": {typeJWT},
		}
	}
	for name, c := range map[string]struct {
		change    func(*GCP)
		form      url.Values
		generated string // empty: not asked
		token     string
	}{
		"a service account": {
			func(c *GCP) { c.Scopes, c.Lifetime = []string{"b", readOnly, "b"}, 10*time.Minute }, form(actorSecret, googleAny),
			"/v1/projects/-/serviceAccounts/" + testAccount + ":generateAccessToken Bearer " + federatedSecret + ` {"scope":["b","` + readOnly + `"],"lifetime":"600s"}`,
			issuedSecret,
		},
		"itself":     {func(c *GCP) { c.ServiceAccount = "" }, form(actorSecret, readOnly), "", federatedSecret},
		"the caller": {func(c *GCP) { c.ServiceAccount, c.SubjectTokenFile = "", "" }, form(subjectSecret, readOnly), "", federatedSecret},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGoogle(t)
			bd := gcpBinding(t, g.URL)
			c.change(bd.GCP)
			b, found := mustNew(t, bd, Options{})
			for range 2 { // the second from the cache
				cred := mustGet(t, b, found, alice())
				if got := sent(cred).Get("Authorization"); got != "Bearer "+c.token || cred.Ref().Kind != "gcp" {
					t.Errorf("sent %q, ref %+v", got, cred.Ref())
				}
			}
			if len(g.exchanged) != 1 || !reflect.DeepEqual(g.exchanged[0], c.form) {
				t.Errorf("exchanged %v, want %v", g.exchanged, c.form)
			}
			if got := strings.Join(g.generated, "\n"); got != c.generated {
				t.Errorf("generated\n%s\nwant\n%s", got, c.generated)
			}
		})
	}
}

// Each of the two answers is held against what was asked.
func TestGCPAnswers(t *testing.T) {
	in := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339Nano) }
	for name, c := range map[string]struct {
		exchange, generate string
		status             int
		want               Reason
	}{
		"scope of leg 1 is another": {`{"access_token":"a","issued_token_type":"` + typeAccessToken + `","token_type":"Bearer","scope":"x"}`, "", 200, WiderScope},
		"another type of leg 1":     {`{"access_token":"a","issued_token_type":"` + typeJWT + `","token_type":"Bearer"}`, "", 200, BadTokenType},
		"no token":                  {"", `{"expireTime":"` + in(time.Minute) + `"}`, 200, BadAnswer},
		"a token of two lines":      {"", `{"accessToken":"a\r\nb","expireTime":"` + in(time.Minute) + `"}`, 200, BadAnswer},
		"two tokens":                {"", `{"accessToken":"a","accessToken":"b","expireTime":"` + in(time.Minute) + `"}`, 200, BadAnswer},
		"no end":                    {"", `{"accessToken":"a"}`, 200, BadExpiry},
		"a strange end":             {"", `{"accessToken":"a","expireTime":3600}`, 200, BadExpiry},
		"over":                      {"", `{"accessToken":"a","expireTime":"` + in(-time.Minute) + `"}`, 200, Expired},
		"longer than asked":         {"", `{"accessToken":"a","expireTime":"` + in(9*time.Hour) + `"}`, 200, ""},
		"not JSON":                  {"", `<html>`, 200, BadAnswer},
		"a redirect":                {"", ``, 307, BadAnswer},
		"denied":                    {"", `{"error":{"status":"PERMISSION_DENIED"}}`, 403, UnauthorizedClient},
		"no such account":           {"", `{"error":{"status":"NOT_FOUND"}}`, 404, InvalidTarget},
		"something new":             {"", `{"error":{"status":"SECRET"}}`, 418, Refused},
		"too often":                 {"", `{"error":{"status":"PERMISSION_DENIED"}}`, 429, RateLimited},
		"broken":                    {"", `{"error":{"status":"PERMISSION_DENIED"}}`, 503, ServerError},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGoogle(t)
			if c.exchange != "" {
				g.exchange = func(w http.ResponseWriter, _ url.Values, _ int) { write(w, 200, c.exchange) }
			}
			g.generate = func(w http.ResponseWriter, _ int) {
				w.Header().Set("Location", "/v1/token")
				write(w, c.status, c.generate)
			}
			cred, err := mustExchanger(t, gcpBinding(t, g.URL)).Issue(t.Context(), alice())
			if c.want != "" {
				noLeak(t, wantReason(t, err, c.want), "SECRET")
			} else if err != nil || time.Until(cred.Ref().Expires) > 15*time.Minute {
				t.Errorf("%v, %v", cred, err)
			}
		})
	}
}

// The second request is made again with the first's token.
func TestGCPRetriesTheSecondAlone(t *testing.T) {
	g := newGoogle(t)
	g.generate = func(w http.ResponseWriter, n int) {
		if n == 1 {
			write(w, 500, "")
			return
		}
		write(w, 200, `{"accessToken":"a","expireTime":"`+time.Now().Add(time.Minute).UTC().Format(time.RFC3339)+`"}`)
	}
	if _, err := mustExchanger(t, gcpBinding(t, g.URL)).Issue(t.Context(), alice()); err != nil {
		t.Fatal(err)
	}
	if len(g.exchanged) != 1 || len(g.generated) != 2 || g.generated[0] != g.generated[1] {
		t.Errorf("%d exchanges, generated %q", len(g.exchanged), g.generated)
	}
}

// A URL that holds a credential of the tool's own goes nowhere: it could be a stranger's.
func TestGCPSignedURL(t *testing.T) {
	g := newGoogle(t)
	cred, err := mustExchanger(t, gcpBinding(t, g.URL)).Issue(t.Context(), alice())
	if err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]Reason{
		"access_token=a": Presigned, "alt=media&X-Goog-Signature=0": Presigned, "%47oogleAccessId=a": Presigned, "a;access_token=b": Presigned,
		"X-Amz-Credential=a": Presigned, "": "", "alt=media&prefix=access_token": "",
	} {
		r := &http.Request{URL: &url.URL{Scheme: "https", Host: "storage.googleapis.com", Path: "/o", RawQuery: query}, Header: http.Header{"authorization": {"Bearer placeholder"}}}
		_, err := cred.Apply(r, nil)
		if want != "" {
			wantReason(t, err, want)
		} else if got := r.Header; err != nil || len(got) != 1 || got.Get("Authorization") != "Bearer "+issuedSecret {
			t.Errorf("%q: %v, %v", query, got, err)
		}
	}
}

func TestGCPRefusedConfigurations(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*GCP)
		want   string
	}{
		"in the clear":        {func(c *GCP) { c.STSURL = "http://sts.test/" }, "https"},
		"IAM in the clear":    {func(c *GCP) { c.IAMURL = "http://iam.test" }, "https"},
		"IAM with a path":     {func(c *GCP) { c.IAMURL = "https://iam.test/v1" }, "iamURL"},
		"a URL as a provider": {func(c *GCP) { c.Provider = "https:" + testProvider }, "provider"},
		"no scope":            {func(c *GCP) { c.Scopes = nil }, "scopes"},
		"a scope of two":      {func(c *GCP) { c.Scopes = []string{"a b"} }, "scopes"},
		"another path":        {func(c *GCP) { c.ServiceAccount = "a@b/../c" }, "serviceAccount"},
		"a day":               {func(c *GCP) { c.Lifetime = 24 * time.Hour }, "lifetime"},
		"no token":            {func(c *GCP) { c.SubjectTokenFile = "/nowhere/token" }, "subjectTokenFile /nowhere/token"},
	} {
		bd := gcpBinding(t, "http://127.0.0.1:1")
		c.change(bd.GCP)
		if _, err := New([]Binding{bd}, Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
