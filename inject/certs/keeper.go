package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
)

// Options say what a Keeper keeps.
type Options struct {
	Client    dynamic.Interface
	Namespace string // of the release
	Release   string // prefix of every Secret's name, and of the Services but the webhook's
	Service   string // of the webhook; its leaf is what GetCertificate returns

	// WebhookConfig names the MutatingWebhookConfiguration that is given the CA; "" gives it to none. With Validating, the
	// ValidatingWebhookConfiguration of the same name as well.
	WebhookConfig string
	Validating    bool

	// Files is a folder where ca.crt (the bundle) and public-key (the kill switch's) are written for the injector's own settings; ""
	// writes none. A mounted Secret would come a minute late.
	Files string

	// AdminToken makes a token for the kill switch's first admin, for a release that has no other way to tell people apart.
	AdminToken bool

	// Overlap is how long a new CA is trusted before it signs, and an old one after. Default: 24 h.
	Overlap time.Duration
	// Interval is the time between two rounds, give or take a fifth. Default: 30 s.
	Interval time.Duration

	Now     func() time.Time                             // default: time.Now
	Expires func(certificate string, notAfter time.Time) // told of each certificate in each round; may be nil
	Synced  func(error)                                  // told of each round; may be nil
	Log     *slog.Logger
}

// Keeper keeps the certificates of a release. Only one goroutine may call Sync or Run.
type Keeper struct {
	Options
	secrets secrets
	leaf    atomic.Pointer[tls.Certificate]
	settled bool // in the last round, every leaf was of the CA that signs
}

// New returns a keeper that has done nothing yet.
func New(o Options) *Keeper {
	if o.Overlap == 0 {
		o.Overlap = 24 * time.Hour
	}
	if o.Interval == 0 {
		o.Interval = 30 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Expires == nil {
		o.Expires = func(string, time.Time) {}
	}
	if o.Synced == nil {
		o.Synced = func(error) {}
	}
	return &Keeper{Options: o, secrets: newSecrets(o.Client, o.Namespace, o.Log)}
}

// GetCertificate returns the webhook's leaf, for tls.Config.
func (k *Keeper) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c := k.leaf.Load(); c != nil {
		return c, nil
	}
	return nil, errNoLeaf
}

var errNoLeaf = errors.New("there is no certificate yet")

// Ready returns an error while there is no leaf, or one that has expired.
func (k *Keeper) Ready() error { return usable(k.leaf.Load(), k.Now()) }

func usable(c *tls.Certificate, now time.Time) error {
	switch {
	case c == nil:
		return errNoLeaf
	case now.After(c.Leaf.NotAfter):
		return errors.New("the certificate has expired")
	}
	return nil
}

// Run does a round now and then until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	for {
		if err := k.Sync(ctx); err != nil && ctx.Err() == nil {
			k.Log.Error("certificates", "error", err.Error())
		}
		spread := k.Interval / 5
		wait := time.NewTimer(k.Interval - spread + rand.N(2*spread+1))
		select {
		case <-ctx.Done():
			wait.Stop()
			return
		case <-wait.C:
		}
	}
}

// Sync does one round: the CA, its bundle in the webhook configurations, and then the leaves, so that whoever meets a new leaf knows its
// CA already. What can be done is done in spite of mistakes elsewhere; the error joins them.
func (k *Keeper) Sync(ctx context.Context) (err error) {
	defer func() { k.Synced(err) }()
	public, err := k.signingKey(ctx)
	errs := []error{err, k.writeFile(keyPublic, []byte(public))}
	if k.AdminToken {
		errs = append(errs, k.adminToken(ctx))
	}
	ca, err := k.authority(ctx)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	bundle := certPEM(ca.bundle...)
	errs = append(errs, k.writeFile(keyBundle, bundle), k.publish(ctx, bundle))
	k.settled = true
	for _, l := range k.leaves() {
		p, err := k.keepLeaf(ctx, ca, l, bundle)
		if err != nil {
			errs, k.settled = append(errs, err), false
			continue
		}
		k.Expires(l.secret, p.cert.NotAfter)
		if l.own {
			k.leaf.Store(&tls.Certificate{Certificate: [][]byte{p.cert.Raw}, PrivateKey: p.key, Leaf: p.cert})
		}
	}
	return errors.Join(errs...)
}

// authority reads the CA, makes it when there is none, and takes the step of a change of CA that is due.
func (k *Keeper) authority(ctx context.Context) (*authority, error) {
	name := k.Release + "-ca"
	var ca *authority
	err := k.secrets.settle(ctx, name, func(current *corev1.Secret) (*corev1.Secret, string, error) {
		change, err := k.change(&ca, current, name)
		if err != nil || change == "" {
			return nil, "", err
		}
		data, err := ca.data()
		if err != nil {
			return nil, "", err
		}
		next := fresh(current, corev1.SecretTypeTLS, data)
		delete(next.Annotations, rotateKey)
		return next, change, nil
	})
	if err != nil {
		return nil, err
	}
	k.Expires(name, ca.active.cert.NotAfter)
	return ca, nil
}

func (k *Keeper) change(ca **authority, current *corev1.Secret, name string) (change string, err error) {
	if current == nil {
		*ca, err = newAuthority(k.Release, k.Now())
		return "a CA was made", err
	}
	if *ca, err = parseAuthority(current); err != nil {
		return "", k.secrets.corrupt(name, err)
	}
	_, asked := current.Annotations[rotateKey]
	return (*ca).step(k.Release, k.Now(), k.Overlap, asked, k.settled)
}
