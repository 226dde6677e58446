package broker

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// authenticate adds the client's proof to one attempt; an error means that a file could not be used.
type authenticate func(form url.Values, h http.Header) error

func newClientAuth(c ClientAuth, tokenURL string, now func() time.Time) (authenticate, error) {
	if c.Method != "none" && c.Method != "workload_token" && c.ClientID == "" {
		return nil, fmt.Errorf("clientAuth method %q needs a clientID", c.Method)
	}
	switch c.Method {
	case "none":
		return publicClient(c.ClientID), nil
	case "client_secret_basic", "client_secret_post":
		file := watchLine(c.SecretFile)
		if _, err := file.get(); err != nil {
			return nil, fileProblem("clientAuth secretFile", c.SecretFile, err)
		}
		if c.Method == "client_secret_basic" {
			return secretBasic(c.ClientID, file), nil
		}
		return secretPost(c.ClientID, file), nil
	case "private_key_jwt":
		file := &watched[jose.SigningKey]{path: c.KeyFile, parse: parseKey}
		if _, err := file.get(); err != nil {
			return nil, fileProblem("clientAuth keyFile", c.KeyFile, err)
		}
		return privateKeyJWT(c, orElse(c.Audience, tokenURL), file, now), nil
	case "workload_token":
		file := watchLine(c.TokenFile)
		if _, err := file.get(); err != nil {
			return nil, fileProblem("clientAuth tokenFile", c.TokenFile, err)
		}
		return workloadToken(c.ClientID, file), nil
	case "tls_client_auth":
		if !strings.HasPrefix(tokenURL, "https:") {
			return nil, errors.New("clientAuth method tls_client_auth needs an https tokenURL")
		}
		cert := newClientCert(c.CertFile, c.CertKeyFile)
		if _, err := cert.get(); err != nil {
			return nil, fileProblem("clientAuth certFile", c.CertFile, err)
		}
		return tlsClient(c.ClientID, cert), nil
	}
	return nil, fmt.Errorf("clientAuth method %q is not one of none, client_secret_basic, client_secret_post, private_key_jwt, workload_token, tls_client_auth", c.Method)
}

func publicClient(id string) authenticate {
	return func(form url.Values, _ http.Header) error {
		if id != "" {
			form.Set("client_id", id)
		}
		return nil
	}
}

// secretBasic encodes both parts as a form does before Basic does (RFC 6749, section 2.3.1): a colon in the client's
// name would otherwise move the border between them.
func secretBasic(id string, file *watched[line]) authenticate {
	return func(_ url.Values, h http.Header) error {
		l, err := file.get()
		if err != nil {
			return err
		}
		pair := url.QueryEscape(id) + ":" + url.QueryEscape(l.value.Reveal())
		h.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(pair)))
		return nil
	}
}

func secretPost(id string, file *watched[line]) authenticate {
	return func(form url.Values, _ http.Header) error {
		l, err := file.get()
		if err != nil {
			return err
		}
		form.Set("client_id", id)
		form.Set("client_secret", l.value.Reveal())
		return nil
	}
}

const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

// workloadToken shows the token that the platform gave the workload in place of an assertion of our own (RFC 7521, section
// 4.2), for servers that trust the platform's issuer.
func workloadToken(id string, file *watched[line]) authenticate {
	return func(form url.Values, _ http.Header) error {
		l, err := file.get()
		if err != nil {
			return err
		}
		if id != "" {
			form.Set("client_id", id)
		}
		form.Set("client_assertion_type", assertionType)
		form.Set("client_assertion", l.value.Reveal())
		return nil
	}
}

// tlsClient is RFC 8705, section 2.1: the handshake is the proof. The files are read here as well, since a handshake that
// fails for want of them looks like the server's fault.
func tlsClient(id string, cert *clientCert) authenticate {
	return func(form url.Values, _ http.Header) error {
		if _, err := cert.get(); err != nil {
			return err
		}
		form.Set("client_id", id)
		return nil
	}
}

// assertionLife is how long an assertion may be presented; it is used at once.
const assertionLife = 60 * time.Second

// privateKeyJWT is RFC 7523, section 2.2. Each attempt gets a jti of its own, since servers refuse one that they have seen.
func privateKeyJWT(c ClientAuth, audience string, file *watched[jose.SigningKey], now func() time.Time) authenticate {
	return func(form url.Values, _ http.Header) error {
		key, err := file.get()
		if err != nil {
			return err
		}
		opts := (&jose.SignerOptions{}).WithType("JWT")
		if c.KeyID != "" {
			opts = opts.WithHeader("kid", c.KeyID)
		}
		signer, err := jose.NewSigner(key, opts)
		if err != nil {
			return errors.New("cannot sign")
		}
		at := now()
		assertion, err := jwt.Signed(signer).Claims(map[string]any{
			"iss": c.ClientID,
			"sub": c.ClientID,
			"aud": audience, // one string: some servers refuse a list
			"jti": rand.Text(),
			"iat": at.Unix(),
			"exp": at.Add(assertionLife).Unix(),
		}).Serialize()
		if err != nil {
			return errors.New("cannot sign")
		}
		form.Set("client_id", c.ClientID)
		form.Set("client_assertion_type", assertionType)
		form.Set("client_assertion", assertion)
		return nil
	}
}

// parseKey reads the first PEM block: PKCS #8, PKCS #1 or SEC 1.
func parseKey(b []byte) (jose.SigningKey, error) {
	block, _ := pem.Decode(b)
	if block == nil {
		return jose.SigningKey{}, errors.New("holds no PEM block")
	}
	var key any
	var err error
	switch block.Type {
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	default:
		return jose.SigningKey{}, errors.New("does not begin with a private key in PEM")
	}
	if err != nil {
		return jose.SigningKey{}, errors.New("holds a private key that cannot be read")
	}
	return signingKey(key)
}

func signingKey(key any) (jose.SigningKey, error) {
	switch k := key.(type) {
	case *rsa.PrivateKey:
		if k.N.BitLen() < 2048 {
			return jose.SigningKey{}, errors.New("holds an RSA key of fewer than 2048 bits")
		}
		return jose.SigningKey{Algorithm: jose.RS256, Key: k}, nil
	case *ecdsa.PrivateKey:
		alg := map[elliptic.Curve]jose.SignatureAlgorithm{
			elliptic.P256(): jose.ES256, elliptic.P384(): jose.ES384, elliptic.P521(): jose.ES512,
		}[k.Curve]
		if alg == "" {
			return jose.SigningKey{}, errors.New("holds a key on a curve other than P-256, P-384 and P-521")
		}
		return jose.SigningKey{Algorithm: alg, Key: k}, nil
	case ed25519.PrivateKey:
		return jose.SigningKey{Algorithm: jose.EdDSA, Key: k}, nil
	case crypto.Signer:
		return jose.SigningKey{}, fmt.Errorf("holds a key of an unknown kind, %T", k)
	}
	return jose.SigningKey{}, errors.New("holds a key that cannot sign")
}
