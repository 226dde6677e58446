package main

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/toolgate/toolgate/devissuer"
)

// TestMain makes the test binary the program as well: scripts and TestProcess find it as "sidecar".
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"sidecar": main})
}

// TestScript runs testdata/script: what a person sees of the commands.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"expand": scriptExpand, "docs": scriptDocs, "keys": scriptKeys, "port": scriptPort, "mint": scriptMint, "waitfor": scriptWaitFor,
			"address": scriptAddress, "request": scriptRequest,
		},
	})
}

// scriptExpand: "expand FILE..." replaces $NAME in files by the script's variables.
func scriptExpand(ts *testscript.TestScript, _ bool, files []string) {
	for _, f := range files {
		text := os.Expand(ts.ReadFile(f), ts.Getenv)
		ts.Check(os.WriteFile(ts.MkAbs(f), []byte(text), 0o600))
	}
}

// scriptDocs: "docs PAGE FILE" writes the first YAML block of a page of docs/ into a file.
func scriptDocs(ts *testscript.TestScript, _ bool, args []string) {
	page, err := os.ReadFile("../../docs/" + args[0])
	ts.Check(err)
	_, rest, found := strings.Cut(string(page), "```yaml\n")
	block, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		ts.Fatalf("%s has no YAML block", args[0])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(block), 0o600))
}

// scriptKeys: "keys FOLDER" makes a CA (ca.pem, ca-key.pem), a client's key (leaf-key.pem), one that signs records (audit.pem, audit.pub),
// and a token file.
func scriptKeys(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(os.MkdirAll(ts.MkAbs(args[0]), 0o700))
	cert, key, err := newCAFiles()
	ts.Check(err)
	_, leafKey, err := newCAFiles()
	ts.Check(err)
	audit, auditPublic, err := newSigningFiles()
	ts.Check(err)
	for name, text := range map[string]string{"audit.pem": audit, "audit.pub": auditPublic, "ca.pem": cert, "ca-key.pem": key, "leaf-key.pem": leafKey, "token": "workload.token.value"} {
		ts.Check(os.WriteFile(filepath.Join(ts.MkAbs(args[0]), name), []byte(text), 0o600))
	}
}

// newSigningFiles makes an Ed25519 key and returns it and its public half as PEM.
func newSigningFiles() (private, public string, err error) {
	publicKey, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", "", err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", "", err
	}
	publicDER, err := x509.MarshalPKIXPublicKey(publicKey)
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return text("PRIVATE KEY", der), text("PUBLIC KEY", publicDER), err
}

// newCAFiles makes a CA and returns its certificate and key as PEM.
func newCAFiles() (cert, key string, err error) {
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(signer)
	if err != nil {
		return "", "", err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, signer.Public(), signer)
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return text("CERTIFICATE", der), text("PRIVATE KEY", keyDER), err
}

// scriptPort: "port closed|held VAR" sets a variable to a loopback port that nobody serves, or that is taken.
func scriptPort(ts *testscript.TestScript, _ bool, args []string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	_, p, err := net.SplitHostPort(ln.Addr().String())
	ts.Check(err)
	ts.Setenv(args[1], p)
	if args[0] == "held" {
		ts.Defer(func() { _ = ln.Close() })
		return
	}
	ts.Check(ln.Close())
}

// scriptMint: "mint FILE ISSUER [claim=value...]" writes a token that says it is of this issuer. Nobody serves its keys.
func scriptMint(ts *testscript.TestScript, _ bool, args []string) {
	issuer, err := devissuer.New(devissuer.Options{URL: args[1]})
	ts.Check(err)
	extra := map[string]any{}
	for _, a := range args[2:] {
		name, value, _ := strings.Cut(a, "=")
		extra[name] = value
	}
	token, err := issuer.Mint(claims(extra))
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(token+"\n"), 0o600))
}

// scriptWaitFor: "waitfor FILE PATTERN" waits until a line of a file matches.
func scriptWaitFor(ts *testscript.TestScript, _ bool, args []string) {
	waitForLine(ts, args[0], args[1])
}

func waitForLine(ts *testscript.TestScript, file, pattern string) []string {
	re, err := regexp.Compile("(?m)" + pattern)
	ts.Check(err)
	limit := time.NewTimer(patience)
	defer limit.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		b, err := os.ReadFile(ts.MkAbs(file))
		if m := re.FindStringSubmatch(string(b)); err == nil && m != nil {
			return m
		}
		select {
		case <-tick.C:
		case <-limit.C:
			ts.Fatalf("%s has no line with %s:\n%s", file, pattern, b)
		}
	}
}

// scriptAddress: "address FILE LISTENER VAR" waits for the log to name a listener's address and sets a variable to it.
func scriptAddress(ts *testscript.TestScript, _ bool, args []string) {
	ts.Setenv(args[2], waitForLine(ts, args[0], `"listening","listener":"`+args[1]+`","address":"([^"]+)"`)[1])
}

// scriptRequest: "request FILE URL [PROXY [TOKENFILE]]" writes status, code and body of a GET into a file.
func scriptRequest(ts *testscript.TestScript, _ bool, args []string) {
	req, err := http.NewRequest(http.MethodGet, args[1], nil)
	ts.Check(err)
	tr := &http.Transport{DisableKeepAlives: true}
	if len(args) > 2 {
		proxyURL := *req.URL
		proxyURL.Scheme, proxyURL.Host, proxyURL.Path = "http", args[2], ""
		tr.Proxy = http.ProxyURL(&proxyURL)
	}
	if len(args) > 3 {
		req.Header.Set("Toolgate-Authorization", "Bearer "+strings.TrimSpace(ts.ReadFile(args[3])))
	}
	res, err := (&http.Client{Transport: tr, Timeout: patience}).Do(req)
	ts.Check(err)
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	ts.Check(err)
	text := res.Status + "\n" + res.Header.Get("Toolgate-Denial") + "\n" + string(body)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}
