package audit

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func testKey(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
}

// chained writes a whole chain of so many records, with a checkpoint after every third.
func chained(t *testing.T, previous Head, key ed25519.PrivateKey, records int) []byte {
	t.Helper()
	var out bytes.Buffer
	l := New(&out, Options{Chain: true, Process: &Process{Version: "v0", Previous: previous, Key: key, Every: 3}})
	for i := range records {
		l.Write(Record{ID: fmt.Sprint(i), Kind: "request", Tool: "orders"})
	}
	if err := l.Close(time.Minute); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func verify(t *testing.T, key ed25519.PublicKey, closed bool, files ...[]byte) Report {
	t.Helper()
	v := &Verifier{Key: key}
	for i, f := range files {
		if err := v.Read(fmt.Sprintf("f%d", i), bytes.NewReader(f)); err != nil {
			t.Fatal(err)
		}
	}
	return v.Report(closed)
}

func public(k ed25519.PrivateKey) ed25519.PublicKey { return k.Public().(ed25519.PublicKey) }

func TestVerifyWhole(t *testing.T) {
	key := testKey(1)
	out := chained(t, Head{}, key, 7)
	for _, pinned := range []ed25519.PublicKey{nil, public(key)} {
		r := verify(t, pinned, true, out)
		if len(r.Findings)+len(r.Notes) > 0 || r.Records != 7 || r.Lines != 11 || r.Checkpoints != 3 || r.Chains != 1 {
			t.Errorf("%+v\n%s", r, out)
		}
	}
	half := bytes.Index(out, []byte("\n{"))
	if r := verify(t, nil, true, out[:half+1], out[half+1:]); len(r.Findings)+len(r.Notes) > 0 || r.Records != 7 {
		t.Errorf("in two files: %+v", r)
	}
}

// TestVerifyFinds has an attacker with a text editor, who may compute hashes as well but not sign.
func TestVerifyFinds(t *testing.T) {
	key := testKey(1)
	lines := func() [][]byte { return bytes.SplitAfter(bytes.TrimSpace(chained(t, Head{}, key, 7)), []byte("\n")) }
	join := func(l ...[]byte) []byte { return bytes.Join(l, nil) }
	for name, c := range map[string]struct {
		change func(l [][]byte) []byte
		line   int
		want   string
	}{
		"a line changed": {func(l [][]byte) []byte {
			l[2] = bytes.Replace(l[2], []byte("orders"), []byte("others"), 1)
			return join(l...)
		}, 4, "seq 3, was changed"},
		"a line taken out":  {func(l [][]byte) []byte { return join(append(l[:4:4], l[5:]...)...) }, 5, "seq 5 is missing"},
		"two lines out":     {func(l [][]byte) []byte { return join(append(l[:4:4], l[6:]...)...) }, 5, "seq 5 to 6 are missing"},
		"two lines swapped": {func(l [][]byte) []byte { l[4], l[5] = l[5], l[4]; return join(l...) }, 5, "seq 5 is missing"},
		"a line twice":      {func(l [][]byte) []byte { return join(append(l[:5:5], l[4:]...)...) }, 6, "there twice"},
		"a line made up": {func(l [][]byte) []byte {
			return join(append(append(l[:5:5], []byte(`{"kind":"request","v":1}`+"\n")), l[5:]...)...)
		}, 6, "no chain"},
		"cut within a line": {func(l [][]byte) []byte { return join(l...)[:len(join(l...))-9] }, 11, "ends within this line"},
		"cut after a line":  {func(l [][]byte) []byte { return join(l[:9]...) }, 0, "no last line"},
		"no JSON":           {func(l [][]byte) []byte { l[3] = []byte("x\n"); return join(l...) }, 4, "no JSON"},
		"a very long line":  {func(l [][]byte) []byte { l[3] = []byte(strings.Repeat("x", 3*maxLine) + "\n"); return join(l...) }, 4, "longer than"},
		"hashes made to fit": {func(l [][]byte) []byte {
			return rehash(join(bytes.Replace(join(l...), []byte("orders"), []byte("others"), 1)))
		}, 5, "signature"},
		"another key": {func([][]byte) []byte { return chained(t, Head{}, testKey(2), 7) }, 1, "another key"},
		"lines after the last": {func(l [][]byte) []byte {
			return rehash(join(append(l, []byte("\n"+`{"kind":"request","prev_hash":"","seq":12,"v":1}`+"\n"))...))
		}, 12, "after the last"},
		"signatures taken out": {func(l [][]byte) []byte {
			all := join(l...)
			for {
				at := bytes.Index(all, []byte(`"signature":`))
				if at < 0 {
					return rehash(all)
				}
				all = append(all[:at:at], all[at+bytes.IndexByte(all[at:], ',')+1:]...)
			}
		}, 5, "without a signature"},
	} {
		r := verify(t, public(key), true, c.change(lines()))
		if len(r.Findings) == 0 || r.Findings[0].Line != c.line || !strings.Contains(r.Findings[0].What, c.want) {
			t.Errorf("%s: %v, want line %d: %s", name, r.Findings, c.line, c.want)
		}
	}
}

// TestVerifyUnsigned: a chain that somebody without the key has made up, in the key's name, is told of wherever it stands, and so are the lines
// that a killed process left behind its last checkpoint.
func TestVerifyUnsigned(t *testing.T) {
	key := testKey(1)
	signed := chained(t, Head{}, key, 2)
	lines := bytes.SplitAfter(signed, []byte("\n"))
	madeUp := rehash(bytes.Replace(bytes.Join(lines[:3], nil), []byte("orders"), []byte("others"), 1))
	at := lineHash(bytes.TrimSpace(lines[2]))
	for name, c := range map[string]struct {
		files [][]byte
		note  string
	}{
		"before another": {[][]byte{madeUp, signed}, "behind the 3 lines before"},
		"between two":    {[][]byte{signed, madeUp, signed}, "behind the 3 lines before"},
		"at the end":     {[][]byte{signed, madeUp}, "behind the last 3 lines"},
		"two killed processes": {[][]byte{bytes.Join(lines[:3], nil),
			bytes.Join(bytes.SplitAfter(chained(t, Head{Chain: "c", Seq: 3, Hash: at}, key, 2), []byte("\n"))[:2], nil)}, "behind the last 5 lines"},
	} {
		r := verify(t, public(key), false, c.files...)
		if notes := fmt.Sprint(r.Notes); len(r.Findings) > 0 || !strings.Contains(notes, c.note) {
			t.Errorf("%s: %v, want %s; found %v", name, notes, c.note, r.Findings)
		}
	}
	if r := verify(t, public(key), true, bytes.Join(lines[:3], nil), chained(t, Head{Chain: "c", Seq: 3, Hash: at}, key, 2)); len(r.Findings)+len(r.Notes) > 0 {
		t.Errorf("the next process has signed for the one before: %+v", r)
	}
}

// rehash makes all prev_hash fit again.
func rehash(b []byte) []byte {
	var out []byte
	prev := genesis
	for line := range bytes.Lines(b) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		at := bytes.Index(line, []byte(`"prev_hash":"`)) + len(`"prev_hash":"`)
		end := at + bytes.IndexByte(line[at:], '"')
		line = append(append(append([]byte{}, line[:at]...), prev...), line[end:]...)
		prev = lineHash(line)
		out = append(append(out, line...), '\n')
	}
	return out
}

