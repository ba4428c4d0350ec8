package board

import (
	"context"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

const squadColumns = `id, name, leader_id, instructions, members, created_at`

// Squads lists the squads of a workspace, oldest first. There are at most MaxSquads.
func (s *Store) Squads(ctx context.Context, userID, workspaceID string) (squads []domain.Squad, err error) {
	if _, err = roleOf(ctx, s.db.Pool, userID, workspaceID); err == nil {
		rows, _ := s.db.Pool.Query(ctx, `SELECT `+squadColumns+` FROM prod_squads WHERE workspace_id = $1 ORDER BY id`, workspaceID)
		squads, err = pgx.CollectRows(rows, pgx.RowToStructByName[domain.Squad])
	}

	return squads, pg.Fault("list squads", err)
}

// CreateSquad makes a squad. Its leader and its agents are agent instances that the
// caller sees in the workspace, its other members are members of it.
func (s *Store) CreateSquad(ctx context.Context, userID, workspaceID string, in domain.Squad) (made domain.Squad, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		role, err := lockMembers(ctx, tx, userID, workspaceID)
		if err != nil {
			return err
		}

		if err := domain.NeedsRole(role, domain.WorkspaceAdmin); err != nil {
			return err
		}

		if err := checkSquad(ctx, tx, userID, workspaceID, in); err != nil {
			return err
		}

		rows, _ := tx.Query(ctx, `
			INSERT INTO prod_squads (id, workspace_id, name, leader_id, instructions, members)
			SELECT @id, @workspace, @name, @leader, @instructions, @members
			WHERE  (SELECT count(*) FROM prod_squads WHERE workspace_id = @workspace) < @most
			RETURNING `+squadColumns,
			pgx.NamedArgs{
				"id": domain.NewID(), "workspace": workspaceID, "name": in.Name, "leader": in.LeaderID, "instructions": in.Instructions,
				"members": in.Members, "most": domain.MaxSquads,
			})

		all, err := pgx.CollectRows(rows, pgx.RowToStructByName[domain.Squad])
		if err != nil {
			return err
		}

		if len(all) == 0 {
			return domain.Newf(domain.Conflict, "squad_limit", "a workspace may have %d squads", domain.MaxSquads)
		}

		made = all[0]

		return nil
	})
	if pg.HasState(err, pg.UniqueViolation) {
		return made, domain.Newf(domain.Conflict, "squad_name_taken", "the workspace has a squad of this name")
	}

	return made, pg.Fault("create squad", err)
}

func checkSquad(ctx context.Context, tx pgx.Tx, userID, workspaceID string, in domain.Squad) error {
	wanted := append([]domain.SquadMember{{MemberType: domain.ActorAgent, MemberID: in.LeaderID}}, in.Members...)
	for _, member := range wanted {
		if _, err := resolve(ctx, tx, userID, workspaceID, domain.AssigneeRef{Type: member.MemberType, ID: member.MemberID}); err != nil {
			return err
		}
	}

	return nil
}
