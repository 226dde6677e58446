package cli

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker for releases.
var version = ""

// Version returns the release, or the commit that the binary was built from, or "devel".
func Version() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "devel-" + s.Value[:12]
		}
	}
	return "devel"
}

func versionLine(program string) string {
	return fmt.Sprintf("toolgate %s %s %s %s/%s\n", program, Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// newVersion returns the command that prints the version of a program, as its flag --version does.
func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  FlagsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := io.WriteString(cmd.OutOrStdout(), cmd.Root().Version); err != nil {
				return Wrong(err)
			}
			return nil
		},
	}
}
