package broker

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// Every reason says in one sentence each what it comes from and what to do.
func TestEveryReasonIsExplained(t *testing.T) {
	for r := range phases {
		m := meanings[r]
		for _, s := range []string{m.cause, m.remedy} {
			if !strings.HasSuffix(s, ".") || strings.Contains(s, ". ") || len(s) < 15 {
				t.Errorf("%s: %q is no sentence", r, s)
			}
		}
	}
	if len(meanings) != len(phases) {
		t.Errorf("%d meanings for %d reasons", len(meanings), len(phases))
	}
}

func trialOf(t *testing.T, body string, change func(*Binding)) (Trial, string) {
	t.Helper()
	s := newTokenServer(t, func(w http.ResponseWriter, _ *http.Request, _ int) { write(w, 200, body) })
	bd := exchangeBinding(s.URL)
	bd.TokenExchange.ClientAuth = ClientAuth{Method: "client_secret_post", ClientID: "toolgate", SecretFile: writeFile(t, "client-SECRET")}
	bd.TokenExchange.Impersonate, bd.TokenExchange.ActorTokenFile = false, writeFile(t, actorSecret)
	if change != nil {
		change(&bd)
	}
	b, found := mustNew(t, bd, Options{})
	trial := b.Try(t.Context(), found, alice())
	shown, err := json.Marshal(trial)
	if err != nil {
		t.Fatal(err)
	}
	return trial, string(shown) + fmt.Sprintf("%+v", trial)
}

func TestTrialShowsNoSecret(t *testing.T) {
	inside := fakeJWT(`{"sub":"nobody"}`)
	token := fakeJWT(`{"iss":"https://idp.test","aud":"https://api.orders.test","sub":"user:alice","act":{"sub":"w"},"scope":"orders:read",` +
		`"api_key":"inner-SECRET","nested":{"password":"inner-SECRET"},"again":"` + inside + `","echo":"` + subjectSecret + `"}`)
	body := strings.NewReplacer(issuedSecret, token).Replace(goodBody(`"expires_in":3600`, `"scope":"orders:read"`, `"refresh_token":"refresh-SECRET"`))
	trial, shown := trialOf(t, body, nil)
	if trial.Reason != "" {
		t.Fatalf("%s", shown)
	}
	parts := strings.Split(token, ".")
	for _, secret := range []string{subjectSecret, actorSecret, "client-SECRET", "inner-SECRET", "refresh-SECRET", token, parts[1], parts[2], inside} {
		if strings.Contains(shown, secret) {
			t.Errorf("it shows %.30s…: %s", secret, shown)
		}
	}
	for _, said := range []string{"https://api.orders.test", `"aud"`, "user:alice", "orders:read", "3600", "Bearer", typeAccessToken, "client_id", "toolgate", grantType, `"status":200`} {
		if !strings.Contains(shown, said) {
			t.Errorf("it does not say %s: %s", said, shown)
		}
	}
}

// What is wrong with an answer is best seen in the answer.
func TestTrialShowsWhatWasRefused(t *testing.T) {
	token := fakeJWT(`{"aud":"https://other.test","sub":"user:alice","act":{"sub":"w"}}`)
	trial, shown := trialOf(t, strings.ReplaceAll(goodBody(`"scope":"`+subjectSecret+`"`), issuedSecret, token), nil)
	if trial.Reason == "" || trial.Cause == "" || trial.Remedy == "" || len(trial.Asked) != 1 {
		t.Fatalf("%s", shown)
	}
	if !strings.Contains(shown, "https://other.test") || strings.Contains(shown, subjectSecret) {
		t.Errorf("%s", shown)
	}
	wantReason(t, trial.Err(), trial.Reason)
}

func TestTrialHidesABasicSecret(t *testing.T) {
	_, shown := trialOf(t, goodBody(`"scope":"client-SECRET"`), func(bd *Binding) {
		bd.TokenExchange.ClientAuth = ClientAuth{Method: "client_secret_basic", ClientID: "toolgate", SecretFile: writeFile(t, "client-SECRET")}
	})
	if strings.Contains(shown, "client-SECRET") {
		t.Errorf("%s", shown)
	}
}

func TestTrialOfAStaticSecret(t *testing.T) {
	bd := exchangeBinding("")
	bd.TokenExchange, bd.Static = nil, &Static{File: writeFile(t, "file-SECRET")}
	b, found := mustNew(t, bd, Options{})
	trial := b.Try(t.Context(), found, alice())
	if trial.Reason != "" || trial.Kind != "static" || strings.Contains(fmt.Sprintf("%+v", trial), "file-SECRET") {
		t.Errorf("%+v", trial)
	}
	if trial = b.Try(t.Context(), found, Subject{Tool: "orders_tool"}); trial.Reason != NoIdentity {
		t.Errorf("%+v", trial)
	}
}
