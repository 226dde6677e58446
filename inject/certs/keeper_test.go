package certs

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/killswitch/ledger"
)

// lab is an API server and a clock.
type lab struct {
	*apiServer
	now     time.Time
	options Options
}

func newLab(t *testing.T) *lab {
	s, client := newAPIServer(t)
	s.config()
	l := &lab{apiServer: s, now: time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)}
	l.options = Options{
		Client: client, Namespace: "toolgate", Release: "toolgate", Service: "toolgate-injector", WebhookConfig: "toolgate-injector",
		Now: func() time.Time { return l.now }, Log: slog.New(slog.DiscardHandler),
	}
	return l
}

func (l *lab) sync(k *Keeper) {
	l.Helper()
	if err := k.Sync(context.Background()); err != nil {
		l.Fatal(err)
	}
}

func (l *lab) data(secret, key string) []byte {
	l.Helper()
	object := l.object(secretPath + secret)
	data, _ := object["data"].(map[string]any)
	text, _ := data[key].(string)
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(b) == 0 {
		l.Fatalf("Secret %s has no %s", secret, key)
	}
	return b
}

// caBundle is what the API server trusts the webhook by.
func (l *lab) caBundle() []byte {
	hooks := l.object(configPath)["webhooks"].([]any)
	text, _ := hooks[1].(map[string]any)["clientConfig"].(map[string]any)["caBundle"].(string)
	b, _ := base64.StdEncoding.DecodeString(text)
	return b
}

// trusted fails unless the leaf that the keeper shows is good for the API server, now.
func (l *lab) trusted(k *Keeper) *x509.Certificate {
	l.Helper()
	c, err := k.GetCertificate(nil)
	if err != nil {
		l.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(l.caBundle())
	if _, err := c.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "toolgate-injector.toolgate.svc", CurrentTime: l.now}); err != nil {
		l.Fatalf("at %s the API server does not trust the webhook: %v", l.now, err)
	}
	return c.Leaf
}

func TestMakesWhatIsMissing(t *testing.T) {
	l := newLab(t)
	l.options.Files = t.TempDir()
	expires := map[string]time.Time{}
	l.options.Expires = func(name string, at time.Time) { expires[name] = at }
	k := New(l.options)
	if k.Ready() == nil {
		t.Error("ready without a certificate")
	}
	l.sync(k)
	l.trusted(k)
	for _, name := range []string{"toolgate-ca", "toolgate-injector-tls", "toolgate-killswitch-tls", "toolgate-gateway-tls"} {
		if expires[name].Before(l.now) {
			t.Errorf("%s expires %s", name, expires[name])
		}
	}
	for secret, want := range map[string]bool{"toolgate-killswitch-tls": true, "toolgate-injector-tls": false, "toolgate-gateway-tls": false} { // the one whose port people forward
		leaf, err := parsePair(l.data(secret, "tls.crt"), l.data(secret, "tls.key"))
		if err != nil {
			t.Fatal(err)
		}
		if got := leaf.cert.VerifyHostname("localhost") == nil; got != want {
			t.Errorf("%s is for localhost: %v, want %v", secret, got, want)
		}
	}
	signer, err := ledger.ParseSigner(l.data("toolgate-killswitch-key", "signing-key.pem"))
	if err != nil || string(l.data("toolgate-killswitch-key", "public-key")) != signer.PublicKey() {
		t.Errorf("signing key: %v", err)
	}
	for file, want := range map[string][]byte{"ca.crt": l.data("toolgate-ca", "ca.crt"), "public-key": []byte(signer.PublicKey())} {
		if got, err := os.ReadFile(filepath.Join(l.options.Files, file)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %q %v", file, got, err)
		}
	}
	hooks := l.object(configPath)["webhooks"].([]any)
	if other := hooks[0].(map[string]any)["clientConfig"].(map[string]any)["caBundle"]; other != "b3RoZXI=" {
		t.Errorf("somebody else's bundle was changed to %v", other)
	}
	if hooks[1].(map[string]any)["aFieldOfTomorrow"] == nil {
		t.Error("a field of the configuration got lost")
	}
	l.wrote()
	l.sync(k)
	second := New(l.options)
	l.sync(second)
	if w := l.wrote(); len(w) > 0 {
		t.Errorf("with nothing to do it wrote %v", w)
	}
	if !l.trusted(second).Equal(l.trusted(k)) {
		t.Error("the second replica shows another leaf")
	}
}

