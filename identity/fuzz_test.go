package identity

import (
	"encoding/base64"
	"strings"
	"testing"
)

// FuzzVerify: whatever is handed in, nothing panics, and only a token that was minted is accepted.
func FuzzVerify(f *testing.F) {
	w := newWorld(f, func(i *Issuer) { i.Algorithms = asymmetric }, "ES256", "RS256", "EdDSA")
	if err := w.v.Ready(ctx); err != nil {
		f.Fatal(err)
	}
	minted := map[string]bool{}
	for _, alg := range []string{"ES256", "RS256", "EdDSA"} {
		token := w.mintWith(f, nil, nil, alg)
		minted[token] = true
		f.Add(token)
	}
	for _, alg := range []string{"HS256", "none", "nOnE"} {
		f.Add(w.mintWith(f, nil, nil, alg))
	}
	enc := base64.RawURLEncoding.EncodeToString
	f.Add(enc([]byte(`{"alg":"ES256"}`)) + "." + enc([]byte(`{"iss":"`+w.idp.URL()+`","sub":"a","SUB":"b"}`)) + ".")
	f.Add("..")
	f.Fuzz(func(t *testing.T, token string) {
		caller, err := w.v.Verify(ctx, token)
		if err == nil && !minted[token] {
			t.Errorf("accepted a token that was not minted: %+v", caller)
		}
		if (err == nil) != (caller != nil) {
			t.Errorf("caller %v, error %v", caller, err)
		}
	})
}

// FuzzPayload: a payload that the issuer did sign gives a caller that can be logged and compared, or none.
func FuzzPayload(f *testing.F) {
	w := newWorld(f, nil)
	iss := `{"iss":"` + w.idp.URL() + `",`
	f.Add(`"sub":"a","aud":"toolgate","exp":1800000300}`)
	f.Add(`"sub":"a","aud":["toolgate"],"exp":1800000300.5,"act":{"sub":"b"},"scope":"a b","roles":["r"]}`)
	f.Add(`"sub":"a","aud":"toolgate","exp":1e99,"tenant":null}`)
	f.Fuzz(func(t *testing.T, rest string) {
		caller, err := w.v.Verify(ctx, w.sign(t, iss+rest))
		if err != nil {
			return
		}
		for _, s := range []string{caller.Subject, caller.Tenant, caller.Agent, caller.Task, caller.Run, caller.TokenID} {
			if !isPlain(s) {
				t.Errorf("not plain: %q", s)
			}
		}
		if caller.Subject == "" || caller.Issuer != w.idp.URL() || caller.Expiry.Add(defaultLeeway).Before(w.Now()) {
			t.Errorf("caller %+v", caller)
		}
		for _, s := range caller.Scopes {
			if s == "" || strings.ContainsAny(s, " \t\r\n") {
				t.Errorf("scope %q", s)
			}
		}
	})
}

// FuzzProxyAuthorization: a token that is read can be written back into the same header.
func FuzzProxyAuthorization(f *testing.F) {
	for _, s := range []string{"Bearer a.b.c", "Basic " + basic("tool:a.b.c"), "basic =", "Basic Og==", "Bearer", "\x00", "Basic dG9vbDphYh=="} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		user, token, ok := FromProxyAuthorization(value)
		if !ok {
			return
		}
		bearer := strings.EqualFold(value[:min(len(value), 6)], "Bearer")
		if token == "" && bearer || strings.ContainsAny(user+token, "\r\n\x00") {
			t.Errorf("user %q, token %q", user, token)
		}
		again := "Bearer " + token
		if scheme, _, _ := strings.Cut(value, " "); strings.EqualFold(scheme, "Basic") {
			again = "Basic " + basic(user+":"+token)
		}
		u, tok, ok := FromProxyAuthorization(again)
		if !ok || u != user || tok != token {
			t.Errorf("%q became %q", value, again)
		}
		if bare, ok := FromBearer(token); token != "" && !strings.EqualFold(token, "Bearer") && (!ok || bare != token) {
			t.Errorf("FromBearer(%q) = %q %t", token, bare, ok)
		}
	})
}
