package main

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/cli"
	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/inject"
	"github.com/toolgate/toolgate/proxy"
)

// netinitFlags are the flags of netinit.
type netinitFlags struct {
	proxyUID int
	toolUIDs []string
	loopback []string
	ipv4Only bool
	host     bool
	check    bool
	remove   bool
}

func newNetinit() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "netinit --config FILE --proxy-uid UID --tool-uid UID=LISTENER",
		Short: "Fence the pod's network: tools reach nothing but their own listener",
		Long: "Put nftables rules into the network namespace that it runs in, so that each tool's user id reaches nothing but its\n" +
			"own listener, and only the proxy's leaves the pod. It runs once, before the tools start, in an init container with\n" +
			"the capability NET_ADMIN. The rules replace those of an earlier run, all at once.\n\n" +
			"On a machine, or in a pod with the host's network, it would cut off everything else there, and refuses to run.",
		Example: "  sidecar netinit --config sidecar.yaml --proxy-uid 1337 --tool-uid 2001=search --tool-uid 2002=mail",
		Args:    cli.FlagsOnly,
	}
	path := configFlag(cmd)
	output := cli.OutputFlag(cmd)
	var f netinitFlags
	cmd.Flags().IntVar(&f.proxyUID, "proxy-uid", 0, "the user `id` that the proxy runs as")
	cmd.Flags().StringArrayVar(&f.toolUIDs, "tool-uid", nil, "a tool's user id and the `uid=listener` that is its own; once for each tool")
	cmd.Flags().StringArrayVar(&f.loopback, "loopback", nil, "let a user id connect to a port of another over loopback: `from=to:port`, such as 2000=2001:8000")
	cmd.Flags().BoolVar(&f.ipv4Only, "ipv4-only", false, "let nothing pass over IPv6")
	cmd.Flags().BoolVar(&f.host, "host-network", false, "run in the machine's own network all the same: for a virtual machine that is one pod")
	cmd.Flags().BoolVar(&f.check, "check", false, "change nothing; exit 1 and say what is missing if the rules are not in force")
	cmd.Flags().BoolVar(&f.remove, "remove", false, "take the rules out")
	cmd.MarkFlagsMutuallyExclusive("check", "remove")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := output.Valid(); err != nil {
			return err
		}
		s, err := config.Load(*path)
		if err != nil {
			return cli.Wrong(err)
		}
		r, err := f.do(s)
		if err != nil {
			return err
		}
		var lost error
		err = output.Print(cmd.OutOrStdout(), r, func(w io.Writer) { _, lost = fmt.Fprint(w, r) })
		switch {
		case err != nil:
			return err
		case lost != nil:
			return cli.Wrong(lost)
		case r.Drift != nil && !output.JSON():
			return cli.Wrong(r.Drift)
		case !r.OK:
			return cli.Wrong(cli.ErrPrinted)
		}
		return nil
	}
	return cmd
}

// fenced is the outcome of netinit.
type fenced struct {
	OK     bool          `json:"ok"`
	Action string        `json:"action"` // apply, check or remove
	Table  string        `json:"table"`
	Rules  []fenceRule   `json:"rules,omitempty"`
	Drift  *inject.Drift `json:"drift,omitempty"`
}

type fenceRule struct {
	Chain string `json:"chain"`
	Name  string `json:"name"`
	Rule  string `json:"rule"`
}

func (r fenced) String() string {
	switch {
	case !r.OK:
		return ""
	case r.Action == "remove":
		return fmt.Sprintf("ok: table inet %s removed\n", r.Table)
	}
	return fmt.Sprintf("ok: %s in force in table inet %s\n", plural(len(r.Rules), "rule"), r.Table)
}

func (f *netinitFlags) do(s *config.Snapshot) (fenced, error) {
	r := fenced{OK: true, Action: "apply", Table: inject.Table}
	if f.remove {
		r.Action = "remove"
		return r, asWrong(inject.Remove())
	}
	p, err := f.plan(s)
	if err != nil {
		return r, err
	}
	for _, rule := range inject.Rules(p) {
		r.Rules = append(r.Rules, fenceRule{string(rule.Chain), rule.Name, rule.String()})
	}
	if !f.check {
		return r, asWrong(inject.Apply(p))
	}
	r.Action = "check"
	err = inject.Check(p)
	if errors.As(err, &r.Drift) {
		r.OK = false
		return r, nil
	}
	return r, asWrong(err)
}

func asWrong(err error) error {
	if err == nil {
		return nil
	}
	return cli.Wrong(fmt.Errorf("netinit: %w", err))
}

// plan is the fence that the command line and the config ask for together.
func (f *netinitFlags) plan(s *config.Snapshot) (inject.Plan, error) {
	if f.proxyUID < 0 || f.proxyUID > maxUID {
		return inject.Plan{}, fmt.Errorf("--proxy-uid: found %d, expected a user id", f.proxyUID)
	}
	p := inject.Plan{Proxy: uint32(f.proxyUID), IPv6: !f.ipv4Only, HostNetwork: f.host}
	for _, arg := range f.toolUIDs {
		t, err := toolFence(s, arg)
		if err != nil {
			return p, fmt.Errorf("--tool-uid: %w", err)
		}
		p.Tools = append(p.Tools, t)
	}
	for _, arg := range f.loopback {
		path, err := loopbackPath(arg)
		if err != nil {
			return p, fmt.Errorf("--loopback: %w", err)
		}
		p.Paths = append(p.Paths, path)
	}
	var err error
	if p.Ports, err = sidecarPorts(s); err != nil {
		return p, err
	}
	if s.Fence.Rules == config.FenceNetinit {
		p.Probes = proxy.FenceProbes(s.Fence.ProbePort)
	}
	return p, p.Validate()
}

