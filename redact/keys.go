package redact

// key is what a member's name tells.
type key struct {
	text  string
	mask  string // the placeholder for its value, or ""
	role  role   // what it says of other members
	tells bool   // package detect looks at values differently under this name
}

const (
	maxKeys = 256 // names that are remembered
	maxKey  = 48  // their length
)

// named reads a member's name and masks what it holds. A body has the same few names over and over: those that hold nothing are
// remembered, up to a bound.
func (w *walk) named() (*key, error) {
	s, long, err := w.readString()
	if err != nil {
		return nil, err
	}
	if long != "" {
		w.failed = true
		w.quote(long)
		return &key{text: long, tells: true}, nil
	}
	raw := w.buf[w.tok+1 : w.at-1]
	if k := w.keys[string(raw)]; k != nil && !w.holds(raw) {
		return k, nil
	}
	v := unsure
	if s&signOdd == 0 {
		v = w.quick(raw, s, nil)
	}
	text := w.unquoted()
	k := &key{text: text, mask: w.s.mask(text), role: roleOf(text), tells: w.detectors().Tells(text)}
	if v == quiet && len(raw) <= maxKey && len(w.keys) < maxKeys {
		if w.keys == nil {
			w.keys = make(map[string]*key, 16)
		}
		w.keys[text] = k
	}
	w.judge(v, s, "")
	return k, nil
}
