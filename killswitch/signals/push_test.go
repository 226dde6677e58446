package signals

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestPush(t *testing.T) {
	w := newWorld(t, nil)
	set := w.set(claimSet{"jti": "756E69717565"})
	if status, body := w.push(set); status != 202 || body != "" {
		t.Fatalf("status %d, %s", status, body)
	}
	made := w.revoked.all()
	if len(made) != 1 {
		t.Fatalf("revoked %+v", made)
	}
	q := made[0]
	if !slices.Equal(q.Selector.Subject, []string{"user:alice@example.com"}) || q.Selector.All || q.Selector.Tenant != nil {
		t.Errorf("selector %+v", q.Selector)
	}
	if q.Reason != "session-revoked at idp: impossible travel" || q.By != "signals:idp" || q.Ticket != "756E69717565" || !strings.HasPrefix(q.ID, "ssf-") {
		t.Errorf("request %+v", q)
	}
	if want := time.Unix(w.now.Unix()-60, 0).Add(24 * time.Hour); !q.Expires.Equal(want) {
		t.Errorf("expires %s, want %s", q.Expires, want)
	}
	// The same event once more, and much later: the same request, so that what was restored stays restored.
	w.now = w.now.Add(5 * time.Hour)
	if status, body := w.push(set); status != 202 || len(w.revoked.all()) != 1 || w.revoked.calls != 2 {
		t.Errorf("replay: status %d, %s, %d revocations", status, body, len(w.revoked.all()))
	}
	// Another event under the same jti must not pass for the first.
	if status, body := w.push(w.set(claimSet{"jti": "756E69717565", "sub_id": email("bob@example.com")})); status != 400 || w.counted("session-revoked", Taken) != 1 {
		t.Errorf("reused jti: status %d, %s", status, body)
	}
	if w.counted("session-revoked", Revoked) != 2 {
		t.Errorf("counted %v", w.counts)
	}
	if strings.Contains(w.logged.String(), "alice") || strings.Contains(w.logged.String(), "travel") || !strings.Contains(w.logged.String(), q.ID) {
		t.Errorf("logged %s", w.logged.String())
	}
}