func TestRenewsLeaf(t *testing.T) {
	l := newLab(t)
	k := New(l.options)
	l.sync(k)
	first := l.trusted(k)
	l.now = l.now.Add(59 * 24 * time.Hour)
	l.sync(k)
	if !l.trusted(k).Equal(first) {
		t.Error("renewed before two thirds of its life")
	}
	l.now = l.now.Add(2 * 24 * time.Hour)
	l.sync(k)
	if l.trusted(k).Equal(first) {
		t.Error("not renewed after two thirds of its life")
	}
}

// TestChangesCA walks through a change of CA day by day with two replicas, one of which looks only every other hour. At every moment the API
// server trusts both, and the bundle holds the CA of every leaf.
func TestChangesCA(t *testing.T) {
	l := newLab(t)
	a, b := New(l.options), New(l.options)
	l.sync(a)
	l.sync(b)
	old, first := l.caBundle(), l.trusted(a)
	l.edit(secretPath+"toolgate-ca", func(o map[string]any) { metadata(o)["annotations"] = map[string]any{rotateKey: "now"} })
	sizes := []int{}
	for hour := range 72 {
		l.sync(a)
		if l.trusted(a).Equal(first) != (hour < 24) {
			t.Errorf("hour %d: the new CA is to sign once it was trusted for a day", hour)
		}
		l.trusted(b)
		if hour%2 == 1 {
			l.sync(b)
			l.trusted(b)
		}
		n := bytes.Count(l.caBundle(), []byte("BEGIN"))
		if len(sizes) == 0 || sizes[len(sizes)-1] != n {
			sizes = append(sizes, n)
		}
		l.now = l.now.Add(time.Hour)
	}
	if !slices.Equal(sizes, []int{2, 1}) {
		t.Errorf("the bundle held %v certificates, one after the other", sizes)
	}
	if bytes.Contains(l.caBundle(), bytes.TrimSpace(old)) {
		t.Error("the old CA is still trusted")
	}
	if !bytes.Equal(l.data("toolgate-killswitch-tls", "ca.crt"), l.caBundle()) {
		t.Error("the kill switch has another bundle than the API server")
	}
}

// TestChangesOldCA: two thirds of ten years later it happens by itself.
func TestChangesOldCA(t *testing.T) {
	l := newLab(t)
	k := New(l.options)
	l.sync(k)
	l.now = l.now.Add(6 * 365 * 24 * time.Hour)
	l.sync(k)
	if n := bytes.Count(l.caBundle(), []byte("BEGIN")); n != 1 {
		t.Errorf("after 6 years: %d CAs", n)
	}
	l.now = l.now.Add(365 * 24 * time.Hour)
	l.sync(k)
	if n := bytes.Count(l.caBundle(), []byte("BEGIN")); n != 2 {
		t.Errorf("after 7 years: %d CAs", n)
	}
	l.trusted(k)
}

