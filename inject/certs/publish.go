package certs

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// publish gives the CA bundle to the webhook configurations.
func (k *Keeper) publish(ctx context.Context, bundle []byte) error {
	if k.WebhookConfig == "" {
		return nil
	}
	err := k.publishTo(ctx, "mutatingwebhookconfigurations", bundle)
	if k.Validating {
		err = errors.Join(err, k.publishTo(ctx, "validatingwebhookconfigurations", bundle))
	}
	return err
}

// publishTo patches the configuration where it differs, and only the version that was read.
func (k *Keeper) publishTo(ctx context.Context, resource string, bundle []byte) error {
	client := k.Client.Resource(schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: resource})
	for range tries {
		current, err := client.Get(ctx, k.WebhookConfig, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("%s %s: %w", resource, k.WebhookConfig, err)
		}
		patch, err := k.bundlePatch(current, bundle)
		if err != nil || patch == nil {
			return err
		}
		_, err = client.Patch(ctx, k.WebhookConfig, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: labelValue})
		if err == nil {
			k.Log.Info("certificates", "configuration", resource+"/"+k.WebhookConfig, "change", "the CA bundle was replaced")
			return nil
		}
		if !apierrors.IsConflict(err) {
			return fmt.Errorf("%s %s: %w", resource, k.WebhookConfig, err)
		}
	}
	return fmt.Errorf("%s %s: others changed it each time before this replica could", resource, k.WebhookConfig)
}

// bundlePatch returns the JSON patch that gives the bundle to every webhook that is served by our Service, or nil when they have it. It names
// single fields: a merge patch would replace the list of webhooks whole, with fields in it that this version may not know. To set
// the resource version is to demand it.
func (k *Keeper) bundlePatch(current *unstructured.Unstructured, bundle []byte) ([]byte, error) {
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value string `json:"value"`
	}
	ops := []operation{{"replace", "/metadata/resourceVersion", current.GetResourceVersion()}}
	hooks, _, err := unstructured.NestedSlice(current.Object, "webhooks")
	if err != nil {
		return nil, err
	}
	text, served := base64.StdEncoding.EncodeToString(bundle), false
	for i, h := range hooks {
		hook, _ := h.(map[string]any)
		name, _, _ := unstructured.NestedString(hook, "clientConfig", "service", "name")
		namespace, _, _ := unstructured.NestedString(hook, "clientConfig", "service", "namespace")
		if name != k.Service || namespace != k.Namespace {
			continue
		}
		served = true
		old, _, _ := unstructured.NestedString(hook, "clientConfig", "caBundle")
		if raw, err := base64.StdEncoding.DecodeString(old); err != nil || !bytes.Equal(raw, bundle) {
			ops = append(ops, operation{"add", fmt.Sprintf("/webhooks/%d/clientConfig/caBundle", i), text})
		}
	}
	if !served {
		return nil, fmt.Errorf("%s %s: found no webhook of Service %s/%s in it, expected one", current.GetKind(), k.WebhookConfig, k.Namespace, k.Service)
	}
	if len(ops) == 1 {
		return nil, nil
	}
	return json.Marshal(ops)
}
