package sessions

import "context"

// RaiseSandboxUsers has new sessions get host users from base on. Users that were
// given stay, and so do those of a higher base.
func (d *Base) RaiseSandboxUsers(ctx context.Context, base int) error {
	_, err := d.Pool.Exec(ctx, `SELECT setval('sandbox_uids', $1::bigint) FROM sandbox_uids WHERE last_value < $1`, base)
	return err
}
