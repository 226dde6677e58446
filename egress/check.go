package egress

import "context"

// Check resolves host and judges its addresses as Dial does, and connects to none of them. Errors: *AddressError,
// *net.DNSError.
func (d *Dialer) Check(ctx context.Context, tool, host string, port uint16) error {
	found, err := d.lookup(ctx, host)
	if err != nil {
		return err
	}
	_, err = d.judgeAll(tool, found, port, new(Attempts))
	return err
}
