package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/dynamic"

	"github.com/toolgate/toolgate/cmd/cli"
	"github.com/toolgate/toolgate/inject/certs"
	"github.com/toolgate/toolgate/inject/tools"
	"github.com/toolgate/toolgate/inject/webhook"
)

// certificates are the webhook's, of either origin.
type certificates interface {
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
	Ready() error
	Run(context.Context)
}

// lavish has the collector run a quarter as often as by default, unless the environment says how often. Nearly all that an admission
// allocates is garbage after it, and what lives is small, so that pods waited for the collector. The limit of memory still holds.
func lavish() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
}

// serve runs the webhook until ctx ends. listening, which may be nil, is told the addresses.
func serve(ctx context.Context, f *serveFlags, client dynamic.Interface, log *slog.Logger, listening func(hooks, admin net.Addr)) error {
	lavish()
	metrics := webhook.NewMetrics(cli.Version())
	keeper, err := openCertificates(ctx, f, client, metrics, log)
	if err != nil {
		return err
	}
	inForce, err := loadSettings(f.settings, metrics, log)
	if err != nil {
		return err
	}
	dirs := f.manifests
	if len(dirs) == 0 {
		dirs = []string{inForce.value.Load().ToolsDir}
	}
	catalog := &tools.Catalog{}
	known := func(err error) {
		if err != nil {
			log.Error("manifests", "error", err.Error())
		}
		folder, cluster := catalog.Count()
		metrics.SetManifests("folder", folder[0], folder[1])
		metrics.SetManifests("cluster", cluster[0], cluster[1])
	}
	known(catalog.LoadFolders(dirs))
	spaces := newNamespaces(client)
	server := &webhook.Server{
		Handler: webhook.New(webhook.Options{
			Namespace: spaces.get, Settings: inForce.value.Load, Manifest: catalog.Manifest, CheckManifest: catalog.Check,
			Metrics: metrics, Log: log,
		}),
		Certificate: keeper.GetCertificate, ShutdownDelay: f.shutdownDelay, Log: log,
		Checks: map[string]func() error{"certificate": keeper.Ready, "namespaces": synced(spaces.informer.HasSynced)},
	}
	// What is watched goes on until the last admission is answered, not until the signal.
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, watching := errgroup.WithContext(watching)
	group.Go(func() error { keeper.Run(watching); return nil })
	group.Go(func() error { return spaces.run(watching) })
	group.Go(func() error { return inForce.run(watching) })
	group.Go(func() error { return catalog.WatchFolders(watching, dirs, log, known) })
	if f.crd {
		cluster := catalog.WatchCluster(client, log, func() { known(nil) })
		server.Checks["manifests"] = synced(cluster.Synced)
		group.Go(func() error { return cluster.Run(watching) })
	}
	return errors.Join(listenAndRun(ctx, f, server, log, listening), func() error { stop(); return group.Wait() }())
}

func synced(done func() bool) func() error {
	return func() error {
		if !done() {
			return errors.New("not read yet")
		}
		return nil
	}
}

func listenAndRun(ctx context.Context, f *serveFlags, server *webhook.Server, log *slog.Logger, listening func(hooks, admin net.Addr)) error {
	hooks, err := net.Listen("tcp", f.listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	admin, err := net.Listen("tcp", f.metricsListen)
	if err != nil {
		_ = hooks.Close()
		return fmt.Errorf("--metrics-listen: %w", err)
	}
	log.Info("listening", "webhook", hooks.Addr().String(), "metrics", admin.Addr().String())
	if listening != nil {
		listening(hooks.Addr(), admin.Addr())
	}
	return server.Run(ctx, hooks, admin)
}

// firstTries is how often the first certificate is tried for: at the cluster's own start, much is not there yet.
const firstTries = 6

// openCertificates returns certificates that are there.
func openCertificates(ctx context.Context, f *serveFlags, client dynamic.Interface, metrics *webhook.Metrics, log *slog.Logger) (certificates, error) {
	if f.certDir != "" {
		folder, err := certs.OpenFolder(f.certDir, metrics.Expires, log)
		if err != nil {
			return nil, fmt.Errorf("--cert-dir: %w", err)
		}
		return folder, nil
	}
	keeper := certs.New(certs.Options{
		Client: client, Namespace: f.namespace, Release: f.release, Service: f.service, WebhookConfig: f.webhookConfig, Validating: f.crd,
		Files: f.files, AdminToken: f.adminToken, Overlap: f.caOverlap, Interval: f.certInterval, Expires: metrics.Expires, Synced: metrics.Synced, Log: log,
	})
	wait := 250 * time.Millisecond
	for try := 1; ; try++ {
		err := keeper.Sync(ctx)
		if err == nil || keeper.Ready() == nil {
			if err != nil {
				log.Error("certificates", "error", err.Error())
			}
			return keeper, nil
		}
		if try == firstTries {
			return nil, err
		}
		log.Warn("certificates: trying again", "error", err.Error(), "in", wait.String())
		pause := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			pause.Stop()
			return nil, ctx.Err()
		case <-pause.C:
		}
		wait *= 2
	}
}
