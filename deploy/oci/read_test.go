package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/deploy/oci/layout"
)

// read is what a tar holds, by the images' names.
type read map[string]readImage

func (r read) names() []string { return slices.Sorted(maps.Keys(r)) }

type readImage struct {
	config layout.Config
	files  map[string]*readFile
	size   int
}

type readFile struct {
	header tar.Header
	data   []byte
}

func (f *readFile) text() string {
	if f == nil {
		return ""
	}
	return string(f.data)
}

// readLayout checks every digest and size on its way.
func readLayout(t *testing.T, text []byte) read {
	t.Helper()
	outer := readTar(t, bytes.NewReader(text))
	get := func(d layout.Descriptor, v any) []byte {
		data := outer["blobs/"+strings.ReplaceAll(d.Digest, ":", "/")]
		if data == nil || digest(data.data) != d.Digest || len(data.data) != d.Size {
			t.Fatalf("blob %s is missing or another", d.Digest)
		}
		if v != nil {
			if err := json.Unmarshal(data.data, v); err != nil {
				t.Fatal(err)
			}
		}
		return data.data
	}
	var x layout.Index
	if err := json.Unmarshal(outer["index.json"].data, &x); err != nil {
		t.Fatal(err)
	}
	all := read{}
	for _, d := range x.Manifests {
		var m layout.Manifest
		i := readImage{files: map[string]*readFile{}}
		i.size = len(get(d, &m)) + len(get(m.Config, &i.config))
		for n, l := range m.Layers {
			packed := get(l, nil)
			i.size += len(packed)
			z, err := gzip.NewReader(bytes.NewReader(packed))
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(z)
			if err != nil {
				t.Fatal(err)
			}
			if got := digest(text); got != i.config.RootFS.DiffIDs[n] {
				t.Errorf("layer %d is %s, expected %s", n, got, i.config.RootFS.DiffIDs[n])
			}
			maps.Copy(i.files, readTar(t, bytes.NewReader(text)))
		}
		all[d.Annotations["io.containerd.image.name"]] = i
	}
	return all
}

func readTar(t *testing.T, r io.Reader) map[string]*readFile {
	t.Helper()
	all := map[string]*readFile{}
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		all[h.Name] = &readFile{*h, data}
	}
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}
