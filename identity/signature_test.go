package identity

import (
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/toolgate/toolgate/devissuer"
)

func TestAlgorithms(t *testing.T) {
	w := newWorld(t, func(i *Issuer) { i.Algorithms = asymmetric }, asymmetric...)
	for _, alg := range asymmetric {
		if err := w.verify(w.mintWith(t, nil, nil, alg)); err != nil {
			t.Errorf("%s: %v", alg, err)
		}
	}
	byDefault := newWorld(t, nil, asymmetric...)
	for _, alg := range asymmetric {
		token := byDefault.mintWith(t, nil, nil, alg)
		reason := "algorithm"
		if alg == "RS256" || alg == "ES256" || alg == "EdDSA" {
			reason = ""
		}
		wantResult(t, byDefault.verify(token), reason, token)
	}
}

func TestAlgorithmConfusion(t *testing.T) {
	w := newWorld(t, func(i *Issuer) { i.Algorithms = asymmetric }, "RS256", "ES256", "PS256")
	for _, tc := range []struct {
		name   string
		header map[string]any
		alg    string // that signs
		reason string
	}{
		{"HS256 keyed with the public key", nil, "HS256", "algorithm"},
		{"none", nil, "none", "algorithm"}, {"nOnE", nil, "nOnE", "algorithm"}, {"NONE", nil, "NONE", "algorithm"}, {"empty", nil, "", "algorithm"},
		{"no alg", map[string]any{"alg": nil}, "ES256", "algorithm"},
		{"alg is a list", map[string]any{"alg": []string{"ES256"}}, "ES256", "malformed"},
		{"ES256 says none", map[string]any{"alg": "none"}, "ES256", "algorithm"},
		{"RS256 key, PS256 signature", map[string]any{"alg": "PS256"}, "RS256", "algorithm"},
		{"ES256 key, RS256 claimed", map[string]any{"alg": "RS256"}, "ES256", "algorithm"},
		{"ES256 key, ES384 claimed", map[string]any{"alg": "ES384"}, "ES256", "algorithm"},
		{"lower case", map[string]any{"alg": "es256"}, "ES256", "algorithm"},
		{"crit", map[string]any{"crit": []string{"exp"}, "exp": 1}, "ES256", "malformed"},
		{"crit empty", map[string]any{"crit": []string{}}, "ES256", "malformed"},
		{"unknown crit", map[string]any{"crit": []string{"x"}, "x": 1}, "ES256", "malformed"},
		{"b64", map[string]any{"b64": false}, "ES256", "malformed"},
		{"no kid among several keys", map[string]any{"kid": nil}, "ES256", "key"},
		{"kid is a number", map[string]any{"kid": 5}, "ES256", "malformed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			token := w.mintWith(t, tc.header, nil, tc.alg)
			wantReason(t, w.verify(token), tc.reason, token)
		})
	}
}

// A key without alg of its own must not serve an algorithm of another type.
func TestSuits(t *testing.T) {
	w := newWorld(t, nil, "RS256", "ES256", "ES384", "EdDSA")
	for _, key := range w.idp.Keys().Keys {
		own := key.Algorithm
		key.Algorithm = ""
		for _, alg := range asymmetric {
			want := alg == own || own == "RS256" && (alg[:2] == "RS" || alg[:2] == "PS")
			if suits(&key, alg) != want {
				t.Errorf("key for %s, %s: %t", own, alg, !want)
			}
		}
	}
}

// The key that a token brings along is never used.
func TestEmbeddedKey(t *testing.T) {
	w := newWorld(t, nil)
	forger := startIssuer(t, w.clock)
	stranger := forger.Keys().Keys[0]
	for _, kid := range []string{w.kid(), stranger.KeyID} {
		token, err := forger.MintWith(map[string]any{"jwk": stranger, "kid": kid, "jku": forger.URL() + devissuer.PathJWKS}, claims(map[string]any{"iss": w.idp.URL()}), "ES256")
		if err != nil {
			t.Fatal(err)
		}
		if err := w.verify(token); err == nil {
			t.Error("accepted")
		}
	}
	if n := forger.Count(devissuer.PathJWKS); n != 0 {
		t.Errorf("%d requests to jku", n)
	}
	// A genuine token may carry such headers; they are ignored.
	if err := w.verify(w.mintWith(t, map[string]any{"jku": forger.URL(), "x5u": forger.URL(), "jwk": stranger}, nil, "ES256")); err != nil {
		t.Error(err)
	}
}

