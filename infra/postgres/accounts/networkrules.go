package accounts

import (
	"context"
	"errors"
	"maps"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

const networkRuleColumns = `id, domain, decision, created_at`

// NetworkRules lists what the user allows and denies commands, by domain.
func (a *Store) NetworkRules(ctx context.Context, userID string) ([]domain.UserNetworkRule, error) {
	rows, _ := a.db.Pool.Query(ctx, `SELECT `+networkRuleColumns+` FROM network_rules WHERE user_id = $1 ORDER BY domain`, userID)
	rules, err := pgx.CollectRows(rows, pgx.RowToStructByName[domain.UserNetworkRule])

	return rules, pg.Fault("read network rules", err)
}

// SetNetworkRule keeps a rule in place of the one for the same domain. A user who has
// MaxNetworkRules gets network_rule_limit.
func (a *Store) SetNetworkRule(ctx context.Context, userID string, rule domain.NetworkRule, decision domain.PermissionDecision) (
	set domain.UserNetworkRule, err error,
) {
	err = a.db.InTx(ctx, func(tx pgx.Tx) error {
		set, err = setNetworkRule(ctx, tx, userID, rule, decision, true)
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return set, domain.Newf(domain.Conflict, "network_rule_limit", "a user may have %d network rules at most", domain.MaxNetworkRules)
	}

	return set, pg.Fault("write network rule", err)
}

// AllowNetworkRule stores the rule that an answer of a user allows, with its audit record,
// in a transaction. A rule of the user that denies the same domain stays. It returns
// pgx.ErrNoRows if the user has too many rules.
func AllowNetworkRule(ctx context.Context, tx pgx.Tx, userID string, rule domain.NetworkRule, details map[string]string) error {
	set, err := setNetworkRule(ctx, tx, userID, rule, domain.PermissionAllow, false)
	if err != nil || set.Decision != domain.PermissionAllow {
		return err
	}

	details = maps.Clone(details)
	details["domain"], details["decision"] = set.Domain, string(set.Decision)

	return writeAudit(ctx, tx, userID, "network_rule.set", set.ID, details)
}

// setNetworkRule stores a rule. Without replace, the decision of a rule for the same domain
// stays, and the result has it.
func setNetworkRule(
	ctx context.Context, tx pgx.Tx, userID string, rule domain.NetworkRule, decision domain.PermissionDecision, replace bool,
) (domain.UserNetworkRule, error) {
	// The row of the user serialises writers, so that they count each other's rules.
	rows, _ := tx.Query(ctx, `SELECT 1 FROM users WHERE id = $1 FOR NO KEY UPDATE`, userID)
	rows.Close()

	if err := rows.Err(); err != nil {
		return domain.UserNetworkRule{}, err
	}

	rows, _ = tx.Query(ctx, `
		INSERT INTO network_rules (id, user_id, domain, decision)
		SELECT @id, @user, @domain, @decision
		WHERE  (SELECT count(*) FROM network_rules WHERE user_id = @user AND domain <> @domain) < @most
		ON CONFLICT (user_id, domain) DO UPDATE
		SET decision = CASE WHEN @replace THEN excluded.decision ELSE network_rules.decision END
		RETURNING `+networkRuleColumns,
		pgx.NamedArgs{
			"id": domain.NewID(), "user": userID, "domain": rule.String(), "decision": decision, "most": domain.MaxNetworkRules,
			"replace": replace,
		})

	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[domain.UserNetworkRule])
}

// DeleteNetworkRule removes a rule of the user's.
func (a *Store) DeleteNetworkRule(ctx context.Context, userID, id string) error {
	tag, err := a.db.Pool.Exec(ctx, `DELETE FROM network_rules WHERE user_id = $1 AND id = $2`, userID, id)
	if err == nil && tag.RowsAffected() == 0 {
		return domain.Newf(domain.NotFound, "network_rule_not_found", "network rule %s does not exist", id)
	}

	return pg.Fault("delete network rule", err)
}
