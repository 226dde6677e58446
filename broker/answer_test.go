package broker

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/toolgate/toolgate/redact"
)

func testAsk() *ask {
	return &ask{
		audience: "https://api.orders.test", resource: "https://res.orders.test/", scopes: "orders:read refunds:draft",
		exchange: true, subject: "user:alice", subjectToken: redact.New(subjectSecret),
	}
}

// delegated is testAsk with an actor whose token can be read.
func delegated() *ask {
	a := testAsk()
	a.actor.value = redact.New(fakeJWT(`{"sub":"workload","iss":"https://k8s.test"}`))
	return a
}

// orders is the payload of a JWT that is what testAsk asks for, with more.
func orders(more string) string {
	if more != "" {
		more = "," + more
	}
	return `{"aud":"https://api.orders.test","sub":"user:alice"` + more + `}`
}

// withToken is a good answer around another access token.
func withToken(token string) string { return strings.Replace(goodBody(), issuedSecret, token, 1) }

func TestAnswerRefused(t *testing.T) {
	in := func(name, value string) string { return goodBody(fmt.Sprintf("%q:%s", name, value)) }
	jwt := func(payload string) string { return withToken(fakeJWT(payload)) }
	past := time.Now().Add(-time.Minute).Unix()
	for name, c := range map[string]struct {
		body string
		want Reason
	}{
		"empty":                         {``, BadAnswer},
		"not JSON":                      {`<html>`, BadAnswer},
		"an array":                      {`[]`, BadAnswer},
		"more after it":                 {goodBody() + `{}`, BadAnswer},
		"a name twice":                  {in("access_token", `"other"`), BadAnswer},
		"token missing":                 {`{"issued_token_type":"` + typeAccessToken + `","token_type":"Bearer"}`, BadAnswer},
		"token a number":                {strings.Replace(goodBody(), `"`+issuedSecret+`"`, `7`, 1), BadAnswer},
		"token empty":                   {withToken(""), BadAnswer},
		"token with CRLF":               {withToken(`a\r\nX-Admin: 1`), BadAnswer},
		"token with a space":            {withToken(`a b`), BadAnswer},
		"token with NUL":                {withToken(`a\u0000`), BadAnswer},
		"token not ASCII":               {withToken(`ä`), BadAnswer},
		"token too long":                {withToken(strings.Repeat("a", maxValue+1)), BadAnswer},
		"issued_token_type missing":     {strings.Replace(goodBody(), "issued_token_type", "x", 1), BadTokenType},
		"issued_token_type refresh":     {strings.Replace(goodBody(), "token-type:access_token", "token-type:refresh_token", 1), BadTokenType},
		"issued_token_type id_token":    {strings.Replace(goodBody(), "token-type:access_token", "token-type:id_token", 1), BadTokenType},
		"issued_token_type other case":  {strings.Replace(goodBody(), "issued_token_type", "ISSUED_TOKEN_TYPE", 1), BadTokenType},
		"token_type missing":            {strings.Replace(goodBody(), `"token_type"`, `"x"`, 1), BadTokenType},
		"token_type N_A":                {strings.Replace(goodBody(), "Bearer", "N_A", 1), BadTokenType},
		"token_type DPoP":               {strings.Replace(goodBody(), "Bearer", "DPoP", 1), BadTokenType},
		"token_type null":               {strings.Replace(goodBody(), `"Bearer"`, "null", 1), BadTokenType},
		"scope wider":                   {in("scope", `"orders:read refunds:draft admin:all"`), WiderScope},
		"scope other":                   {in("scope", `"admin:all"`), WiderScope},
		"scope narrower":                {in("scope", `"orders:read"`), NarrowerScope},
		"scope empty":                   {in("scope", `""`), NarrowerScope},
		"scope a list":                  {in("scope", `["orders:read"]`), BadAnswer},
		"scope with a tab":              {in("scope", `"orders:read refunds:draft\tadmin"`), BadAnswer},
		"scope with a no-break space":   {in("scope", `"orders:read\u00a0refunds:draft"`), BadAnswer},
		"expires_in 0":                  {in("expires_in", `0`), Expired},
		"expires_in negative":           {in("expires_in", `-1`), Expired},
		"expires_in that wraps":         {in("expires_in", `-4294963696`), Expired},
		"expires_in a word":             {in("expires_in", `"soon"`), BadExpiry},
		"expires_in inf":                {in("expires_in", `"inf"`), BadExpiry},
		"expires_in nan":                {in("expires_in", `"nan"`), BadExpiry},
		"expires_in hexadecimal":        {in("expires_in", `"0x10"`), BadExpiry},
		"expires_in empty":              {in("expires_in", `""`), BadExpiry},
		"expires_in true":               {in("expires_in", `true`), BadExpiry},
		"expires_in an object":          {in("expires_in", `{}`), BadExpiry},
		"JWT for another audience":      {jwt(`{"aud":"https://evil.test"}`), WrongAudience},
		"JWT for other audiences":       {jwt(`{"aud":["https://evil.test","x"]}`), WrongAudience},
		"JWT for no audience":           {jwt(`{"aud":[]}`), WrongAudience},
		"JWT with a strange audience":   {jwt(`{"aud":{"https://api.orders.test":1}}`), WrongAudience},
		"JWT with null audience":        {jwt(`{"aud":null}`), WrongAudience},
		"JWT for another subject":       {jwt(`{"aud":"https://api.orders.test","sub":"user:mallory"}`), WrongSubject},
		"JWT with a strange subject":    {jwt(`{"aud":"https://api.orders.test","sub":["user:alice"]}`), WrongSubject},
		"JWT with an empty act":         {jwt(orders(`"act":{}`)), WrongActor},
		"JWT with act a word":           {jwt(orders(`"act":"agent"`)), WrongActor},
		"JWT over":                      {jwt(orders(fmt.Sprintf(`"exp":%d`, past))), Expired},
		"JWT with exp a word":           {jwt(orders(`"exp":"tomorrow"`)), BadAnswer},
		"JWT wider than its answer":     {jwt(orders(`"scope":"orders:read admin:all"`)), WiderScope},
		"JWT with a wider scp":          {jwt(orders(`"scp":["admin:all"]`)), WiderScope},
		"JWT with a strange scope":      {jwt(orders(`"scope":7`)), BadAnswer},
		"JWT without an audience":       {jwt(`{"sub":"user:alice"}`), WrongAudience},
		"JWT without a subject":         {jwt(`{"aud":"https://api.orders.test"}`), WrongSubject},
		"JWT narrower than its answer":  {jwt(orders(`"scope":"orders:read"`)), NarrowerScope},
		"JWT with no scope left":        {jwt(orders(`"scope":""`)), NarrowerScope},
		"JWT with aud twice":            {jwt(`{"aud":"https://api.orders.test","aud":"https://evil.test"}`), BadAnswer},
		"JWT whose payload is no JSON":  {jwt(`{"aud":`), BadAnswer},
		"JWT whose payload is a string": {jwt(`"aud"`), BadAnswer},
		"JWT whose payload is padded":   {withToken("eyJhbGciOiJub25lIn0.e30=.c2ln"), BadAnswer},
		"opaque but issued as a JWT":    {strings.Replace(goodBody(), "token-type:access_token", "token-type:jwt", 1), BadAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			tok, reason := testAsk().check(reply{status: 200, body: []byte(c.body)}, now, now)
			if tok != nil || reason != c.want {
				t.Errorf("got %q and token=%v, want %q", reason, tok != nil, c.want)
			}
		})
	}
}

