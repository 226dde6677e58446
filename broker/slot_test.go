package broker

import (
	"encoding/base64"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
)

func TestStaticBasic(t *testing.T) {
	password := writeFile(t, "pass:word SECRET\n")
	b, bd := mustNew(t, staticBinding(Static{Basic: &Basic{Username: "api user", PasswordFile: password}}), Options{})
	for _, want := range []string{"pass:word SECRET", "rotated SECRET"} {
		if err := os.WriteFile(password, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		cred := mustGet(t, b, bd, alice())
		r := placed(t, cred, "https://api.orders.test/")
		if user, pass, ok := r.BasicAuth(); !ok || user != "api user" || pass != want {
			t.Errorf("sent %q %q", user, pass)
		}
		pair := base64.StdEncoding.EncodeToString([]byte("api user:" + want))
		for _, form := range []string{want, pair} {
			h := http.Header{"X-Echo": {"you sent " + form + "."}}
			if cred.ScrubHeader(h); strings.Contains(h.Get("X-Echo"), form) {
				t.Errorf("%q came through in a header", form)
			}
			body, err := io.ReadAll(cred.ScrubBody(strings.NewReader("you sent " + form + ".")))
			if err != nil || strings.Contains(string(body), form) {
				t.Errorf("%q came through in a body: %v", form, err)
			}
		}
		noLeak(t, cred, want, pair)
	}
}

// Some upstreams take a key for the user and no password.
func TestBasicWithoutPassword(t *testing.T) {
	b, bd := mustNew(t, staticBinding(Static{Basic: &Basic{UsernameFile: writeFile(t, "key-SECRET")}}), Options{})
	cred := mustGet(t, b, bd, alice())
	if user, pass, _ := placed(t, cred, "https://api.orders.test/").BasicAuth(); user != "key-SECRET" || pass != "" {
		t.Errorf("sent %q %q", user, pass)
	}
	h := http.Header{"X": {"key-SECRET"}}
	if cred.ScrubHeader(h) != 1 {
		t.Error("the user was not masked")
	}
}

// The tool's own header must not stand beside ours, however it is written.
func TestBasicReplacesTheClients(t *testing.T) {
	b, bd := mustNew(t, staticBinding(Static{Basic: &Basic{Username: "u", PasswordFile: writeFile(t, "p")}}), Options{})
	cred := mustGet(t, b, bd, alice())
	r := &http.Request{Header: http.Header{"Authorization": {"Basic bWluZQ=="}, "AUTHORIZATION": {"x"}, "authorization": {"y"}}}
	if _, err := cred.Apply(r, nil); err != nil {
		t.Fatal(err)
	}
	if len(r.Header) != 1 || len(r.Header["Authorization"]) != 1 || r.Header.Get("Authorization") != "Basic dTpw" {
		t.Errorf("sent %v", r.Header)
	}
}

// A file that holds the header whole has its secret behind the scheme.
func TestWholeHeaderIsMasked(t *testing.T) {
	for value, masked := range map[string]bool{"Bearer key-SECRET": true, "Token a key-SECRET": true, "key-SECRET": true, "Bearer key": false, basicOf("u:pass-SECRET"): true} {
		b, bd := mustNew(t, staticBinding(Static{File: writeFile(t, value)}), Options{})
		c := mustGet(t, b, bd, alice())
		word := value[strings.LastIndexByte(value, ' ')+1:]
		if strings.HasPrefix(value, "Basic ") {
			word = "pass-SECRET"
		}
		h := http.Header{"X-Echo": {"you sent " + word + "."}}
		n := c.ScrubHeader(h)
		body, err := io.ReadAll(c.ScrubBody(strings.NewReader(`{"token": "` + word + `"}`)))
		if err != nil {
			t.Fatal(err)
		}
		if got := n == 1 && !strings.Contains(h.Get("X-Echo")+string(body), word); got != masked {
			t.Errorf("%q: masked %d times, %v, %s", value, n, h, body)
		}
	}
}
