package certs

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Keys of the Secret of the first admin.
const (
	keyToken  = "token"  // for whoever may read the Secret
	keyTokens = "tokens" // the file of killswitch serve --tokens, with the token's hash
)

// adminToken makes a token for the first admin of the kill switch when there is no Secret of that name, so that somebody may ask it. It is
// never made anew, nor is what a person puts in its place.
func (k *Keeper) adminToken(ctx context.Context) error {
	name := k.Release + "-killswitch-admin"
	return k.secrets.settle(ctx, name, func(current *corev1.Secret) (*corev1.Secret, string, error) {
		if current != nil {
			if len(bytes.TrimSpace(current.Data[keyTokens])) == 0 {
				return nil, "", k.secrets.corrupt(name, errors.New("it has no lines for --tokens"))
			}
			return nil, "", nil
		}
		// As killswitch token makes it. Its package is not used, since the injector would link NATS with it.
		token := "tgks_" + rand.Text()
		line := fmt.Sprintf("sha256:%x name=%s roles=admin\n", sha256.Sum256([]byte(token)), k.Release+"-admin")
		return fresh(nil, corev1.SecretTypeOpaque, map[string][]byte{keyToken: []byte(token), keyTokens: []byte(line)}), "a token for the kill switch's first admin was made", nil
	})
}
