package broker

import (
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/toolgate/toolgate/redact"
)

// onGitHub puts a token where GitHub looks for it: the API takes a bearer, git's own protocol a password.
type onGitHub struct {
	scheme        string // bearer, basic, or empty: by what is asked for
	bearer, basic inHeader
}

func newGitHubCredential(ref Ref, scheme, token string) *Credential {
	pair := base64.StdEncoding.EncodeToString([]byte("x-access-token:" + token))
	return (&Credential{
		ref: ref, value: redact.New(token), echoes: []redact.Secret{redact.New(pair)},
		put: &onGitHub{
			scheme: scheme,
			bearer: inHeader{"Authorization", redact.New("Bearer " + token)},
			basic:  inHeader{"Authorization", redact.New("Basic " + pair)},
		},
	}).watched()
}

func (*onGitHub) body(*http.Request) int64 { return 0 }

func (p *onGitHub) place(out *http.Request, body []byte) ([]byte, Reason) {
	if p.scheme == "basic" || p.scheme == "" && out.URL != nil && servesGit(out.URL.Path) {
		return p.basic.place(out, body)
	}
	return p.bearer.place(out, body)
}

// servesGit reports whether a path is of git's smart protocol (gitprotocol-http) or of its large files.
func servesGit(path string) bool {
	return strings.HasSuffix(path, "/info/refs") || strings.HasSuffix(path, "/git-upload-pack") ||
		strings.HasSuffix(path, "/git-receive-pack") || strings.Contains(path, "/info/lfs/")
}
