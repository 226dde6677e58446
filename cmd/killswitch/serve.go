package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/cli"
	"github.com/toolgate/toolgate/killswitch/central"
	"github.com/toolgate/toolgate/killswitch/central/api"
	"github.com/toolgate/toolgate/killswitch/central/natsd"
	"github.com/toolgate/toolgate/killswitch/ledger"
	"github.com/toolgate/toolgate/redact"
)

// settings are the flags of serve.
type settings struct {
	dir, listen, tlsCert, tlsKey, tokens string

	natsListen, natsCert, natsKey  string
	insecure, natsInsecure         bool
	natsURL, natsCreds, natsCAFile string
	replicas                       int

	signals      string
	signingKey   string
	trusted      []string
	secondPerson []string
	warmUp       time.Duration

	people    people
	enrolment enrolment
}

func newServe() *cobra.Command {
	var s settings
	cmd := &cobra.Command{
		Use:   "serve --dir DIR",
		Short: "Run the control plane, with a NATS server of its own or on an existing cluster, until SIGTERM",
		Long: "Run the control plane. On its first start it makes what it needs below --dir: the signing key, the keys of its NATS\n" +
			"server, and credentials for sidecars. With --nats it joins an existing JetStream cluster instead; any number of\n" +
			"instances may then run at once with the same signing key.",
		Args: cli.FlagsOnly,
	}
	f := cmd.Flags()
	f.StringVar(&s.dir, "dir", "", "the `folder` for keys, credentials and the log; made when missing")
	f.StringVar(&s.listen, "listen", "127.0.0.1:15030", "the `address` of the console and the API; other than loopback needs --tls-cert, and --tokens or --oidc-issuer")
	f.BoolVar(&s.insecure, "insecure-listen", false, "listen beyond loopback without TLS: behind a proxy that ends TLS, and where nobody else can reach it")
	f.StringVar(&s.tlsCert, "tls-cert", "", "the API's certificate, a PEM `file`; it and its key are read again when they change")
	f.StringVar(&s.tlsKey, "tls-key", "", "its key, a PEM `file`")
	f.StringVar(&s.tokens, "tokens", "", "the `file` of those who may ask; see killswitch token")
	f.StringVar(&s.natsListen, "nats-listen", "127.0.0.1:4222", "the `address` where sidecars reach the NATS server; other than loopback needs --nats-tls-cert")
	f.BoolVar(&s.natsInsecure, "insecure-nats-listen", false, "listen beyond loopback without TLS: who is on the way learns what is revoked and why, and can hold it back")
	f.StringVar(&s.natsCert, "nats-tls-cert", "", "the NATS server's certificate, a PEM `file`; it and its key are read again when they change")
	f.StringVar(&s.natsKey, "nats-tls-key", "", "its key, a PEM `file`")
	f.StringVar(&s.natsURL, "nats", "", "the `URLs` of an existing cluster, with commas between; then no NATS server is run")
	f.StringVar(&s.natsCreds, "nats-credentials", "", "the credentials `file` for --nats")
	f.StringVar(&s.natsCAFile, "nats-ca-file", "", "a `file` with the CA certificates for --nats; default the system's")
	f.IntVar(&s.replicas, "replicas", 1, "the `number` of servers that keep a copy of the log, when it is made; 3 on a cluster")
	f.StringVar(&s.signingKey, "signing-key", "", "the signing key, a PKCS #8 PEM `file`; default signing-key.pem in --dir, made when missing")
	f.StringArrayVar(&s.trusted, "trusted-key", nil, "a public `key` that signed earlier entries; may be repeated")
	f.StringSliceVar(&s.secondPerson, "second-person", nil, "what needs a second person's approval: `restore`, all, or both with a comma between")
	f.DurationVar(&s.warmUp, "warm-up", 18*time.Second, "how long after the start the fleet counts as not known yet")
	signalsFlag(cmd, &s.signals)
	peopleFlags(cmd, &s.people)
	enrolmentFlags(cmd, &s.enrolment)
	if err := cmd.MarkFlagRequired("dir"); err != nil {
		panic(err) // the flag was added above
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o, err := s.options()
		if err != nil {
			return err
		}
		o.Log = slog.New(redact.Handler(slog.NewJSONHandler(cmd.ErrOrStderr(), nil)))
		if err := s.serve(cmd.Context(), o, func(text string) { fmt.Fprintln(cmd.OutOrStdout(), text) }); err != nil {
			return cli.Wrong(err)
		}
		return nil
	}
	return cmd
}

