package main

import (
	"encoding/pem"
	"strings"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// uid is the user and group that the programs run as.
const uid = 64117

// file is an entry of an image's root file system: a folder if it ends in a slash.
type file struct {
	path     string // without a leading slash
	mode     int64
	data     []byte
	owner    int
	netAdmin bool
}

// baseFiles are the same in all images, and so one layer that is stored and pulled once: who the user is, where a program may write, and
// which roots it trusts. Folders are listed before what they hold.
func baseFiles() []file {
	return []file{
		{path: "etc/", mode: 0o755},
		{path: "etc/passwd", mode: 0o644, data: []byte("root:x:0:0:root:/:/sbin/nologin\ntoolgate:x:64117:64117:Toolgate:/:/sbin/nologin\n")},
		{path: "etc/group", mode: 0o644, data: []byte("root:x:0:\ntoolgate:x:64117:\n")},
		{path: "etc/ssl/", mode: 0o755},
		{path: "etc/ssl/certs/", mode: 0o755},
		{path: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, data: roots()},
		{path: "etc/toolgate/", mode: 0o755},
		{path: "tmp/", mode: 0o1777},
		{path: "var/", mode: 0o755},
		{path: "var/lib/", mode: 0o755},
		{path: "var/lib/toolgate/", mode: 0o700, owner: uid},
		{path: "var/run/", mode: 0o755},
		{path: "var/run/toolgate/", mode: 0o755, owner: uid},
	}
}

// programFiles are an image's own.
func programFiles(k kind, prog program) []file {
	return []file{
		{path: k.program, mode: 0o755, data: prog.binary, netAdmin: k.netAdmin},
		{path: "sbom.json", mode: 0o644, data: prog.sbom},
	}
}

// roots are Mozilla's, as golang.org/x/crypto publishes them: a module with a version and a checksum, where the machine's own file would
// differ from one to the next. They are a file and not linked in, since the sidecar hands the same ones on to its tools, and an operator may
// mount others over it. Roots that Mozilla trusts only for certificates of before some day are left out: a file cannot say so.
func roots() []byte {
	var all strings.Builder
	for r := range bundle.Roots() {
		if r.Constraint == nil {
			_ = pem.Encode(&all, &pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate})
		}
	}
	return []byte(all.String())
}

// netAdminFile is cap_net_admin in the sets permitted and effective, as the extended attribute security.capability holds it: revision 2
// with the effective bit, then permitted and inheritable, of the lower and the upper 32 capabilities (linux/capability.h,
// struct vfs_cap_data).
var netAdminFile = []byte{
	0x01, 0, 0, 0x02,
	0, 0x10, 0, 0, 0, 0, 0, 0,
	0, 0, 0, 0, 0, 0, 0, 0,
}
