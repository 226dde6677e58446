package broker

import (
	"net/http"
	"reflect"
	"testing"
	"time"
)

func TestApplyRemovesEverySpelling(t *testing.T) {
	for name, c := range map[string]struct {
		header, prefix string
		before         http.Header
		want           http.Header
	}{
		"none there":       {"Authorization", "Bearer ", http.Header{"Accept": {"*/*"}}, http.Header{"Accept": {"*/*"}, "Authorization": {"Bearer v"}}},
		"twice":            {"Authorization", "Bearer ", http.Header{"Authorization": {"Bearer tool", "Basic tool"}}, http.Header{"Authorization": {"Bearer v"}}},
		"lower case":       {"Authorization", "Bearer ", http.Header{"authorization": {"tool"}}, http.Header{"Authorization": {"Bearer v"}}},
		"upper case":       {"authorization", "Bearer ", http.Header{"AUTHORIZATION": {"tool"}, "aUTHORIZATION": {"tool"}}, http.Header{"Authorization": {"Bearer v"}}},
		"underscores":      {"X-Api-Key", "", http.Header{"X_Api_Key": {"tool"}, "x-api_key": {"tool"}, "X-API-KEY": {"tool"}}, http.Header{"X-Api-Key": {"v"}}},
		"set with them":    {"X_Api_Key", "", http.Header{"X-Api-Key": {"tool"}}, http.Header{"X_api_key": {"v"}}},
		"others are left":  {"X-Api-Key", "", http.Header{"X-Api-Key2": {"a"}, "X-Api": {"b"}, "Xapikey": {"c"}, "X-Api.key": {"d"}}, http.Header{"X-Api-Key": {"v"}, "X-Api-Key2": {"a"}, "X-Api": {"b"}, "Xapikey": {"c"}, "X-Api.key": {"d"}}},
		"no map as of yet": {"Authorization", "", nil, http.Header{"Authorization": {"v"}}},
	} {
		t.Run(name, func(t *testing.T) {
			cred := newCredential(Ref{}, c.header, c.prefix, "v")
			out := &http.Request{Header: c.before, Trailer: http.Header{c.header: nil, "Other": nil}}
			for range 2 {
				if body, err := cred.Apply(out, []byte("b")); err != nil || string(body) != "b" {
					t.Errorf("%q %v", body, err)
				}
			}
			if !reflect.DeepEqual(out.Header, c.want) {
				t.Errorf("header %v, want %v", out.Header, c.want)
			}
			if !reflect.DeepEqual(out.Trailer, http.Header{"Other": nil}) {
				t.Errorf("trailer %v", out.Trailer)
			}
		})
	}
}

func TestScrubHeader(t *testing.T) {
	c := newCredential(Ref{}, "Authorization", "Bearer ", "abc.def")
	h := http.Header{
		"X-Echo": {"Bearer abc.def", "abc.defabc.def", "ABC.DEF"},
		"Server": {"abc"},
	}
	if n := c.ScrubHeader(h); n != 3 {
		t.Errorf("%d places", n)
	}
	want := http.Header{
		"X-Echo": {"Bearer [REDACTED:credential]", "[REDACTED:credential][REDACTED:credential]", "ABC.DEF"},
		"Server": {"abc"},
	}
	if !reflect.DeepEqual(h, want) {
		t.Errorf("%v", h)
	}
	if n := new(Credential).ScrubHeader(h); n != 0 {
		t.Errorf("an empty credential was found %d times", n)
	}
}

func TestCredentialShowsNothing(t *testing.T) {
	c := newCredential(Ref{Binding: "orders", Expires: time.Now()}, "Authorization", "Bearer ", issuedSecret)
	noLeak(t, c, issuedSecret)
	noLeak(t, *c, issuedSecret)
	noLeak(t, c.placed(&entry{packed: pack(Key{TokenHash: hashOf(subjectSecret)})}, true), issuedSecret, subjectSecret)
	noLeak(t, entry{cred: c}, issuedSecret)
	noLeak(t, flight{cred: c}, issuedSecret)
	noLeak(t, &http.Request{}, issuedSecret)
	noLeak(t, (*Credential)(nil))
}

func TestHeaderNames(t *testing.T) {
	for _, name := range []string{
		"", "A B", "A:", "A\r\nB", "Ä", "Connection", "connection", "Transfer-Encoding", "transfer_encoding", "Content-Length",
		"Host", "Proxy-Authorization", "PROXY_CONNECTION", "Toolgate-Authorization", "toolgate_denial", "TE", "Trailer", "Upgrade",
		"Keep-Alive", "Expect", "Content-Type", "HTTP2-Settings",
	} {
		if err := checkHeaderName(name); err == nil {
			t.Errorf("%q was taken", name)
		}
	}
	for _, name := range []string{"Authorization", "X-Api-Key", "X_Api_Key", "Private-Token", "Cookie", "Proxyless"} {
		if err := checkHeaderName(name); err != nil {
			t.Error(err)
		}
	}
}

func TestEveryReasonHasItsPhase(t *testing.T) {
	for r, want := range map[Reason]string{
		InvalidScope: `binding "orders": token exchange failed: invalid_scope`,
		NoIdentity:   `binding "orders": no credential: no_identity`,
		"made_up":    `binding "orders": no credential: made_up`,
	} {
		if got := newError("orders", r).Error(); got != want {
			t.Errorf("%s", got)
		}
	}
	var temporary []Reason
	for _, r := range []Reason{
		InvalidRequest, InvalidClient, InvalidGrant, UnauthorizedClient, UnsupportedGrantType, InvalidScope, InvalidTarget, Refused,
		ServerError, RateLimited, Timeout, Unreachable, TLS, Overloaded, Cancelled, BadAnswer, BadTokenType, WiderScope, NarrowerScope,
		WrongAudience, WrongSubject, WrongActor, Expired, BadExpiry, NoIdentity, NoSubjectToken, SubjectExpired, ActorNotAllowed,
		NotBound, SecretUnreadable, Internal,
		NotSigned, Presigned, ChunkSigned, UnsignedPayload, WrongService, WrongRegion, WrongHost,
	} {
		if phases[r].text == "" {
			t.Errorf("%s has no phase", r)
		}
		if newError("b", r).Temporary {
			temporary = append(temporary, r)
		}
	}
	want := []Reason{ServerError, RateLimited, Timeout, Unreachable, TLS, Overloaded, Cancelled, SecretUnreadable}
	if !reflect.DeepEqual(temporary, want) {
		t.Errorf("temporary are %v", temporary)
	}
}
