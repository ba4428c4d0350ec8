package history

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/history"
	"everloop/infra/postgres/pg"
	"everloop/infra/postgres/sessions"
	"everloop/infra/postgres/transcript"
)

// nodeLabel is how much of a turn's text its node shows, in characters.
const nodeLabel = 120

// Tree returns the conversation tree of a session: every entry of every branch, without
// the tokens that the prompt takes in addition to messages. Tokens of turns that no model server
// counted are estimated from their length. The caller has authorised the reader.
func (s *Store) Tree(ctx context.Context, sessionID domain.SessionID) (history.History, error) {
	x, err := readHistoryIndex(ctx, s, sessionID)
	if err != nil {
		return history.History{}, pg.Fault("read history", err)
	}

	out := history.History{ActiveBranchID: x.active.ID}
	if out.Nodes, err = historyNodes(ctx, s, sessionID); err != nil {
		return out, pg.Fault("read history", err)
	}

	heads := map[domain.BranchID]*history.Node{}
	at := make(map[domain.TurnID]int, len(out.Nodes))
	active := x.active.path()

	for i := range out.Nodes {
		n := &out.Nodes[i]
		at[n.ID] = i
		n.Step = x.steps(n.BranchID, n.Sequence+1)

		n.OnActiveBranch = active.Shows(n.BranchID, n.Sequence)
		if head := heads[n.BranchID]; n.LoopID == domain.RootLoop && (head == nil || head.Sequence < n.Sequence) {
			heads[n.BranchID] = n
		}
	}

	for i := range out.Nodes {
		if parent := out.Nodes[i].ParentID; parent != nil {
			if p, known := at[*parent]; known {
				out.Nodes[p].Children = append(out.Nodes[p].Children, out.Nodes[i].ID)
			}
		}
	}

	for _, b := range x.branches {
		shown := history.Branch{
			ID: b.ID, Name: b.Name, BaseID: b.BaseID, HeadID: b.ForkedFromID, ForkedFromID: b.ForkedFromID, Created: b.CreatedAt,
			Reason: b.Reason, Active: b.ID == x.active.ID,
		}
		if head := heads[b.ID]; head != nil {
			shown.HeadID = &head.ID
		}

		if shown.Active {
			out.HeadID = shown.HeadID
		}

		out.Branches = append(out.Branches, shown)
	}

	if out.HeadID != nil {
		if i, known := at[*out.HeadID]; known {
			out.Nodes[i].IsHead = true
		}
	}

	return out, nil
}

