package layout

import (
	"archive/tar"
	"io"
	"strings"
	"time"
)

// IndexType is the media type of an [Index].
const IndexType = "application/vnd.oci.image.index.v1+json"

// Index names manifests (image-index.md).
type Index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []Descriptor `json:"manifests"`
}

// Layout is an image layout (image-layout.md). The zero value is empty.
type Layout struct {
	images []namedImage
}

type namedImage struct {
	name   string
	images []Image // one for each platform
}

// Add adds an image under a full name with a tag: one image for each platform, at least one.
func (l *Layout) Add(name string, platforms ...Image) {
	l.images = append(l.images, namedImage{name, platforms})
}

// Write writes the layout as a tar, each blob once. Errors are w's.
func (l *Layout) Write(w io.Writer) error {
	t := tar.NewWriter(w)
	written := map[string]bool{}
	add := func(name string, data []byte) error {
		if written[name] {
			return nil
		}
		written[name] = true
		return addFile(t, File{Path: name, Mode: 0o644, Data: data}, time.Unix(0, 0))
	}
	top := Index{SchemaVersion: 2, MediaType: IndexType}
	for _, named := range l.images {
		d, blobs, err := named.entry()
		if err != nil {
			return err
		}
		top.Manifests = append(top.Manifests, d)
		for _, b := range blobs {
			if err := add("blobs/"+strings.ReplaceAll(b.digest, ":", "/"), b.data); err != nil {
				return err
			}
		}
	}
	text, err := newJSON(IndexType, top)
	if err != nil {
		return err
	}
	if err := add("index.json", text.data); err != nil {
		return err
	}
	if err := add("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)); err != nil {
		return err
	}
	return t.Close()
}

// entry is an image's place in the index, and its blobs: one manifest, or an index of its own if there are several platforms.
func (n namedImage) entry() (Descriptor, []blob, error) {
	var blobs []blob
	inner := Index{SchemaVersion: 2, MediaType: IndexType}
	for _, i := range n.images {
		blobs = append(append(blobs, i.parts...), i.manifest)
		d := i.manifest.descriptor()
		d.Platform = &i.Platform
		inner.Manifests = append(inner.Manifests, d)
	}
	d := inner.Manifests[0]
	if len(n.images) > 1 {
		b, err := newJSON(IndexType, inner)
		if err != nil {
			return d, nil, err
		}
		blobs, d = append(blobs, b), b.descriptor()
	}
	_, tag, _ := strings.Cut(n.name[strings.LastIndexByte(n.name, '/')+1:], ":")
	d.Annotations = map[string]string{
		"io.containerd.image.name":          fullName(n.name), // what containerd calls it; the other is only the tag by the specification
		"org.opencontainers.image.ref.name": tag,
	}
	return d, blobs, nil
}

// fullName begins with a registry, as Kubernetes completes the names in pods: one that was imported without it is never found.
func fullName(name string) string {
	first, _, more := strings.Cut(name, "/")
	if more && (strings.ContainsAny(first, ".:") || first == "localhost") {
		return name
	}
	return "docker.io/" + name
}
