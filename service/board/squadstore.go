package board

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/board"
	"everloop/infra/postgres/pg"
)

const squadColumns = `id, name, leader_id, instructions, members, created_at`

// Squads lists the squads of a workspace, oldest first. There are at most MaxSquads.
func (s *Store) Squads(ctx context.Context, userID, workspaceID string) (squads []board.Squad, err error) {
	if _, err = roleOf(ctx, s.db.Pool, userID, workspaceID); err == nil {
		rows, _ := s.db.Pool.Query(ctx, `SELECT `+squadColumns+` FROM prod_squads WHERE workspace_id = $1 ORDER BY id`, workspaceID)
		squads, err = pgx.CollectRows(rows, pgx.RowToStructByName[board.Squad])
	}

	return squads, pg.Fault("list squads", err)
}

// CreateSquad creates a squad. Its leader and its agents are agent instances that the
// caller sees in the workspace, its other members are members of it.
func (s *Store) CreateSquad(ctx context.Context, userID, workspaceID string, in board.Squad) (made board.Squad, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		role, err := lockMembers(ctx, tx, userID, workspaceID)
		if err != nil {
			return err
		}

		if err := board.NeedsRole(role, board.WorkspaceAdmin); err != nil {
			return err
		}

		if err := checkSquad(ctx, tx, userID, workspaceID, &in.LeaderID, in.Members); err != nil {
			return err
		}

		rows, _ := tx.Query(ctx, `
			INSERT INTO prod_squads (id, workspace_id, name, leader_id, instructions, members)
			SELECT @id, @workspace, @name, @leader, @instructions, @members
			WHERE  (SELECT count(*) FROM prod_squads WHERE workspace_id = @workspace) < @most
			RETURNING `+squadColumns,
			pgx.NamedArgs{
				"id": domain.NewID(), "workspace": workspaceID, "name": in.Name, "leader": in.LeaderID, "instructions": in.Instructions,
				"members": in.Members, "most": board.MaxSquads,
			})

		all, err := pgx.CollectRows(rows, pgx.RowToStructByName[board.Squad])
		if err != nil {
			return err
		}

		if len(all) == 0 {
			return domain.Newf(domain.Conflict, "squad_limit", "a workspace may have %d squads", board.MaxSquads)
		}

		made = all[0]

		return nil
	})

	return made, squadFault("create squad", err)
}

// ChangeSquad sets the fields that are given. Runs that have started continue with the leader
// that they started with.
func (s *Store) ChangeSquad(ctx context.Context, userID, workspaceID, id string, in board.SquadChange) (changed board.Squad, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		if err := lockSquad(ctx, tx, userID, workspaceID, id); err != nil {
			return err
		}
		// Those that stay may be gone since.
		if err := checkSquad(ctx, tx, userID, workspaceID, in.LeaderID, in.Members); err != nil {
			return err
		}

		rows, _ := tx.Query(ctx, `
			UPDATE prod_squads
			SET    name = coalesce(@name, name), leader_id = coalesce(@leader, leader_id),
			       instructions = coalesce(@instructions, instructions), members = coalesce(@members, members)
			WHERE  id = @id RETURNING `+squadColumns,
			pgx.NamedArgs{
				"id": id, "name": in.Name, "leader": in.LeaderID, "instructions": in.Instructions, "members": membersOrNil(in.Members),
			})
		changed, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[board.Squad])

		return err
	})

	return changed, squadFault("change squad", err)
}

// membersOrNil returns what is stored of members that are given; nil: they stay.
func membersOrNil(members []board.SquadMember) any {
	if members == nil {
		return nil
	}

	return members
}

// DeleteSquad removes a squad. Its issues are assigned to nothing then. Not while a run of
// it works, or is being stopped.
func (s *Store) DeleteSquad(ctx context.Context, userID, workspaceID, id string) error {
	err := s.db.InTx(ctx, func(tx pgx.Tx) error {
		if err := lockSquad(ctx, tx, userID, workspaceID, id); err != nil {
			return err
		}

		rows, _ := tx.Query(ctx, `
			SELECT id FROM issues WHERE workspace_id = $1 AND assignee_type = 'squad' AND assignee_id = $2 ORDER BY id FOR UPDATE`,
			workspaceID, id)

		assigned, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}

		var run string

		err = tx.QueryRow(ctx, `
			SELECT r.id FROM issue_runs r JOIN issues i ON i.id = r.issue_id
			WHERE  i.workspace_id = $1 AND r.squad_id = $2 AND r.status IN ('queued', 'dispatched', 'running') LIMIT 1`, workspaceID, id).
			Scan(&run)
		switch {
		case err == nil:
			return domain.Newf(domain.Conflict, codeRunActive, "run %s of the squad works, or is being stopped: cancel it first", run)
		case !errors.Is(err, pgx.ErrNoRows):
			return err
		}

		activities := make([]string, len(assigned))
		for i := range activities {
			activities[i] = domain.NewID()
		}

		var batch pgx.Batch

		args := pgx.NamedArgs{
			"issues":     assigned,
			"activities": activities,
			"user":       userID,
			"squad":      id,
			"action":     board.ActionAssigneeChanged,
		}
		batch.Queue(`
			UPDATE issues
			SET    assignee_type = NULL, assignee_id = NULL, revision = revision + 1, changed_by = @user, updated_at = now(),
			       last_activity_at = now()
			WHERE  id = ANY (@issues)`, args)
		batch.Queue(`
			INSERT INTO issue_activity (id, issue_id, actor_type, actor_id, action, details, created_at)
			SELECT n.id, n.issue, 'member', @user, @action, jsonb_build_object('from', @squad::text, 'to', NULL), clock_timestamp()
			FROM   unnest(@activities::text[], @issues::text[]) AS n (id, issue)`, args)
		batch.Queue(`DELETE FROM prod_squads WHERE id = @squad`, args)

		return tx.SendBatch(ctx, &batch).Close()
	})

	return pg.Fault("delete squad", err)
}

// lockSquad takes the row of a squad, for administrators of its workspace.
func lockSquad(ctx context.Context, tx pgx.Tx, userID, workspaceID, id string) error {
	role, err := lockMembers(ctx, tx, userID, workspaceID)
	if err != nil {
		return err
	}

	if err := board.NeedsRole(role, board.WorkspaceAdmin); err != nil {
		return err
	}

	tag, err := tx.Exec(ctx, `SELECT 1 FROM prod_squads WHERE id = $1 AND workspace_id = $2 FOR UPDATE`, id, workspaceID)
	if err == nil && tag.RowsAffected() == 0 {
		err = domain.Newf(domain.NotFound, "squad_not_found", "squad %s does not exist", id)
	}

	return err
}

func squadFault(doing string, err error) error {
	if pg.HasState(err, pg.UniqueViolation) {
		return domain.Newf(domain.Conflict, "squad_name_taken", "the workspace has a squad of this name")
	}

	return pg.Fault(doing, err)
}

// checkSquad checks the leader, an agent instance, and the members that are given.
func checkSquad(ctx context.Context, tx pgx.Tx, userID, workspaceID string, leader *string, members []board.SquadMember) error {
	if leader != nil {
		members = append([]board.SquadMember{{MemberType: board.ActorAgent, MemberID: *leader}}, members...)
	}

	for _, member := range members {
		if _, err := resolve(ctx, tx, userID, workspaceID, board.AssigneeRef{Type: member.MemberType, ID: member.MemberID}); err != nil {
			return err
		}
	}

	return nil
}