func TestTampering(t *testing.T) {
	w := newWorld(t, nil)
	token := w.mint(t, nil)
	other := w.mint(t, map[string]any{"tenant": "globex"})
	p, o := strings.Split(token, "."), strings.Split(other, ".")
	last := p[2][len(p[2])-1]
	// The last character of 64 bytes holds four unused bits: another spelling of the same signature.
	alphabet := "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	respelt := p[2][:len(p[2])-1] + string(alphabet[strings.IndexByte(alphabet, last)+1])
	for _, tc := range []struct{ name, token, reason string }{
		{"another's signature", p[0] + "." + p[1] + "." + o[2], "signature"},
		{"another's payload", p[0] + "." + o[1] + "." + p[2], "signature"},
		{"no signature", p[0] + "." + p[1] + ".", "signature"},
		{"respelt signature", p[0] + "." + p[1] + "." + respelt, "malformed"},
		{"two parts", p[0] + "." + p[1], "malformed"},
		{"four parts", token + ".x", "malformed"},
		{"padding", token + "==", "malformed"},
		{"white space", p[0] + ". " + p[1] + "." + p[2], "malformed"},
		{"line break", p[0] + ".\r\n" + p[1] + "." + p[2], "malformed"},
		{"leading space", " " + token, "malformed"},
		{"trailing line break", token + "\n", "malformed"},
		{"JSON serialization", `{"payload":"` + p[1] + `","protected":"` + p[0] + `","signature":"` + p[2] + `"}`, "malformed"},
		{"empty parts", "..", "malformed"},
		{"two algs", base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"ES256","alg":"none"}`)) + "." + p[1] + "." + p[2], "malformed"},
	} {
		t.Run(tc.name, func(t *testing.T) { wantReason(t, w.verify(tc.token), tc.reason, token) })
	}
	if err := w.verify(token); err != nil {
		t.Error(err)
	}
}

// served runs a verifier against a key set that is given as JSON.
func served(t *testing.T, w *world, body any) {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	w.idp.SetFaults(devissuer.Faults{JWKSBody: string(raw)})
}

// jwk returns the published form of the ES256 key with members over it.
func (w *world) jwk(t *testing.T, over map[string]any) map[string]any {
	t.Helper()
	raw, err := json.Marshal(w.idp.Keys().Keys[0])
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	for k, v := range over {
		if v == nil {
			delete(out, k)
		} else {
			out[k] = v
		}
	}
	return out
}

func TestWhichKeysAreUsed(t *testing.T) {
	type m = map[string]any
	oct := m{"kty": "oct", "k": "c2VjcmV0", "kid": "secret"}
	for _, tc := range []struct {
		name string
		over m
		more []any
		ok   bool
	}{
		{"as published", nil, nil, true},
		{"no alg, no use", m{"alg": nil, "use": nil}, nil, true},
		{"SPIFFE bundle", m{"use": "jwt-svid"}, nil, true},
		{"key_ops verify", m{"key_ops": []string{"verify"}}, nil, true},
		{"beside keys not understood", nil, []any{oct, m{"kty": "new", "kid": "n"}, "junk", 5}, true},
		{"use enc", m{"use": "enc"}, nil, false},
		{"use of a wrong type", m{"use": []string{"sig"}}, nil, false},
		{"key_ops sign", m{"key_ops": []string{"sign"}}, nil, false},
		{"alg of another type", m{"alg": "RS256"}, nil, false},
		{"alg ES384", m{"alg": "ES384"}, nil, false},
		{"another kid", m{"kid": "other"}, nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, nil)
			served(t, w, m{"keys": append([]any{w.jwk(t, tc.over)}, tc.more...)})
			if err := w.verify(w.mint(t, nil)); (err == nil) != tc.ok {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestKeysThatAreNeverUsable(t *testing.T) {
	for name, body := range map[string]string{
		"oct":         `{"keys":[{"kty":"oct","k":"c2VjcmV0","kid":"a"}]}`,
		"off curve":   `{"keys":[{"kty":"EC","crv":"P-256","x":"AAAA","y":"AAAA","kid":"a"}]}`,
		"short RSA":   `{"keys":[{"kty":"RSA","n":"` + strings.Repeat("_", 170) + `","e":"AQAB","kid":"a"}]}`,
		"empty":       `{"keys":[]}`,
		"null":        `{"keys":null}`,
		"no keys":     `{}`,
		"two lists":   `{"keys":[],"keys":[]}`,
		"HTML":        `<html>`,
		"private key": privateSet(t),
	} {
		if set, err := parseKeys([]byte(body)); err == nil {
			t.Errorf("%s: %d keys", name, len(set))
		}
	}
}

func TestSizeOfRSAKeys(t *testing.T) {
	for bits, want := range map[uint]bool{2047: false, 2048: true, 8192: true, 8193: false} {
		if isStrong(&rsa.PublicKey{N: new(big.Int).Lsh(big.NewInt(1), bits-1), E: 65537}) != want {
			t.Errorf("%d bits: %t", bits, !want)
		}
	}
}

func privateSet(t *testing.T) string {
	t.Helper()
	// The example of RFC 7517, appendix A.2.
	raw, err := json.Marshal(map[string]any{"keys": []any{map[string]any{
		"kty": "EC", "crv": "P-256", "x": "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4", "y": "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM",
		"d": "870MB6gfuTJ4HtUnUvYMyJpr5eUZNP4Bk43bVdj3eAE", "kid": "1",
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestKidMayBeAbsentForOneKey(t *testing.T) {
	w := newWorld(t, nil)
	if err := w.verify(w.mintWith(t, map[string]any{"kid": nil}, nil, "ES256")); err != nil {
		t.Error(err)
	}
	// Two keys under one kid: the one that suits is used.
	w = newWorld(t, nil, "ES256", "RS256")
	var set []any
	for _, k := range w.idp.Keys().Keys {
		k.KeyID = "same"
		set = append(set, k)
	}
	served(t, w, map[string]any{"keys": set})
	for _, alg := range []string{"ES256", "RS256"} {
		if err := w.verify(w.mintWith(t, map[string]any{"kid": "same"}, nil, alg)); err != nil {
			t.Errorf("%s: %v", alg, err)
		}
	}
}

func TestFingerprint(t *testing.T) {
	w := newWorld(t, nil)
	key := w.idp.Keys().Keys[0]
	base := fingerprint([]jose.JSONWebKey{key})
	kid, alg := key, key
	kid.KeyID, alg.Algorithm = "x", ""
	for _, other := range [][]jose.JSONWebKey{nil, {kid}, {alg}, {key, key}, startIssuer(t, w.clock).Keys().Keys} {
		if fingerprint(other) == base {
			t.Errorf("%v has the same fingerprint", other)
		}
	}
}
