//go:build linux

// Command cluster is a Kubernetes node for end-to-end tests: etcd, the control plane, kubelet, kube-proxy, containerd and runc, of the
// real releases, in namespaces of their own on one Linux machine. It needs root, Go and, for a whole node, Debian's apt-get; no container
// engine and no registry of images.
//
//	go run ./e2e/cluster build            build what is missing in the cache: twenty minutes the first time on two cores, 4 GB
//	go run ./e2e/cluster up -tier b       etcd, API server, controller manager: for admission
//	go run ./e2e/cluster up -tier c       the whole node: for pods
//	go run ./e2e/cluster kubectl get pods -A
//	go run ./e2e/cluster helm list
//	go run ./e2e/cluster import images.tar
//	go run ./e2e/cluster run COMMAND      any command in the node's namespaces
//	go run ./e2e/cluster logs [NAME]      what a component wrote
//	go run ./e2e/cluster tool helm        the path of a built program
//	go run ./e2e/cluster down             takes everything away, also after a crash
//
// TOOLGATE_CLUSTER_CACHE is the cache's folder. TOOLGATE_CLUSTER_NAME gives a second node beside the first another name.
//
// Limits: the bridge network enforces no NetworkPolicy; no user namespaces for pods. Nothing of the machine is changed but control
// groups under a name of its own, which down removes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := command(ctx, os.Args[1:])
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit): // it has said why itself
		os.Exit(exit.ExitCode())
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("no command; see the comment of this program: go doc ./e2e/cluster")
	}
	c, err := openCache()
	if err != nil {
		return err
	}
	m := c.machine(os.Getenv("TOOLGATE_CLUSTER_NAME"))
	name, args := args[0], args[1:]
	switch name {
	case nodeCommand:
		return runNode(m, args)
	case "build":
		return buildCommand(ctx, c, args)
	case "up":
		return upCommand(ctx, m, args)
	case "down":
		return m.down(ctx)
	case "kubectl", "helm":
		return attached(m.command(ctx, append([]string{c.program(name)}, args...)...))
	case "run":
		return attached(m.command(ctx, args...))
	case "import":
		for _, file := range args {
			if err := m.importImages(ctx, file); err != nil {
				return err
			}
		}
		return nil
	case "logs":
		return showLogs(m, args)
	case "tool":
		if len(args) != 1 {
			return errors.New("tool: expected one name")
		}
		fmt.Println(c.program(args[0]))
		return nil
	}
	return fmt.Errorf("found command %q; see the comment of this program: go doc ./e2e/cluster", name)
}

func buildCommand(ctx context.Context, c cache, args []string) error {
	flags := flag.NewFlagSet("build", flag.ContinueOnError)
	only := flags.String("only", tierC, "what for: `chart`, b or c")
	missing := flags.Bool("missing", false, "build nothing; name what is missing and fail if something is")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *missing {
		return c.missing(*only)
	}
	return c.build(ctx, *only, os.Stderr)
}

func upCommand(ctx context.Context, m *machine, args []string) error {
	flags := flag.NewFlagSet("up", flag.ContinueOnError)
	tier := flags.String("tier", tierC, "b for the API server, c for the whole node")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return m.up(ctx, *tier, func(what string, after float64) { fmt.Printf("%6.2f s  %s\n", after, what) })
}

// attached runs cmd on this process's terminal.
func attached(cmd *exec.Cmd) error {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}

func showLogs(m *machine, names []string) error {
	if len(names) == 0 {
		files, err := filepath.Glob(m.path("log", "*.log"))
		for _, f := range files {
			fmt.Println(f)
		}
		return err
	}
	for _, n := range names {
		text, err := os.ReadFile(m.path("log", n+".log"))
		if err != nil {
			return err
		}
		if _, err := os.Stdout.Write(text); err != nil {
			return err
		}
	}
	return nil
}
