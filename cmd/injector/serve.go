package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/toolgate/toolgate/cmd/cli"
	"github.com/toolgate/toolgate/redact"
)

// serveFlags are the flags of serve.
type serveFlags struct {
	settings, kubeconfig          string
	manifests                     []string
	crd, adminToken               bool
	listen, metricsListen         string
	release, service, namespace   string
	webhookConfig, certDir, files string
	caOverlap, certInterval       time.Duration
	shutdownDelay                 time.Duration
	logLevel                      string
}

func newServe() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve --settings FILE",
		Short: "Run the admission webhook until SIGTERM",
		Long: "Run the admission webhook: POST /mutate for pods, POST /validate for ToolManifests, over TLS. It makes the release's CA,\n" +
			"certificates and the kill switch's signing key as Secrets when they are missing, and renews them; with --cert-dir it\n" +
			"takes a certificate of somebody else's making. Settings, manifests and certificates are read again as they change.",
		Args: cli.FlagsOnly,
	}
	s := cmd.Flags()
	s.StringVar(&f.settings, "settings", "", "the injector's settings `file`")
	s.StringArrayVar(&f.manifests, "manifests", nil, "a `folder` of manifests, in place of the settings' toolsDir; may be repeated")
	s.BoolVar(&f.crd, "crd", false, "take manifests from ToolManifest objects as well")
	s.StringVar(&f.listen, "listen", ":8443", "the `address` of the webhook")
	s.StringVar(&f.metricsListen, "metrics-listen", ":8080", "the `address` of /metrics, /healthz and /readyz, in plain HTTP")
	s.StringVar(&f.release, "release", "toolgate", "the `prefix` of the names of the release's Secrets and Services")
	s.StringVar(&f.service, "service", "", "the webhook's Service, by `name`; default the prefix and -injector")
	s.StringVar(&f.namespace, "namespace", os.Getenv("POD_NAMESPACE"), "the release's `namespace`; default $POD_NAMESPACE")
	s.StringVar(&f.webhookConfig, "webhook-config", "", "the `name` of the webhook configuration that is given the CA; default none")
	s.StringVar(&f.certDir, "cert-dir", "", "a `folder` with tls.crt and tls.key, as of cert-manager; then no Secret and no configuration is touched")
	s.BoolVar(&f.adminToken, "killswitch-admin", false, "make a token for the kill switch's first admin, as a Secret, when it is missing")
	s.StringVar(&f.files, "files", "", "a `folder` where ca.crt and public-key are written, for the settings to name; default none")
	s.DurationVar(&f.caOverlap, "ca-overlap", 24*time.Hour, "how long a new CA is trusted before it signs, and an old one after")
	s.DurationVar(&f.certInterval, "certificate-interval", 30*time.Second, "how often certificates and configurations are looked after, give or take a fifth")
	s.StringVar(&f.kubeconfig, "kubeconfig", "", "a kubeconfig `file`; default the pod's own service account")
	s.DurationVar(&f.shutdownDelay, "shutdown-delay", 5*time.Second, "how long to serve on after SIGTERM, until the cluster sends nothing here any more")
	s.StringVar(&f.logLevel, "log-level", "info", "the least `level` that is logged: debug, info, warn or error")
	if err := cmd.MarkFlagRequired("settings"); err != nil {
		panic(err) // the flag was added above
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := f.check(); err != nil {
			return err
		}
		var level slog.Level
		if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
			return fmt.Errorf("found --log-level %q, expected debug, info, warn or error", f.logLevel)
		}
		// An API server may say anything, and client-go prints its warnings and errors.
		log := slog.New(redact.Handler(slog.NewJSONHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level})))
		klog.SetSlogLogger(log)
		client, err := f.client()
		if err != nil {
			return cli.Wrong(err)
		}
		if err := serve(cmd.Context(), &f, client, log, nil); err != nil {
			return cli.Wrong(err)
		}
		return nil
	}
	return cmd
}

// check fills what follows from other flags and checks what can be checked without a file.
func (f *serveFlags) check() error {
	if f.certDir != "" && (f.webhookConfig != "" || f.files != "" || f.adminToken) {
		return errors.New("found --cert-dir beside --webhook-config, --files or --killswitch-admin, expected one of the two ways: with --cert-dir no CA of ours is there to hand on")
	}
	if f.certDir == "" && f.namespace == "" {
		return errors.New("found no --namespace and no POD_NAMESPACE, expected the release's namespace")
	}
	if f.shutdownDelay < 0 || f.caOverlap <= 0 || f.certInterval < 0 {
		return errors.New("found a negative duration, expected --shutdown-delay of 0 or more, and --ca-overlap and --certificate-interval of more")
	}
	if f.service == "" {
		f.service = f.release + "-injector"
	}
	return nil
}

// client returns a client for the cluster. It keeps to the dynamic one: the typed ones link every type of Kubernetes.
func (f *serveFlags) client() (dynamic.Interface, error) {
	c, err := f.restConfig()
	if err != nil {
		return nil, err
	}
	c.UserAgent = "toolgate-injector/" + cli.Version()
	return dynamic.NewForConfig(c)
}

func (f *serveFlags) restConfig() (*rest.Config, error) {
	if f.kubeconfig == "" {
		c, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("found no pod's service account, expected to run in a cluster, or --kubeconfig: %w", err)
		}
		return c, nil
	}
	c, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	return c, nil
}
