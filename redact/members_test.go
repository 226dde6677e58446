package redact

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// TestMembers: a value whose name is a value too is masked, wherever the name stands. Without "hunter2" in it a text stays as it is.
func TestMembers(t *testing.T) {
	s, err := NewRules(Rules{Fields: []string{"customer_email", "$.hide"}})
	if err != nil {
		t.Fatal(err)
	}
	named, err := NewRules(Rules{Fields: []string{"name", "$[0].key", "$[1][0]"}})
	if err != nil {
		t.Fatal(err)
	}
	many := strings.Repeat(`"value":"hunter2hunter2",`, 500)
	for _, c := range []struct {
		s        *Scrubber
		in, want string
	}{
		{s, `{"name":"DB_PASSWORD","value":"hunter2hunter2"}`, `{"name":"DB_PASSWORD","value":"[REDACTED:credential]"}`},
		{s, `{"value":"hunter2hunter2","name":"DB_PASSWORD"}`, `{"value":"[REDACTED:credential]","name":"DB_PASSWORD"}`},
		{s, `{"Key":"api-token","Value":"hunter2"}`, `{"Key":"api-token","Value":"[REDACTED:credential]"}`},
		{s, `{"ParameterKey":"DbPassword","ParameterValue":"hunter2"}`, `{"ParameterKey":"DbPassword","ParameterValue":"[REDACTED:credential]"}`},
		{s, `{ "value" : "hunter2" , "protected":true, "key" : "/prod/db/password" }`, `{"value":"[REDACTED:credential]","protected":true,"key":"/prod/db/password"}`},
		{s, `{"header":"Authorization","value":"Bearer hunter2"}`, `{"header":"Authorization","value":"[REDACTED:credential]"}`},
		{s, `{"name":"customerEmail","value":"hunter2"}`, `{"name":"customerEmail","value":"[REDACTED:field]"}`},
		{s, `{"value":"hunter2","name":"customer\u0045mail "}`, `{"value":"[REDACTED:field]","name":"customerEmail "}`},
		{s, `{"value":"hunter2","name":"passwor\u0064"}`, `{"value":"[REDACTED:credential]","name":"password"}`},
		{s, `{"value":{"stringValue":"hunter2"},"key":"password"}`, `{"value":"[REDACTED:credential]","key":"password"}`},
		{s, `{"name":"X-Api-Key","values":["hunter2",["hunter2"]]}`, `{"name":"X-Api-Key","values":"[REDACTED:credential]"}`},
		{s, `{"values":[{"x":"hunter"}],"name":"X-Api-Key"}`, `{"values":"[REDACTED:credential]","name":"X-Api-Key"}`},
		{s, `{"value":7744112,"name":"pin"}`, `{"value":"[REDACTED:credential]","name":"pin"}`},
		{s, `{"name":"a","value":"hunter2","name":"token","value":"hunter2"}`, `{"name":"a","value":"[REDACTED:credential]","name":"token","value":"[REDACTED:credential]"}`},
		{s, `{"value":"hunter2","value":"hunter2","name":"token","name":"a"}`, `{"value":"[REDACTED:credential]","value":"[REDACTED:credential]","name":"token","name":"a"}`},
		{s, `{"value":{"name":"a","value":"x","z":[1,{"value":"hunter2","name":"secret"}]},"name":"b"}`, `{"value":{"name":"a","value":"x","z":[1,{"value":"[REDACTED:credential]","name":"secret"}]},"name":"b"}`},
		{s, `{"value":{"value":{"value":"hunter2","name":"otp"},"name":"token"},"name":"secret"}`, `{"value":"[REDACTED:credential]","name":"secret"}`},
		{s, `{"value":"d41d8cd98f00b204e9800998ecf8427e","name":"facebook_app_secret_id"}`, `{"value":"[REDACTED:token]","name":"facebook_app_secret_id"}`},
		{s, `{"name":"AWS_SECRET_ACCESS_KEY","value":"hunter2Xk2mB9/Tr0ub4dor/q7PLd0sW1vN5eRc"}`, `{"name":"AWS_SECRET_ACCESS_KEY","value":"[REDACTED:credential]"}`},
		{s, `{"value":"hunter2Xk2mB9/Tr0ub4dor/q7PLd0sW1vN5eRc","name":"AWS_SECRET_ACCESS_KEY"}`, `{"value":"[REDACTED:credential]","name":"AWS_SECRET_ACCESS_KEY"}`},
		{s, `{"value":"a","name":"b","other":{"name":"password"}}`, `{"value":"a","name":"b","other":{"name":"password"}}`},
		{s, `{"name":["password"],"value":"a"}`, `{"name":["password"],"value":"a"}`},
		{s, `{"x":{"name":"password"},"value":"a"}`, `{"x":{"name":"password"},"value":"a"}`},
		{s, `"{\"value\":\"hunter2\",\"name\":\"token\"}"`, `"{\"value\":\"[REDACTED:credential]\",\"name\":\"token\"}"`},
		{s, `{` + many + `"name":"token"}`, `{` + strings.ReplaceAll(many, "hunter2hunter2", maskCredential) + `"name":"token"}`},
		{named, `{"name":"DB_PASSWORD","value":"hunter2"}`, `{"name":"[REDACTED:field]","value":"[REDACTED:credential]"}`},
		{named, `[{"value":"hunter2","key":"DB_PASSWORD"},["token","a"]]`, `[{"value":"[REDACTED:credential]","key":"[REDACTED:field]"},["[REDACTED:field]","a"]]`},
		{s, `["Authorization","Bearer hunter2"]`, `["Authorization","[REDACTED:credential]"]`},
		{s, `[["X-Api-Key","hunter2"],["Accept","*/*"],[["Set-Cookie" , "hunter2"]]]`, `[["X-Api-Key","[REDACTED:credential]"],["Accept","*/*"],[["Set-Cookie","[REDACTED:credential]"]]]`},
		{s, `[["customer-email","hunter2"]]`, `[["customer-email","[REDACTED:field]"]]`},
		{s, `["token","a","b"]`, `["token","a","b"]`},
		{s, `["token"]`, `["token"]`},
		{s, `["token",7]`, `["token",7]`},
		{s, `[7,"token"]`, `[7,"token"]`},
		{s, `["name","token"]`, `["name","token"]`},
	} {
		r := c.s.Body(jsonType, []byte(c.in), true)
		if r.Text != c.want || (r.Status == StatusNone) != (len(r.Counts) == 0) {
			t.Errorf("%.300s\n=> %.300s %v\nnot %.300s", c.in, r.Text, r.Counts, c.want)
		}
		if again := c.s.Body(jsonType, []byte(r.Text), true); again.Text != r.Text {
			t.Errorf("not idempotent: %.300s\n%.300s", r.Text, again.Text)
		}
		for cut := 0; cut < min(len(c.in), 400); cut++ {
			var out bytes.Buffer
			sr, err := c.s.Copy(&out, &pieced{text: []byte(c.in), cut: cut}, jsonType, "")
			if got := strings.TrimSuffix(out.String(), "\n"); err != nil || got != c.want || sr.Status != r.Status {
				t.Fatalf("%.300s cut at %d: %v %s\n%.300s", c.in, cut, err, sr.Status, got)
			}
			out.Reset()
			if _, err = c.s.Copy(&out, strings.NewReader(c.in[:cut]), jsonType, ""); err != nil || strings.Contains(out.String(), "hunter2") && strings.Contains(c.in[:1], "{") {
				t.Fatalf("%.300s broken off at %d: %v %.300s", c.in, cut, err, &out)
			}
		}
	}
}

