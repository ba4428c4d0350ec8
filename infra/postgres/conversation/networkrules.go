package conversation

import (
	"context"
	"maps"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

// NetworkRuleColumns are the columns of a domain.UserNetworkRule.
const NetworkRuleColumns = `id, domain, decision, created_at`

// AllowNetworkRule stores the rule that an answer of a user allows, with its audit record,
// in a transaction. A rule of the user that denies the same domain stays. It returns
// pgx.ErrNoRows if the user has too many rules.
func AllowNetworkRule(ctx context.Context, tx pgx.Tx, userID string, rule domain.NetworkRule, details map[string]string) error {
	set, err := SetNetworkRule(ctx, tx, userID, rule, domain.PermissionAllow, false)
	if err != nil || set.Decision != domain.PermissionAllow {
		return err
	}

	details = maps.Clone(details)
	details["domain"], details["decision"] = set.Domain, string(set.Decision)

	return pg.WriteAudit(ctx, tx, userID, "network_rule.set", set.ID, details)
}

// SetNetworkRule stores a rule. Without replace, the decision of a rule for the same domain
// stays, and the result has it.
func SetNetworkRule(
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
		RETURNING `+NetworkRuleColumns,
		pgx.NamedArgs{
			"id": domain.NewID(), "user": userID, "domain": rule.String(), "decision": decision, "most": domain.MaxNetworkRules,
			"replace": replace,
		})

	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[domain.UserNetworkRule])
}
