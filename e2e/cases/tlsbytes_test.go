//go:build linux

package cases

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"
	"time"
)

// echConfigList is the ECHConfigList (RFC 9849, section 4) of a server that nobody has, with this public name.
func echConfigList(t *testing.T, publicName string) []byte {
	t.Helper()
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	be := binary.BigEndian
	pub := key.PublicKey().Bytes()
	c := []byte{7}                 // config_id
	c = be.AppendUint16(c, 0x0020) // DHKEM(X25519, HKDF-SHA256)
	c = be.AppendUint16(c, uint16(len(pub)))
	c = append(c, pub...)
	c = append(c, 0, 4, 0, 1, 0, 1) // HKDF-SHA256, AES-128-GCM
	c = append(c, 32, byte(len(publicName)))
	c = append(c, publicName...)
	c = append(c, 0, 0) // no extensions
	config := be.AppendUint16([]byte{0xfe, 0x0d}, uint16(len(c)))
	config = append(config, c...)
	return append(be.AppendUint16(nil, uint16(len(config))), config...)
}

// keyUpdates writes TLS records by hand, with the keys that the key log gives (RFC 8446, sections 4.6.3 and 5.2).
func keyUpdates(t *testing.T, w *world) {
	before := w.goroutines(t)
	var log bytes.Buffer
	a := w.open(t, "api.ok.test:443")
	c := tls.Client(a, &tls.Config{RootCAs: w.roots(t), ServerName: "api.ok.test", KeyLogWriter: &log, MinVersion: tls.VersionTLS13})
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	if suite := c.ConnectionState().CipherSuite; suite != tls.TLS_AES_128_GCM_SHA256 {
		t.Skipf("NOT TESTED: the handshake chose %s", tls.CipherSuiteName(suite))
	}
	flood := sealed(t, log.String(), bytes.Repeat([]byte{24, 0, 0, 1, 0}, 64)) // KeyUpdate, update_not_requested
	_ = a.SetDeadline(time.Now().Add(5 * time.Second))
	for range 1000 {
		if _, err := a.Write(flood); err != nil {
			break
		}
	}
	if !a.ended(t) { // what the server had sent itself comes first
		buf := make([]byte, 4096)
		for {
			if _, err := a.Read(buf); err != nil {
				if strings.Contains(err.Error(), "timeout") {
					t.Error("the connection is still open after 5 s")
				}
				break
			}
		}
	}
	eventually(t, "goroutines are back", func() bool { return w.goroutines(t) <= before+5 })
	w.none(t)
}

// sealed returns handshake messages as the client's first record under its application keys.
func sealed(t *testing.T, keyLog string, messages []byte) []byte {
	t.Helper()
	var secret []byte
	for line := range strings.Lines(keyLog) {
		if f := strings.Fields(line); f[0] == "CLIENT_TRAFFIC_SECRET_0" {
			secret, _ = hex.DecodeString(f[2])
		}
	}
	expand := func(label string, n int) []byte {
		label = "tls13 " + label
		info := append([]byte{0, byte(n), byte(len(label))}, label...)
		out, err := hkdf.Expand(sha256.New, secret, string(append(info, 0)), n)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	block, err := aes.NewCipher(expand("key", 16))
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	plain := append(bytes.Clone(messages), 22) // inner type: handshake
	header := binary.BigEndian.AppendUint16([]byte{23, 3, 3}, uint16(len(plain)+aead.Overhead()))
	return append(header, aead.Seal(nil, expand("iv", 12), plain, header)...) // sequence number 0
}
