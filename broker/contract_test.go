package broker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// issuerUnderTest is one implementation with the means to disturb it.
type issuerUnderTest struct {
	issuer  Issuer
	subject Subject
	secrets []string            // what must never be printed; the first is in the credential
	request func(*http.Request) // of a tool that has to send something; nil otherwise
	spoil   func()              // makes every later Issue fail
	hang    func()              // makes every later Issue wait; nil when the kind waits for nothing
	on      *http.Request       // what its credentials go on; nil: any request
}

// testIssuer is what every Issuer must do.
func testIssuer(t *testing.T, factory func(t *testing.T) issuerUnderTest) {
	t.Run("gives a credential and shows nothing of it", func(t *testing.T) {
		u := factory(t)
		c, err := u.issuer.Issue(t.Context(), u.subject)
		if err != nil {
			t.Fatal(err)
		}
		r := &http.Request{Method: "GET", Header: http.Header{}, URL: &url.URL{Path: "/"}}
		if u.on != nil {
			r = u.on.Clone(t.Context())
		}
		if u.request != nil {
			u.request(r)
		}
		if _, err := c.Apply(r, nil); err != nil {
			t.Fatal(err)
		}
		basic, _ := basicPair(r.Header.Get("Authorization"))
		if !strings.Contains(fmt.Sprint(r.Header, r.URL, basic), u.secrets[0]) {
			t.Errorf("the credential is not sent")
		}
		if ref := c.Ref(); ref.Binding == "" || ref.Kind == "" || ref.Cached {
			t.Errorf("ref %+v", ref)
		}
		k, err := u.issuer.Key(u.subject)
		if err != nil || k.Binding != c.Ref().Binding {
			t.Errorf("key %+v, %v", k, err)
		}
		noLeak(t, c, u.secrets...)
		noLeak(t, *c, u.secrets...)
		noLeak(t, c.Ref(), u.secrets...)
		noLeak(t, k, u.secrets...)
		noLeak(t, u.subject, u.secrets...)
	})
	t.Run("fails with an Error that names the binding", func(t *testing.T) {
		u := factory(t)
		u.spoil()
		_, err := u.issuer.Issue(t.Context(), u.subject)
		wantError(t, err, u.secrets)
	})
	t.Run("ends with its context", func(t *testing.T) {
		u := factory(t)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := u.issuer.Issue(ended, u.subject)
		wantError(t, err, u.secrets)
		if u.hang == nil {
			return
		}
		u.hang()
		short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err = u.issuer.Issue(short, u.subject)
		wantError(t, err, u.secrets)
	})
	t.Run("serves many at once", func(t *testing.T) {
		u := factory(t)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				c, err := u.issuer.Issue(t.Context(), u.subject)
				if _, keyErr := u.issuer.Key(u.subject); err != nil || keyErr != nil || c.value.Reveal() != u.secrets[0] {
					t.Errorf("%v, %v", err, keyErr)
				}
			})
		}
		wg.Wait()
	})
}

func wantError(t *testing.T, err error, secrets []string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Binding == "" || !strings.Contains(err.Error(), e.Binding) {
		t.Fatalf("error %v, want an *Error that names the binding", err)
	}
	if _, ok := phases[e.Reason]; !ok {
		t.Errorf("reason %q is not in the closed set", e.Reason)
	}
	noLeak(t, err, secrets...)
	noLeak(t, *e, secrets...)
}

func TestExchangeIssuer(t *testing.T) {
	testIssuer(t, func(t *testing.T) issuerUnderTest {
		var mu sync.Mutex
		mode := ""
		set := func(m string) func() { return func() { mu.Lock(); mode = m; mu.Unlock() } }
		s := newTokenServer(t, func(w http.ResponseWriter, r *http.Request, _ int) {
			mu.Lock()
			m := mode
			mu.Unlock()
			switch m {
			case "spoil":
				write(w, 400, `{"error":"invalid_grant","error_description":"`+r.PostFormValue("subject_token")+r.PostFormValue("client_secret")+`"}`)
			case "hang":
				<-r.Context().Done()
			default:
				writeGood(w)
			}
		})
		bd := exchangeBinding(s.URL)
		bd.TokenExchange.ClientAuth = ClientAuth{Method: "client_secret_post", ClientID: "c", SecretFile: writeFile(t, "client-SECRET")}
		bd.TokenExchange.Impersonate = false
		bd.TokenExchange.ActorTokenFile = writeFile(t, actorSecret)
		return issuerUnderTest{
			issuer: mustExchanger(t, bd), subject: alice(),
			secrets: []string{issuedSecret, subjectSecret, actorSecret, "client-SECRET"},
			spoil:   set("spoil"), hang: set("hang"),
		}
	})
}

func TestStaticIssuer(t *testing.T) {
	for name, conf := range map[string]func(file string) Static{
		"header": func(file string) Static { return Static{File: file, Header: "X-Api-Key"} },
		"query":  func(file string) Static { return Static{File: file, Query: "key"} },
		"basic":  func(file string) Static { return Static{Basic: &Basic{Username: "u", PasswordFile: file}} },
	} {
		t.Run(name, func(t *testing.T) { testStaticIssuer(t, conf) })
	}
}

func testStaticIssuer(t *testing.T, conf func(file string) Static) {
	testIssuer(t, func(t *testing.T) issuerUnderTest {
		file := writeFile(t, "file-SECRET\n")
		is, err := newStatic("partner", conf(file))
		if err != nil {
			t.Fatal(err)
		}
		return issuerUnderTest{
			issuer: is, subject: alice(), secrets: []string{"file-SECRET", subjectSecret},
			spoil: func() {
				if err := os.WriteFile(file, []byte("file-SECRET\nsecond-SECRET"), 0o600); err != nil {
					t.Fatal(err)
				}
			},
		}
	})
}
