package main

import (
	"encoding/pem"
	"strings"

	"golang.org/x/crypto/x509roots/fallback/bundle"

	"github.com/toolgate/toolgate/deploy/oci/layout"
)

// uid is the user and group that the programs run as.
const uid = 64117

// baseFiles are the same in all images, and so one layer that is stored and pulled once: who the user is, and where a program may write. Folders are listed before what they hold.
func baseFiles() []layout.File {
	return []layout.File{
		{Path: "etc/", Mode: 0o755},
		{Path: "etc/passwd", Mode: 0o644, Data: []byte("root:x:0:0:root:/:/sbin/nologin\ntoolgate:x:64117:64117:Toolgate:/:/sbin/nologin\n")},
		{Path: "etc/group", Mode: 0o644, Data: []byte("root:x:0:\ntoolgate:x:64117:\n")},
		{Path: "etc/ssl/", Mode: 0o755},
		{Path: "etc/ssl/certs/", Mode: 0o755},
		{Path: "etc/toolgate/", Mode: 0o755},
		{Path: "tmp/", Mode: 0o1777},
		{Path: "var/", Mode: 0o755},
		{Path: "var/lib/", Mode: 0o755},
		{Path: "var/lib/toolgate/", Mode: 0o700, Owner: uid},
		{Path: "var/run/", Mode: 0o755},
		{Path: "var/run/toolgate/", Mode: 0o755, Owner: uid},
	}
}

// programFiles are an image's own.
func programFiles(k kind, prog program) []layout.File {
	files := []layout.File{
		{Path: k.program, Mode: 0o755, Data: prog.binary, Capability: k.capability},
		{Path: "sbom.json", Mode: 0o644, Data: prog.sbom},
	}
	if k.roots {
		files = append(files, layout.File{Path: "etc/ssl/certs/ca-certificates.crt", Mode: 0o644, Data: roots()})
	}
	return files
}

// roots are Mozilla's, as golang.org/x/crypto publishes them: a module with a version and a checksum, where the machine's own file would
// differ from one to the next. Roots that Mozilla trusts only for certificates of before some day are left out: a file cannot say so.
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