func TestAnswerTaken(t *testing.T) {
	start := time.Now()
	exp := start.Add(time.Minute).Truncate(time.Second)
	for name, c := range map[string]struct {
		body string
		want time.Time
	}{
		"no expiry":                  {goodBody(), time.Time{}},
		"null expiry and scope":      {goodBody(`"expires_in":null`, `"scope":null`), time.Time{}},
		"a number":                   {goodBody(`"expires_in":3600`), start.Add(time.Hour)},
		"a decimal":                  {goodBody(`"expires_in":3600.0`), start.Add(time.Hour)},
		"half a second":              {goodBody(`"expires_in":1.5`), start.Add(1500 * time.Millisecond)},
		"a string":                   {goodBody(`"expires_in":"3600"`), start.Add(time.Hour)},
		"huge":                       {goodBody(`"expires_in":1e12`), start.Add(maxLifetime)},
		"beyond float":               {goodBody(`"expires_in":1e999`), start.Add(maxLifetime)},
		"lower-case bearer":          {strings.Replace(goodBody(), "Bearer", "bearer", 1), time.Time{}},
		"scopes in another order":    {goodBody(`"scope":"refunds:draft  orders:read"`), time.Time{}},
		"an unknown field":           {goodBody(`"refresh_token":"r","x":[1]`), time.Time{}},
		"JWT that ends earlier":      {strings.Replace(goodBody(`"expires_in":3600`), issuedSecret, fakeJWT(orders(fmt.Sprintf(`"exp":%d`, exp.Unix()))), 1), exp},
		"JWT that ends later":        {strings.Replace(goodBody(`"expires_in":10`), issuedSecret, fakeJWT(orders(`"exp":9e15`)), 1), start.Add(10 * time.Second)},
		"JWT with all that fits":     {withToken(fakeJWT(`{"aud":["x","https://api.orders.test"],"sub":"user:alice","act":{"sub":"w","act":{}},"scope":"orders:read","scp":["refunds:draft"]}`)), time.Time{}},
		"JWT for the resource":       {withToken(fakeJWT(`{"aud":"https://res.orders.test/","sub":"user:alice"}`)), time.Time{}},
		"opaque with two dots":       {withToken("a.b.c"), time.Time{}},
		"encrypted JWT, five parts":  {withToken("eyJhbGciOiJkaXIifQ.a.b.c.d"), time.Time{}},
		"issued as a JWT, and is it": {strings.Replace(withToken(fakeJWT(orders(""))), "token-type:access_token", "token-type:jwt", 1), time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			tok, reason := testAsk().check(reply{status: 200, body: []byte(c.body)}, start, start)
			if reason != "" {
				t.Fatalf("refused: %s", reason)
			}
			if !tok.Expiry.Equal(c.want) {
				t.Errorf("expires %v, want %v", tok.Expiry, c.want)
			}
		})
	}
}

