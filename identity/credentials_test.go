package identity

import (
	"encoding/base64"
	"strings"
	"testing"
)

func basic(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func TestFromProxyAuthorization(t *testing.T) {
	for _, tc := range []struct {
		value, user, token string
		ok                 bool
	}{
		{"Bearer a.b-c_d", "", "a.b-c_d", true},
		{"bEaReR a.b.c", "", "a.b.c", true},
		{"Bearer   a.b.c", "", "a.b.c", true},
		{"Basic " + basic("tool:a.b.c"), "tool", "a.b.c", true},
		{"BASIC " + basic(":a.b.c"), "", "a.b.c", true},
		{"Basic " + basic("tööl:a.b.c"), "tööl", "a.b.c", true},
		{"", "", "", false},
		{"Bearer", "", "", false},
		{"Bearer ", "", "", false},
		{"Bearer a b", "", "", false},
		{"Bearer a,b", "", "", false},
		{"Bearer\ta", "", "", false},
		{" Bearer a", "", "", false},
		{"Bearer a ", "", "", false},
		{"Bearer a\n", "", "", false},
		{"Bearer =", "", "", false},
		{"a.b.c", "", "", false},
		{"Digest a", "", "", false},
		{"Basic " + basic("tool:"), "tool", "", true}, // names a tool and nobody
		{"Basic " + basic("tool"), "", "", false},
		{"Basic " + basic("tool:a:b"), "", "", false},
		{"Basic " + basic("tool:a b"), "", "", false},
		{"Basic " + basic("to\x00ol:a"), "", "", false},
		{"Basic " + basic("to\nol:a"), "", "", false},
		{"Basic " + basic("\xff:a"), "", "", false},
		{"Basic " + basic(strings.Repeat("u", maxClaim+1)+":a"), "", "", false},
		{"Basic " + strings.TrimRight(basic("tool:ab"), "="), "", "", false},
		{"Basic " + basic("tool:ab") + "\r\n", "", "", false},
		{"Basic dG9vbDph\r\nYg==", "", "", false},
		{"Basic dG9vbDphYh==", "", "", false}, // unused bits set
		{"Basic dG9v_Dph", "", "", false},
		{"Bearer " + strings.Repeat("a", maxHeader), "", "", false},
	} {
		user, token, ok := FromProxyAuthorization(tc.value)
		if ok != tc.ok || (ok && (user != tc.user || token != tc.token)) {
			t.Errorf("%.60q: %q %q %t", tc.value, user, token, ok)
		}
	}
	longest := strings.Repeat("a", maxToken)
	if _, token, ok := FromProxyAuthorization("Basic " + basic("tool:"+longest)); !ok || token != longest {
		t.Error("the longest token does not fit in Basic")
	}
}

func TestFromBearer(t *testing.T) {
	for _, tc := range []struct {
		value, token string
		ok           bool
	}{
		{"Bearer a.b.c", "a.b.c", true}, {"bearer a.b.c", "a.b.c", true}, {"a.b.c", "a.b.c", true}, {"Bearerx", "Bearerx", true},
		{"", "", false}, {"Bearer", "", false}, {"bearer", "", false}, {"Bearer ", "", false}, {" a", "", false}, {"a b", "", false}, {"Basic YTpi", "", false},
		{"a\nb", "", false}, {"a,b", "", false}, {strings.Repeat("a", maxHeader+1), "", false}, {"Bearer Bearer a", "", false},
	} {
		if token, ok := FromBearer(tc.value); ok != tc.ok || token != tc.token {
			t.Errorf("%.60q: %q %t", tc.value, token, ok)
		}
	}
}