// options checks what can be checked without a file.
func (s *settings) options() (o central.Options, err error) {
	o.Trusted, o.Replicas, o.WarmUp = s.trusted, s.replicas, s.warmUp
	for _, what := range s.secondPerson {
		switch what {
		case "restore":
			o.SecondPerson.Restore = true
		case "all":
			o.SecondPerson.All = true
		default:
			return o, fmt.Errorf("found --second-person %q, expected restore or all", what)
		}
	}
	if _, err := ledger.ParseKeys(s.trusted...); err != nil {
		return o, fmt.Errorf("--trusted-key: %w", err)
	}
	if (s.tlsCert == "") != (s.tlsKey == "") || (s.natsCert == "") != (s.natsKey == "") {
		return o, errors.New("found a certificate without key or a key without certificate")
	}
	if s.replicas < 1 || s.replicas > 5 || s.replicas > 1 && s.natsURL == "" {
		return o, fmt.Errorf("found --replicas %d, expected 1, or up to 5 with --nats", s.replicas)
	}
	if err := s.people.check(s.tlsCert != ""); err != nil {
		return o, err
	}
	if err := s.enrolment.check(s.natsURL != ""); err != nil {
		return o, err
	}
	if s.tokens == "" && s.people.issuer == "" && !loopback(s.listen) {
		return o, fmt.Errorf("found --listen %s without --tokens or --oidc-issuer, expected a loopback address: whoever reaches it could ask", s.listen)
	}
	if s.tlsCert == "" && !s.insecure && !loopback(s.listen) {
		return o, fmt.Errorf("found --listen %s without --tls-cert, expected a loopback address or --insecure-listen: tokens would cross the network in the clear", s.listen)
	}
	if s.natsURL == "" && s.natsCert == "" && !s.natsInsecure && !loopback(s.natsListen) {
		return o, fmt.Errorf("found --nats-listen %s without --nats-tls-cert, expected a loopback address or --insecure-nats-listen: what is revoked would cross the network in the clear", s.natsListen)
	}
	return o, nil
}

func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

func (s *settings) serve(ctx context.Context, o central.Options, say func(string)) error {
	frugal()
	heard, err := loadSignals(s.signals)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	if o.Signer, err = loadSigner(or(s.signingKey, filepath.Join(s.dir, "signing-key.pem"))); err != nil {
		return err
	}
	tokens, hint, err := s.knownTokens()
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", s.listen)
	if err != nil {
		return err
	}
	defer func() { _ = ln.Close() }()
	o.Certificates = map[string]func() time.Time{}
	if s.tlsCert != "" {
		c, err := newCertificate("--tls-cert", s.tlsCert, s.tlsKey, o.Log)
		if err != nil {
			return err
		}
		ln, o.Certificates["api"] = tls.NewListener(ln, c.config("h2", "http/1.1")), c.ends
	}
	conn, url, stop, err := s.bus(o)
	if err != nil {
		return err
	}
	defer stop()
	o.Conn = conn
	service, err := central.New(o)
	if err != nil {
		return err
	}
	web, err := s.people.handler(service, tokens, o, ln.Addr().String(), s.tlsCert != "")
	if err != nil {
		return err
	}
	receiver, err := receive(heard, service, o.Log)
	if err != nil {
		return err
	}
	enrol, err := s.enrolment.handler(filepath.Clean(s.dir), service, o)
	if err != nil {
		return err
	}
	defer poll(ctx, receiver)()
	s.greet(say, ln.Addr().String(), url, hint, o.Signer.PublicKey())
	return s.until(ctx, service, &http.Server{
		Handler:           beside(receiver, enrol, web),
		ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}, ln)
}

// frugal has the collector run twice as often as by default, unless the environment says how often. Most of what a fleet costs
// here lives as long as its connections, and garbage would add as much again. See docs/scale.md for what it costs.
func frugal() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
}