// Who asks for a delegation must not be given an impersonation, nor a delegation to somebody else.
func TestDelegation(t *testing.T) {
	for name, c := range map[string]struct {
		more string
		want Reason
	}{
		"no actor in it":   {``, WrongActor},
		"act null":         {`"act":null`, WrongActor},
		"another actor":    {`"act":{"sub":"other"}`, WrongActor},
		"another issuer's": {`"act":{"sub":"workload","iss":"https://evil.test"}`, WrongActor},
		"ours inside":      {`"act":{"sub":"other","act":{"sub":"workload"}}`, WrongActor},
		"ours":             {`"act":{"sub":"workload"}`, ""},
		"ours, its issuer": {`"act":{"sub":"workload","iss":"https://k8s.test"}`, ""},
		"ours outermost":   {`"act":{"sub":"workload","act":{"sub":"other"}}`, ""},
	} {
		tok, reason := delegated().check(reply{status: 200, body: []byte(withToken(fakeJWT(orders(c.more))))}, time.Now(), time.Now())
		if reason != c.want || (tok == nil) != (c.want != "") {
			t.Errorf("%s: %q, want %q", name, reason, c.want)
		}
	}
	opaque := testAsk()
	opaque.actor.value = redact.New(actorSecret)
	for more, want := range map[string]Reason{``: WrongActor, `"act":{"sub":"somebody"}`: ""} {
		if _, reason := opaque.check(reply{status: 200, body: []byte(withToken(fakeJWT(orders(more))))}, time.Now(), time.Now()); reason != want {
			t.Errorf("an opaque actor, %s: %q, want %q", more, reason, want)
		}
	}
}

func TestNoScopeAskedNoneTaken(t *testing.T) {
	a := testAsk()
	a.scopes = ""
	_, reason := a.check(reply{status: 200, body: []byte(goodBody(`"scope":"admin:all"`))}, time.Now(), time.Now())
	if reason != WiderScope {
		t.Errorf("got %q", reason)
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		want   Reason
	}{
		{400, `{"error":"invalid_scope"}`, InvalidScope},
		{400, `{"error":"invalid_target","error_description":"x"}`, InvalidTarget},
		{400, `{"error":"invalid_request"}`, InvalidRequest},
		{400, `{"error":"invalid_grant"}`, InvalidGrant},
		{400, `{"error":"unauthorized_client"}`, UnauthorizedClient},
		{400, `{"error":"unsupported_grant_type"}`, UnsupportedGrantType},
		{401, `{"error":"invalid_client"}`, InvalidClient},
		{401, `denied`, InvalidClient},
		{400, `{"error":"` + subjectSecret + `"}`, Refused},
		{400, `{"error":7}`, Refused},
		{403, ``, Refused},
		{429, `{"error":"invalid_scope"}`, RateLimited},
		{500, `{"error":"invalid_scope"}`, ServerError},
		{503, ``, ServerError},
		{201, goodBody(), BadAnswer},
		{302, goodBody(), BadAnswer},
		{307, goodBody(), BadAnswer},
	} {
		tok, reason := testAsk().check(reply{status: c.status, body: []byte(c.body)}, time.Now(), time.Now())
		if tok != nil || reason != c.want {
			t.Errorf("%d %s: got %q, want %q", c.status, c.body, reason, c.want)
		}
	}
}