// TestPushRefusals: each SET differs from a good one in one thing.
func TestPushRefusals(t *testing.T) {
	w := newWorld(t, nil)
	good := claimSet{caep + "session-revoked": claimSet{}}
	other := newWorld(t, nil)
	raw := func(payload string) string {
		token, err := w.idp.Sign([]byte(`{"alg":"ES256","typ":"secevent+jwt"}`), []byte(payload), "ES256")
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	valid := w.set(nil)
	cut := strings.LastIndexByte(valid, '.')
	tampered := strings.Split(valid, ".")
	tampered[1] = strings.Split(w.set(claimSet{"sub_id": email("mallory@example.com")}), ".")[1]
	for name, tc := range map[string]struct{ set, err string }{
		"an ID token":            {w.setWith(claimSet{"typ": "JWT"}, nil, "ES256"), "invalid_request"},
		"an access token":        {w.setWith(claimSet{"typ": "at+jwt"}, nil, "ES256"), "invalid_request"},
		"no typ":                 {w.setWith(claimSet{"typ": nil}, nil, "ES256"), "invalid_request"},
		"none":                   {w.setWith(nil, nil, "none"), "invalid_key"},
		"MAC by the public key":  {w.setWith(nil, nil, "HS256"), "invalid_key"},
		"algorithm not allowed":  {w.setWith(nil, nil, "PS256"), "invalid_key"},
		"another issuer's key":   {other.set(claimSet{"iss": w.idp.URL()}), "invalid_key"},
		"tampered":               {strings.Join(tampered, "."), "invalid_key"},
		"no signature":           {valid[:cut+1], "invalid_key"},
		"another issuer":         {other.set(nil), "invalid_issuer"},
		"another audience":       {w.set(claimSet{"aud": "https://other.example"}), "invalid_audience"},
		"no audience":            {w.set(claimSet{"aud": nil}), "invalid_audience"},
		"no jti":                 {w.set(claimSet{"jti": nil}), "invalid_request"},
		"empty jti":              {w.set(claimSet{"jti": ""}), "invalid_request"},
		"no iat":                 {w.set(claimSet{"iat": nil}), "invalid_request"},
		"iat is text":            {w.set(claimSet{"iat": "1700000000"}), "invalid_request"},
		"iat in the future":      {w.set(claimSet{"iat": w.now.Unix() + 120}), "invalid_request"},
		"iat long ago":           {w.set(claimSet{"iat": w.now.Add(-8 * 24 * time.Hour).Unix()}), "invalid_request"},
		"iat beyond time":        {w.set(claimSet{"iat": 1e300}), "invalid_request"},
		"no events":              {w.set(claimSet{"events": nil}), "invalid_request"},
		"empty events":           {w.set(claimSet{"events": claimSet{}}), "invalid_request"},
		"events is a list":       {w.set(claimSet{"events": []any{good}}), "invalid_request"},
		"an event is text":       {w.set(claimSet{"events": claimSet{caep + "session-revoked": "x"}}), "invalid_request"},
		"two known events":       {w.set(claimSet{"events": claimSet{caep + "session-revoked": claimSet{}, caep + "credential-change": claimSet{}}}), "invalid_request"},
		"no sub_id":              {w.set(claimSet{"sub_id": nil}), "invalid_request"},
		"sub alone":              {w.set(claimSet{"sub_id": nil, "sub": "alice@example.com"}), "invalid_request"},
		"unmapped":               {w.set(claimSet{"sub_id": claimSet{"format": "opaque", "id": "1"}}), "invalid_request"},
		"too large":              {w.set(claimSet{"x": strings.Repeat("x", 20_000)}), "invalid_request"},
		"empty":                  {"", "invalid_request"},
		"not a JWS":              {"{}", "invalid_request"},
		"doubled claim":          {raw(`{"iss":"` + w.idp.URL() + `","iss":"` + w.idp.URL() + `","aud":"` + audience + `"}`), "invalid_request"},
		"doubled in the subject": {raw(`{"iss":"` + w.idp.URL() + `","aud":"` + audience + `","jti":"1","iat":1,"sub_id":{"format":"email","email":"a@b","email":"c@d"}}`), "invalid_request"},
	} {
		t.Run(name, func(t *testing.T) {
			status, body := w.push(tc.set)
			if status != 400 || !strings.Contains(body, `"err":"`+tc.err+`"`) || !strings.Contains(body, `"description":"`) {
				t.Errorf("status %d, %s; want %s", status, body, tc.err)
			}
		})
	}
	if w.revoked.calls != 0 {
		t.Errorf("the control plane was asked %d times", w.revoked.calls)
	}
	if w.counted("session-revoked", Unmapped) != 1 || w.counted("other", BadKey) != 6 || w.counted("other", BadAudience) != 2 {
		t.Errorf("counted %v", w.counts)
	}
}

func TestPushAuthentication(t *testing.T) {
	w := newWorld(t, nil)
	header := func(values ...string) func(*http.Request) {
		return func(r *http.Request) { r.Header["Authorization"] = values }
	}
	for name, change := range map[string]func(*http.Request){
		"none":         header(),
		"wrong":        header("Bearer " + pushToken + "x"),
		"a prefix":     header("Bearer " + pushToken[:len(pushToken)-1]),
		"empty":        header("Bearer "),
		"no scheme":    header(pushToken),
		"other scheme": header("Basic " + pushToken),
		"two values":   header("Bearer "+pushToken, "Bearer x"),
		"newline":      header("Bearer \n"),
	} {
		t.Run(name, func(t *testing.T) {
			if name == "newline" {
				change = header("Bearer  ")
			}
			if status, body := w.push(w.set(nil), change); status != 400 || !strings.Contains(body, "authentication_failed") {
				t.Errorf("status %d, %s", status, body)
			}
		})
	}
	if w.revoked.calls != 0 || w.counted("other", Unauthenticated) != 8 {
		t.Errorf("asked %d times, counted %v", w.revoked.calls, w.counts)
	}
	// Two tokens live side by side while one is replaced, without a restart.
	w.write("push", "another-token-of-the-tests\n"+pushToken)
	if status, body := w.push(w.set(nil)); status != 202 {
		t.Errorf("status %d, %s", status, body)
	}
	// A file that is empty, or holds a token that is none, lets nobody in.
	for _, text := range []string{"", "short"} {
		w.write("push", text)
		if status, _ := w.push(w.set(nil), header("Bearer "+text)); status != 503 {
			t.Errorf("token file %q: status %d", text, status)
		}
	}
	if status, _ := w.post("/v1/signals/nobody", "application/secevent+jwt", w.set(nil)); status != 404 {
		t.Errorf("unknown transmitter: status %d", status)
	}
}

func TestPushForm(t *testing.T) {
	w := newWorld(t, nil)
	if status, body := w.post("/v1/signals/idp", "application/json", w.set(nil)); status != 400 || !strings.Contains(body, "invalid_request") {
		t.Errorf("media type: status %d, %s", status, body)
	}
	if status, _ := w.push(strings.Repeat("x", 1<<20)); status != 400 {
		t.Errorf("large body: status %d", status)
	}
	res, err := w.web.Client().Get(w.web.URL + "/v1/signals/idp")
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != 405 {
		t.Errorf("GET: status %d", res.StatusCode)
	}
}

// TestPushLater: what may go well later is not acknowledged, and is not refused either.
func TestPushLater(t *testing.T) {
	w := newWorld(t, nil)
	set := w.set(nil)
	w.revoked.fail(errDown)
	if status, _ := w.push(set); status != 503 || w.counted("session-revoked", Unavailable) != 1 {
		t.Errorf("status %d, counted %v", status, w.counts)
	}
	w.revoked.fail(nil)
	if status, _ := w.push(set); status != 202 || len(w.revoked.all()) != 1 {
		t.Errorf("status %d", status)
	}
	w.revoked.fail(ErrRefused)
	if status, _ := w.push(set); status != 400 || w.counted("session-revoked", Refused) != 1 {
		t.Errorf("status %d", status)
	}
}

func TestPushKeysUnavailable(t *testing.T) {
	w := newWorld(t, nil)
	set := w.set(nil)
	w.idp.SetFaults(devFaults(503))
	if status, _ := w.push(set); status != 503 || w.counted("other", Unavailable) != 1 {
		t.Errorf("status %d, counted %v", status, w.counts)
	}
}

// TestEvents: which events act, which are ignored, and which are about the stream.
func TestEvents(t *testing.T) {
	w := newWorld(t, nil)
	one := func(uri string, value any) string { return w.set(claimSet{"events": claimSet{uri: value}}) }
	push := func(set string) {
		t.Helper()
		if status, body := w.push(set); status != 202 {
			t.Errorf("status %d, %s", status, body)
		}
	}
	push(one(caep+"device-compliance-change", claimSet{}))
	push(one("https://evil.example/session-revoked", claimSet{}))
	push(one("https://evil.example/x", claimSet{caep + "session-revoked": claimSet{}, "events": claimSet{caep + "session-revoked": claimSet{}}}))
	push(one(caep+"token-claims-change", claimSet{})) // known; no rule acts on it
	push(one(caep+"Session-Revoked", claimSet{}))
	if w.revoked.calls != 0 || w.counted("other", Ignored) != 4 || w.counted("token-claims-change", Ignored) != 1 {
		t.Fatalf("asked %d times, counted %v", w.revoked.calls, w.counts)
	}
	push(w.set(claimSet{"sub_id": claimSet{"format": "opaque", "id": "stream-1"}, "events": claimSet{ssf + "verification": claimSet{"state": "c3RhdGU"}}}))
	push(w.set(claimSet{"sub_id": claimSet{"format": "opaque", "id": "stream-1"}, "events": claimSet{ssf + "stream-updated": claimSet{"status": "paused", "reason": "x"}}}))
	if s := w.r.Status(); len(s) != 1 || s[0].State != "c3RhdGU" || s[0].Verified.IsZero() || s[0].Stream != "paused" || s[0].Keys.Keys == 0 {
		t.Errorf("status %+v", s)
	}
	push(one(risc+"account-purged", claimSet{}))
	push(one(risc+"account-disabled", claimSet{"reason": "hijacking"}))
	push(one(caep+"credential-change", claimSet{"reason_admin": 7}))
	// An unknown name beside a known one is another name for the same event (RFC 8417, section 2.2).
	push(w.set(claimSet{"events": claimSet{caep + "session-revoked": claimSet{}, "https://idp.example/session-revoked": claimSet{}}}))
	var reasons []string
	for _, q := range w.revoked.all() {
		reasons = append(reasons, q.Reason)
	}
	slices.Sort(reasons)
	if want := []string{"account-disabled at idp", "account-purged at idp", "credential-change at idp", "session-revoked at idp"}; !slices.Equal(reasons, want) {
		t.Errorf("reasons %q", reasons)
	}
	// An event whose revocation would be over already.
	before := w.revoked.calls
	push(w.set(claimSet{"iat": w.now.Add(-25 * time.Hour).Unix()}))
	if w.counted("session-revoked", Expired) != 1 || w.revoked.calls != before {
		t.Errorf("counted %v", w.counts)
	}
}

func TestReasons(t *testing.T) {
	long := strings.Repeat("ä", 1000)
	for name, tc := range map[string]struct {
		from ReasonFrom
		in   claimSet
		want string
	}{
		"admin":             {"", claimSet{"reason_admin": claimSet{"de": "Reise", "en": "travel"}, "reason_user": claimSet{"en": "sign in"}}, ": travel"},
		"user":              {ReasonUser, claimSet{"reason_admin": claimSet{"en": "travel"}, "reason_user": claimSet{"en": "sign in"}}, ": sign in"},
		"none":              {ReasonNone, claimSet{"reason_admin": claimSet{"en": "travel"}}, ""},
		"a variant":         {"", claimSet{"reason_admin": claimSet{"de": "Reise", "en-GB": "travel"}}, ": travel"},
		"another language":  {"", claimSet{"reason_admin": claimSet{"de": "Reise"}}, ": Reise"},
		"a plain text":      {"", claimSet{"reason_admin": "travel"}, ": travel"},
		"control and bidi":  {"", claimSet{"reason_admin": "a\r\nb\x00c\u202Ed\u001b[31m"}, ": a b cd [31m"},
		"nothing printable": {"", claimSet{"reason_admin": "\u200b\n"}, ""},
		"not a text":        {"", claimSet{"reason_admin": []any{"x"}}, ""},
		"too long":          {"", claimSet{"reason_admin": long}, ": " + long[:2*198] + "…"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(c *Config) { c.Transmitters[0].Reason = tc.from })
			if status, body := w.push(w.set(claimSet{"events": claimSet{caep + "session-revoked": tc.in}})); status != 202 {
				t.Fatalf("status %d, %s", status, body)
			}
			if got, want := w.revoked.all()[0].Reason, "session-revoked at idp"+tc.want; got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}
