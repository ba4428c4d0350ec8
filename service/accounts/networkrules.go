package accounts

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/conversation"
	"everloop/infra/postgres/pg"
)

// NetworkRules lists what the user allows and denies commands, by domain.
func (a *Store) NetworkRules(ctx context.Context, userID string) ([]domain.UserNetworkRule, error) {
	rows, _ := a.db.Pool.Query(
		ctx,
		`SELECT `+conversation.NetworkRuleColumns+` FROM network_rules WHERE user_id = $1 ORDER BY domain`,
		userID,
	)
	rules, err := pgx.CollectRows(rows, pgx.RowToStructByName[domain.UserNetworkRule])

	return rules, pg.Fault("read network rules", err)
}

// SetNetworkRule keeps a rule in place of the one for the same domain. A user who has
// MaxNetworkRules gets network_rule_limit.
func (a *Store) SetNetworkRule(ctx context.Context, userID string, rule domain.NetworkRule, decision domain.PermissionDecision) (
	set domain.UserNetworkRule, err error,
) {
	err = a.db.InTx(ctx, func(tx pgx.Tx) error {
		set, err = conversation.SetNetworkRule(ctx, tx, userID, rule, decision, true)
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return set, domain.Newf(domain.Conflict, "network_rule_limit", "a user may have %d network rules at most", domain.MaxNetworkRules)
	}

	return set, pg.Fault("write network rule", err)
}

// DeleteNetworkRule removes a rule of the user's.
func (a *Store) DeleteNetworkRule(ctx context.Context, userID, id string) error {
	tag, err := a.db.Pool.Exec(ctx, `DELETE FROM network_rules WHERE user_id = $1 AND id = $2`, userID, id)
	if err == nil && tag.RowsAffected() == 0 {
		return domain.Newf(domain.NotFound, "network_rule_not_found", "network rule %s does not exist", id)
	}

	return pg.Fault("delete network rule", err)
}
