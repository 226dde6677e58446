package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/toolgate/toolgate/cmd/cli"
	"github.com/toolgate/toolgate/inject/pod"
	"github.com/toolgate/toolgate/inject/settings"
)

// maxPodBytes bounds what is read of a pod; the API server takes less than 2 MiB.
const maxPodBytes = 4 << 20

func newMutate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mutate --settings FILE [POD.yaml]",
		Short: "Inject into a pod offline: YAML in, YAML out",
		Long: "Print a pod as the webhook would make it, and what it would warn of on stderr. Without a file, or with -, the pod is read\n" +
			"from stdin. Manifests are files NAME.yaml of toolsDir in the settings, or of --tools.",
		Example: "  injector mutate --settings settings.yaml --tools manifests pod.yaml",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("found %d arguments, expected one file with a pod", len(args))
			}
			return nil
		},
	}
	file := cmd.Flags().String("settings", "", "the injector's settings `file`")
	dir := cmd.Flags().String("tools", "", "`folder` of manifests, in place of the settings' toolsDir")
	labels := cmd.Flags().StringToString("namespace-label", nil, "a `label=value` of the pod's namespace; once for each")
	annotations := cmd.Flags().StringArray("namespace-annotation", nil, "an `annotation=value` of the pod's namespace; once for each")
	if err := cmd.MarkFlagRequired("settings"); err != nil {
		panic(err) // the flag was added above
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := settings.Load(*file)
		if err != nil {
			return cli.Wrong(err)
		}
		p, err := readPod(cmd.InOrStdin(), args)
		if err != nil {
			return cli.Wrong(err)
		}
		if *dir == "" {
			*dir = s.ToolsDir
		}
		ns := pod.Namespace{Name: p.Namespace, Labels: *labels, Annotations: map[string]string{}}
		for _, a := range *annotations { // a value has commas, so it is not a map's
			key, value, ok := strings.Cut(a, "=")
			if !ok {
				return cli.Wrong(fmt.Errorf("found --namespace-annotation %q, expected annotation=value", a))
			}
			ns.Annotations[key] = value
		}
		r, err := pod.Mutate(p, ns, s, folder(*dir))
		if err != nil {
			return cli.Wrong(err)
		}
		for _, w := range r.Warnings {
			fmt.Fprintln(cmd.ErrOrStderr(), "warning:", w)
		}
		out, err := yaml.Marshal(r.Pod)
		if err == nil {
			_, err = cmd.OutOrStdout().Write(out)
		}
		if err != nil {
			return cli.Wrong(err)
		}
		return nil
	}
	return cmd
}

// readPod reads one pod, and refuses what is none, and fields that a pod has not: the API server would drop them.
func readPod(stdin io.Reader, args []string) (*corev1.Pod, error) {
	name, in := "stdin", stdin
	if len(args) == 1 && args[0] != "-" {
		f, err := os.Open(args[0])
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }()
		name, in = args[0], f
	}
	b, err := io.ReadAll(io.LimitReader(in, maxPodBytes))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(b, &kind); err != nil {
		return nil, fmt.Errorf("%s: found text that is no YAML, expected a pod: %w", name, err)
	}
	if kind.Kind != "Pod" || kind.APIVersion != "v1" {
		return nil, fmt.Errorf("%s: found kind %q of %q, expected Pod of v1: give the pod of a template, not the template", name, kind.Kind, kind.APIVersion)
	}
	p := &corev1.Pod{}
	if err := yaml.UnmarshalStrict(b, p); err != nil {
		return nil, fmt.Errorf("%s: found what a pod has not, expected a pod: %w", name, err)
	}
	return p, nil
}

var fileName = regexp.MustCompile(`^[a-z][a-z0-9_.-]{0,62}$`)

// folder finds manifests as files NAME.yaml.
func folder(dir string) func(tool string) ([]byte, error) {
	return func(tool string) ([]byte, error) {
		if !fileName.MatchString(tool) || strings.Contains(tool, "..") {
			return nil, errors.New("its name is no file's")
		}
		b, err := os.ReadFile(filepath.Join(dir, tool+".yaml"))
		if errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("there is no manifest %s.yaml in %s", tool, dir)
		}
		return b, err
	}
}
