package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/toolgate/toolgate/redact"
)

// The exit codes of every command.
const (
	ExitDone  = 0
	ExitWrong = 1 // what was asked about is wrong, or was refused or not reached
	ExitUsage = 2 // the command line is wrong
)

// Wrong marks an error as one of the thing asked about: the program ends with ExitWrong. Any other error is one of the command line.
func Wrong(err error) error { return wrong{err} }

type wrong struct{ error }

func (w wrong) Unwrap() error { return w.error }

// ErrPrinted is the error of what has been printed already: nothing more is said.
var ErrPrinted = errors.New("")

// Root returns a program's root command, which has a name, lines about it, its streams and its commands, one of them version. It does
// nothing by itself.
func Root(root *cobra.Command, stdin io.Reader, stdout, stderr io.Writer, commands ...*cobra.Command) *cobra.Command {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.Args = KnownCommand
	root.RunE = func(*cobra.Command, []string) error { return errors.New("found no command, expected one") }
	root.Version = versionLine(root.Name())
	root.SetVersionTemplate("{{.Version}}")
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.AddCommand(append(commands, newVersion())...)
	return root
}

// Run is the program: arguments in, exit code out. Errors go to stderr in one line with the program's name before it; those of the thing
// asked about are printed by show, if there is one. Before anything else the memory is closed to other processes, and limited: see MemoryVariable.
func Run(ctx context.Context, root *cobra.Command, args []string, show func(stderr io.Writer, err error)) int {
	stderr := root.ErrOrStderr()
	if err := sealMemory(); err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", root.Name(), err)
		return ExitWrong
	}
	// Nothing of ours uses the standard logger. The libraries below, net/http first, quote there what peers have sent, and with
	// GODEBUG=http2debug=2 every header with its credential.
	log.SetOutput(io.Discard)
	if err := limitMemory(); err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", root.Name(), err)
		return ExitUsage
	}
	explainFlags(root, args)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	var w wrong
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, &w):
		switch {
		case errors.Is(err, ErrPrinted):
		case show != nil:
			show(stderr, w.error)
		default:
			fmt.Fprintf(stderr, "%s: %s\n", root.Name(), printable(w.error))
		}
		return ExitWrong
	default:
		fmt.Fprintf(stderr, "%s: %v; see %q\n", root.Name(), err, cmd.CommandPath()+" --help")
		return ExitUsage
	}
}

// printable is what err says, line for line: a server's own words may be part of it.
func printable(err error) string {
	lines := strings.Split(err.Error(), "\n")
	for i, line := range lines {
		lines[i] = redact.Text(line)
	}
	return strings.Join(lines, "\n")
}

// explainFlags has errors about flags say what is meant: which commands there are when the first argument is none of them, though a flag
// behind it is what cobra would complain of, and which flag is like the one that there is not.
func explainFlags(root *cobra.Command, args []string) {
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if cmd == root && len(args) > 0 && !strings.HasPrefix(args[0], "-") {
			return KnownCommand(root, args)
		}
		if given := cmd.Flags().Args(); cmd.HasSubCommands() && len(given) > 0 {
			return KnownCommand(cmd, given)
		}
		var unknown *pflag.NotExistError
		if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
			if near := nearFlag(cmd, unknown.GetSpecifiedName()); near != "" {
				return fmt.Errorf("%w; did you mean --%s?", err, near)
			}
		}
		return err
	})
}

// nearFlag finds the flag that was meant by cobra's measure for commands.
func nearFlag(cmd *cobra.Command, name string) string {
	flags := &cobra.Command{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			flags.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	return nearest(flags, name)
}

// nearest returns the name of the command below c that was meant, or nothing. Of a name of three letters one may be wrong, else two.
func nearest(c *cobra.Command, name string) string {
	for wrong := 1; wrong <= min(2, 1+len(name)/4); wrong++ {
		c.SuggestionsMinimumDistance = wrong
		if near := c.SuggestionsFor(name); len(near) > 0 {
			return near[0]
		}
	}
	return ""
}

// KnownCommand says which commands there are when the one given is none of them. It is for Args of a command that has others below it.
func KnownCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	text := fmt.Sprintf("found command %q, expected one of %s", args[0], strings.Join(names, ", "))
	if near := nearest(root, args[0]); near != "" {
		text += fmt.Sprintf("; did you mean %q?", near)
	}
	return errors.New(text)
}
