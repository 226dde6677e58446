package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const mounted = "/var/run/secrets/kubernetes.io/serviceaccount/"

// serviceAccount verifies a token of the cluster's: by the keys that the API server shows to this pod's own account.
func serviceAccount(token string) (map[string]any, error) {
	set, err := keys()
	if err != nil {
		return nil, err
	}
	jws, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.RS256, jose.ES256})
	if err != nil {
		return nil, err
	}
	found := set.Key(jws.Signatures[0].Header.KeyID)
	if len(found) != 1 {
		return nil, errors.New("unknown key")
	}
	payload, err := jws.Verify(found[0].Key)
	if err != nil {
		return nil, err
	}
	var of struct {
		Iss string
		Aud []string
		Exp int64
	}
	var claims map[string]any
	if err := errors.Join(json.Unmarshal(payload, &of), json.Unmarshal(payload, &claims)); err != nil {
		return nil, err
	}
	if of.Iss != "https://kubernetes.default.svc" || !slices.Contains(of.Aud, "toolgate") || time.Now().Unix() >= of.Exp {
		return nil, fmt.Errorf("not for here: issuer %s, audience %v", of.Iss, of.Aud)
	}
	return claims, nil
}

func keys() (jose.JSONWebKeySet, error) {
	var set jose.JSONWebKeySet
	ca, err := os.ReadFile(mounted + "ca.crt")
	if err != nil {
		return set, err
	}
	token, err := os.ReadFile(mounted + "token")
	if err != nil {
		return set, err
	}
	req, err := http.NewRequest(http.MethodGet, "https://kubernetes.default.svc/openid/v1/jwks", nil)
	if err != nil {
		return set, err
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	req.Header.Set("Accept", "application/jwk-set+json")
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return set, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return set, errors.New("key set: " + res.Status)
	}
	return set, json.NewDecoder(res.Body).Decode(&set)
}
