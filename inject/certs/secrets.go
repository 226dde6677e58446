package certs

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// The label that marks a Secret as made here. Without it, nothing is overwritten.
const (
	labelKey   = "app.kubernetes.io/managed-by"
	labelValue = "toolgate-injector"
)

var secretsResource = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

// Reason is why a Secret cannot be used: a closed set.
type Reason string

// The reasons.
const (
	Foreign Reason = "foreign" // not made here, and due for a change
	Corrupt Reason = "corrupt" // its content cannot be used
	Fought  Reason = "fought"  // others changed it each time between reading and writing
)

// SecretError is the error of a Secret that needs a person.
type SecretError struct {
	Name    string // namespace/name
	Reason  Reason
	Message string
}

// Error says what is wrong and what to do.
func (e *SecretError) Error() string { return "Secret " + e.Name + ": " + e.Message }

// secrets reads and writes the Secrets of one namespace by name, which is all that the injector's Role allows. It speaks to the API
// without the typed clients: they link every type of Kubernetes, 20 MB of them.
type secrets struct {
	client    dynamic.ResourceInterface
	namespace string
}

func newSecrets(client dynamic.Interface, namespace string) secrets {
	return secrets{client.Resource(secretsResource).Namespace(namespace), namespace}
}

// get returns a Secret, or nil when there is none.
func (s secrets) get(ctx context.Context, name string) (*corev1.Secret, error) {
	u, err := s.client.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, s.wrap(name, err)
	}
	return typed(u)
}

func (s secrets) wrap(name string, err error) error {
	return fmt.Errorf("Secret %s/%s: %w", s.namespace, name, err)
}

func typed(u *unstructured.Unstructured) (*corev1.Secret, error) {
	out := &corev1.Secret{}
	return out, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out)
}

// tries is how often a change is made anew after another replica's came in between.
const tries = 6

// settle brings a Secret to what want makes of it. want gets the current one, nil when there is none, and returns nil to leave it. It is
// called again when another has written meanwhile.
func (s secrets) settle(ctx context.Context, name string, want func(current *corev1.Secret) (*corev1.Secret, error)) error {
	for range tries {
		current, err := s.get(ctx, name)
		if err != nil {
			return err
		}
		next, err := want(current)
		if err != nil || next == nil {
			return err
		}
		if current != nil && current.Labels[labelKey] != labelValue {
			return &SecretError{s.namespace + "/" + name, Foreign, fmt.Sprintf("it is due for a change and left as it is, since it has no label %s=%s: "+
				"renew it where it comes from, or delete it to have one made", labelKey, labelValue)}
		}
		err = s.write(ctx, name, current, next)
		if err == nil {
			return nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
			return s.wrap(name, err)
		}
	}
	return &SecretError{s.namespace + "/" + name, Fought, "others changed it each time before this replica could"}
}

// write creates a Secret, or replaces the version that was read and no other.
func (s secrets) write(ctx context.Context, name string, current, next *corev1.Secret) error {
	next.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}
	next.Name, next.Namespace = name, s.namespace
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(next)
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{Object: object}
	if current == nil {
		_, err = s.client.Create(ctx, u, metav1.CreateOptions{FieldManager: labelValue})
		return err
	}
	u.SetResourceVersion(current.ResourceVersion)
	_, err = s.client.Update(ctx, u, metav1.UpdateOptions{FieldManager: labelValue})
	return err
}

// fresh is a Secret of ours with this content, in place of a current one (or nil) whose other metadata stay.
func fresh(current *corev1.Secret, kind corev1.SecretType, data map[string][]byte) *corev1.Secret {
	if current == nil {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{labelKey: labelValue, "app.kubernetes.io/part-of": "toolgate"}},
			Type:       kind, Data: data,
		}
	}
	next := current.DeepCopy()
	next.Data = data
	return next
}

// corrupt is the error of a Secret that cannot be read. It is not overwritten: somebody may need what is in it.
func (s secrets) corrupt(name string, err error) error {
	return &SecretError{s.namespace + "/" + name, Corrupt, err.Error() + "; it is left as it is: restore it, or delete it to have one made"}
}
