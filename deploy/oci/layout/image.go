package layout

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
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

// Platform is an operating system and an architecture by their Go names, which are OCI's as well.
type Platform struct {
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
}

// String is "linux/amd64".
func (p Platform) String() string { return p.OS + "/" + p.Architecture }

// Descriptor points at a blob (descriptor.md).
type Descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *Platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

func (b blob) descriptor() Descriptor {
	return Descriptor{MediaType: b.mediaType, Digest: b.digest, Size: len(b.data)}
}

// Config is an image's configuration (config.md).
type Config struct {
	Platform
	Created time.Time `json:"created"`
	Config  Run       `json:"config"`
	RootFS  RootFS    `json:"rootfs"`
	History []History `json:"history,omitempty"`
}

// Run is how a container of the image is started. User is "uid:gid".
type Run struct {
	User       string            `json:"User,omitempty"`
	Env        []string          `json:"Env,omitempty"`
	Entrypoint []string          `json:"Entrypoint,omitempty"`
	Cmd        []string          `json:"Cmd,omitempty"`
	WorkingDir string            `json:"WorkingDir,omitempty"`
	Labels     map[string]string `json:"Labels,omitempty"`
}

// RootFS names the layers by the digests of their tars.
type RootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

// History says what a layer is.
type History struct {
	Created   time.Time `json:"created"`
	CreatedBy string    `json:"created_by"`
}

// Manifest is an image for one platform (manifest.md).
type Manifest struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	Config        Descriptor        `json:"config"`
	Layers        []Descriptor      `json:"layers"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

// Image is one image for one platform.
type Image struct {
	Platform Platform
	Digest   string // of the manifest
	Size     int    // bytes of all that is pulled: manifest, configuration, layers
	manifest blob
	parts    []blob // configuration and layers
}

// NewImage puts layers together. It fills c.RootFS. The run's labels are the manifest's annotations as well.
func NewImage(c Config, layers ...Layer) (Image, error) {
	m := Manifest{SchemaVersion: 2, MediaType: "application/vnd.oci.image.manifest.v1+json", Annotations: c.Config.Labels}
	c.RootFS = RootFS{Type: "layers"}
	var parts []blob
	for _, l := range layers {
		c.RootFS.DiffIDs = append(c.RootFS.DiffIDs, l.diffID)
		m.Layers = append(m.Layers, l.descriptor())
		parts = append(parts, l.blob)
	}
	config, err := newJSON("application/vnd.oci.image.config.v1+json", c)
	if err != nil {
		return Image{}, err
	}
	m.Config = config.descriptor()
	parts = append(parts, config)
	text, err := newJSON(m.MediaType, m)
	if err != nil {
		return Image{}, err
	}
	i := Image{Platform: c.Platform, Digest: text.digest, Size: len(text.data), manifest: text, parts: parts}
	for _, b := range parts {
		i.Size += len(b.data)
	}
	return i, nil
}
