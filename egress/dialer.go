package egress

import (
	"context"
	"net"
	"net/netip"
	"sync/atomic"
	"time"
)

// Exemption lifts the private-network block for exactly these prefixes, ports and tools. Loopback, link-local and
// metadata addresses are lifted only by a prefix of a single address (/32, /128).
type Exemption struct {
	Prefix netip.Prefix
	Ports  []uint16
	Tools  []string
}

// Addresses judges addresses. The zero value has no exemptions and denies every special-purpose address.
type Addresses struct {
	Exempt  []Exemption
	Cluster []netip.Prefix   // pod, service and node ranges of this cluster, denied even where they are public space
	Own     []netip.AddrPort // the sidecar's own listeners, never reachable, exempt or not; an unspecified address means every local one
}

// AddressError says that an address is not for this tool. Its text names the reason and not the address.
type AddressError struct {
	Addr   netip.AddrPort // for records and debugging, never for the tool
	Reason string         // the table row's name, for example "Link local"
}

func (e *AddressError) Error() string { panic("contract") }

// Judge returns nil if tool may connect to ap, else *AddressError.
func (a *Addresses) Judge(tool string, ap netip.AddrPort) error { panic("contract") }

// JudgeHost judges a canonical host that is an address, and returns nil for a name, which only a dial can judge.
func (a *Addresses) JudgeHost(tool, host string, port uint16) error { panic("contract") }

// Attempts counts what one dial did. Safe for concurrent use.
type Attempts struct {
	Resolved, Dialed, Refused atomic.Int32 // addresses found, connections begun, addresses judged unfit
}

// Dialer connects to names for tools. Resolver and Addresses must be set.
type Dialer struct {
	Addresses *Addresses
	Resolver  *net.Resolver
	Timeout   time.Duration
}

// NewResolver returns a resolver in pure Go that asks server ("ip:port"; empty: the system's), names being absolute so
// that no search domain is tried.
func NewResolver(server string) *net.Resolver { panic("contract") }

// Dial resolves host (once) and connects to the first address that answers, judging each where the socket connects. A
// denied address is never contacted; if any address of the answer is denied, the dial as a whole is denied.
// at may be nil. Errors: *AddressError; *net.DNSError; *net.OpError.
func (d *Dialer) Dial(ctx context.Context, tool, host string, port uint16, at *Attempts) (*net.TCPConn, error) {
	panic("contract")
}