func TestMayAct(t *testing.T) {
	allowing := fakeJWT(`{"sub":"user:alice","may_act":{"sub":"workload","iss":"https://k8s.test"}}`)
	for name, c := range map[string]struct {
		subject, actor string
		want           bool
	}{
		"opaque subject":        {subjectSecret, "", true},
		"nothing said":          {fakeJWT(`{"sub":"a"}`), "", true},
		"the right actor":       {allowing, fakeJWT(`{"sub":"workload","iss":"https://k8s.test"}`), true},
		"no actor":              {allowing, "", false},
		"another actor":         {allowing, fakeJWT(`{"sub":"other","iss":"https://k8s.test"}`), false},
		"another issuer":        {allowing, fakeJWT(`{"sub":"workload","iss":"https://evil.test"}`), false},
		"an opaque actor":       {allowing, actorSecret, false},
		"may_act without sub":   {fakeJWT(`{"may_act":{}}`), fakeJWT(`{"sub":""}`), false},
		"may_act null":          {fakeJWT(`{"may_act":null}`), fakeJWT(`{"sub":"workload"}`), false},
		"a subject beyond read": {fakeJWT(`{`), fakeJWT(`{"sub":"workload"}`), false},
	} {
		if got := mayAct(c.subject, c.actor); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// FuzzExchangeAnswer: whatever an endpoint answers, nothing panics, and what is taken is a token that can stand in a
// header, is not wider than was asked and does not outlive the cap.
func FuzzExchangeAnswer(f *testing.F) {
	for _, s := range []string{
		goodBody(), goodBody(`"scope":"orders:read refunds:draft"`), goodBody(`"scope":"admin"`), goodBody(`"expires_in":"1e3"`),
		withToken(fakeJWT(`{"aud":"https://api.orders.test","exp":9e15,"scope":"orders:read"}`)),
		withToken(fakeJWT(`{"scp":["admin"]}`)), `{"error":"invalid_scope"}`, `{"expires_in":-9223372036854775808}`,
	} {
		f.Add(200, []byte(s))
	}
	f.Add(400, []byte(`{"error":"invalid_scope"}`))
	f.Add(math.MinInt, []byte(nil))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		a, now := testAsk(), time.Now()
		tok, reason := a.check(reply{status: status, body: body}, now, now)
		if (tok == nil) == (reason == "") {
			t.Fatal("neither a token nor a reason, or both")
		}
		if tok == nil {
			if _, ok := phases[reason]; !ok {
				t.Fatalf("reason %q is not in the closed set", reason)
			}
			return
		}
		if status != http.StatusOK || !isToken(tok.AccessToken) {
			t.Fatalf("status %d, token %q", status, tok.AccessToken)
		}
		if !tok.Expiry.IsZero() && (!tok.Expiry.After(now) || tok.Expiry.After(now.Add(maxLifetime))) {
			t.Fatalf("expires %v", tok.Expiry)
		}
		for _, scope := range grantedScopes(body) {
			if scope != "orders:read" && scope != "refunds:draft" {
				t.Fatalf("scope %q was not asked", scope)
			}
		}
	})
}

// grantedScopes reads the answer's scope without the code under test: token by token.
func grantedScopes(body []byte) []string {
	d := jsontext.NewDecoder(strings.NewReader(string(body)))
	for d.PeekKind() != 0 {
		tok, err := d.ReadToken()
		if err != nil {
			return nil
		}
		kind, read := d.StackIndex(d.StackDepth())
		isName := d.StackDepth() == 1 && kind == '{' && read%2 == 1
		if isName && tok.String() == "scope" && d.PeekKind() == '"' {
			if v, err := d.ReadToken(); err == nil {
				return strings.FieldsFunc(v.String(), func(r rune) bool { return r == ' ' })
			}
		}
	}
	return nil
}
