package signals

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Subject members of a complex subject (Shared Signals Framework 1.0, section 3.3).
var memberNames = []string{"user", "tenant", "session", "device", "application", "group", "org_unit"}

// Members lists the members of a complex subject.
func Members() []string { return slices.Clone(memberNames) }

// formats are the identifier formats of RFC 9493, section 3.2, by the members that each has, and under which name a template sees
// the one that it may use. A member without a name is checked and not offered.
var formats = map[string]map[string]string{
	"account":      {"uri": "account"},
	"email":        {"email": "email"},
	"iss_sub":      {"iss": "", "sub": "sub"},
	"opaque":       {"id": "id"},
	"phone_number": {"phone_number": "phone_number"},
	"did":          {"url": "did"},
	"uri":          {"uri": "uri"},
}

// Placeholders lists the names by which a template may use an identifier.
var Placeholders = []string{"account", "did", "email", "id", "phone_number", "sub", "uri"}

// maxAliases bounds the identifiers of one principal.
const maxAliases = 16

// identifier is one way of naming a principal. An identifier that is not for us to use has no value.
type identifier struct{ name, value string }

// subject is whom an event is about: one principal under the name "", or several members of a complex subject, which only together
// say whom. Each has one identifier or several aliases.
type subject map[string][]identifier

// subjectOf returns sub_id or, where there is none, the subject that drafts of the framework put into the event, of which large
// transmitters have remained. A complex subject says so in its format, but not in the drafts.
func subjectOf(subID, draft jsontext.Value, issuers []string) (subject, error) {
	v, final := subID, len(subID) > 0
	if !final {
		v = draft
	}
	members, err := object(v)
	if err != nil {
		return nil, err
	}
	format, ok := text(members["format"])
	switch {
	case format == "complex", !final && members["format"] == nil:
		return parseComplex(members, issuers)
	case !ok:
		return nil, refuse(Malformed, "sub_id has no format")
	}
	ids, err := parsePrincipal(members, issuers, true)
	if err != nil {
		return nil, err
	}
	return subject{"": ids}, nil
}

func parseComplex(members map[string]jsontext.Value, issuers []string) (subject, error) {
	out := subject{}
	for name, value := range members {
		if name == "format" {
			continue
		}
		// A member that is not known narrows the subject down in a way that no rule can follow.
		if !slices.Contains(memberNames, name) {
			return nil, refuse(Unmapped, "sub_id has a member that is not known")
		}
		inner, err := object(value)
		if err != nil {
			return nil, err
		}
		if out[name], err = parsePrincipal(inner, issuers, true); err != nil {
			return nil, err
		}
	}
	if len(out) == 0 {
		return nil, refuse(Malformed, "sub_id names nobody")
	}
	return out, nil
}

func parsePrincipal(members map[string]jsontext.Value, issuers []string, aliases bool) ([]identifier, error) {
	format, _ := text(members["format"])
	if format != "aliases" {
		id, err := parseIdentifier(format, members, issuers)
		return []identifier{id}, err
	}
	var list []jsontext.Value
	// RFC 9493, section 3.2.8: aliases are not nested.
	if !aliases || len(members) != 2 || json.Unmarshal(members["identifiers"], &list) != nil || len(list) == 0 || len(list) > maxAliases {
		return nil, refuse(Malformed, "aliases are not a list of identifiers")
	}
	var out []identifier
	for _, v := range list {
		inner, err := object(v)
		if err != nil {
			return nil, err
		}
		ids, err := parsePrincipal(inner, issuers, false)
		if err != nil {
			return nil, err
		}
		out = append(out, ids...)
	}
	return out, nil
}

// parseIdentifier is strict: RFC 9493, section 3, forbids members that the format does not describe.
func parseIdentifier(format string, members map[string]jsontext.Value, issuers []string) (identifier, error) {
	want, ok := formats[format]
	if !ok {
		return identifier{}, refuse(Unmapped, "sub_id has a format that is not known")
	}
	if len(members) != len(want)+1 {
		return identifier{}, refuse(Malformed, "an identifier is not as its format says")
	}
	var out identifier
	ours := true
	for member, name := range want {
		s, ok := text(members[member])
		if !ok || !isPlain(s) {
			return identifier{}, refuse(Malformed, "an identifier is not as its format says")
		}
		if member == "iss" {
			ours = slices.Contains(issuers, s)
		}
		if name != "" {
			out = identifier{name, s}
		}
	}
	if !ours { // another issuer's sub may be anybody's here
		return identifier{}, nil
	}
	return out, nil
}

func object(v jsontext.Value) (map[string]jsontext.Value, error) {
	var out map[string]jsontext.Value
	if v.Kind() != '{' || json.Unmarshal(v, &out) != nil {
		return nil, refuse(Malformed, "sub_id is not an object")
	}
	return out, nil
}

// isPlain accepts what a verified caller may have in a claim; nothing else could ever match one.
func isPlain(s string) bool {
	return s != "" && len(s) <= maxValue && utf8.ValidString(s) && strings.TrimSpace(s) == s &&
		!strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}
