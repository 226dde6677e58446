package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// blob is content that is found by its digest.
type blob struct {
	mediaType string
	digest    string
	data      []byte
}

func newBlob(mediaType string, data []byte) blob { return blob{mediaType, digest(data), data} }

func newJSON(mediaType string, v any) (blob, error) {
	data, err := json.Marshal(v)
	return newBlob(mediaType, data), err
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// descriptor points at a blob (OCI image specification 1.1, descriptor.md).
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

func (b blob) descriptor() descriptor {
	return descriptor{MediaType: b.mediaType, Digest: b.digest, Size: len(b.data)}
}

type imageConfig struct {
	platform
	Created string        `json:"created"`
	Config  runConfig     `json:"config"`
	RootFS  rootFS        `json:"rootfs"`
	History []historyItem `json:"history"`
}

type runConfig struct {
	User       string            `json:"User"`
	Env        []string          `json:"Env"`
	Entrypoint []string          `json:"Entrypoint"`
	WorkingDir string            `json:"WorkingDir"`
	Labels     map[string]string `json:"Labels"`
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

type historyItem struct {
	Created   string `json:"created"`
	CreatedBy string `json:"created_by"`
}

type manifest struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	Config        descriptor        `json:"config"`
	Layers        []descriptor      `json:"layers"`
	Annotations   map[string]string `json:"annotations"`
}

// image is one image for one platform.
type image struct {
	platform platform
	manifest blob
	parts    []blob // config and layers
	size     int    // of all, as they are pulled
}

func newImage(k kind, p platform, prog program, o options) (image, error) {
	base, err := newLayer(baseFiles(), o.created)
	if err != nil {
		return image{}, err
	}
	own, err := newLayer(programFiles(k, prog), o.created)
	if err != nil {
		return image{}, err
	}
	date, labels := o.created.Format(time.RFC3339), labels(k, o)
	config, err := newJSON("application/vnd.oci.image.config.v1+json", imageConfig{
		platform: p, Created: date,
		Config: runConfig{User: fmt.Sprintf("%d:%d", uid, uid), Env: []string{"PATH=/"}, Entrypoint: []string{"/" + k.program}, WorkingDir: "/", Labels: labels},
		RootFS: rootFS{"layers", []string{base.diffID, own.diffID}},
		History: []historyItem{
			{date, "toolgate: user, roots, folders"},
			{date, "toolgate: " + k.program},
		},
	})
	if err != nil {
		return image{}, err
	}
	m, err := newJSON("application/vnd.oci.image.manifest.v1+json", manifest{
		SchemaVersion: 2, MediaType: "application/vnd.oci.image.manifest.v1+json", Config: config.descriptor(),
		Layers: []descriptor{base.descriptor(), own.descriptor()}, Annotations: labels,
	})
	if err != nil {
		return image{}, err
	}
	i := image{platform: p, manifest: m, parts: []blob{config, base.blob, own.blob}, size: len(m.data)}
	for _, b := range i.parts {
		i.size += len(b.data)
	}
	return i, nil
}

// labels are the predefined keys (OCI image specification 1.1, annotations.md).
func labels(k kind, o options) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       "toolgate/" + k.name,
		"org.opencontainers.image.description": k.description,
		"org.opencontainers.image.version":     o.version,
		"org.opencontainers.image.created":     o.created.Format(time.RFC3339),
		"org.opencontainers.image.source":      "https://" + module,
		"org.opencontainers.image.vendor":      "Toolgate",
	}
}