const maxUID = 1<<32 - 2

func toolFence(s *config.Snapshot, arg string) (inject.Tool, error) {
	id, name, ok := strings.Cut(arg, "=")
	uid, err := strconv.ParseUint(id, 10, 32)
	if !ok || err != nil {
		return inject.Tool{}, fmt.Errorf("found %q, expected a user id and a listener such as 2001=search", arg)
	}
	i := slices.IndexFunc(s.Listeners, func(l config.Listener) bool { return l.Name == name })
	if i < 0 {
		var names []string
		for _, l := range s.Listeners {
			names = append(names, l.Name)
		}
		return inject.Tool{}, fmt.Errorf("found listener %q, expected one of the config's: %s", name, strings.Join(names, ", "))
	}
	l := &s.Listeners[i]
	if l.Kind == config.DNS {
		return inject.Tool{}, fmt.Errorf("found listener %s of kind dns, expected the one that the tool's calls go to", name)
	}
	address, err := netip.ParseAddrPort(l.Address)
	if err != nil {
		return inject.Tool{}, err
	}
	if err := loneTool(s, l, address); err != nil {
		return inject.Tool{}, err
	}
	dns, err := namesPort(s, l.Tool)
	return inject.Tool{UID: uint32(uid), Listener: address, Transparent: l.Kind == config.Transparent, DNS: dns}, err
}

// loneTool refuses a port that serves one tool on one loopback address and another tool on the other: connections are redirected to
// both, by their family.
func loneTool(s *config.Snapshot, l *config.Listener, at netip.AddrPort) error {
	for i := range s.Listeners {
		other := &s.Listeners[i]
		if ap, err := netip.ParseAddrPort(other.Address); err != nil || ap.Port() != at.Port() {
			continue
		}
		if other.Kind != l.Kind || other.Tool != l.Tool || !slices.Equal(other.Tools, l.Tools) {
			return fmt.Errorf("found listeners %s and %s on port %d for different tools, expected a port for each", l.Name, other.Name, at.Port())
		}
	}
	return nil
}

// loopbackPath reads FROM=TO:PORT.
func loopbackPath(arg string) (inject.Path, error) {
	from, rest, ok := strings.Cut(arg, "=")
	to, port, ok2 := strings.Cut(rest, ":")
	f, err1 := strconv.ParseUint(from, 10, 32)
	t, err2 := strconv.ParseUint(to, 10, 32)
	n, err3 := strconv.ParseUint(port, 10, 16)
	if !ok || !ok2 || errors.Join(err1, err2, err3) != nil {
		return inject.Path{}, fmt.Errorf("found %q, expected two user ids and a port such as 2000=2001:8000", arg)
	}
	return inject.Path{From: uint32(f), To: uint32(t), Port: uint16(n)}, nil
}

// namesPort is the port of the listeners that answer a tool's DNS queries, 0 if there is none. There may be one for each family,
// on one port.
func namesPort(s *config.Snapshot, tool string) (uint16, error) {
	var port uint16
	for i := range s.Listeners {
		l := &s.Listeners[i]
		if l.Kind != config.DNS || l.Tool != tool || tool == "" {
			continue
		}
		at, err := netip.ParseAddrPort(l.Address)
		if err == nil {
			err = loneTool(s, l, at)
		}
		switch {
		case err != nil:
			return 0, err
		case port != 0 && port != at.Port():
			return 0, fmt.Errorf("found listeners of kind dns for tool %s on ports %d and %d, expected one port", tool, port, at.Port())
		case !reachable(at.Addr()):
			return 0, fmt.Errorf("found listener %s of kind dns on %s, expected 127.0.0.1 or ::1: redirected queries arrive there", l.Name, at.Addr())
		}
		port = at.Port()
	}
	return port, nil
}

// reachable reports whether what is redirected over either family arrives at a listener on a.
func reachable(a netip.Addr) bool {
	return a.IsUnspecified() || a == netip.IPv6Loopback() || a == netip.AddrFrom4([4]byte{127, 0, 0, 1})
}

// sidecarPorts are the ports that the sidecar listens on, whoever's they are.
func sidecarPorts(s *config.Snapshot) ([]uint16, error) {
	var ports []uint16
	addresses := []string{s.Admin}
	for _, l := range s.Listeners {
		addresses = append(addresses, l.Address)
	}
	for _, a := range addresses {
		if a == "" {
			continue
		}
		ap, err := netip.ParseAddrPort(a)
		if err != nil {
			return nil, err
		}
		if ap.Port() == 0 {
			return nil, fmt.Errorf("found %s in the config, expected a fixed port: a rule cannot name one that is chosen later", a)
		}
		ports = append(ports, ap.Port())
	}
	return ports, nil
}
