package signals

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

const idp = "https://idp.example"

// mapTo maps a subject by rules and returns the selector's fields as "subject=a|b tenant=c", or the error's result.
func mapTo(t *testing.T, sub any, rules ...Rule) string {
	t.Helper()
	raw, err := json.Marshal(sub)
	if err != nil {
		t.Fatal(err)
	}
	return mapped(jsontext.Value(raw), nil, rules...)
}

func mapped(subID, draft jsontext.Value, rules ...Rule) string {
	tr := &transmitter{config: Transmitter{Rules: rules}, issuers: []string{idp}}
	sub, err := subjectOf(subID, draft, tr.issuers)
	if err != nil {
		return string(asRefusal(err).result)
	}
	_, s, err := tr.mapped(SessionRevoked, sub)
	if err != nil {
		return string(asRefusal(err).result)
	}
	var out []string
	for _, f := range []struct {
		name   string
		values []string
	}{{"subject", s.Subject}, {"agent", s.Agent}, {"tenant", s.Tenant}, {"task", s.Task}, {"run", s.Run}, {"tool", s.Tool}} {
		if len(f.values) > 0 {
			out = append(out, f.name+"="+strings.Join(f.values, "|"))
		}
	}
	return strings.Join(out, " ")
}

func TestSubjects(t *testing.T) {
	type c = claimSet
	issSub := func(iss, sub string) c { return c{"format": "iss_sub", "iss": iss, "sub": sub} }
	opaque := func(id string) c { return c{"format": "opaque", "id": id} }
	aliases := func(ids ...any) c { return c{"format": "aliases", "identifiers": ids} }
	complexed := func(members c) c {
		out := c{"format": "complex"}
		maps.Copy(out, members)
		return out
	}
	for name, tc := range map[string]struct {
		rules string // split at ";"
		sub   any
		want  string
	}{
		"email":               {"subject=user:{email}", email("a@x.example"), "subject=user:a@x.example"},
		"account":             {"subject={account}", c{"format": "account", "uri": "acct:a@x.example"}, "subject=acct:a@x.example"},
		"iss_sub":             {"subject={sub}", issSub(idp, "u1"), "subject=u1"},
		"opaque":              {"agent=agent-{id}", opaque("7"), "agent=agent-7"},
		"phone":               {"subject={phone_number}", c{"format": "phone_number", "phone_number": "+15550100"}, "subject=+15550100"},
		"did":                 {"subject={did}", c{"format": "did", "url": "did:example:1"}, "subject=did:example:1"},
		"uri":                 {"subject={uri}", c{"format": "uri", "uri": "https://u.example/1"}, "subject=https://u.example/1"},
		"a fixed tenant too":  {"subject={email} tenant=acme", email("a@x.example"), "subject=a@x.example tenant=acme"},
		"the first that fits": {"subject={sub};subject=user:{email};subject={email}", email("a@x.example"), "subject=user:a@x.example"},
		"complex": {"subject={user.email} tenant={tenant.id}", complexed(c{"user": email("a@x.example"), "tenant": opaque("acme")}),
			"subject=a@x.example tenant=acme"},
		"session as run": {"run={session.id} broader=user,device", complexed(c{"user": email("a@x.example"), "session": opaque("s1"), "device": opaque("d1")}), "run=s1"},

		"aliases, one fits": {"subject={sub}", aliases(email("a@x.example"), issSub(idp, "u1")), "subject=u1"},
		"aliases, two fit":  {"subject={email} tenant=acme", aliases(email("a@x.example"), email("b@x.example"), opaque("1")), "subject=a@x.example|b@x.example tenant=acme"},
		"aliases, the same": {"subject={email}", aliases(email("a@x.example"), email("a@x.example")), "subject=a@x.example"},
		// Two lists would cover b of tenant x as well, whom nobody named.
		"aliases in two fields": {"subject={email} tenant={id}", aliases(email("a"), email("b"), opaque("x"), opaque("y")), "unmapped"},
		"aliases of a member":   {"subject={user.sub}", complexed(c{"user": aliases(issSub(idp, "u1"), email("a@x.example"))}), "subject=u1"},

		// A rule that leaves a member out would revoke more than the event says.
		"a whole tenant for one user": {"tenant={tenant.id}", complexed(c{"user": email("a@x.example"), "tenant": opaque("acme")}), "unmapped"},
		"a user for one session":      {"subject={user.email}", complexed(c{"user": email("a@x.example"), "session": opaque("s1")}), "unmapped"},
		"the tenant left out":         {"subject={user.email} broader=session", complexed(c{"user": email("a@x.example"), "tenant": opaque("t"), "session": opaque("s")}), "unmapped"},
		"a member that is missing":    {"subject={user.email} tenant={tenant.id}", complexed(c{"user": email("a@x.example")}), "unmapped"},
		"an unknown member":           {"subject={user.email} broader=session", complexed(c{"user": email("a@x.example"), "region": opaque("eu")}), "unmapped"},
		"another issuer's sub":        {"subject={sub}", issSub("https://evil.example", "u1"), "unmapped"},
		"an alias of another issuer":  {"subject={sub}", aliases(issSub("https://evil.example", "admin"), issSub(idp, "u1")), "subject=u1"},
		"an unknown format":           {"subject={sub}", c{"format": "jwt_id", "iss": idp, "jti": "1"}, "unmapped"},
		"a simple rule for a complex": {"subject={email}", complexed(c{"user": email("a@x.example")}), "unmapped"},
		"a complex rule for a simple": {"subject={user.email}", email("a@x.example"), "unmapped"},

		"braces are text":       {"subject=user:{email}", email("{sub}"), "subject=user:{sub}"},
		"a placeholder's name":  {"subject=user:{email} tenant=acme", email("{email}{id}"), "subject=user:{email}{id} tenant=acme"},
		"a star is text":        {"subject={email}", email("*"), "subject=*"},
		"a comma is text":       {"subject={email}", email("a,b"), "subject=a,b"},
		"empty":                 {"subject=user:{email}", email(""), "malformed"},
		"a space":               {"subject=user:{email}", email(" "), "malformed"},
		"padded":                {"subject={email}", email("a@x.example "), "malformed"},
		"a newline":             {"subject={email}", email("a\nb"), "malformed"},
		"invisible":             {"subject={email}", email("a\u200bb"), "malformed"},
		"too long":              {"subject={email}", email(strings.Repeat("a", 257)), "malformed"},
		"too long when filled":  {"subject=user:{email}", email(strings.Repeat("a", 254)), "unmapped"},
		"no format":             {"subject={email}", c{"email": "a@x.example"}, "malformed"},
		"format is no text":     {"subject={email}", c{"format": 1, "email": "a@x.example"}, "malformed"},
		"a member too many":     {"subject={email}", c{"format": "email", "email": "a@x.example", "id": "b"}, "malformed"},
		"a member too few":      {"subject={sub}", c{"format": "iss_sub", "sub": "u1"}, "malformed"},
		"a value is a list":     {"subject={email}", c{"format": "email", "email": []string{"a", "b"}}, "malformed"},
		"a list":                {"subject={email}", []any{email("a@x.example")}, "malformed"},
		"text":                  {"subject={email}", "a@x.example", "malformed"},
		"null":                  {"subject={email}", nil, "malformed"},
		"complex of nobody":     {"subject={user.email}", complexed(nil), "malformed"},
		"complex in complex":    {"subject={user.email}", complexed(c{"user": complexed(c{"user": email("a")})}), "unmapped"},
		"a member is text":      {"subject={user.email}", complexed(c{"user": "a"}), "malformed"},
		"no aliases":            {"subject={email}", aliases(), "malformed"},
		"aliases in aliases":    {"subject={email}", aliases(aliases(email("a@x.example"))), "malformed"},
		"too many aliases":      {"subject={email}", aliases(slices.Repeat([]any{email("a")}, 17)...), "malformed"},
		"aliases and more":      {"subject={email}", c{"format": "aliases", "identifiers": []any{email("a")}, "email": "b"}, "malformed"},
		"a bad alias among two": {"subject={email}", aliases(email("a@x.example"), c{"format": "email"}), "malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			var rules []Rule
			for fields := range strings.SplitSeq(tc.rules, ";") {
				rules = append(rules, rule(t, fields, SessionRevoked))
				if err := rules[len(rules)-1].Check(); err != nil {
					t.Fatal(err)
				}
			}
			if got := mapTo(t, tc.sub, rules...); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

// TestDraftSubjects: where there is no sub_id, the event's subject counts, and nowhere else.
func TestDraftSubjects(t *testing.T) {
	const a, b = `{"format":"email","email":"a@x.example"}`, `{"format":"email","email":"b@x.example"}`
	simple, member := rule(t, "subject={email}", SessionRevoked), rule(t, "subject={user.email} broader=device", SessionRevoked)
	for name, tc := range map[string]struct {
		subID, draft string
		want         string
	}{
		"simple":                           {"", a, "subject=a@x.example"},
		"complex, without a format":        {"", `{"user":` + a + `,"device":` + b + `}`, "subject=a@x.example"},
		"complex, with a format":           {"", `{"format":"complex","user":` + a + `}`, "subject=a@x.example"},
		"sub_id counts":                    {a, b, "subject=a@x.example"},
		"a bad sub_id counts":              {`null`, b, "malformed"},
		"sub_id must have a format":        {`{"user":` + a + `}`, b, "malformed"},
		"an unknown member":                {"", `{"user":` + a + `,"region":` + b + `}`, "unmapped"},
		"the form of the first drafts":     {"", `{"subject_type":"email","email":"a@x.example"}`, "unmapped"},
		"neither":                          {"", "", "malformed"},
		"nobody":                           {"", `{}`, "malformed"},
		"a member that no rule leaves out": {"", `{"user":` + a + `,"tenant":` + b + `}`, "unmapped"},
	} {
		if got := mapped(jsontext.Value(tc.subID), jsontext.Value(tc.draft), simple, member); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

func TestTemplates(t *testing.T) {
	for _, bad := range []string{
		"", "{", "}", "{}", "{sub", "sub}", "{sub}{email}", "{sub}}", "{{sub}}", "{SUB}", "{iss}", "{name}", "{user}", "{user.}", "{.sub}",
		"{users.sub}", "{user.sub.x}", "{user.name}", " {sub}\n", " ", "x\n", "\u202e{sub}", strings.Repeat("x", 257),
	} {
		if _, err := ParseTemplate(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	for _, name := range Placeholders {
		for _, good := range []string{"{%s}", "a {%s} b", "{user.%s}"} {
			if _, err := ParseTemplate(fmt.Sprintf(good, name)); err != nil {
				t.Errorf(good+": %v", name, err)
			}
		}
	}
}

func TestRuleCheck(t *testing.T) {
	for name, tc := range map[string]struct {
		rule Rule
		want string
	}{
		"the zero rule":          {Rule{}, "no events"},
		"no selector":            {Rule{Events: []Event{SessionRevoked}}, "no field"},
		"only fixed text":        {rule(t, "tenant=acme", SessionRevoked), "no field"},
		"simple and complex":     {rule(t, "subject={email} tenant={tenant.id}", SessionRevoked), "simple and of a complex"},
		"an event of the stream": {rule(t, "subject={email}", verification), "not known"},
		"an unknown member":      {rule(t, "subject={user.email} broader=users", SessionRevoked), "broader"},
		"negative":               {Rule{Events: []Event{SessionRevoked}, Expires: -1}, "expires"},
	} {
		if err := tc.rule.Check(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
