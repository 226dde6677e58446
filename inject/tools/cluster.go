package tools

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
)

// Resource is the API's name of ToolManifests.
var Resource = schema.GroupVersionResource{Group: "toolgate.dev", Version: "v1alpha1", Resource: "toolmanifests"}

// resync is how often every object is looked at again, for a status that could not be written.
const resync = 2 * time.Minute

// Cluster keeps a catalog's manifests of the cluster as its ToolManifests are, and writes their status.
type Cluster struct {
	catalog  *Catalog
	client   dynamic.NamespaceableResourceInterface
	informer cache.SharedIndexInformer
	wake     chan struct{}
	changed  func()
	now      func() time.Time
	log      *slog.Logger
}

// WatchCluster returns what keeps the catalog. changed is called after each change; it may be nil.
func (c *Catalog) WatchCluster(client dynamic.Interface, log *slog.Logger, changed func()) *Cluster {
	if changed == nil {
		changed = func() {}
	}
	k := &Cluster{catalog: c, client: client.Resource(Resource), wake: make(chan struct{}, 1), changed: changed, now: time.Now, log: log}
	k.informer = cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return k.client.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return k.client.Watch(ctx, o)
		},
	}, client), &unstructured.Unstructured{}, resync, cache.Indexers{})
	return k
}

// Synced reports whether every ToolManifest has been read once.
func (k *Cluster) Synced() bool { return k.informer.HasSynced() }

// Run watches until ctx ends.
func (k *Cluster) Run(ctx context.Context) error {
	notify := func(any) {
		select {
		case k.wake <- struct{}{}:
		default:
		}
	}
	if _, err := k.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: notify, UpdateFunc: func(_, o any) { notify(o) }, DeleteFunc: notify,
	}); err != nil {
		return err
	}
	done := make(chan struct{})
	go func() { defer close(done); k.informer.RunWithContext(ctx) }()
	defer func() { <-done }()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-k.wake:
			k.refresh(ctx)
		}
	}
}

// refresh reads all objects into the catalog, then writes each status that differs: one object's manifest can be the mistake of another.
func (k *Cluster) refresh(ctx context.Context) {
	entries := map[string]entry{}
	var objects []*unstructured.Unstructured
	for _, o := range k.informer.GetStore().List() {
		u, ok := o.(*unstructured.Unstructured)
		if !ok {
			continue
		}
		objects = append(objects, u)
		entries[u.GetName()] = newObjectEntry(u.GetName(), u.Object["spec"])
	}
	k.catalog.mu.Lock()
	k.catalog.cluster = entries
	k.catalog.mu.Unlock()
	k.changed()
	for _, u := range objects {
		k.writeStatus(ctx, u, k.condition(u))
	}
}

// condition says whether pods may use an object's manifest.
func (k *Cluster) condition(u *unstructured.Unstructured) metav1.Condition {
	k.catalog.mu.RLock()
	defer k.catalog.mu.RUnlock()
	e := k.catalog.cluster[u.GetName()]
	c := metav1.Condition{Type: "Accepted", Status: metav1.ConditionTrue, Reason: "Accepted", Message: fmt.Sprintf("tool %s", e.name), ObservedGeneration: u.GetGeneration()}
	if e.err != nil {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, "Invalid", e.err.Error()
	} else if other := k.catalog.rival(u.GetName(), e.name); other != "" {
		c.Status, c.Reason = metav1.ConditionFalse, "NameTaken"
		c.Message = fmt.Sprintf("spec.name: tool %q is defined by %s as well; pods can use neither", e.name, other)
	}
	return c
}

// writeStatus writes a condition that says something new. A conflict is left alone: another replica, or the author, was faster, and the change
// comes round as an event.
func (k *Cluster) writeStatus(ctx context.Context, u *unstructured.Unstructured, want metav1.Condition) {
	var status struct {
		Conditions []metav1.Condition `json:"conditions"`
	}
	if raw, ok := u.Object["status"].(map[string]any); ok {
		_ = runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &status) // what cannot be read is written anew
	}
	want.LastTransitionTime = metav1.NewTime(k.now().UTC().Truncate(time.Second))
	for _, have := range status.Conditions {
		if have.Type != want.Type {
			continue
		}
		if have.Status == want.Status && have.Reason == want.Reason && have.Message == want.Message && have.ObservedGeneration == want.ObservedGeneration {
			return
		}
		if have.Status == want.Status {
			want.LastTransitionTime = have.LastTransitionTime
		}
	}
	if want.Status != metav1.ConditionTrue {
		k.log.Warn("a ToolManifest cannot be used", "name", u.GetName(), "reason", want.Reason, "message", want.Message)
	}
	condition, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&want)
	if err != nil {
		return
	}
	next := u.DeepCopy()
	next.Object["status"] = map[string]any{"conditions": []any{condition}}
	_, err = k.client.UpdateStatus(ctx, next, metav1.UpdateOptions{FieldManager: "toolgate-injector"})
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && ctx.Err() == nil {
		k.log.Error("status of a ToolManifest", "name", u.GetName(), "error", err.Error())
	}
}
