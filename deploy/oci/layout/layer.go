package layout

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"time"
)

// File is an entry of a root file system.
type File struct {
	Path       string // without a leading slash; with one at the end it is a folder
	Mode       int64  // permissions, as chmod takes them
	Data       []byte
	Owner      int    // user and group
	Link       string // what a symbolic link points to; Data is not used
	Capability []byte // the extended attribute security.capability, nil for none
}

// Dir reports whether the entry is a folder.
func (f File) Dir() bool { return strings.HasSuffix(f.Path, "/") }

// Layer is a compressed layer.
type Layer struct {
	blob
	diffID string // the digest of the tar in it
}

// NewLayer packs files in their order; a folder goes before what it holds. Every entry has the date of modified.
func NewLayer(files []File, modified time.Time) (Layer, error) {
	var text bytes.Buffer
	t := tar.NewWriter(&text)
	for _, f := range files {
		if err := addFile(t, f, modified); err != nil {
			return Layer{}, err
		}
	}
	if err := t.Close(); err != nil {
		return Layer{}, err
	}
	diffID := digest(text.Bytes())
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return Layer{}, err
	}
	if _, err := io.Copy(z, &text); err != nil {
		return Layer{}, err
	}
	if err := z.Close(); err != nil {
		return Layer{}, err
	}
	return Layer{newBlob("application/vnd.oci.image.layer.v1.tar+gzip", packed.Bytes()), diffID}, nil
}

func addFile(t *tar.Writer, f File, modified time.Time) error {
	h := &tar.Header{Name: f.Path, Mode: f.Mode, Size: int64(len(f.Data)), Uid: f.Owner, Gid: f.Owner, ModTime: modified,
		Typeflag: tar.TypeReg, Format: tar.FormatPAX}
	switch {
	case f.Dir():
		h.Typeflag = tar.TypeDir
	case f.Link != "":
		h.Typeflag, h.Linkname, h.Size, f.Data = tar.TypeSymlink, f.Link, 0, nil
	}
	if f.Capability != nil { // how tar keeps extended attributes, and what containerd and docker read
		h.PAXRecords = map[string]string{"SCHILY.xattr.security.capability": string(f.Capability)}
	}
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	_, err := t.Write(f.Data)
	return err
}