// TestMembersLong: a stream's values are held within bounds, and masked beyond them, but for lists of objects. What follows is read on.
func TestMembersLong(t *testing.T) {
	s := &Scrubber{}
	words := func(size int) string { return strings.Repeat(`"hunter2",`, size/10) + `"hunter2"` }
	pad := `"pad":[` + strings.Repeat(`"pad",`, 20<<10) + `0]`
	short := `"pad":[` + strings.Repeat(`"pad",`, 4<<10) + `0]`
	list := `[{"id":0,"v":{"value":"kept","name":"kept"}}` + strings.Repeat(`,{"id":1,"password":"hunter2"}`, 5<<10) + `]`
	for _, c := range []struct{ in, kept string }{
		{`{"value":"` + strings.Repeat("hunter2 ", 128<<10) + `","name":"token","z":7}`, `"name":"token","z":7}`},
		{`{"value":[` + words(1<<20) + `],"name":"token","z":7}`, `{"value":"[REDACTED:credential]","name":"token","z":7}`},
		{`{"value":{"a":{"value":[` + words(1<<20) + `],"name":"a"},"value":"hunter2"},"name":"token","z":7}`, `{"value":"[REDACTED:credential]","name":"token","z":7}`},
		{`{"value":"hunter2",` + pad + `,"name":"token","z":7}`, `{"value":"[REDACTED:credential]",` + pad + `,"name":"token","z":7}`},
		{`{"value":"kept",` + short + `,"name":"a"}`, `{"value":"kept",`},
		{`{"value":1,` + strings.Repeat(`"value":"kept",`, 63) + `"value":"hunter2","name":"a"}`, `"kept","value":"[REDACTED:credential]","name":"a"}`},
		{`{"name":"token","value":[` + strings.Repeat(`{"x":"hunter2"},`, 20<<10) + `{}],"z":7}`, `{"name":"token","value":"[REDACTED:credential]","z":7}`},
		{`{"value":"hunter2","value":1,` + pad + `,"value":"hunter2","name":"token"}`, `"value":"[REDACTED:credential]","name":"token"}`},
		{`{"value":` + list + `,"z":7}`, `{"value":[{"id":0,"v":{"value":"kept","name":"kept"}},{"id":1,"password":"[REDACTED:credential]"},`},
		{`[` + strings.Repeat(`{"value":"hunter2","name":"token"},`, 20<<10) + `7]`, `{"value":"[REDACTED:credential]","name":"token"},7]`},
		{strings.Repeat(`{"value":`, 100) + `"hunter2"` + strings.Repeat(`,"name":"token"}`, 100), `{"value":"[REDACTED:credential]","name":"token"}`},
	} {
		for _, bodyToo := range []bool{true, false} {
			text, failed := "", false
			if bodyToo {
				r := s.Body(jsonType, []byte(c.in), true)
				text = r.Text
			} else {
				var out bytes.Buffer
				r, err := s.Copy(&out, strings.NewReader(c.in), jsonType, "")
				text, failed = out.String(), err != nil || r.Status == StatusNone && strings.Contains(c.in, "hunter2")
			}
			if failed || strings.Contains(text, "hunter2") || !strings.Contains(text, c.kept) {
				t.Errorf("%.60s, whole %v: %d bytes, %.200s", c.in, bodyToo, len(text), text)
			}
		}
	}
}

