package detect

import "bytes"

// public are labels of PEM blocks that hold no secret. Any other block is masked.
var public = map[string]bool{
	"CERTIFICATE": true, "X509 CERTIFICATE": true, "TRUSTED CERTIFICATE": true, "X509 CRL": true, "CERTIFICATE REQUEST": true,
	"NEW CERTIFICATE REQUEST": true, "PUBLIC KEY": true, "RSA PUBLIC KEY": true, "DSA PUBLIC KEY": true, "ECDSA PUBLIC KEY": true,
	"PGP PUBLIC KEY BLOCK": true, "PGP SIGNATURE": true, "PGP SIGNED MESSAGE": true, "DH PARAMETERS": true, "EC PARAMETERS": true,
	"PKCS7": true, "CMS": true,
}

const (
	pemBegin = "-----BEGIN "
	pemEnd   = "-----END "
	pemDash  = "-----"
	maxLabel = 100
)

// pem finds a block from its first line to its last: to the END of the same label, or the end of the text. An END of another
// label ends nothing, since whoever writes the text could put one there.
func (c *scanner) pem(at int) {
	if at < c.blocks {
		return
	}
	label, body, ok := pemLabel(c.text[at:])
	if ok && label == nil {
		c.touch(at)
	}
	if !ok || public[string(label)] {
		return
	}
	end := pemClose(c.text, at+body, label)
	c.blocks = end
	if bytes.HasPrefix(c.text[at+body:end], []byte(pemEnd)) {
		return // empty
	}
	if label != nil && end == len(c.text) && c.begun.Class == "" && !bytes.HasSuffix(c.text, []byte(pemEnd+string(label)+pemDash)) {
		c.begun = Begun{Class: PrivateKey, until: pemEnd + string(label) + pemDash}
		c.touch(at)
	}
	c.found(at, end, PrivateKey)
}

// pemLabel reads the first line of a block, and returns what stands between the dashes and where the line ends.
// A line that is cut off has no label, but is one.
func pemLabel(text []byte) (label []byte, end int, ok bool) {
	if !foldPrefix(text, "-----begin ") {
		return nil, 0, false
	}
	rest := text[len(pemBegin):]
	i := bytes.Index(rest[:min(len(rest), maxLabel)], []byte(pemDash))
	if i < 0 {
		return nil, len(text), len(rest) < maxLabel && !bytes.ContainsAny(rest, "\r\n")
	}
	if bytes.ContainsAny(rest[:i], "\r\n") {
		return nil, 0, false
	}
	return rest[:i], len(pemBegin) + i + len(pemDash), true
}

// pemClose returns the end of the line that closes a block, or of the text.
func pemClose(text []byte, at int, label []byte) int {
	for {
		i := bytes.Index(text[at:], []byte(pemEnd))
		if i < 0 {
			return len(text)
		}
		at += i + len(pemEnd)
		if rest := text[at:]; len(label) > 0 && bytes.HasPrefix(rest, label) && bytes.HasPrefix(rest[len(label):], []byte(pemDash)) {
			return at + len(label) + len(pemDash)
		}
	}
}