// TestReplicasAgree: many that start at once come out with one CA and one leaf.
func TestReplicasAgree(t *testing.T) {
	l := newLab(t)
	keepers := make([]*Keeper, 8)
	var all sync.WaitGroup
	for i := range keepers {
		keepers[i] = New(l.options)
		all.Go(func() {
			if err := keepers[i].Sync(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, k := range keepers {
		if !l.trusted(k).Equal(l.trusted(keepers[0])) {
			t.Error("two leaves are shown")
		}
	}
	var made []string
	for _, w := range l.wrote() {
		if !strings.HasPrefix(w, "PATCH") {
			made = append(made, w)
		}
	}
	slices.Sort(made)
	if len(made) != 5 || len(slices.Compact(made)) != 5 {
		t.Errorf("writes: %v", made)
	}
}

// TestConflict: somebody writes between reading and writing; the change is made anew to what is there then.
func TestConflict(t *testing.T) {
	l := newLab(t)
	k := New(l.options)
	l.sync(k)
	l.now = l.now.Add(80 * 24 * time.Hour)
	var once sync.Once
	l.before = func(method, path string) {
		if method == "PUT" && strings.HasSuffix(path, "toolgate-injector-tls") {
			once.Do(func() {
				l.edit(path, func(o map[string]any) { metadata(o)["annotations"] = map[string]any{"theirs": "1"} })
			})
		}
	}
	l.sync(k)
	l.trusted(k)
	if metadata(l.object(secretPath + "toolgate-injector-tls"))["annotations"].(map[string]any)["theirs"] != "1" {
		t.Error("the other's change was overwritten")
	}
}

// TestConflictOfConfig: the configuration changes under the patch, which then would have hit another webhook.
func TestConflictOfConfig(t *testing.T) {
	l := newLab(t)
	var once sync.Once
	l.before = func(method, path string) {
		if method == "PATCH" {
			once.Do(func() {
				l.edit(path, func(o map[string]any) {
					hooks := o["webhooks"].([]any)
					o["webhooks"] = append([]any{map[string]any{"name": "first.example", "clientConfig": map[string]any{"url": "https://x.example"}}}, hooks...)
				})
			})
		}
	}
	k := New(l.options)
	l.sync(k)
	hooks := l.object(configPath)["webhooks"].([]any)
	for i, h := range hooks {
		_, has := h.(map[string]any)["clientConfig"].(map[string]any)["caBundle"]
		if has != (i > 0) {
			t.Errorf("webhook %d has a bundle: %v", i, has)
		}
	}
}

// TestRestoresBundle: an upgrade that leaves the configuration without its bundle is mended in the next round.
func TestRestoresBundle(t *testing.T) {
	l := newLab(t)
	k := New(l.options)
	l.sync(k)
	l.config()
	l.sync(k)
	l.trusted(k)
}

func TestLeavesWhatIsNotOurs(t *testing.T) {
	for _, secret := range []string{"toolgate-ca", "toolgate-injector-tls", "toolgate-killswitch-tls", "toolgate-killswitch-key"} {
		key := map[bool]string{true: "signing-key.pem", false: "tls.key"}[strings.HasSuffix(secret, "-key")]
		for _, c := range []struct {
			name   string
			reason Reason
			change func(o map[string]any)
			later  time.Duration
		}{
			{"broken", Corrupt, func(o map[string]any) { o["data"].(map[string]any)[key] = "eHg=" }, 0},
			{"empty", Corrupt, func(o map[string]any) { delete(o, "data") }, 0},
			{"foreign and due", Foreign, func(o map[string]any) { delete(metadata(o), "labels") }, 8 * 365 * 24 * time.Hour},
		} {
			if c.reason == Foreign && strings.HasSuffix(secret, "-key") {
				continue // it is never due
			}
			t.Run(fmt.Sprintf("%s %s", secret, c.name), func(t *testing.T) {
				l := newLab(t)
				k := New(l.options)
				l.sync(k)
				l.edit(secretPath+secret, c.change)
				version := metadata(l.object(secretPath + secret))["resourceVersion"]
				l.now = l.now.Add(c.later)
				err := k.Sync(context.Background())
				var found *SecretError
				if !errors.As(err, &found) || found.Reason != c.reason || found.Name != "toolgate/"+secret {
					t.Errorf("error %v", err)
				}
				if metadata(l.object(secretPath + secret))["resourceVersion"] != version {
					t.Error("it was overwritten")
				}
			})
		}
	}
}

// TestAdoptsForeign: what is not ours and is good is used.
func TestAdoptsForeign(t *testing.T) {
	l := newLab(t)
	l.sync(New(l.options))
	l.edit(secretPath+"toolgate-ca", func(o map[string]any) { delete(metadata(o), "labels") })
	k := New(l.options)
	l.sync(k)
	l.trusted(k)
}

func TestNoWebhookOfOurs(t *testing.T) {
	l := newLab(t)
	l.options.Service = "elsewhere"
	if err := New(l.options).Sync(context.Background()); err == nil || !strings.Contains(err.Error(), "Service toolgate/elsewhere") {
		t.Errorf("error %v", err)
	}
}

func TestFolder(t *testing.T) {
	dir := t.TempDir()
	write := func(days int) *x509.Certificate {
		ca, err := newCA("x", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		p, err := newLeaf(ca, []string{"localhost"}, time.Now().Add(time.Duration(days)*24*time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		cert, key, err := p.texts()
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string][]byte{"tls.key": key, "tls.crt": cert} {
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return p.cert
	}
	if _, err := OpenFolder(dir, nil, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("an empty folder is taken")
	}
	first := write(0)
	expires := make(chan time.Time, 20)
	f, err := OpenFolder(dir, func(_ string, at time.Time) { expires <- at }, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if at := <-expires; !at.Equal(first.NotAfter) {
		t.Errorf("expires %s", at)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); f.Run(ctx) }()
	second := write(1)
	limit := time.After(30 * time.Second)
	for {
		c, err := f.GetCertificate(nil)
		if err == nil && c.Leaf.Equal(second) {
			break
		}
		select {
		case <-expires:
		case <-limit:
			t.Fatal("the new leaf was not read")
		}
	}
	cancel()
	<-done
	if err := f.Ready(); err != nil {
		t.Error(err)
	}
	if err := usable(f.leaf.Load(), time.Now().Add(200*24*time.Hour)); err == nil {
		t.Error("an expired certificate is ready")
	}
}
