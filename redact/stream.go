package redact

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Copy masks a payload while it comes, and writes it to dst: as Body does, but for whatever length, holding no more than
// 256 KiB of it. JSON is written value by value, text line by line, a stream of events event by event. encoding is the
// Content-Encoding, as Decoded takes it.
//
// Result.Text stays empty. From where src breaks off or cannot be read, nothing is written but its length and a hash, the status is
// "failed_closed", and what was written before stands. The error is one of src or dst.
func (s *Scrubber) Copy(dst io.Writer, src io.Reader, contentType, encoding string) (Result, error) {
	p := &pass{s: s, body: true}
	in := &watched{in: src}
	out := &watchedOut{out: dst}
	plain, err := Decoded(in, encoding, 0)
	if err == nil {
		k, boundary := mediaKind(contentType)
		err = p.copy(out, plain, k, boundary)
	}
	if out.err != nil {
		return p.result(""), out.err
	}
	if err != nil {
		p.failed = true
		h := newHasher()
		defer hashers.Put(h)
		n, _ := io.Copy(h.mac, in)
		if _, werr := fmt.Fprintf(out, "[unparsed %d bytes hmac=%s]", n, h.sum12()); werr != nil {
			return p.result(""), werr
		}
	}
	return p.result(""), in.err
}

// Writer returns a writer to dst through Copy. Close waits until all is written, and returns Copy's error; done is told of the result before.
func (s *Scrubber) Writer(dst io.Writer, contentType, encoding string, done func(Result)) io.WriteCloser {
	r, w := io.Pipe()
	sw := &streamWriter{PipeWriter: w, ended: make(chan error, 1)}
	go func() {
		res, err := s.Copy(dst, r, contentType, encoding)
		_ = r.CloseWithError(io.ErrClosedPipe)
		if done != nil {
			done(res)
		}
		sw.ended <- err
	}()
	return sw
}

type streamWriter struct {
	*io.PipeWriter
	ended chan error
}

func (w *streamWriter) Close() error {
	_ = w.PipeWriter.Close() // it never fails
	return <-w.ended
}

// watched and watchedOut keep the error, to tell a broken source from what cannot be read.
type watched struct {
	in  io.Reader
	err error
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.in.Read(p)
	if err != nil && err != io.EOF {
		w.err = err
	}
	return n, err
}

type watchedOut struct {
	out io.Writer
	err error
}

func (w *watchedOut) Write(p []byte) (int, error) {
	n, err := w.out.Write(p)
	if err != nil {
		w.err = err
	}
	return n, err
}

var errKind = errors.New("redact: not a type that can be read")

// copy masks what r gives, by its kind.
func (p *pass) copy(w io.Writer, r io.Reader, k kind, boundary string) error {
	switch k {
	case kindJSON:
		return p.jsonStream(w, r)
	case kindLines:
		return p.lineStream(w, r, "\n", p.jsonLine)
	case kindForm:
		return p.lineStream(w, r, "&;", func(pair []byte) string {
			var b strings.Builder
			p.pair(&b, string(pair), false)
			return b.String()
		})
	case kindText:
		return (&freeText{pass: p}).copy(w, r)
	case kindTable:
		return (&table{freeText: freeText{pass: p}}).copy(w, r)
	case kindEvents:
		return (&events{pass: p}).copy(w, r)
	case kindParts:
		return p.parts(w, r, boundary)
	}
	return errKind
}

func (p *pass) jsonLine(line []byte) string {
	text := bytes.Trim(line, "\x1e \t\r\n")
	if len(text) == 0 {
		return ""
	}
	return p.value(text)
}

func (p *pass) lineStream(w io.Writer, r io.Reader, ends string, mask func([]byte) string) error {
	lines := newLines(r, ends)
	for {
		line, end, long, err := lines.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		p.allowed += maxDecoded*len(line) + 1<<10
		text := string(line)
		if !long {
			text = mask(line)
		} else {
			p.failed = true
		}
		if text == "" && ends == "\n" {
			continue
		}
		if _, err := io.WriteString(w, text+end); err != nil {
			return err
		}
	}
}

// jsonStream masks one JSON value of any length.
func (p *pass) jsonStream(out io.Writer, r io.Reader) error {
	w := walk{pass: p, reader: reader{src: r, dst: out}}
	defer func() {
		for range w.settled {
			p.count(maskCredential)
		}
	}()
	if err := w.document(); err != nil {
		if errors.Is(err, errEnd) {
			w.flush(w.sure()) // what stands before was looked at
			w.settle()        // the name may have been to come
			err = errors.Join(err, w.write(0))
		}
		return err
	}
	w.out = append(w.out, '\n')
	return w.write(0)
}
