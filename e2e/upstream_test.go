package e2e

import (
	"crypto/sha1"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// The names of the upstream. All but plain.test demand a token; denied.test is in no manifest.
const (
	ordersHost  = "orders.test"
	wideHost    = "wide.test"    // its binding asks for a scope that the issuer does not give
	unknownHost = "unknown.test" // its binding asks for an audience that the issuer does not know
	plainHost   = "plain.test"   // has no binding
	deniedHost  = "denied.test"
)

const (
	ordersAudience = "https://orders.test"
	ordersScope    = "orders:read"
)

// claims of an access token (RFC 9068, and act of RFC 8693).
type claims struct {
	Sub      string `json:"sub"`
	Scope    string `json:"scope"`
	ClientID string `json:"client_id"`
	Act      struct {
		Sub string `json:"sub"`
	} `json:"act"`
	Audience jwt.Audience `json:"aud"`
}

// arrival is one request that reached the upstream.
type arrival struct {
	Host, Path, Proto string
	Header            http.Header
	Token             string // the bearer token, as it came
	Claims            claims // of a token that was good
}

// upstream is a resource server over TLS, h1 and h2, that believes the access tokens of one issuer.
type upstream struct {
	port   string
	caPEM  string
	issuer string
	keys   jose.JSONWebKeySet

	streams atomic.Int32 // event streams that are open

	mu   sync.Mutex
	seen []arrival
}

func newUpstream(t *testing.T, issuer, gitRoot string) *upstream {
	t.Helper()
	u := &upstream{issuer: issuer, keys: fetchKeys(t, issuer+"/jwks")}
	cert, caPEM := upstreamPKI(t, ordersHost, wideHost, unknownHost, plainHost, deniedHost)
	u.caPEM = caPEM
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/orders/{id}", u.order)
	mux.HandleFunc("GET /sse", u.events)
	mux.HandleFunc("GET /ws", websocket)
	mux.HandleFunc("/echo", echo)
	mux.HandleFunc("/mirror/", mirror)
	if gitRoot != "" {
		mux.Handle("/git/", gitBackend(t, gitRoot))
	}
	srv := httptest.NewUnstartedServer(u.guard(mux))
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	_, u.port, _ = net.SplitHostPort(srv.Listener.Addr().String())
	return u
}

// url returns an address on the upstream.
func (u *upstream) url(host, path string) string { return "https://" + host + ":" + u.port + path }

// arrivals returns what came for host.
func (u *upstream) arrivals(host string) []arrival {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(u.seen), func(a arrival) bool { return a.Host != host })
}

// guard notes every request and answers 401 where the token is not what the host demands.
func (u *upstream) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := strings.Cut(r.Host, ":")
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		a := arrival{Host: host, Path: r.URL.Path, Proto: r.Proto, Header: r.Header.Clone(), Token: token}
		var err error
		if host != plainHost {
			a.Claims, err = u.verify(token)
		}
		u.mu.Lock()
		u.seen = append(u.seen, a)
		u.mu.Unlock()
		if err != nil {
			w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
			http.Error(w, "the upstream refuses the token: "+err.Error(), http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// verify accepts a JWT access token (RFC 9068, section 4) of the issuer, for this audience, with the scope.
func (u *upstream) verify(token string) (claims, error) {
	tok, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		return claims{}, errors.New("not a signed JWT")
	}
	if typ := tok.Headers[0].ExtraHeaders[jose.HeaderType]; typ != "at+jwt" {
		return claims{}, fmt.Errorf("typ is %v", typ)
	}
	var std jwt.Claims
	var c claims
	if err := tok.Claims(&u.keys, &std, &c); err != nil {
		return claims{}, errors.New("bad signature")
	}
	if err := std.Validate(jwt.Expected{Issuer: u.issuer, AnyAudience: jwt.Audience{ordersAudience}, Time: time.Now()}); err != nil {
		return claims{}, err
	}
	if std.Expiry == nil || !slices.Contains(strings.Fields(c.Scope), ordersScope) {
		return claims{}, errors.New("no expiry or not the scope")
	}
	return c, nil
}

func fetchKeys(t *testing.T, url string) jose.JSONWebKeySet {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var keys jose.JSONWebKeySet
	if err := json.NewDecoder(res.Body).Decode(&keys); err != nil {
		t.Fatal(err)
	}
	return keys
}

func (u *upstream) order(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"id":"%s","state":"shipped"}`, r.PathValue("id"))
}

// events sends one event and keeps the stream open.
func (u *upstream) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = w.Write([]byte("data: first\n\n"))
	_ = http.NewResponseController(w).Flush()
	u.streams.Add(1)
	defer u.streams.Add(-1)
	<-r.Context().Done()
}

// websocket accepts the handshake (RFC 6455, section 4.2.2) and then says nothing until its client is gone.
func websocket(w http.ResponseWriter, r *http.Request) {
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer func() { _ = conn.Close() }()
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
		base64.StdEncoding.EncodeToString(sum[:]))
	_, _ = io.Copy(io.Discard, conn)
}

// echo is an upstream that shows its client the credential that it was sent: in a header, in the body, split over two writes,
// and in a trailer.
func echo(w http.ResponseWriter, r *http.Request) {
	sent := r.Header.Get("Authorization")
	w.Header().Set("X-Echo", sent)
	_, token, _ := strings.Cut(sent, " ")
	w.Header().Set("X-Name-"+token, "1")
	w.Header().Set("Trailer", "X-Echo-Trailer, X-Announced-"+token)
	half := len(sent) / 2
	_, _ = io.WriteString(w, "before "+sent[:half])
	_ = http.NewResponseController(w).Flush()
	_, _ = io.WriteString(w, sent[half:]+" after")
	w.Header().Set("X-Echo-Trailer", sent)
	w.Header().Set("X-Announced-"+token, "1")
	w.Header().Set(http.TrailerPrefix+"X-Late-"+token, "1")
}

// gitBackend serves the repositories below root over git's smart HTTP protocol.
func gitBackend(t *testing.T, root string) http.Handler {
	t.Helper()
	path, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	return &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(path)), "git-http-backend"), Root: "/git",
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1"},
	}
}
