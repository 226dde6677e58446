package main

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/toolgate/toolgate/inject/webhook"
)

// askTime bounds the question for a namespace that was not seen yet; the API server waits 10 s for the whole admission at most.
const askTime = 2 * time.Second

// namespaces knows the labels of every namespace.
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
	return kept, nil
}

// labels returns a namespace's labels. One that the watch has not brought yet, such as one made a moment ago, is asked for.
func (n *namespaces) labels(ctx context.Context, name string) (map[string]string, error) {
	if o, ok, err := n.informer.GetStore().GetByKey(name); err == nil && ok {
		if u, ok := o.(*unstructured.Unstructured); ok {
			return u.GetLabels(), nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	u, err := n.client.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, webhook.ErrNoNamespace
	}
	if err != nil {
		return nil, fmt.Errorf("namespace %s: %w", name, err)
	}
	return u.GetLabels(), nil
}
