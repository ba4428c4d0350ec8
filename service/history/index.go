package history

import (
	"context"
	"fmt"
	"slices"
	"sort"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/history"
	"everloop/infra/postgres/pg"
)

// historyIndex answers what a place on a branch has behind it: model calls of
// the main loop, and the tokens of the last one. It is made of two reads,
// whatever the number of places.
type historyIndex struct {
	branches []branchRow
	byID     map[domain.BranchID]branchRow
	active   branchRow
	calls    map[domain.BranchID]branchCalls
}

// branchCalls are the main loop's model calls of one branch, by sequence.
type branchCalls struct {
	steps   []int64 // the first turn of each step: one that failed and was made again is one step
	turns   []int64
	tokens  []int64 // of the context at the end of the turn
	inherit int     // steps before the branch's own
}

func readHistoryIndex(ctx context.Context, s *Store, sessionID domain.SessionID) (*historyIndex, error) {
	active, err := activeBranch(ctx, s.db.Pool, sessionID)
	if err != nil {
		return nil, err
	}

	x := &historyIndex{active: active, byID: map[domain.BranchID]branchRow{}, calls: map[domain.BranchID]branchCalls{}}
	if x.branches, err = sessionBranches(ctx, s.db.Pool, sessionID); err != nil {
		return nil, fmt.Errorf("read branches: %w", err)
	}

	for _, b := range x.branches {
		x.byID[b.ID] = b
		if err := x.readCalls(ctx, s, b.ID); err != nil {
			return nil, fmt.Errorf("read steps: %w", err)
		}
	}

	for _, b := range x.branches {
		own := x.calls[b.ID]
		own.inherit = x.count(b.Lineage, b.ForkSequence)
		x.calls[b.ID] = own
	}

	return x, nil
}

func (x *historyIndex) readCalls(ctx context.Context, s *Store, branchID domain.BranchID) error {
	rows, _ := s.db.Pool.Query(ctx, `
		SELECT chat_id, step, sequence, input_tokens + output_tokens FROM entries
		WHERE  branch_id = $1 AND loop_id = 'root' AND role = 'assistant' AND kind = 'message' ORDER BY sequence`, branchID)

	var (
		own              branchCalls
		chat, lastChat   string
		step, lastStep   int
		sequence, tokens int64
	)

	_, err := pgx.ForEachRow(rows, []any{&chat, &step, &sequence, &tokens}, func() error {
		if chat != lastChat || step != lastStep {
			own.steps = append(own.steps, sequence)
			lastChat, lastStep = chat, step
		}

		if tokens > 0 {
			own.turns, own.tokens = append(own.turns, sequence), append(own.tokens, tokens)
		}

		return nil
	})
	x.calls[branchID] = own

	return err
}

// count gives the steps that a path shows below a sequence.
func (x *historyIndex) count(path history.Path, before int64) int {
	n, from := 0, int64(0)

	for _, s := range path {
		steps := x.calls[s.BranchID].steps
		n += max(0, rank(steps, min(s.UpTo, before))-rank(steps, from))
		from = s.UpTo
	}

	return n
}

// steps gives the steps behind a place of a branch: those of entries below the
// sequence.
func (x *historyIndex) steps(branchID domain.BranchID, before int64) int {
	own := x.calls[branchID]
	if before < x.byID[branchID].ForkSequence {
		return x.count(x.byID[branchID].Lineage, before)
	}

	return own.inherit + rank(own.steps, before)
}

// tokens gives the size of the context at a place of a branch, as the model
// server counted it for the last call before.
func (x *historyIndex) tokens(branchID domain.BranchID, before int64) int64 {
	path := x.byID[branchID].path()
	for i, s := range slices.Backward(path) {
		from := int64(0)
		if i > 0 {
			from = path[i-1].UpTo
		}

		own := x.calls[s.BranchID]
		if at := rank(own.turns, min(s.UpTo, before)); at > 0 && own.turns[at-1] >= from {
			return own.tokens[at-1]
		}
	}

	return 0
}

// rank counts the numbers below a bound.
func rank(sorted []int64, bound int64) int {
	return sort.Search(len(sorted), func(i int) bool { return sorted[i] >= bound })
}

// Checkpoints lists the checkpoints of a session's every branch, the oldest
// first (docs/history.md). The caller has authorised the reader.
func (s *Store) Checkpoints(ctx context.Context, sessionID domain.SessionID) ([]history.Checkpoint, error) {
	x, err := readHistoryIndex(ctx, s, sessionID)
	if err != nil {
		return nil, pg.Fault("read checkpoints", err)
	}

	rows, _ := s.db.Pool.Query(ctx, `
		SELECT id, turn_id, branch_id, sequence, kind, label, created_at, snapshot_id, changed, added, deleted, bytes, complete
		FROM   checkpoints WHERE session_id = $1 AND kind <> 'tool_batch' ORDER BY id`, sessionID)

	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (history.Checkpoint, error) {
		var k history.Checkpoint

		return k, row.Scan(&k.ID, &k.TurnID, &k.BranchID, &k.Sequence, &k.Kind, &k.Label, &k.Created,
			&k.Files.SnapshotID, &k.Files.Changed, &k.Files.Added, &k.Files.Deleted, &k.Files.Bytes, &k.Files.Complete)
	})
	if err != nil {
		return nil, pg.Fault("read checkpoints", err)
	}

	x.relate(list)

	return list, nil
}

// relate fills in what checkpoints are to each other and to the active branch.
func (x *historyIndex) relate(list []history.Checkpoint) {
	own := map[domain.BranchID][]int{} // of each branch, by sequence

	for i := range list {
		k := &list[i]
		k.Step, k.Tokens, k.Messages = x.steps(k.BranchID, k.Sequence), x.tokens(k.BranchID, k.Sequence), k.Sequence
		own[k.BranchID] = append(own[k.BranchID], i)
	}

	for _, at := range own {
		slices.SortStableFunc(at, func(a, b int) int { return int(list[a].Sequence - list[b].Sequence) })
	}

	active := x.active.path()

	for branch, at := range own {
		for n, i := range at {
			if n > 0 {
				list[i].ParentID = &list[at[n-1]].ID
			} else if before := x.lastBefore(list, own, x.byID[branch].Lineage, list[i].Sequence); before >= 0 {
				list[i].ParentID = &list[before].ID
			}

			k := &list[i]

			k.Reverted = !active.Shows(k.BranchID, k.Sequence)
			if k.Kind == domain.CheckpointPreRewind { // its turn stands before it
				k.Reverted = !active.Reaches(k.BranchID, k.Sequence)
			}
		}
	}

	if at := x.lastBefore(list, own, active, x.active.NextSequence); at >= 0 {
		list[at].Current = true
	}
}

// lastBefore finds the last checkpoint of a path that stands at a sequence or
// before it; -1 when there is none.
func (x *historyIndex) lastBefore(list []history.Checkpoint, own map[domain.BranchID][]int, path history.Path, sequence int64) int {
	for _, s := range slices.Backward(path) {
		for _, i := range slices.Backward(own[s.BranchID]) {
			if list[i].Sequence <= min(s.UpTo, sequence) {
				return i
			}
		}
	}

	return -1
}
