package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"time"
)

// layer is a compressed layer.
type layer struct {
	blob
	diffID string // the digest of the tar in it
}

// newLayer writes files into a tar in which nothing depends on the machine.
func newLayer(files []file, created time.Time) (layer, error) {
	var text bytes.Buffer
	t := tar.NewWriter(&text)
	for _, f := range files {
		if err := addFile(t, f, created); err != nil {
			return layer{}, err
		}
	}
	if err := t.Close(); err != nil {
		return layer{}, err
	}
	diffID := digest(text.Bytes())
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return layer{}, err
	}
	if _, err := io.Copy(z, &text); err != nil {
		return layer{}, err
	}
	if err := z.Close(); err != nil {
		return layer{}, err
	}
	return layer{newBlob("application/vnd.oci.image.layer.v1.tar+gzip", packed.Bytes()), diffID}, nil
}

func addFile(t *tar.Writer, f file, created time.Time) error {
	h := &tar.Header{Name: f.path, Mode: f.mode, Size: int64(len(f.data)), Uid: f.owner, Gid: f.owner, ModTime: created,
		Typeflag: tar.TypeReg, Format: tar.FormatPAX}
	if strings.HasSuffix(f.path, "/") {
		h.Typeflag = tar.TypeDir
	}
	if f.netAdmin { // how tar keeps extended attributes, and what containerd and docker read
		h.PAXRecords = map[string]string{"SCHILY.xattr.security.capability": string(netAdminFile)}
	}
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	_, err := t.Write(f.data)
	return err
}