// TestVerifyAcrossRestarts: the first line of the next process tells what the one before had written.
func TestVerifyAcrossRestarts(t *testing.T) {
	key, path := testKey(1), filepath.Join(t.TempDir(), "records")
	first := chained(t, Head{}, key, 5)
	last := func(b []byte) (Head, error) {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		return Last(f)
	}
	head, err := last(first)
	if err != nil || head.Seq != 8 || head.Chain == "" {
		t.Fatalf("%+v %v", head, err)
	}
	second := chained(t, head, key, 2)
	if r := verify(t, public(key), true, first, second); len(r.Findings)+len(r.Notes) > 0 || r.Records != 7 || r.Chains != 2 {
		t.Errorf("%+v", r)
	}
	lines := bytes.SplitAfter(first, []byte("\n"))
	if r := verify(t, public(key), true, bytes.Join(lines[:6], nil), second); len(r.Findings) != 1 || !strings.Contains(r.Findings[0].What, "8 lines are 6 here") {
		t.Errorf("cut off at its end: %+v", r)
	}
	if r := verify(t, public(key), true, second); len(r.Findings) != 0 || len(r.Notes) != 1 {
		t.Errorf("without the first: %+v", r)
	}
	if h, err := last(first[:len(first)-5]); err != ErrCut || h.Seq != 7 {
		t.Errorf("cut within the last line: %+v %v", h, err)
	}
	if h, err := last(nil); err != nil || h != (Head{}) {
		t.Errorf("empty: %+v %v", h, err)
	}
	if h, err := last([]byte(`{"kind":"request","v":1}` + "\n")); err != nil || h != (Head{}) {
		t.Errorf("without a chain: %+v %v", h, err)
	}
}

