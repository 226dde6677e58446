package broker

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"
)

const (
	entraTenant = "/00000000-0000-0000-0000-000000000000/oauth2/v2.0/token"
	entraAPI    = "22222222-2222-2222-2222-222222222222" // the app id of the API
	entraScope  = "api://orders/.default"
)

// entraBinding is workload identity federation with Entra ID.
func entraBinding(t *testing.T, base string) Binding {
	bd := clientBinding(t, base+entraTenant)
	bd.ClientCredentials.Target, bd.ClientCredentials.Scopes, bd.ClientCredentials.Audience = TargetScope, []string{entraScope}, entraAPI
	return bd
}

// entraToken is an app-only access token as Entra makes them: no scope, no act, roles in their place.
func entraToken(aud string) string {
	now := time.Now().Unix()
	enc := base64.RawURLEncoding.EncodeToString
	return enc([]byte(`{"typ":"JWT","alg":"RS256","x5t":"a","kid":"a"}`)) + "." + enc(fmt.Appendf(nil, `{"aud":%q,"iss":"https://login.microsoftonline.com/0/v2.0",
		"iat":%d,"nbf":%d,"exp":%d,"aio":"x","azp":"11111111-1111-1111-1111-111111111111","azpacr":"2","oid":"o","rh":"0.","roles":["Orders.Read"],
		"sub":"o","tid":"0","uti":"u","ver":"2.0"}`, aud, now, now, now+3899)) + "." + enc([]byte("SECRET"))
}

// entraRefuses writes an error as Entra does, which repeats the assertion's subject and more.
func entraRefuses(w http.ResponseWriter, r *http.Request, status int, code string, number int) {
	write(w, status, fmt.Sprintf(`{"error":%q,"error_description":"AADSTS%d: No matching federated identity record found for presented assertion subject '%s'. Trace ID: 0f Correlation ID: 1e Timestamp: 2026-11-29 17:10:00Z","error_codes":[%d],"timestamp":"2026-11-29 17:10:00Z","trace_id":"0f","correlation_id":"1e","error_uri":"https://login.microsoftonline.com/error?code=%d"}`,
		code, number, r.PostFormValue("client_assertion"), number, number))
}

func TestEntra(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		want   Reason
	}{
		"version 2":             {`{"token_type":"Bearer","expires_in":3599,"ext_expires_in":3599,"access_token":"` + entraToken(entraAPI) + `"}`, ""},
		"numbers as text":       {`{"token_type":"Bearer","expires_in":"3599","ext_expires_in":"3599","expires_on":"1796000000","not_before":"1795990000","resource":"api://orders","access_token":"` + entraToken(entraAPI) + `"}`, ""},
		"version 1's audience":  {`{"token_type":"Bearer","expires_in":3599,"ext_expires_in":3599,"access_token":"` + entraToken("api://orders") + `"}`, WrongAudience},
		"for Graph":             {`{"token_type":"Bearer","expires_in":3599,"ext_expires_in":3599,"access_token":"` + entraToken("https://graph.microsoft.com") + `"}`, WrongAudience},
		"a proof of possession": {`{"token_type":"pop","expires_in":3599,"access_token":"` + entraToken(entraAPI) + `"}`, BadTokenType},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTokenServer(t, func(w http.ResponseWriter, _ *http.Request, _ int) { write(w, 200, c.answer) })
			cred, err := mustExchanger(t, entraBinding(t, s.URL)).Issue(t.Context(), alice())
			if c.want != "" {
				wantReason(t, err, c.want)
				return
			}
			if err != nil || time.Until(cred.Ref().Expires) > time.Hour {
				t.Fatalf("%v, %v", cred, err)
			}
			want := url.Values{
				"grant_type": {"client_credentials"}, "client_id": {"toolgate"}, "scope": {entraScope}, "client_assertion": {actorSecret},
				"client_assertion_type": {assertionType},
			}
			if got := s.seen()[0].form; !reflect.DeepEqual(got, want) {
				t.Errorf("sent %v, want %v", got, want)
			}
		})
	}
}

// Nothing of what Entra says is passed on but the meaning of its code.
func TestEntraRefusals(t *testing.T) {
	for _, c := range []struct {
		status int
		code   string
		number int
		want   Reason
	}{
		{400, "invalid_request", 70021, InvalidRequest},
		{401, "invalid_client", 700213, InvalidClient},
		{400, "unauthorized_client", 700016, UnauthorizedClient},
		{400, "invalid_resource", 500011, InvalidTarget},
		{400, "invalid_scope", 1002012, InvalidScope},
		{400, "invalid_grant", 65001, InvalidGrant},
		{400, "interaction_required", 50079, Refused},
		{503, "temporarily_unavailable", 90033, ServerError},
		{429, "", 90055, RateLimited},
	} {
		s := newTokenServer(t, func(w http.ResponseWriter, r *http.Request, _ int) { entraRefuses(w, r, c.status, c.code, c.number) })
		_, err := mustExchanger(t, entraBinding(t, s.URL)).Issue(t.Context(), alice())
		noLeak(t, wantReason(t, err, c.want), actorSecret, "AADSTS", fmt.Sprint(c.number), "Trace")
		if c.code != "" && strings.Contains(err.Error(), c.code) && string(c.want) != c.code {
			t.Errorf("%s is passed on: %v", c.code, err)
		}
	}
}
