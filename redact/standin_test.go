package redact

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// numbered stands for each value with a number of its own.
type numbered struct{}

func (numbered) Text(class, value string) string { return fmt.Sprintf("<%s+%08x>", class, sum(value)) }

func (numbered) JSON(_ string, value []byte) []byte {
	if value[0] == '{' {
		return fmt.Appendf(nil, `{"n":"%08x"}`, sum(string(value)))
	}
	return fmt.Append(nil, sum(string(value)))
}

func sum(s string) uint32 {
	h := fnv.New32()
	_, _ = h.Write([]byte(s))
	return h.Sum32()
}

func replacerFor(t testing.TB, in StandIns) *Replacer {
	t.Helper()
	s, err := NewRules(Rules{Fields: []string{"customer_email", "account"}})
	if err != nil {
		t.Fatal(err)
	}
	return s.Replacer(in)
}

func standIn(class, value string) string { return harmless(numbered{}.Text(class, value)) }

// TestStandIns: one value has one stand-in wherever it stands, and the payload parses as before.
func TestStandIns(t *testing.T) {
	const email, card, jwt = "canary@shop.example", "4111111111111111", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJjYW5hcnkifQ.c2lnbmF0dXJl"
	r := replacerFor(t, numbered{})
	for _, c := range []struct{ name, contentType, in, want string }{
		{"field", "application/json", `{"customer_email":"` + email + `"}`, `{"customer_email":"` + standIn("field", email) + `"}`},
		{"number", "application/json", `{"account":42}`, fmt.Sprintf(`{"account":%d}`, sum("42"))},
		{"object", "application/json", `{"account":{"iban":1}}`, fmt.Sprintf(`{"account":{"n":"%08x"}}`, sum(`{"iban":1}`))},
		{"card in a number", "application/json", `{"pan":4111111111111111}`, fmt.Sprintf(`{"pan":%d}`, sum(card))},
		{"card in a text", "application/json", `{"t":"card ` + card + ` please"}`, `{"t":"card ` + standIn("card", card) + ` please"}`},
		{"JSON in JSON", "application/json", `{"t":"{\"account\":42}"}`, fmt.Sprintf(`{"t":"{\"account\":%d}"}`, sum("42"))},
		{"JSON in JSON in JSON", "application/json", `{"t":"{\"u\":\"{\\\"account\\\":42}\"}"}`, fmt.Sprintf(`{"t":"{\"u\":\"{\\\"account\\\":%d}\"}"}`, sum("42"))},
		{"form", "application/x-www-form-urlencoded", `a=1&customer_email=` + url.QueryEscape(email), `a=1&customer_email=` + url.QueryEscape(standIn("field", email))},
		{"form value", "application/x-www-form-urlencoded", `a=` + jwt, `a=` + url.QueryEscape(standIn("credential", jwt))},
		{"text", "text/plain", "Authorization: Bearer " + jwt + "\n", "Authorization: Bearer " + standIn("credential", jwt) + "\n"},
		{"lines", "application/x-ndjson", `{"account":42}`, fmt.Sprintf(`{"account":%d}`, sum("42"))},
		{"events", "text/event-stream", "data: {\"account\":42}\n\n", fmt.Sprintf("data: {\"account\":%d}\n\n", sum("42"))},
	} {
		res := r.Body(c.contentType, "", []byte(c.in), true)
		if res.Text != c.want || res.Status != StatusRedacted {
			t.Errorf("%s: %s\n got %s\nwant %s", c.name, res.Status, res.Text, c.want)
		}
	}
}

