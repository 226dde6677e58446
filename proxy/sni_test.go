package proxy

import (
	"bufio"
	"bytes"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// TestRelayedTLSMustNameTheHost: the upstream of a relayed tunnel gets no byte of a hello that names another host.
func TestRelayedTLSMustNameTheHost(t *testing.T) {
	got := make(chan string, 1)
	l, target := rawUpstream(t, func(c net.Conn) {
		b, _ := io.ReadAll(c)
		_ = c.Close()
		got <- string(b)
	})
	for name, c := range map[string]struct {
		config *tls.Config
		passes bool
	}{
		"its own":          {&tls.Config{ServerName: "raw.ok.test"}, true},
		"in capitals":      {&tls.Config{ServerName: "RAW.ok.TEST"}, true},
		"another allowed":  {&tls.Config{ServerName: "pass.ok.test"}, false},
		"another":          {&tls.Config{ServerName: "evil.test"}, false},
		"a name below":     {&tls.Config{ServerName: "x.raw.ok.test"}, false},
		"none":             {&tls.Config{InsecureSkipVerify: true}, false},
		"an address":       {&tls.Config{ServerName: "127.0.0.1", InsecureSkipVerify: true}, false}, // sent as none
		"another in tls12": {&tls.Config{ServerName: "evil.test", MaxVersion: tls.VersionTLS12}, false},
		"encrypted":        {&tls.Config{ServerName: "hidden.test", EncryptedClientHelloConfigList: echList(t, "raw.ok.test"), MinVersion: tls.VersionTLS13}, false},
	} {
		for _, size := range []int{1 << 14, 40} {
			hello := inRecords(helloOf(t, c.config), size)
			conn := l.connectTo(target, string(hello[:10]))
			for _, part := range [][]byte{hello[10:30], hello[30:]} {
				if _, err := conn.Write(part); err != nil {
					t.Fatal(err)
				}
			}
			if c.passes {
				_ = conn.CloseWrite()
				if b := <-got; b != string(hello) {
					t.Errorf("%s: the upstream got %d bytes of %d", name, len(b), len(hello))
				}
				_ = conn.Close()
			} else {
				alert, err := io.ReadAll(conn)
				if !bytes.Equal(alert, alertUnrecognizedName) {
					t.Errorf("%s: the client got % x, %v", name, alert, err)
				}
				if b := <-got; b != "" {
					t.Errorf("%s: the upstream got %d bytes", name, len(b))
				}
			}
			rec := l.next()
			if c.passes != (rec.str("code") == "") || !c.passes && (rec.str("code") != "target_mismatch" || rec.str("decision") != "deny" || rec.str("error_class") != "client_hello") {
				t.Errorf("%s: record %v", name, rec)
			}
		}
	}
}

// echList returns an ECHConfigList (RFC 9849, section 4) with a fresh key and this public name.
func echList(t *testing.T, public string) []byte {
	t.Helper()
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	vector := func(b []byte) []byte { return append([]byte{byte(len(b) >> 8), byte(len(b))}, b...) }
	body := []byte{7, 0, 0x20}                                    // config_id, kem: X25519
	body = append(body, vector(key.PublicKey().Bytes())...)       // public_key
	body = append(body, vector([]byte{0, 1, 0, 1})...)            // HKDF-SHA256, AES-128-GCM
	body = append(append(body, 32, byte(len(public))), public...) // maximum_name_length, public_name
	body = append(body, 0, 0)                                     // extensions
	return vector(append([]byte{0xfe, 0x0d}, vector(body)...))
}

func TestEncryptedNamesMayBeAllowed(t *testing.T) {
	l := newLab(t, replaced(t, "upstreamCAFile:", "allowECH: true\n  upstreamCAFile:"))
	hello := helloOf(t, &tls.Config{ServerName: "hidden.test", EncryptedClientHelloConfigList: echList(t, "pass.ok.test"), MinVersion: tls.VersionTLS13})
	conn := l.connectTo(l.target("pass.ok.test"), string(hello))
	// The upstream knows nothing of ECH and answers for the outer name.
	if b, err := bufio.NewReader(conn).ReadByte(); err != nil || b != recordHandshake {
		t.Errorf("%d %v", b, err)
	}
}

// TestHelloThatStops: a client that begins a hello and stops does not keep the tunnel, parked or not.
func TestHelloThatStops(t *testing.T) {
	l := newLab(t, replaced(t, "headerTimeout: 2s", "headerTimeout: 700ms")) // longer than it takes to be told to park
	conn := l.connectTo(l.target("pass.ok.test"), string([]byte{22, 3, 1, 2, 0, 1, 0}))
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if b, err := io.ReadAll(conn); err != nil || !bytes.Equal(b, alertUnrecognizedName) {
		t.Errorf("% x %v", b, err)
	}
	if rec := l.next(); rec.str("code") != "target_mismatch" || rec.str("error_class") != "client_hello" {
		t.Errorf("record %v", rec)
	}
}

// TestServerSpeaksFirst: what the upstream says is not held up by what the client has not said.
func TestServerSpeaksFirst(t *testing.T) {
	l, target := rawUpstream(t, func(c net.Conn) {
		_, _ = io.WriteString(c, "220 ready\r\n")
		line, _ := bufio.NewReader(c).ReadString('\n')
		_, _ = io.WriteString(c, strings.ToUpper(line))
		_ = c.Close()
	})
	conn := l.connectTo(target, "")
	r := bufio.NewReader(conn)
	if line, err := r.ReadString('\n'); err != nil || line != "220 ready\r\n" {
		t.Fatalf("%q %v", line, err)
	}
	if _, err := io.WriteString(conn, "ehlo\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := r.ReadString('\n'); err != nil || line != "EHLO\n" {
		t.Errorf("%q %v", line, err)
	}
}
