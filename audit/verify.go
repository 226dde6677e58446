package audit

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
)

// Finding is what is wrong at a line.
type Finding struct {
	File string `json:"file"`
	Line int    `json:"line"` // from 1; 0: the end of the file
	What string `json:"what"`
}

// String returns file:line: what.
func (f Finding) String() string {
	if f.Line == 0 {
		return f.File + ": " + f.What
	}
	return f.File + ":" + strconv.Itoa(f.Line) + ": " + f.What
}

// Report is what verifying found.
type Report struct {
	Lines       int       `json:"lines"`
	Records     int       `json:"records"`
	Chains      int       `json:"chains"`
	Checkpoints int       `json:"checkpoints"` // whose signature is good
	Lost        uint64    `json:"lost"`        // records that the sidecar itself says it dropped
	Findings    []Finding `json:"findings"`
	More        int       `json:"more,omitempty"` // findings and notes beyond the first thousand of each
	Notes       []Finding `json:"notes"`          // what cannot be told from these files alone
	Last        Head      `json:"last"`
}

// Verifier reads the files of one sidecar's records in their order and finds what was changed, taken out, put in, moved or cut
// off. The zero value trusts the key that a chain itself names, which shows nothing against whoever can write a whole chain.
type Verifier struct {
	Key ed25519.PublicKey // signs all checkpoints; nil: whichever the chain names

	report Report
	file   string
	n      int // line of file
	at     Head
	ended  bool   // the chain has its last line
	tail   uint64 // lines that no good signature stands behind, of the chain and of those whose end it names
	chain  ed25519.PublicKey
	began  bool
}

// line is what verifying reads of a line.
type verified struct {
	Kind          string `json:"kind"`
	Chain         string `json:"chain"`
	Seq           uint64 `json:"seq"`
	Prev          string `json:"prev_hash"`
	Lost          uint64 `json:"lost"`
	KeyID         string `json:"key_id"`
	PublicKey     string `json:"public_key"`
	Signature     string `json:"signature"`
	PreviousChain string `json:"previous_chain"`
	PreviousSeq   uint64 `json:"previous_seq"`
	PreviousHash  string `json:"previous_hash"`
}

// maxFindings bounds what is kept of a file that is no record file at all.
const maxFindings = 1000

func (v *Verifier) find(format string, a ...any) { v.keep(&v.report.Findings, format, a) }

func (v *Verifier) note(format string, a ...any) { v.keep(&v.report.Notes, format, a) }

func (v *Verifier) keep(to *[]Finding, format string, a []any) {
	if len(*to) == maxFindings {
		v.report.More++
		return
	}
	*to = append(*to, Finding{v.file, v.n, fmt.Sprintf(format, a...)})
}

