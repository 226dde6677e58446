package detect

import (
	"bytes"
	"crypto/sha256"
)

const (
	base58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
	bech32 = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
)

// bitcoin finds the address that begins with the digit here, or with the letters before it: 1… and 3… in base58 with a checksum,
// bc1… in bech32 (BIP 173) or bech32m (BIP 350).
func (c *scanner) bitcoin(at, letters int) {
	start := letters
	if start > 0 && wordByte[c.text[start-1]] {
		return
	}
	end := run(c.text, start, &wordByte)
	address := c.text[start:end]
	switch {
	case start == at && (address[0] == '1' || address[0] == '3') && len(address) >= 26 && len(address) <= 35 && base58Check(address):
	case len(address) >= 14 && len(address) <= 74 && foldPrefix(address, "bc1") && bech32Check(bytes.ToLower(address)):
	default:
		return
	}
	c.found(start, end, Wallet)
}

// base58Check reports whether 25 bytes come out, of which the last four check the others.
func base58Check(address []byte) bool {
	var out [25]byte
	for _, b := range address {
		carry := bytes.IndexByte([]byte(base58), b)
		if carry < 0 {
			return false
		}
		for i := len(out) - 1; i >= 0; i-- {
			carry += 58 * int(out[i])
			out[i] = byte(carry)
			carry >>= 8
		}
		if carry != 0 {
			return false
		}
	}
	first := sha256.Sum256(out[:21])
	second := sha256.Sum256(first[:])
	return bytes.Equal(second[:4], out[21:])
}

func bech32Check(address []byte) bool {
	sum := uint32(1)
	step := func(v int) {
		top := sum >> 25
		sum = (sum&0x1ffffff)<<5 ^ uint32(v)
		for i, g := range [...]uint32{0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3} {
			if top>>i&1 == 1 {
				sum ^= g
			}
		}
	}
	for _, v := range []int{'b' >> 5, 'c' >> 5, 0, 'b' & 31, 'c' & 31} {
		step(v)
	}
	for _, b := range address[3:] {
		v := bytes.IndexByte([]byte(bech32), b)
		if v < 0 {
			return false
		}
		step(v)
	}
	return sum == 1 || sum == 0x2bc830a3
}
