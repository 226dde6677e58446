package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// FlagsOnly refuses arguments of a command that takes none.
func FlagsOnly(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("found argument %q, expected flags only", args[0])
}

// One returns a check for exactly one argument, called what.
func One(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 || args[0] == "" {
			return fmt.Errorf("found %d arguments, expected %s", len(args), what)
		}
		return nil
	}
}

// Output is the value of -o.
type Output struct{ format string }

// OutputFlag adds -o to a command that prints a result.
func OutputFlag(cmd *cobra.Command) *Output {
	o := &Output{}
	cmd.Flags().StringVarP(&o.format, "output", "o", "text", "`format` of the result: text or json")
	return o
}

// Valid returns an error of the command line for another format.
func (o *Output) Valid() error {
	if o.format != "text" && o.format != "json" {
		return fmt.Errorf("found -o %q, expected text or json", o.format)
	}
	return nil
}

// JSON reports whether the result is wanted as JSON.
func (o *Output) JSON() bool { return o.format == "json" }

// Print writes v as JSON, or has text write it for people.
func (o *Output) Print(w io.Writer, v any, text func(io.Writer)) error {
	if !o.JSON() {
		text(w)
		return nil
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return Wrong(err)
	}
	return nil
}