// historyNodes reads the entries, the oldest first.
func historyNodes(ctx context.Context, s *Store, sessionID domain.SessionID) ([]history.Node, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		SELECT e.id, e.parent_id, e.branch_id, e.kind, e.role, e.loop_id, e.sequence, e.status,
		       `+transcript.IsDeprecated("e", transcript.ActiveBranchOf("$1"))+`, e.started_at,
		       coalesce((SELECT left(b->>'content', $2) FROM jsonb_array_elements(e.blocks) b
		           WHERE b->>'type' NOT IN ('thinking', 'image') LIMIT 1),
		                left(e.compaction->>'summary_preview', $2), ''),
		       CASE WHEN e.kind = 'compaction' THEN coalesce((e.compaction->>'tokens_after')::bigint, 0)
		            WHEN e.output_tokens > 0 THEN e.output_tokens
		            ELSE ((SELECT coalesce(sum(length(b->>'content')), 0) FROM jsonb_array_elements(e.blocks) b) + 3) / 4 END,
		       coalesce((SELECT array_agg(t.tool_name ORDER BY t.position) FROM tool_calls t WHERE t.entry_id = e.id), '{}'),
		       (SELECT k.id FROM checkpoints k WHERE k.turn_id = e.id AND k.kind IN ('user_turn', 'tool_batch') ORDER BY k.id LIMIT 1)
		FROM   entries e WHERE e.session_id = $1 ORDER BY e.started_at, e.id`, sessionID, nodeLabel)

	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (history.Node, error) {
		n := history.Node{Children: []domain.TurnID{}}
		err := row.Scan(&n.ID, &n.ParentID, &n.BranchID, &n.Kind, &n.Role, &n.LoopID, &n.Sequence, &n.Status, &n.Deprecated, &n.Created,
			&n.Label, &n.Tokens, &n.ToolNames, &n.CheckpointID)

		n.TurnID, n.Label = n.ID, sessions.Title([]domain.ContentPart{{Text: n.Label}})
		if n.Role == domain.RoleSystem && n.Kind == domain.KindMessage {
			n.Kind = "system"
		}

		return n, err
	})
}

// CheckoutView finds what a checkout shows: where on its branch, and which files.
// The end of a turn is the end of the chat that it started.
func (s *Store) CheckoutView(
	ctx context.Context,
	sessionID domain.SessionID, checkpointID domain.CheckpointID,
	position history.CheckoutPosition,
) (history.CheckoutView, error) {
	x, err := readHistoryIndex(ctx, s, sessionID)
	if err != nil {
		return history.CheckoutView{}, pg.Fault("look at a checkpoint", err)
	}

	at, err := readPoint(ctx, s.db.Pool, sessionID, checkpointID)
	if err != nil {
		return history.CheckoutView{}, pg.Fault("look at a checkpoint", err)
	}

	view := history.CheckoutView{BranchID: at.BranchID}
	if view.UpTo, err = at.position(ctx, s.db.Pool); err != nil {
		return view, pg.Fault("look at a checkpoint", err)
	}

	if at.SnapshotID != nil {
		view.Snapshot = *at.SnapshotID
	}

	if position == history.CheckoutTurnEnd && at.ChatID != nil {
		view.Before = view.Snapshot

		rows, _ := s.db.Pool.Query(ctx, `
			SELECT coalesce(max(sequence) + 1, $3) FROM entries
			WHERE  branch_id = $1 AND sequence >= $3 AND chat_id = $2`, at.BranchID, *at.ChatID, view.UpTo)
		if view.UpTo, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[int64]); err != nil {
			return view, pg.Fault("look for the end of a chat", err)
		}

		if view.Snapshot, err = filesBefore(ctx, s.db.Pool, at.BranchID, view.UpTo); err != nil {
			return view, pg.Fault("look for files", err)
		}
	} else if view.Before, err = filesBefore(ctx, s.db.Pool, at.BranchID, at.Sequence); err != nil {
		return view, pg.Fault("look for files", err)
	}

	view.Tokens = x.tokens(view.BranchID, view.UpTo)

	return view, nil
}

// CheckpointSnapshot gives the snapshot of a checkpoint; empty: none was taken.
func (s *Store) CheckpointSnapshot(ctx context.Context, sessionID domain.SessionID, checkpointID domain.CheckpointID) (string, error) {
	at, err := readPoint(ctx, s.db.Pool, sessionID, checkpointID)
	if err != nil || at.SnapshotID == nil {
		return "", pg.Fault("look for the files of a checkpoint", err)
	}

	return *at.SnapshotID, nil
}

// TurnsBefore yields the turns that a branch shows below a sequence, in order.
func (s *Store) TurnsBefore(ctx context.Context, branchID domain.BranchID, before int64, yield func(domain.Turn) error) error {
	rows, err := s.db.Pool.Query(ctx, `
		SELECT `+transcript.TurnColumns(transcript.ThisBranch)+` FROM `+transcript.OnBranch("sequence < $2")+`
		ORDER  BY e.sequence`, branchID, before)
	if err != nil {
		return pg.Fault("read turns", err)
	}
	defer rows.Close()

	for rows.Next() {
		turn, err := transcript.ScanTurn(rows)
		if err != nil {
			return pg.Fault("read a turn", err)
		}

		if err := yield(turn.Turn); err != nil {
			return err
		}
	}

	return pg.Fault("read turns", rows.Err())
}

// CompareBranches holds two branches of a session against each other, but for
// their files: those are in the snapshots of both sides.
func (s *Store) CompareBranches(
	ctx context.Context,
	sessionID domain.SessionID,
	base, other domain.BranchID,
) (history.Comparison, error) {
	out := history.Comparison{SessionID: sessionID, Turns: []history.TurnDifference{}}

	one, err := readBranch(ctx, s.db.Pool, sessionID, base)
	if err != nil {
		return out, pg.Fault("compare branches", err)
	}

	two, err := readBranch(ctx, s.db.Pool, sessionID, other)
	if err != nil {
		return out, pg.Fault("compare branches", err)
	}

	out.ForkSequence = history.Common(one.path(), two.path())
	if base == other {
		out.ForkSequence = one.NextSequence
	}

	if out.Base, err = s.side(ctx, one, "base", &out); err == nil {
		out.Other, err = s.side(ctx, two, "other", &out)
	}

	return out, pg.Fault("compare branches", err)
}

// side describes what one side has beyond the part that both share.
func (s *Store) side(ctx context.Context, branch branchRow, name string, out *history.Comparison) (history.BranchSide, error) {
	side := history.BranchSide{BranchID: branch.ID}
	rows, _ := s.db.Pool.Query(ctx, `
		SELECT e.id, e.branch_id, e.sequence, e.role, e.status, e.loop_id, e.chat_id, e.step, e.kind, e.duration_ms,
		    `+sessions.TurnUsageColumns("e")+`,
		       coalesce((SELECT left(b->>'content', $3) FROM jsonb_array_elements(e.blocks) b
		           WHERE b->>'type' NOT IN ('thinking', 'image') LIMIT 1), '')
		FROM   `+transcript.OnBranch("sequence >= $2")+` ORDER BY e.sequence`, branch.ID, out.ForkSequence, nodeLabel)

	type step struct {
		chat string
		step int
	}

	steps := map[step]bool{}

	turns, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (history.TurnDifference, error) {
		t := history.TurnDifference{Side: name}

		var (
			loop, kind string
			in         step
			usage      domain.Usage
			duration   int64
		)

		err := row.Scan(slices.Concat(
			[]any{&t.TurnID, &t.BranchID, &t.Sequence, &t.Role, &t.Status, &loop, &in.chat, &in.step, &kind, &duration},
			sessions.UsageFields(&usage), []any{&t.Label})...)
		t.Label = sessions.Title([]domain.ContentPart{{Text: t.Label}})
		side.Turns, side.Usage, side.DurationMS = side.Turns+1, side.Usage.Add(usage), side.DurationMS+duration

		if loop == domain.RootLoop && t.Role == domain.RoleAssistant && kind == domain.KindMessage {
			steps[in] = true
		}

		return t, err
	})
	if err != nil {
		return side, err
	}

	side.Steps = len(steps)

	out.Turns = append(out.Turns, turns...)

	if err := s.db.Pool.QueryRow(ctx, `SELECT `+lastOnBranch("$1", "9223372036854775807"), branch.ID).Scan(&side.HeadTurnID); err != nil {
		return side, err
	}

	side.Snapshot, err = filesAtEnd(ctx, s.db.Pool, branch.ID)

	return side, err
}