// Read goes on with the next file. Errors: the reader's alone; what is wrong with the lines is in the Report.
func (v *Verifier) Read(name string, r io.Reader) error {
	v.file, v.n = name, 0
	in := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := in.ReadSlice('\n')
		if len(line) > 0 {
			v.n++
			v.line(line, err)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			if err := skipLine(in); err != nil {
				return err
			}
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

func skipLine(in *bufio.Reader) error {
	for {
		_, err := in.ReadSlice('\n')
		if !errors.Is(err, bufio.ErrBufferFull) {
			if err == io.EOF {
				return nil
			}
			return err
		}
	}
}

// line judges one line; err is what ended it.
func (v *Verifier) line(line []byte, err error) {
	v.report.Lines++
	whole := bytes.HasSuffix(line, []byte("\n"))
	line = bytes.TrimSuffix(line, []byte("\n"))
	var l verified
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		v.find("a line longer than any record")
		return
	case !json.Valid(line):
		if whole {
			v.find("no JSON; a process that ends while it writes leaves such a line, and so does whoever changes one")
		} else {
			v.find("the file ends within this line")
		}
		return
	case json.Unmarshal(line, &l) != nil || l.Seq == 0 || l.Prev == "":
		v.find("no seq and prev_hash, so it belongs to no chain")
		return
	}
	if why := odd(line); why != "" {
		v.find("not as a sidecar writes it: %s", why)
	}
	if l.Kind == KindStart || l.Seq == 1 {
		v.start(&l)
	} else {
		v.follow(&l)
	}
	v.tail++
	if v.report.Lost += l.Lost; v.report.Lost < l.Lost {
		v.report.Lost = math.MaxUint64
	}
	switch l.Kind {
	case KindStart:
	case KindCheckpoint, KindEnd:
		v.signature(&l, line)
		v.ended = l.Kind == KindEnd
	default:
		v.report.Records++
	}
	v.at = Head{v.at.Chain, l.Seq, lineHash(line)}
}

// start judges the first line of a chain, which says what it found before it.
func (v *Verifier) start(l *verified) {
	if l.Seq != 1 || l.Prev != genesis {
		v.find("a first line with seq %d, or with a prev_hash that is not 64 zeros", l.Seq)
	}
	switch {
	case !v.began || l.Kind != KindStart:
		v.open()
		if l.PreviousSeq > 0 {
			v.note("the chain before this one, %.64q of %d lines, is not in these files", l.PreviousChain, l.PreviousSeq)
		}
	case l.PreviousSeq == 0:
		v.open()
	case l.PreviousSeq > v.at.Seq:
		v.find("the end of the chain before is missing: its %d lines are %d here", l.PreviousSeq, v.at.Seq)
	case l.PreviousHash != v.at.Hash:
		v.find("the last line of the chain before was changed, or others came after it: its hash is not what this line says")
	}
	v.report.Chains++
	v.began, v.ended = true, false
	v.at.Chain = l.Chain
	v.chain = v.trusted(l)
}

// open notes what nothing that comes says of the chain so far: that it has no last line, and that nobody has signed its last lines.
func (v *Verifier) open() {
	if v.began && !v.ended {
		v.note("the chain before has no last line of its own: its process was killed, or the end is missing")
	}
	if v.Key != nil && v.tail > 0 {
		v.note("no signature stands behind the %d lines before this one: whoever can write the file can have written or changed them", v.tail)
	}
	v.tail = 0
}

// trusted returns the key for the chain's signatures.
func (v *Verifier) trusted(l *verified) ed25519.PublicKey {
	named, err := base64.RawURLEncoding.Strict().DecodeString(l.PublicKey)
	if err != nil || len(named) != ed25519.PublicKeySize {
		named = nil
	}
	switch {
	case v.Key == nil:
		return named
	case named == nil:
		v.find("a chain that names no key, so whoever can write the file can have written it")
	case !v.Key.Equal(ed25519.PublicKey(named)):
		v.find("the chain is signed with another key, %s", KeyID(named))
	}
	return v.Key
}

// follow judges a line that comes after another.
func (v *Verifier) follow(l *verified) {
	switch {
	case !v.began:
		v.began = true
		v.report.Chains++
		v.chain = v.Key
		v.note("the chain begins with line %d of it; what came before is not in these files", l.Seq)
	case l.Seq <= v.at.Seq:
		v.find("out of its order, or there twice: seq %d after %d", l.Seq, v.at.Seq)
	case l.Seq == v.at.Seq+2:
		v.find("seq %d is missing before this line", l.Seq-1)
	case l.Seq > v.at.Seq+1:
		v.find("seq %d to %d are missing before this line", v.at.Seq+1, l.Seq-1)
	case l.Prev != v.at.Hash:
		v.find("the line before this one, seq %d, was changed: its hash is not this line's prev_hash", v.at.Seq)
	case v.ended:
		v.find("a line after the last of its chain")
	}
	if l.Chain != "" && v.at.Chain == "" {
		v.at.Chain = l.Chain
	}
}

// signature judges what a checkpoint or a last line says.
func (v *Verifier) signature(l *verified, line []byte) {
	switch {
	case l.Signature == "" && (l.Kind == KindCheckpoint || v.Key != nil):
		v.find("a %s without a signature", l.Kind)
	case l.Signature == "":
	case v.chain == nil:
		v.note("a signature by key %.64q, which is not known here; name it with the public key", l.KeyID)
	case !v.good(l, line):
		v.find("the signature is not that of key %s over the lines before", KeyID(v.chain))
	default:
		v.report.Checkpoints++
		v.tail = 0
	}
}

func (v *Verifier) good(l *verified, line []byte) bool {
	sig, err := base64.RawURLEncoding.Strict().DecodeString(l.Signature)
	before, after, found := bytes.Cut(line, []byte(`"signature":"`+l.Signature+`",`))
	return err == nil && found && len(v.chain) == ed25519.PublicKeySize &&
		ed25519.Verify(v.chain, signedText(append(bytes.Clone(before), after...)), sig)
}

// Report returns what was found in all files. A chain that is still open is a note, unless closed asks for its last line.
func (v *Verifier) Report(closed bool) Report {
	v.n = 0
	if v.began && !v.ended {
		if closed {
			v.find("the last chain has no last line of its own")
		} else {
			v.note("the last chain has no last line of its own: its process runs, was killed, or the end is missing")
		}
	}
	if v.Key != nil && v.tail > 0 {
		v.note("no signature stands behind the last %d lines: whoever can write the file can have written or changed them", v.tail)
	}
	v.report.Last = v.at
	r := v.report
	r.Findings, r.Notes = append([]Finding{}, r.Findings...), append([]Finding{}, r.Notes...) // lists in JSON, even empty ones
	return r
}
