package proxy

import (
	"encoding/binary"
	"errors"
)

// maxHello bounds a ClientHello with its record headers. Post-quantum key shares make some of 2 KiB; 64 KiB is more than any
// client sends, and what a handshake message could be at most is 16 MiB.
const maxHello = 64 << 10

var (
	errHelloShort     = errors.New("the ClientHello is not complete")
	errHelloMalformed = errors.New("the ClientHello is malformed")
	errHelloLarge     = errors.New("the ClientHello is too large")
)

// hello is what a relayed tunnel's first message says of where it goes.
type hello struct {
	serverName string // as sent; "" where there is none
	ech        bool   // carries the encrypted_client_hello extension, real or GREASE
}

// parseHello reads the ClientHello (RFC 8446, section 4.1.2) at the start of a TLS connection. b may hold it in any number
// of records (section 5.1), and may go on after it. errHelloShort asks for more bytes.
func parseHello(b []byte) (hello, error) {
	message, err := handshakeMessage(b)
	if err != nil {
		return hello{}, err
	}
	m := fields(message)
	m.skip(2 + 32) // legacy_version, random
	m.vector(1)    // legacy_session_id
	m.vector(2)    // cipher_suites
	m.vector(1)    // legacy_compression_methods
	var h hello
	if len(m.rest) == 0 && !m.bad { // TLS 1.2 without extensions
		return h, nil
	}
	extensions := fields(m.vector(2))
	if m.bad || len(m.rest) != 0 {
		return hello{}, errHelloMalformed
	}
	seen := map[uint16]bool{}
	for len(extensions.rest) > 0 {
		kind := extensions.uint16()
		body := extensions.vector(2)
		if extensions.bad || seen[kind] { // a server may take either of two
			return hello{}, errHelloMalformed
		}
		seen[kind] = true
		switch kind {
		case extServerName:
			if h.serverName, err = serverName(body); err != nil {
				return hello{}, err
			}
		case extECH:
			h.ech = true
		}
	}
	return h, nil
}

const (
	extServerName = 0      // RFC 6066, section 3
	extECH        = 0xfe0d // RFC 9849
)

// serverName reads the one host_name of a server_name extension.
func serverName(body []byte) (string, error) {
	list := fields(body)
	names := fields(list.vector(2))
	kind := names.uint8()
	name := names.vector(2)
	if list.bad || len(list.rest) != 0 || names.bad || len(names.rest) != 0 || kind != 0 || len(name) == 0 {
		return "", errHelloMalformed
	}
	return string(name), nil
}

// handshakeMessage joins the records of the first handshake message and returns its body.
func handshakeMessage(b []byte) ([]byte, error) {
	if len(b) > maxHello {
		b = b[:maxHello]
	}
	var joined []byte
	for rest := b; ; {
		if need, ok := helloLength(joined); ok && len(joined) >= need {
			return joined[4:need], nil
		}
		if len(rest) < 5 {
			return nil, short(b)
		}
		size := int(binary.BigEndian.Uint16(rest[3:5]))
		if rest[0] != recordHandshake || rest[1] != 3 || size == 0 || size > 1<<14 {
			return nil, errHelloMalformed
		}
		if len(rest) < 5+size {
			if len(joined) == 0 && len(rest) > 5 && rest[5] != helloType {
				return nil, errHelloMalformed
			}
			return nil, short(b)
		}
		if joined == nil {
			joined = rest[5 : 5+size : 5+size] // one record, the usual case, is not copied
		} else {
			joined = append(joined, rest[5:5+size]...)
		}
		if joined[0] != helloType {
			return nil, errHelloMalformed
		}
		if need, ok := helloLength(joined); ok && need > maxHello {
			return nil, errHelloLarge
		}
		rest = rest[5+size:]
	}
}

const helloType = 1 // RFC 8446, section 4

// helloLength returns the length of the handshake message with its header.
func helloLength(joined []byte) (int, bool) {
	if len(joined) < 4 {
		return 0, false
	}
	return 4 + int(joined[1])<<16 + int(joined[2])<<8 + int(joined[3]), true
}

func short(b []byte) error {
	if len(b) >= maxHello {
		return errHelloLarge
	}
	return errHelloShort
}

// reader reads TLS presentation language (RFC 8446, section 3). After a mistake it gives nothing more.
type reader struct {
	rest []byte
	bad  bool
}

func fields(b []byte) *reader { return &reader{rest: b} }

func (r *reader) skip(n int) []byte {
	if r.bad || len(r.rest) < n {
		r.bad, r.rest = true, nil
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) uint8() int {
	if b := r.skip(1); b != nil {
		return int(b[0])
	}
	return 0
}

func (r *reader) uint16() uint16 {
	if b := r.skip(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

// vector reads a vector whose length takes n bytes.
func (r *reader) vector(n int) []byte {
	size := 0
	for _, c := range r.skip(n) {
		size = size<<8 | int(c)
	}
	return r.skip(size)
}
