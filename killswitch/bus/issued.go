package bus

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nkeys"
)

// Bounds of a request for credentials.
const (
	issueTimeout = 10 * time.Second
	maxToken     = 16 << 10
	maxAnswer    = 16 << 10
)

// issued are credentials that the control plane gives for a token. The key is made here and never leaves the process; what
// crosses the network is the token, the public key and the JWT, which is of no use without the key.
type issued struct {
	url, tokenFile string
	client         *http.Client
	key            nkeys.KeyPair
	public         string
	again          chan struct{} // the server does not take what we have

	mu      sync.Mutex
	jwt     string
	name    string
	expires time.Time
}

// errNoCredentials is why no server is dialled yet.
var errNoCredentials = errors.New("no credentials for the kill switch bus yet")

func newIssued(o *Options) (*issued, error) {
	key, err := nkeys.CreateUser()
	if err != nil {
		return nil, err
	}
	public, err := key.PublicKey()
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		DialContext: (&net.Dialer{Timeout: issueTimeout}).DialContext, TLSHandshakeTimeout: issueTimeout, ResponseHeaderTimeout: issueTimeout,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, MaxResponseHeaderBytes: 16 << 10,
		DisableKeepAlives: true, // once an hour; and each time under the roots of that time
	}
	if o.CAFile != "" || o.CA != "" {
		transport.DialTLSContext = o.dialTLS
	}
	return &issued{
		url: o.CredentialsURL, tokenFile: o.TokenFile, key: key, public: public, again: make(chan struct{}, 1),
		client: &http.Client{
			Timeout: issueTimeout, Transport: transport,
			// A redirect would take the token elsewhere.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// dialTLS verifies a server under the roots of the options, as they are now.
func (o *Options) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	pool, err := o.pool()
	if err != nil {
		return nil, err
	}
	d := tls.Dialer{NetDialer: &net.Dialer{Timeout: issueTimeout}, Config: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	return d.DialContext(ctx, network, address)
}

// pool returns the roots of CA or CAFile.
func (o *Options) pool() (*x509.CertPool, error) {
	b := []byte(o.CA)
	if o.CA == "" {
		var err error
		if b, err = os.ReadFile(o.CAFile); err != nil {
			return nil, err
		}
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, errors.New("the CA for the kill switch holds no PEM certificate")
	}
	return pool, nil
}

// good reports whether there are credentials that have not expired.
func (i *issued) good() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.jwt != "" && time.Now().Before(i.expires)
}

// current returns the JWT for a new connection.
func (i *issued) current() (string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.jwt == "" {
		return "", errNoCredentials
	}
	return i.jwt, nil
}

func (i *issued) user() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.name == "" {
		return defaultUser
	}
	return i.name
}

// refused says that a server does not take what we have, though it has not expired: its keys were changed.
func (i *issued) refused() {
	select {
	case i.again <- struct{}{}:
	default:
	}
}

// renew keeps credentials fresh until ctx ends. renewed is called each time that there are new ones.
func (i *issued) renew(ctx context.Context, renewed func(), failed func(failures int, err error)) {
	failures := 0
	for {
		begun := time.Now()
		err := i.fetch(ctx)
		var wait time.Duration
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			failures++
			failed(failures, err)
			wait = retryIn(failures)
		default:
			failures = 0
			wait = i.renewIn(begun)
			renewed()
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-i.again:
			timer.Stop()
			// Whole fleets are refused at once.
			timer.Reset(time.Second + rand.N(retryIn(3)))
			select {
			case <-ctx.Done():
			case <-timer.C:
			}
		}
		timer.Stop()
	}
}

// retryIn is longer each time, up to half a minute, and different for each sidecar.
func retryIn(failures int) time.Duration {
	most := min(30*time.Second, time.Second<<min(failures-1, 5))
	return most/2 + rand.N(most/2)
}

// renewIn leaves a fifth of the credentials' life, or a little more, for attempts that fail.
func (i *issued) renewIn(now time.Time) time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	life := max(0, i.expires.Sub(now))
	return life*7/10 + rand.N(life/10+1)
}

// fetch asks for credentials. Its errors quote nothing of the token or the answer.
func (i *issued) fetch(ctx context.Context) error {
	token, err := readToken(i.tokenFile)
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]string{"public_key": i.public})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, i.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	res, err := i.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the control plane answers %d; its log says why", res.StatusCode)
	}
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return errors.New("the answer broke off")
	}
	return i.take(answer)
}

func readToken(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, maxToken+1))
	token := strings.TrimSpace(string(b))
	switch {
	case err != nil:
		return "", err
	case token == "" || len(b) > maxToken:
		return "", fmt.Errorf("%s holds no token", path)
	}
	return token, nil
}

// take reads an answer. How long it is good for is taken as a span from now, so that a wrong clock here does not matter.
func (i *issued) take(answer []byte) error {
	var a struct {
		JWT string `json:"jwt"`
	}
	if json.Unmarshal(answer, &a) != nil {
		return errors.New("the answer is not JSON")
	}
	c, err := claimsOf(a.JWT)
	if err != nil {
		return fmt.Errorf("the answer %w", err)
	}
	life := time.Duration(c.Expires-c.Issued) * time.Second
	if c.Subject != i.public || life <= 0 || life > 24*time.Hour {
		return errors.New("the answer is for another key, or does not end within a day")
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.jwt, i.name, i.expires = a.JWT, c.Name, time.Now().Add(life)
	return nil
}
