package main

import (
	"archive/tar"
	"io"
	"strings"
	"time"
)

const indexType = "application/vnd.oci.image.index.v1+json"

// index names manifests (OCI image specification 1.1, image-index.md).
type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

// layout is an OCI image layout (image-layout.md).
type layout struct {
	images []namedImage
}

type namedImage struct {
	name   string
	images []image // one for each platform
}

func (l *layout) add(name string, images []image) {
	l.images = append(l.images, namedImage{name, images})
}

// write writes the layout as a tar, each blob once.
func (l *layout) write(w io.Writer) error {
	t := tar.NewWriter(w)
	written := map[string]bool{}
	add := func(name string, data []byte) error {
		if written[name] {
			return nil
		}
		written[name] = true
		return addFile(t, file{path: name, mode: 0o644, data: data}, time.Unix(0, 0))
	}
	top := index{SchemaVersion: 2, MediaType: indexType}
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
	text, err := newJSON(indexType, top)
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
func (n namedImage) entry() (descriptor, []blob, error) {
	var blobs []blob
	inner := index{SchemaVersion: 2, MediaType: indexType}
	for _, i := range n.images {
		blobs = append(append(blobs, i.parts...), i.manifest)
		d := i.manifest.descriptor()
		d.Platform = &i.platform
		inner.Manifests = append(inner.Manifests, d)
	}
	d := inner.Manifests[0]
	if len(n.images) > 1 {
		b, err := newJSON(indexType, inner)
		if err != nil {
			return d, nil, err
		}
		blobs, d = append(blobs, b), b.descriptor()
	}
	_, tag, _ := strings.Cut(n.name[strings.LastIndexByte(n.name, '/')+1:], ":")
	d.Annotations = map[string]string{
		"io.containerd.image.name":          n.name, // what containerd calls it; the other is only the tag by the specification
		"org.opencontainers.image.ref.name": tag,
	}
	return d, blobs, nil
}