// TestStandInsUnread: of what cannot be read nothing is shown.
func TestStandInsUnread(t *testing.T) {
	for contentType, in := range map[string]string{
		"application/json":         `{"a":`,
		"application/octet-stream": "canary",
		"multipart/form-data":      "canary",
	} {
		if res := replacerFor(t, numbered{}).Body(contentType, "", []byte(in), true); res.Text != "" || res.Status != StatusFailedClosed {
			t.Errorf("%s: %+v", contentType, res)
		}
	}
	if res := replacerFor(t, numbered{}).Body("application/json", "gzip", []byte("{}"), true); res.Text != "" || res.Status != StatusFailedClosed {
		t.Errorf("not gzip: %+v", res)
	}
	if res := replacerFor(t, numbered{}).Body("text/plain", "", []byte(strings.Repeat("canary ", 6000)), true); strings.Contains(res.Text, "hmac") || !strings.Contains(res.Text, "[unparsed ") {
		t.Errorf("a long line: %.100s", res.Text)
	}
	res := replacerFor(t, numbered{}).Body("application/json", "", []byte(`{"t":"{\"a\":canary"}`), true)
	if strings.Contains(res.Text, "canary") || strings.Contains(res.Text, "hmac") || !json.Valid([]byte(res.Text)) {
		t.Errorf("unread inside: %s", res.Text)
	}
}

// TestStandInsOfMarks: a payload cannot hold a mark, and placeholders and marks that it does hold hide nothing.
func TestStandInsOfMarks(t *testing.T) {
	for _, imitation := range []string{"[REDACTED:card.0123456789abcdef-0]", "[REDACTED:card.0123456789abcdef-7]", "[REDACTED:card]"} {
		res := replacerFor(t, numbered{}).Body("application/json", "", []byte(`{"customer_email":"`+imitation+`canary","a":"`+imitation+`"}`), true)
		if strings.Contains(res.Text, "canary") || !json.Valid([]byte(res.Text)) {
			t.Errorf("%s: %s", imitation, res.Text)
		}
	}
	if n := placeholderLen("[REDACTED:card.0123456789abcdef-0]"); n != 0 {
		t.Error("a mark of another process is taken for a placeholder")
	}
}

func TestStandInsOfURLs(t *testing.T) {
	const secret, email = "canaryZ3kq81xPv0Lm4Tq", "canary@shop.example"
	r := replacerFor(t, numbered{})
	for in, want := range map[string]string{
		"/v1/orders?page=2&status=open":                        "/v1/orders?page=2&status=open",
		"/v1/orders?token=" + secret:                           "/v1/orders?token=" + url.QueryEscape(standIn("credential", secret)),
		"/v1/orders?cursor=" + secret:                          "/v1/orders?cursor=" + url.QueryEscape(standIn("url", secret)),
		"/v1/orders?" + secret:                                 "/v1/orders?" + url.QueryEscape(standIn("url", secret)),
		"/v1/orders?customer_email=" + email:                   "/v1/orders?customer_email=" + url.QueryEscape(standIn("field", email)),
		"https://user:" + secret + "@api.example/v1#" + secret: "",
		"/pay/4111111111111111/now":                            "/pay/" + url.QueryEscape(standIn("card", "4111111111111111")) + "/now",
		"mailto:" + email:                                      standIn("url", "mailto:"+email),
	} {
		got := r.URL(in)
		if want != "" && got != want || strings.Contains(got, "canary") {
			t.Errorf("%s\n got %s\nwant %s", in, got, want)
		}
		if _, err := url.Parse(got); err != nil {
			t.Errorf("%s: %v", got, err)
		}
	}
}

func TestStandInsOfHeaders(t *testing.T) {
	const secret = "canary-Z3kq81xPv0Lm4Tq"
	h := replacerFor(t, numbered{}).Headers(http.Header{
		"Authorization": {"Bearer " + secret}, "Cookie": {"sid=" + secret + "; theme=dark"}, "X-Api-Key": {secret},
		"Set-Cookie": {"sid=" + secret + "; Path=/; HttpOnly"}, "Location": {"https://api.example/x?cursor=canaryZ3kq81xPv0Lm4Tq"},
		"Link": {`<https://api.example/x?page=2>; rel="next"`}, "Content-Type": {"application/json"},
	})
	c := standIn("credential", secret)
	for name, want := range map[string]string{
		"Authorization": "Bearer " + c, "Cookie": "sid=" + c + "; theme=" + standIn("credential", "dark"), "X-Api-Key": standIn("header", secret),
		"Set-Cookie": "sid=" + c + "; Path=/; HttpOnly", "Link": `<https://api.example/x?page=2>; rel="next"`, "Content-Type": "application/json",
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if strings.Contains(fmt.Sprint(h), "canary") {
		t.Errorf("%v", h)
	}
}
