package inject

import (
	"errors"
	"fmt"
	"os"

	"github.com/google/nftables"
	"github.com/google/nftables/userdata"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

func table() *nftables.Table {
	return &nftables.Table{Name: Table, Family: nftables.TableFamilyINet}
}

// chains are the chains of the table t. Fence and Exit drop by default, so that a rule that is lost closes instead of opens.
func chains(t *nftables.Table) map[Chain]*nftables.Chain {
	accept, drop := nftables.ChainPolicyAccept, nftables.ChainPolicyDrop
	return map[Chain]*nftables.Chain{
		Redirect: {
			Name: string(Redirect), Table: t, Type: nftables.ChainTypeNAT,
			Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityNATDest, Policy: &accept,
		},
		Fence: {
			Name: string(Fence), Table: t, Type: nftables.ChainTypeFilter,
			Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityFilter, Policy: &drop,
		},
		Exit: {
			Name: string(Exit), Table: t, Type: nftables.ChainTypeFilter,
			Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityFilter, Policy: &drop,
		},
	}
}

// hostNetwork reports whether this thread's network namespace is the one that the machine started with: of the settings of
// net.core, the kernel shows some there only (net/core/sysctl_net_core.c). Where /proc is not mounted it reports false.
func hostNetwork() bool {
	_, err := os.Stat("/proc/sys/net/core/netdev_max_backlog")
	return err == nil
}

// Apply puts the rules of a plan in force, in one transaction: either all of them, in place of those of an earlier Apply, or
// no change. Errors: of Plan.Validate, ErrHostNetwork, ErrNotPermitted, ErrUnsupported, or of netlink.
func Apply(p Plan) error {
	if err := p.Validate(); err != nil {
		return err
	}
	if !p.HostNetwork && hostNetwork() {
		return ErrHostNetwork
	}
	c, err := nftables.New(nftables.WithSockOptions(roomy))
	if err != nil {
		return classified(err)
	}
	t := replaced(c)
	at := chains(t)
	for _, name := range everyChain() {
		c.AddChain(at[name])
	}
	for _, r := range Rules(p) {
		c.AddRule(&nftables.Rule{
			Table: t, Chain: at[r.Chain], Exprs: encode(r),
			UserData: userdata.AppendString(nil, userdata.TypeComment, r.Name),
		})
	}
	return classified(c.Flush())
}

// roomy makes room for a transaction, which is one message, and for its acknowledgements.
func roomy(c *netlink.Conn) error {
	const size = 1 << 20
	return errors.Join(c.SetWriteBuffer(size), c.SetReadBuffer(size))
}

// replaced adds an empty table to the transaction. The first addition makes the deletion succeed when there is none.
func replaced(c *nftables.Conn) *nftables.Table {
	removed(c)
	return c.AddTable(table())
}

func removed(c *nftables.Conn) {
	c.DelTable(c.AddTable(table()))
}

// Remove takes the rules out; it is no error if there are none. Errors: ErrNotPermitted, ErrUnsupported, or of netlink.
func Remove() error {
	c, err := nftables.New()
	if err != nil {
		return classified(err)
	}
	removed(c)
	return classified(c.Flush())
}

// classified turns what the kernel says into the errors of this package.
func classified(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrPermission):
		return ErrNotPermitted
	case errors.Is(err, unix.EPROTONOSUPPORT), errors.Is(err, unix.EAFNOSUPPORT), errors.Is(err, unix.EOPNOTSUPP),
		errors.Is(err, unix.ENOENT): // an expression, as no transaction of ours names what it did not add
		return fmt.Errorf("%w (%w)", ErrUnsupported, err)
	}
	return err
}