// TestMembersHeld: a stream holds no more for the sake of a name than its bound.
func TestMembersHeld(t *testing.T) {
	s := &Scrubber{}
	for _, part := range []string{`"value":1,`, `"x":{"value":1,"y":2},`, `"value":[[1]],`} {
		in := strings.NewReader(`{"value":1,` + strings.Repeat(part, 1<<20/len(part)) + `"z":1}`)
		out := &lag{in: in, size: in.Size()}
		if _, err := s.Copy(out, in, jsonType, ""); err != nil || out.most > maxHeld+2*maxBuffer {
			t.Errorf("%s: %v, %d bytes were held", part, err, out.most)
		}
	}
}

// lag notes how much was read before anything came.
type lag struct {
	in         *strings.Reader
	size, last int64
	most       int64
}

func (l *lag) Write(p []byte) (int, error) {
	at := l.size - int64(l.in.Len())
	l.most, l.last = max(l.most, at-l.last), at
	return len(p), nil
}

// A value's stand-in is one of the value, not of what was masked in it.
func TestMembersStandIn(t *testing.T) {
	r := (&Scrubber{}).Replacer(plainStandIns{}).Body(jsonType, "", []byte(`[{"value":77441,"name":"pin"},{"value":"hunter2","name":"token"},["token","hunter2"]]`), true)
	if want := `[{"value":<77441>,"name":"pin"},{"value":"(hunter2)","name":"token"},["token","(hunter2)"]]`; r.Text != want {
		t.Error(r.Text)
	}
}

type plainStandIns struct{}

func (plainStandIns) Text(_, value string) string        { return "(" + value + ")" }
func (plainStandIns) JSON(_ string, value []byte) []byte { return fmt.Appendf(nil, "<%s>", value) }
