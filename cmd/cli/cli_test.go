package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// program runs a command line of a program with one command, do, that ends with an error.
func program(end error, args ...string) (code int, stdout, stderr string) {
	do := &cobra.Command{Use: "do", Args: FlagsOnly}
	output := OutputFlag(do)
	do.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := output.Valid(); err != nil {
			return err
		}
		return errors.Join(output.Print(cmd.OutOrStdout(), map[string]string{"a": "<b>"}, func(w io.Writer) { fmt.Fprintln(w, "a is <b>") }), end)
	}
	var out, errs bytes.Buffer
	do.Flags().Bool("all", false, "")
	do.Flags().String("tool", "", "")
	root := Root(&cobra.Command{Use: "prog"}, strings.NewReader(""), &out, &errs, do)
	code = Run(context.Background(), root, args, nil)
	return code, out.String(), errs.String()
}

func TestRun(t *testing.T) {
	for _, c := range []struct {
		args           string
		end            error
		code           int
		stdout, stderr string
	}{
		{"do", nil, ExitDone, "a is <b>\n", ""},
		{"do -o json", nil, ExitDone, "{\n  \"a\": \"<b>\"\n}\n", ""},
		{"do", Wrong(errors.New("not there")), ExitWrong, "a is <b>\n", "prog: not there\n"},
		{"do", Wrong(ErrPrinted), ExitWrong, "a is <b>\n", ""},
		{"do", errors.New("found no --x"), ExitUsage, "a is <b>\n", "prog: found no --x; see \"prog do --help\"\n"},
		{"do -o yaml", nil, ExitUsage, "", "prog: found -o \"yaml\", expected text or json; see \"prog do --help\"\n"},
		{"do it", nil, ExitUsage, "", "prog: found argument \"it\", expected flags only; see \"prog do --help\"\n"},
		{"", nil, ExitUsage, "", "prog: found no command, expected one; see \"prog --help\"\n"},
		{"versoin", nil, ExitUsage, "", "did you mean \"version\"?; see \"prog --help\"\n"},
		{"undo --config x", nil, ExitUsage, "", "prog: found command \"undo\", expected one of completion, do, version; did you mean \"do\"?; see \"prog --help\"\n"},
		{"version", nil, ExitDone, "toolgate prog ", ""},
		{"--version", nil, ExitDone, "toolgate prog ", ""},
		{"do --outptu json", nil, ExitUsage, "", "prog: unknown flag: --outptu; did you mean --output?; see \"prog do --help\"\n"},
		{"do --al", nil, ExitUsage, "", "did you mean --all?; see \"prog do --help\"\n"},
		{"do --tol", nil, ExitUsage, "", "did you mean --tool?; see \"prog do --help\"\n"},
		{"do --tul", nil, ExitUsage, "", "prog: unknown flag: --tul; see \"prog do --help\"\n"},
		{"do --zzz", nil, ExitUsage, "", "prog: unknown flag: --zzz; see \"prog do --help\"\n"},
	} {
		code, stdout, stderr := program(c.end, strings.Fields(c.args)...)
		if code != c.code || !strings.HasPrefix(stdout, c.stdout) || !strings.HasSuffix(stderr, c.stderr) || (c.stderr == "") != (stderr == "") {
			t.Errorf("prog %s: %d %q %q", c.args, code, stdout, stderr)
		}
	}
}
func TestMemoryLimit(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	for _, c := range []struct {
		text, own string
		want      int64
		bad       bool
	}{
		{"134217728", "", 134217728 / 10 * 9, false},
		{"134217728", "1GiB", math.MaxInt64, false},
		{"", "", math.MaxInt64, false},
		{"128Mi", "", math.MaxInt64, true},
		{"0", "", math.MaxInt64, true},
		{"-5", "", math.MaxInt64, true},
	} {
		debug.SetMemoryLimit(math.MaxInt64)
		t.Setenv(MemoryVariable, c.text)
		t.Setenv("GOMEMLIMIT", c.own)
		code, _, stderr := program(nil, "do")
		if got := debug.SetMemoryLimit(-1); got != c.want || (code == ExitUsage) != c.bad {
			t.Errorf("%q beside %q: %d, exit code %d, %s", c.text, c.own, got, code, stderr)
		}
	}
}
