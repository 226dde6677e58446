//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == childArg {
		os.Exit(childMain(os.Args[2:]))
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.As(err, new(usageError)):
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// usageError is a mistake on the command line.
type usageError struct{ error }

// run carries out one benchmark and writes its report to the file of -out, or to stdout when that is "-".
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	opt, err := parseOptions(args, stderr)
	if err != nil {
		return err
	}
	if opt.kill != nil {
		return runKillSwitch(ctx, opt, stdout, stderr)
	}
	if opt.soak > 0 {
		return runSoak(ctx, opt, stdout, stderr)
	}
	opt.leaveOut(stderr)
	res, err := measureAll(ctx, opt, stderr)
	return errors.Join(err, opt.write(report(opt, res), stdout))
}

func (o *options) write(text string, stdout io.Writer) error {
	if o.out == "-" {
		_, err := io.WriteString(stdout, text)
		return err
	}
	return os.WriteFile(o.out, []byte(text), 0o644)
}

// leaveOut drops the peers whose program is not installed, aloud.
func (o *options) leaveOut(stderr io.Writer) {
	o.peers = slices.DeleteFunc(o.peers, func(p *peer) bool {
		absent := p.program != "" && p.find() == ""
		if absent {
			o.absent = append(o.absent, p.name)
			fmt.Fprintf(stderr, "\n*** %s IS NOT INSTALLED AND IS LEFT OUT. bench/setup.sh installs it. ***\n\n", strings.ToUpper(p.name))
		}
		return absent
	})
}

// options is the command line, checked.
type options struct {
	peers    []*peer
	absent   []string // peers that were asked for and are not installed
	rows     []*row
	rounds   int
	quick    bool
	out      string // a file, or "-"
	toolgate string // a built sidecar; empty: build ../cmd/sidecar
	uid      int    // of the proxies; -1: that of the bench
	command  string // the same flags again, without those that hold paths
	load     loadSize
	soak     time.Duration // instead of the rows; 0: none
	kill     *killSize     // instead of the rows; nil: none
}

func parseOptions(args []string, stderr io.Writer) (*options, error) {
	opt := &options{command: "go run .", load: fullLoad()}
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(stderr)
	peerNames := fs.String("peers", strings.Join(usualPeers(), ","), "peers to compare, of: "+strings.Join(names(allPeers), ", "))
	rowNames := fs.String("rows", strings.Join(names(allRows), ","), "rows to measure, of: "+strings.Join(names(allRows), ", "))
	fs.IntVar(&opt.rounds, "rounds", 5, "rounds; in each, every peer takes its turn in every row")
	fs.BoolVar(&opt.quick, "quick", false, "smoke run: one short round, report to stdout; its figures mean nothing")
	fs.BoolVar(&opt.quick, "short", false, "the same as -quick")
	fs.StringVar(&opt.out, "out", "", `report file, "-" for stdout (default RESULTS.md, with -soak SOAK.md, with -killswitch KILLSWITCH.md, with -quick "-")`)
	fs.StringVar(&opt.toolgate, "toolgate", "", "a built sidecar (default: build ../cmd/sidecar)")
	fs.IntVar(&opt.uid, "uid", -1, "uid of the proxies, when run as root (default: the same)")
	fs.Int64Var(&opt.load.bulkBytes, "bulk", opt.load.bulkBytes, "bytes through one tunnel in the bulk rows")
	fs.DurationVar(&opt.load.window, "window", opt.load.window, "length of one timed measurement")
	fs.IntVar(&opt.load.idle, "idle", opt.load.idle, "open tunnels in the idle rows")
	fs.IntVar(&opt.load.crowd, "crowd", opt.load.crowd, "open tunnels in the crowd row")
	fs.DurationVar(&opt.soak, "soak", 0, "instead of all rows: a steady mixed load on one sidecar for that long")
	killSwitch := fs.Bool("killswitch", false, "instead of all rows: the kill switch, at one sidecar and in fleets")
	clients := fs.String("clients", "1000,5000", "with -killswitch: sizes of the fleets, ascending; the storm is of the first")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil, err
		}
		return nil, usageError{err}
	}
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) {
		given[f.Name] = true
		if f.Name != "out" && f.Name != "toolgate" {
			opt.command += " -" + f.Name + "=" + f.Value.String()
		}
	})
	if opt.quick {
		opt.load = quickLoad(opt.load, given)
		if !given["rounds"] {
			opt.rounds = 1
		}
	}
	if *killSwitch {
		var err error
		if opt.kill, err = newKillSize(*clients, opt.quick, given["clients"]); err != nil {
			return nil, usageError{err}
		}
	}
	if opt.out == "" {
		opt.out = "RESULTS.md"
		if opt.kill != nil {
			opt.out = "KILLSWITCH.md"
		}
		if opt.soak > 0 {
			opt.out = "SOAK.md"
		}
		if opt.quick {
			opt.out = "-"
		}
	}
	var err error
	if opt.peers, err = pick(allPeers, *peerNames); err != nil {
		return nil, usageError{err}
	}
	if opt.rows, err = pick(allRows, *rowNames); err != nil {
		return nil, usageError{err}
	}
	if fs.NArg() > 0 || opt.rounds < 1 || opt.load.idle < 1 || opt.load.crowd < 1 || opt.soak < 0 || opt.load.bulkBytes < 1 || opt.load.window <= 0 {
		return nil, usageError{errors.New("no arguments are taken, and every number must be positive")}
	}
	return opt, nil
}

// usualPeers leaves out the variants that answer a single question.
func usualPeers() []string {
	return names(slices.DeleteFunc(slices.Clone(allPeers), func(p *peer) bool { return p.extra }))
}

type named interface{ id() string }

func names[T named](all []T) []string {
	out := make([]string, 0, len(all))
	for _, v := range all {
		out = append(out, v.id())
	}
	return out
}

// pick returns the values named in a comma-separated list, in the order of all.
func pick[T named](all []T, list string) ([]T, error) {
	want := map[string]bool{}
	for _, name := range strings.Split(list, ",") {
		want[strings.TrimSpace(name)] = true
	}
	var out []T
	for _, v := range all {
		if want[v.id()] {
			out = append(out, v)
			delete(want, v.id())
		}
	}
	for name := range want {
		return nil, fmt.Errorf("%q is not one of %s", name, strings.Join(names(all), ", "))
	}
	return out, nil
}
