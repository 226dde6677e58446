package natsd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Options are a server's settings.
type Options struct {
	Dir    string // keys, credentials and JetStream's files
	Listen string // host:port for sidecars
	TLS    *tls.Config
	Log    *slog.Logger
}

// Server is a running NATS server with JetStream on disk.
type Server struct {
	ns  *server.Server
	dir string
	tls bool
}

// Start makes what is missing in the folder and starts the server.
func Start(o Options) (*Server, error) {
	host, port, err := splitListen(o.Listen)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(o.Dir, "keys"), 0o700); err != nil {
		return nil, err
	}
	k, err := loadKeys(filepath.Join(o.Dir, "keys"), true)
	if err != nil {
		return nil, err
	}
	for side, file := range map[string]string{"control": ControlCredentials(o.Dir), "sidecar": SidecarCredentials(o.Dir)} {
		if err := k.ensureCredentials(side, file); err != nil {
			return nil, err
		}
	}
	opts, err := k.serverOptions()
	if err != nil {
		return nil, err
	}
	opts.Host, opts.Port, opts.StoreDir = host, port, filepath.Join(o.Dir, "jetstream")
	if o.TLS != nil {
		opts.TLSConfig, opts.TLS = o.TLS, true
	}
	ns, err := server.NewServer(opts)
	if err != nil {
		return nil, fmt.Errorf("NATS server: %w", err)
	}
	said := &logger{log: o.Log, down: ns.Shutdown, fatal: make(chan struct{}, 1)}
	ns.SetLoggerV2(said, false, false, false)
	ns.Start()
	if !said.ready(ns) || !ns.JetStreamEnabled() {
		ns.Shutdown()
		return nil, fmt.Errorf("NATS server: it does not listen on %s, or not store in %s: %s", o.Listen, opts.StoreDir, said.last())
	}
	return &Server{ns: ns, dir: o.Dir, tls: o.TLS != nil}, nil
}

func splitListen(listen string) (string, int, error) {
	host, p, err := net.SplitHostPort(listen)
	if err != nil {
		return "", 0, fmt.Errorf("the address %q is not host:port", listen)
	}
	port, err := strconv.Atoi(p)
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("the address %q has no port from 0 to 65535", listen)
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	return host, port, nil
}

// SidecarCredentials is the file of the credentials that all sidecars may share.
func SidecarCredentials(dir string) string { return filepath.Join(dir, "sidecar.creds") }

// ControlCredentials is the file of the control plane's own credentials.
func ControlCredentials(dir string) string { return filepath.Join(dir, "control.creds") }

func (k *keys) ensureCredentials(side, file string) error {
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	b, err := k.credentials(side, side)
	if err != nil {
		return err
	}
	return WriteSecret(file, b)
}

// serverOptions are those that do not depend on the place. The accounts' claims are made anew at each start, so that a new
// version's permissions hold for credentials that were issued long ago.
func (k *keys) serverOptions() (*server.Options, error) {
	operator := jwt.NewOperatorClaims(k.public("operator"))
	operator.Name, operator.SystemAccount = "toolgate", k.public("system-account")
	resolver := &server.MemAccResolver{}
	control, sidecars := k.accounts()
	system := jwt.NewAccountClaims(operator.SystemAccount)
	system.Name = "SYS"
	for _, a := range []*jwt.AccountClaims{system, control, sidecars} {
		var found jwt.ValidationResults
		a.Validate(&found)
		if errs := found.Errors(); len(errs) > 0 {
			return nil, fmt.Errorf("NATS account %s: %w", a.Name, errors.Join(errs...))
		}
		token, err := a.Encode(k.pairs["operator"])
		if err != nil {
			return nil, err
		}
		if err := resolver.Store(a.Subject, token); err != nil {
			return nil, err
		}
	}
	return &server.Options{
		ServerName: "toolgate-killswitch", NoSigs: true, JetStream: true,
		SyncAlways:       true, // an entry that was confirmed outlives a power failure
		TrustedOperators: []*jwt.OperatorClaims{operator}, AccountResolver: resolver,
		MaxPayload: 1 << 20, MaxControlLine: 4096, WriteDeadline: 10 * time.Second,
		SystemAccount: operator.SystemAccount,
	}, nil
}

// URL is what sidecars connect to, if they reach the address that the server listens on. Of a server that listens on every
// address it names the host.
func (s *Server) URL() string {
	address, scheme := s.ns.Addr().String(), "nats://"
	if s.tls {
		scheme = "tls://"
	}
	host, port, _ := net.SplitHostPort(address)
	if name, err := os.Hostname(); err == nil && net.ParseIP(host).IsUnspecified() {
		address = net.JoinHostPort(name, port)
	}
	return scheme + address
}

// Connect returns the control plane's connection, which does not leave the process.
func (s *Server) Connect(options ...nats.Option) (*nats.Conn, error) {
	return nats.Connect("", append([]nats.Option{nats.InProcessServer(s.ns), nats.UserCredentials(ControlCredentials(s.dir))}, options...)...)
}

// Stop ends the server, with its files in order.
func (s *Server) Stop() {
	s.ns.Shutdown()
	s.ns.WaitForShutdown()
}

// logger passes on what the server says; its notices are of no interest to who runs the control plane.
type logger struct {
	log   *slog.Logger
	down  func()
	fatal chan struct{} // the server has given up
	mu    sync.Mutex
	worst string
}

// Noticef and the others implement server.Logger.
func (l *logger) Noticef(format string, v ...any) { l.say(slog.LevelDebug, format, v) }
func (l *logger) Warnf(format string, v ...any)   { l.say(slog.LevelWarn, format, v) }
func (l *logger) Debugf(format string, v ...any)  { l.say(slog.LevelDebug, format, v) }
func (l *logger) Tracef(format string, v ...any)  { l.say(slog.LevelDebug, format, v) }
func (l *logger) Errorf(format string, v ...any)  { l.remember(l.say(slog.LevelError, format, v)) }

// Fatalf ends the server, not the process.
func (l *logger) Fatalf(format string, v ...any) {
	l.remember(l.say(slog.LevelError, format, v))
	go l.down()
	select {
	case l.fatal <- struct{}{}:
	default:
	}
}

// ready waits until the server listens, or gives up.
func (l *logger) ready(ns *server.Server) bool {
	for limit := time.Now().Add(20 * time.Second); time.Now().Before(limit); {
		if ns.ReadyForConnections(100 * time.Millisecond) {
			return true
		}
		select {
		case <-l.fatal:
			return false
		default:
		}
	}
	return false
}

func (l *logger) say(level slog.Level, format string, v []any) string {
	text := strings.TrimSpace(fmt.Sprintf(format, v...))
	l.log.Log(context.Background(), level, "NATS server: "+text)
	return text
}

func (l *logger) remember(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.worst = text
}

func (l *logger) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.worst
}