// until serves until ctx ends or something that must run has ended.
func (s *settings) until(ctx context.Context, service *central.Service, web *http.Server, ln net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Streams end with the service, not with the patience of their clients.
	web.BaseContext = func(net.Listener) context.Context { return ctx }
	failed := make(chan error, 2)
	go func() { failed <- web.Serve(ln) }()
	go func() { failed <- service.Run(ctx) }()
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	cancel()
	last, done := context.WithTimeout(context.Background(), 5*time.Second)
	defer done()
	return errors.Join(err, web.Shutdown(last))
}

// knownTokens reads the tokens file. Without one, and without an issuer, it makes a token that lives as long as the process.
// hint says how to use it.
func (s *settings) knownTokens() (api.Tokens, string, error) {
	if s.tokens != "" {
		f, err := os.Open(filepath.Clean(s.tokens))
		if err != nil {
			return nil, "", fmt.Errorf("--tokens: %w", err)
		}
		defer func() { _ = f.Close() }()
		tokens, err := api.ParseTokens(f)
		if err != nil {
			return nil, "", fmt.Errorf("--tokens: %s: %w", s.tokens, err)
		}
		return tokens, fmt.Sprintf("%d tokens are known", len(tokens)), nil
	}
	if s.people.issuer != "" {
		return nil, "people log in at " + s.people.issuer + "; there is no --tokens", nil
	}
	admin := central.Principal{Name: "admin", Roles: []central.Role{central.Admin}}
	token, _, err := api.NewToken(admin)
	if err != nil {
		return nil, "", err
	}
	path, err := filepath.Abs(filepath.Join(s.dir, "admin.token"))
	if err != nil {
		return nil, "", err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, "", err
	}
	if err := natsd.WriteSecret(path, []byte(token+"\n")); err != nil {
		return nil, "", err
	}
	tokens := api.Tokens{}
	tokens.Add(token, admin)
	return tokens, fmt.Sprintf("until it ends, the token of its admin is in a file; there is no --tokens:\n  export %s=%s", envToken, path), nil
}

// replies is how many messages wait at most for who reads the store, more than one reading asks for. Each reading takes the room for
// as many, 8 bytes each.
const replies = 1024

// bus connects to NATS: its own server, whose certificate it notes in o, or a cluster.
func (s *settings) bus(o central.Options) (conn *nats.Conn, url string, stop func(), err error) {
	log := o.Log
	options := []nats.Option{
		nats.Name("toolgate killswitch"), nats.SyncQueueLen(replies), nats.MaxReconnects(-1), nats.ReconnectWait(500 * time.Millisecond), nats.Timeout(5 * time.Second),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { log.Warn("NATS: disconnected", "error", err) }),
		nats.ReconnectHandler(func(*nats.Conn) { log.Info("NATS: connected again") }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { log.Error("NATS", "error", err) }),
	}
	if s.natsURL != "" {
		if s.natsCreds != "" {
			options = append(options, nats.UserCredentials(s.natsCreds))
		}
		if s.natsCAFile != "" {
			options = append(options, nats.RootCAs(s.natsCAFile))
		}
		conn, err = nats.Connect(s.natsURL, append(options, nats.RetryOnFailedConnect(true))...)
		if err != nil {
			return nil, "", nil, fmt.Errorf("--nats: %w", err)
		}
		return conn, s.natsURL, conn.Close, nil
	}
	server := natsd.Options{Dir: filepath.Clean(s.dir), Listen: s.natsListen, Log: log}
	if s.natsCert != "" {
		c, err := newCertificate("--nats-tls-cert", s.natsCert, s.natsKey, log)
		if err != nil {
			return nil, "", nil, err
		}
		server.TLS, o.Certificates["nats"] = c.config(), c.ends
	}
	ns, err := natsd.Start(server)
	if err != nil {
		return nil, "", nil, err
	}
	conn, err = ns.Connect(options...)
	if err != nil {
		ns.Stop()
		return nil, "", nil, err
	}
	return conn, ns.URL(), func() { conn.Close(); ns.Stop() }, nil
}

// loadSigner reads the signing key, or makes it.
func loadSigner(path string) (*ledger.Signer, error) {
	b, err := os.ReadFile(filepath.Clean(path))
	if errors.Is(err, fs.ErrNotExist) {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return nil, err
		}
		signer := ledger.NewSigner(key)
		return signer, natsd.WriteSecret(path, signer.PEM())
	}
	if err != nil {
		return nil, err
	}
	signer, err := ledger.ParseSigner(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return signer, nil
}
