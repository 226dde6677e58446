//go:build !linux

package proxy

import (
	"bytes"
	"errors"
	"io"
	"syscall"
	"time"
)

// direction is one half of a relay. Toolgate is meant for Linux; this keeps a first try on another system working.
type direction struct{}

func (r *relay) start(early []byte) {
	up := io.MultiReader(bytes.NewReader(early), r.client)
	go func() { r.ended(r.upstream, move(r, r.upstream, up, &r.call.rec.BytesOut, &r.sni)) }()
	go func() { r.ended(r.client, move(r, r.client, r.upstream, &r.call.rec.BytesIn, nil)) }()
}

func (*direction) pause() {}

func (*direction) wake() {}

// lot stands for the parking lot, which needs Linux.
var lot parkingLot

type parkingLot struct{}

func (parkingLot) prepare() {}

func (parkingLot) tidy(time.Time) {}

func move(r *relay, dst duplex, src io.Reader, total *int64, guard *sniGuard) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			b := buf[:n]
			if guard != nil {
				pass, done, gerr := guard.feed(b)
				if b = pass; done {
					guard = nil
				}
				if gerr != nil {
					return gerr
				}
			}
			k, werr := dst.Write(b)
			*total += int64(k)
			if werr != nil {
				return werr
			}
			r.touch()
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func isNotConnected(err error) bool { return errors.Is(err, syscall.ENOTCONN) }
