package identity

import (
	"context"
	"slices"
	"testing"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
)

// joseKeys is an oidc.KeySet that has go-jose check the signatures, by the keys of an issuer.
type joseKeys struct{ keys []jose.JSONWebKey }

func (k joseKeys) VerifySignature(_ context.Context, token string) ([]byte, error) {
	jws, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{
		"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"})
	if err != nil {
		return nil, err
	}
	for _, key := range k.keys {
		var payload []byte
		if payload, err = jws.Verify(key.Key); err == nil && key.KeyID == jws.Signatures[0].Header.KeyID {
			return payload, nil
		}
	}
	return nil, err
}

// TestOtherVerifiersAgree: what is accepted here, go-oidc and go-jose accept too and read the same in it, and a signature that is broken
// anywhere they refuse as well. Our verifier reads a token once, and does not hand it to them.
func TestOtherVerifiersAgree(t *testing.T) {
	w := newWorld(t, func(i *Issuer) { i.Algorithms = asymmetric }, asymmetric...)
	other := oidc.NewVerifier(w.idp.URL(), joseKeys{w.idp.Keys().Keys}, &oidc.Config{ClientID: "toolgate", SupportedSigningAlgs: asymmetric, Now: w.Now})
	for _, alg := range asymmetric {
		token := w.mintWith(t, nil, map[string]any{"sub": "user:\"alice\" \u00e9 " + alg}, alg)
		who, err := w.v.Verify(ctx, token)
		if err != nil {
			t.Fatalf("%s: %v", alg, err)
		}
		theirs, err := other.Verify(ctx, token)
		if err != nil || theirs.Subject != who.Subject || theirs.Issuer != who.Issuer || !theirs.Expiry.Equal(who.Expiry) || !slices.Equal(theirs.Audience, []string{"toolgate"}) {
			t.Errorf("%s: go-oidc reads %+v, %v; here it is %+v", alg, theirs, err, who)
		}
		signed, signature, _ := cutLast(token)
		raw, _ := decode(signature)
		for at := 0; at < len(raw); at += 1 + len(raw)/16 {
			broken := slices.Clone(raw)
			broken[at] ^= 1
			for _, sig := range [][]byte{broken, raw[:at], append(slices.Clone(raw), 0), make([]byte, len(raw))} {
				bad := signed + "." + strict.EncodeToString(sig)
				_, ours := w.v.Verify(ctx, bad)
				_, theirs := other.Verify(ctx, bad)
				if ours == nil || theirs == nil {
					t.Fatalf("%s: a broken signature: %v here, %v there", alg, ours, theirs)
				}
			}
		}
	}
}
