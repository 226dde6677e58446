package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/audit"
	"github.com/toolgate/toolgate/cmd/cli"
)

// followInterval is how often tail looks for more.
const followInterval = 200 * time.Millisecond

func newAuditTail() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tail FILE...",
		Short: "Print records as lines for people, or the story of one call",
		Long: "Print records as lines for people, the last ones unless -n says otherwise; with --explain the story of one call, gate by\n" +
			"gate. - is the standard input. What is printed is not verified: see sidecar audit verify.",
		Args: needFiles,
	}
	t := &tail{}
	f := cmd.Flags()
	f.StringVar(&t.tool, "tool", "", "only calls of the tool of this `name`")
	f.StringVar(&t.tenant, "tenant", "", "only calls for this `tenant`")
	f.StringVar(&t.run, "run", "", "only calls of this `run`")
	f.StringVar(&t.code, "code", "", "only calls that ended with this `code`")
	f.StringVar(&t.decision, "decision", "", "only calls with this `decision`: allow or deny")
	f.IntVarP(&t.last, "lines", "n", 20, "print the last `number` of lines; 0: all")
	follow := f.BoolP("follow", "f", false, "go on as the file grows, also when another takes its name")
	id := f.String("explain", "", "tell the story of the call of this `id`")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case t.decision != "" && t.decision != "allow" && t.decision != "deny":
			return fmt.Errorf("found --decision %q, expected allow or deny", t.decision)
		case t.last < 0:
			return fmt.Errorf("found -n %d, expected 0 or more", t.last)
		case *follow && (len(args) != 1 || args[0] == "-" || *id != ""):
			return errors.New("found -f, expected one file with it, and no --explain")
		}
		t.out, t.notes = cmd.OutOrStdout(), cmd.ErrOrStderr()
		var err error
		switch {
		case *id != "":
			err = explainRecord(cmd.InOrStdin(), t.out, *id, args)
		case *follow:
			err = t.follow(cmd.Context(), args[0])
		default:
			err = t.read(cmd.InOrStdin(), args)
		}
		if err != nil {
			return cli.Wrong(err)
		}
		return nil
	}
	return cmd
}

func needFiles(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return errors.New("found no file, expected at least one, or - for the standard input")
	}
	return nil
}

// tail prints chosen lines.
type tail struct {
	filter
	last  int
	out   io.Writer
	notes io.Writer
	kept  []string            // the last ones, until print
	found map[string][]string // by flag, some of the values that records have; of read alone
}

func (t *tail) add(line []byte) {
	r, ok := parseLine(line)
	if ok && t.found != nil {
		t.remember(r)
	}
	text := ""
	switch {
	case !ok && t.filter == filter{}:
		text = "not a record: " + visible(string(line[:min(len(line), 200)]))
	case ok && t.match(r):
		text = r.String()
	default:
		return
	}
	if t.kept = append(t.kept, text); t.last > 0 && len(t.kept) > t.last {
		t.kept = t.kept[1:]
	}
}

func (t *tail) print() error {
	for _, text := range t.kept {
		if _, err := fmt.Fprintln(t.out, text); err != nil {
			return err
		}
	}
	t.kept = t.kept[:0]
	return nil
}

func (t *tail) read(stdin io.Reader, names []string) error {
	t.found = map[string][]string{}
	for _, name := range audit.InOrder(names) {
		if err := readRecords(stdin, name, eachLine(t.add)); err != nil {
			return err
		}
	}
	if len(t.kept) == 0 {
		t.noteNone()
	}
	return t.print()
}

// maxFound is how many values a note names.
const maxFound = 8

func (t *tail) remember(r *recordLine) {
	for _, c := range t.compared(r) {
		if list := t.found[c.flag]; c.found != "" && len(list) < maxFound && !slices.Contains(list, c.found) {
			t.found[c.flag] = append(list, c.found)
		}
	}
}

// noteNone says why nothing is printed: a typo in a flag looks like a quiet day.
func (t *tail) noteNone() {
	for _, c := range t.compared(&recordLine{}) {
		if list := t.found[c.flag]; c.want != "" && len(list) < maxFound && !slices.Contains(list, c.want) {
			has := "none of them has one"
			if len(list) > 0 {
				has = "they have " + strings.Join(list, ", ")
			}
			fmt.Fprintf(t.notes, "note: no record has --%s %q; %s\n", c.flag, visible(c.want), visible(has))
			return
		}
	}
	fmt.Fprintln(t.notes, "note: no record was found")
}

// maxRecordLine bounds a line that is read for people.
const maxRecordLine = 1 << 20

func eachLine(f func(line []byte)) func(string, io.Reader) error {
	return func(name string, r io.Reader) error {
		s := bufio.NewScanner(r)
		s.Buffer(nil, maxRecordLine)
		for s.Scan() {
			f(s.Bytes())
		}
		if errors.Is(s.Err(), bufio.ErrTooLong) {
			return fmt.Errorf("%s: found a line of more than %d bytes, expected records", name, maxRecordLine)
		}
		return s.Err()
	}
}

// follow prints until ctx ends. A file that another has replaced under its name is read to its end first.
func (t *tail) follow(ctx context.Context, name string) error {
	if err := readRecords(nil, name, func(string, io.Reader) error { return nil }); err != nil {
		return err // of a file that is none
	}
	for first := true; ; first = false {
		f, err := os.Open(filepath.Clean(name))
		if err != nil {
			return err
		}
		err = t.grow(ctx, f, name, first)
		_ = f.Close()
		if err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// grow prints f until another has its name.
func (t *tail) grow(ctx context.Context, f *os.File, name string, first bool) error {
	r, last := bufio.NewReader(f), t.last
	if !first {
		t.last = 0
	}
	var part []byte
	replaced := false
	for {
		b, err := r.ReadBytes('\n')
		part = append(part, b...)
		switch {
		case err == nil:
			t.add(part[:len(part)-1])
			part = part[:0]
			continue
		case err != io.EOF:
			return err
		}
		if err := t.print(); err != nil {
			return err
		}
		if t.last = 0; replaced || ctx.Err() != nil {
			t.last = last
			return nil
		}
		if len(part) > maxRecordLine {
			return fmt.Errorf("%s: found a line of more than %d bytes, expected records", name, maxRecordLine)
		}
		select {
		case <-ctx.Done():
		case <-time.After(followInterval):
		}
		at, err := os.Stat(name)
		mine, err2 := f.Stat()
		// Once more to the end: lines may have come between the last read and the renaming.
		replaced = err == nil && err2 == nil && !os.SameFile(at, mine)
	}
}

func explainRecord(stdin io.Reader, out io.Writer, id string, names []string) error {
	var all []*recordLine
	for _, name := range audit.InOrder(names) {
		err := readRecords(stdin, name, eachLine(func(line []byte) {
			if r, ok := parseLine(line); ok && r.call() && (r.ID == id || r.Sidecar == id || r.Gateway == id) {
				all = append(all, r)
			}
		}))
		if err != nil {
			return err
		}
	}
	if len(all) == 0 {
		return fmt.Errorf("found no record of %s, expected one", visible(id))
	}
	printStory(out, all)
	return nil
}
