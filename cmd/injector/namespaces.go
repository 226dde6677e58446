package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/toolgate/toolgate/inject/pod"
	"github.com/toolgate/toolgate/inject/webhook"
)

// askTime bounds the question for a namespace that was not seen yet; the API server waits 10 s for the whole admission at most.
const askTime = 2 * time.Second

// namespaces knows the labels of every namespace, and those of its annotations that are ours.
type namespaces struct {
	client   dynamic.NamespaceableResourceInterface
	informer cache.SharedIndexInformer
}

func newNamespaces(client dynamic.Interface) *namespaces {
	n := &namespaces{client: client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})}
	n.informer = cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return n.client.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return n.client.Watch(ctx, o)
		},
	}, client), &unstructured.Unstructured{}, 0, cache.Indexers{})
	return n
}

// run watches until ctx ends.
func (n *namespaces) run(ctx context.Context) error {
	if err := n.informer.SetTransform(bare); err != nil {
		return err
	}
	n.informer.RunWithContext(ctx)
	return nil
}

// bare keeps of a namespace what is asked for: there may be thousands.
func bare(o any) (any, error) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return o, nil
	}
	kept := &unstructured.Unstructured{Object: map[string]any{}}
	kept.SetAPIVersion("v1")
	kept.SetKind("Namespace")
	kept.SetName(u.GetName())
	kept.SetResourceVersion(u.GetResourceVersion())
	kept.SetLabels(u.GetLabels())
	ours := map[string]string{}
	for key, v := range u.GetAnnotations() {
		if strings.HasPrefix(key, pod.Prefix) {
			ours[key] = v
		}
	}
	kept.SetAnnotations(ours)
	return kept, nil
}

// get returns what is known of a namespace. One that the watch has not brought yet, such as one made a moment ago, is asked for.
func (n *namespaces) get(ctx context.Context, name string) (pod.Namespace, error) {
	if o, ok, err := n.informer.GetStore().GetByKey(name); err == nil && ok {
		if u, ok := o.(*unstructured.Unstructured); ok {
			return known(u), nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	u, err := n.client.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return pod.Namespace{}, webhook.ErrNoNamespace
	}
	if err != nil {
		return pod.Namespace{}, fmt.Errorf("namespace %s: %w", name, err)
	}
	return known(u), nil
}

func known(u *unstructured.Unstructured) pod.Namespace {
	return pod.Namespace{Name: u.GetName(), Labels: u.GetLabels(), Annotations: u.GetAnnotations()}
}
