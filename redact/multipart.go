package redact

import (
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"slices"
)

// maxParts bounds the parts of a multipart body.
const maxParts = 1000

// parts masks a multipart body (RFC 2046, section 5.1): each part by its own type. Names, file names and headers of a part are data.
// The boundary, which is data too, is written as "--part".
func (p *pass) parts(w io.Writer, r io.Reader, boundary string) error {
	in := multipart.NewReader(r, boundary)
	for range maxParts {
		part, err := in.NextRawPart()
		if err == io.EOF {
			_, err = io.WriteString(w, "--part--\n")
			return err
		}
		if err != nil {
			return errMultipart
		}
		if err := p.part(w, part); err != nil {
			return err
		}
	}
	return errMultipart
}

var errMultipart = fmt.Errorf("redact: not a multipart body")

func (p *pass) part(w io.Writer, part *multipart.Part) error {
	head := "--part\n"
	for _, name := range slices.Sorted(maps.Keys(part.Header)) {
		for _, v := range part.Header[name] {
			p.allowed += maxDecoded*len(v) + 1<<10
			head += neutralise(headerName(name)) + ": " + neutralise(p.str(v, name, 0)) + "\n"
		}
	}
	body, err := io.ReadAll(io.LimitReader(part, maxLine+1))
	if err != nil {
		return errMultipart
	}
	text := ""
	switch name := part.FormName(); {
	case len(body) > maxLine:
		h := newHasher()
		defer hashers.Put(h)
		h.mac.Write(body)
		n, err := io.Copy(h.mac, part)
		if err != nil {
			return errMultipart
		}
		p.failed = true
		text = fmt.Sprintf("[unparsed %d bytes hmac=%s]", n+int64(len(body)), h.sum12())
	case p.formMask(name) != "":
		text = p.put(p.formMask(name), string(body))
	default:
		p.allowed += maxDecoded*len(body) + 1<<10
		text = p.partBody(part.Header.Get("Content-Type"), name, body)
	}
	_, err = io.WriteString(w, head+"\n"+text+"\n")
	return err
}

func (p *pass) partBody(contentType, name string, body []byte) string {
	t, _, err := mime.ParseMediaType(contentType)
	switch {
	case contentType == "" || err == nil && t == "text/plain":
		return p.str(string(body), name, 0)
	case len(body) == 0:
		return ""
	}
	inner := p.within()
	text := inner.payload(contentType, body, true)
	p.decoded = inner.decoded
	p.add(inner)
	return text
}