// TestCheckpointsByTime: a quiet sidecar signs what it has, once.
func TestCheckpointsByTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		var told []Checkpoint
		l := New(&out, Options{Chain: true, Process: &Process{Key: testKey(1), Interval: time.Minute, Told: func(c Checkpoint) { told = append(told, c) }}})
		l.Write(Record{Kind: "request"})
		time.Sleep(10*time.Minute + time.Second)
		if err := l.Close(time.Second); err != nil {
			t.Fatal(err)
		}
		if r := verify(t, public(testKey(1)), true, out.Bytes()); len(r.Findings) > 0 || r.Checkpoints != 2 || r.Lines != 4 {
			t.Errorf("%+v\n%s", r, out.Bytes())
		}
		if len(told) != 2 || told[0].Seq != 3 || !bytes.Contains(out.Bytes(), []byte(told[0].Signature)) {
			t.Errorf("told %+v", told)
		}
	})
}

// TestLost: what a full queue drops is said in the next line.
func TestLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := gated{release: make(chan struct{})}
		l := New(&sink, Options{Chain: true, Buffer: 4})
		for range 20 {
			l.Write(Record{Kind: "request"})
			synctest.Wait()
		}
		close(sink.release)
		synctest.Wait()
		l.Write(Record{Kind: "request"})
		if err := l.Close(time.Second); err != nil {
			t.Fatal(err)
		}
		r := verify(t, nil, false, sink.Bytes())
		if len(r.Findings) > 0 || r.Lost == 0 || r.Lost+uint64(r.Records) != 21 {
			t.Errorf("%+v", r)
		}
	})
}

type gated struct {
	bytes.Buffer
	release chan struct{}
}

func (g *gated) Write(b []byte) (int, error) {
	<-g.release
	return g.Buffer.Write(b)
}

// FuzzVerify: whatever byte of a signed chain is another, or wherever it ends, that is found; and nothing makes it panic.
func FuzzVerify(f *testing.F) {
	var out bytes.Buffer
	l := New(&out, Options{Chain: true, Process: &Process{Key: testKey(1), Every: 2}})
	for range 3 {
		l.Write(Record{Kind: "request"})
	}
	_ = l.Close(time.Minute)
	whole := out.Bytes()
	f.Add(uint(3), byte('x'), []byte("{}\n"))
	f.Add(uint(len(whole)), byte(0), []byte(`{"kind":"end","seq":1,"prev_hash":"0"}`))
	f.Fuzz(func(t *testing.T, at uint, put byte, other []byte) {
		i := int(at % uint(len(whole)-1))
		changed := bytes.Clone(whole)
		changed[i] = put
		for what, b := range map[string][]byte{"changed": changed, "cut": whole[:i], "followed": append(bytes.Clone(whole), other...)} {
			v := &Verifier{Key: public(testKey(1))}
			if err := v.Read("f", bytes.NewReader(b)); err != nil {
				t.Fatal(err)
			}
			r := v.Report(true)
			if len(r.Findings) == 0 && !bytes.Equal(b, whole) && len(b) > 0 && what != "followed" {
				t.Errorf("%s at %d to %q: taken", what, i, put)
			}
		}
	})
}
