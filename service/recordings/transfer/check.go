package transfer

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"everloop/domain"
	"everloop/service/recordings"
)

// Bounds of what one session may hold.
const (
	maxTurns       = 200_000
	maxCalls       = 10_000 // of one turn
	maxBranches    = 10_000
	maxChats       = 200_000
	maxCheckpoints = 200_000
	maxEvents      = 5_000_000
	maxTasks       = 10_000
	maxID          = 128
	maxAllCalls    = 500_000 // of all turns
	maxFiles       = 1 << 30
	maxCount       = 1 << 50 // of tokens, bytes and milliseconds: sums of them stay numbers
)

// countable reports that numbers count something, and no more than there can be.
func countable[N int | int64](most int64, numbers ...N) bool {
	for _, n := range numbers {
		if n < 0 || int64(n) > most {
			return false
		}
	}

	return true
}

// ids notes the ids of one kind of thing: each once, none empty.
type ids map[string]bool

func (s ids) add(what, id string) error {
	if id == "" || len(id) > maxID || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return badf("a %s has no usable id", what)
	}

	if s[id] {
		return badf("two of %s have the id %q", what, shorten(id))
	}

	s[id] = true

	return nil
}

// has checks a reference; nil is none.
func has[T ~string](s ids, what string, id *T) error {
	if id != nil && !s[string(*id)] {
		return badf("%s %q is not in the archive", what, shorten(*id))
	}

	return nil
}

func oneOf[T ~string](what string, value T, allowed ...T) error {
	if !slices.Contains(allowed, value) {
		return badf("%s is %q", what, shorten(value))
	}

	return nil
}

func (p *pack) checkSession() error {
	s := p.session
	if s.ID == "" || len(s.ID) > maxID || s.ID != p.m.Session.ID {
		return badf("%s and the manifest do not name one session", sessionFile)
	}

	if len(s.Intent) > 400_000 || len(s.Tasks) > maxTasks || len(s.DisableTools) > 1000 || len(s.Extra) > domain.MaxExtraInfo {
		return badf("%s holds more than a session can have", sessionFile)
	}

	if len(s.Extra) > 0 {
		var extra map[string]json.RawMessage
		if json.Unmarshal(s.Extra, &extra) != nil {
			return badf("%s: extra is not an object", sessionFile)
		}
	}

	if err := oneOf("the mode of the session", s.Mode, domain.ModeExecuting, domain.ModePlanning); err != nil {
		return err
	}

	if err := checkTasks(s.Tasks); err != nil {
		return err
	}

	return oneOf("the status of the session", s.Status, domain.SessionCreated, domain.SessionRunning, domain.SessionCompleted,
		domain.SessionFailed, domain.SessionInterrupted, domain.SessionWaitingForInput)
}

// checkTasks checks the entries of the task list and what they wait for.
func checkTasks(tasks []domain.SessionTask) error {
	known := map[string]bool{}
	for _, t := range tasks {
		known[t.ID] = true
	}

	if len(known) != len(tasks) {
		return badf("%s: two tasks have the same id", sessionFile)
	}

	for _, t := range tasks {
		if err := oneOf("the status of a task", string(t.Status), "pending", "in_progress", "completed", "cancelled"); err != nil {
			return err
		}

		if t.Owner != nil && (*t.Owner == "" || utf8.RuneCountInString(*t.Owner) > domain.MaxTaskOwner) ||
			len(t.BlockedBy) > domain.MaxTaskBlockers {
			return badf("%s: the owner of a task is too long, or it waits for too many", sessionFile)
		}

		for _, id := range t.BlockedBy {
			if id == t.ID || !known[id] {
				return badf("%s: a task waits for one that is no other task of the list", sessionFile)
			}
		}
	}

	return nil
}

// checkTree checks the frame of the conversation: what is named is there, and
// comes after what it comes from.
func (p *pack) checkTree() error {
	if len(p.tree.Branches) == 0 || len(p.tree.Branches) > maxBranches || len(p.tree.Chats) > maxChats {
		return badf("%s contains no branch, or more than a session can have", historyFile)
	}

	branches := ids{}
	for _, b := range p.tree.Branches {
		if err := has(branches, "the parent of a branch,", b.ParentBranchID); err != nil {
			return err
		}

		for _, a := range b.Lineage {
			if err := has(branches, "an ancestor of a branch,", &a.BranchID); err != nil {
				return err
			}

			if a.UpTo < 0 || a.UpTo > b.ForkSequence {
				return badf("branch %q shows more of an ancestor than lies before it", shorten(b.ID))
			}
		}

		if b.ForkSequence < 0 || b.ForkSequence > maxTurns || b.NextSequence < b.ForkSequence {
			return badf("branch %q has impossible numbers", shorten(b.ID))
		}

		if err := oneOf("the reason of a branch", b.Reason, "root", "rewind", "whatif", "fork"); err != nil {
			return err
		}

		if err := branches.add("the branches", string(b.ID)); err != nil {
			return err
		}
	}

	if err := has(branches, "the active branch", &p.tree.ActiveBranchID); err != nil {
		return err
	}

	chats := ids{}
	for _, c := range p.tree.Chats {
		if err := chats.add("the chats", string(c.ID)); err != nil {
			return err
		}

		if err := has(branches, "the branch of a chat,", &c.BranchID); err != nil {
			return err
		}

		if err := oneOf("the state of a chat", c.State, "queued", "running", "parked", "ended"); err != nil {
			return err
		}

		if err := oneOf("the mode of a chat", c.Mode, domain.ModeExecuting, domain.ModePlanning); err != nil {
			return err
		}

		if c.FinishReason != nil && !slices.Contains(finishes, *c.FinishReason) {
			return badf("the finish reason of a chat is %q", shorten(*c.FinishReason))
		}

		if len(c.Trigger) > 32 || !countable(maxTurns, c.Steps, c.Round) ||
			!countable(maxCount, c.InputTokens, c.OutputTokens, c.CacheRead, c.CacheWrite, c.Uncosted) {
			return badf("chat %q has impossible values", shorten(c.ID))
		}
	}

	return nil
}

var finishes = []domain.FinishReason{
	domain.FinishCompleted, domain.FinishAwaitingAnswer, domain.FinishInterrupted, domain.FinishFailed, domain.FinishMaxSteps,
	domain.FinishSchemaMismatch, domain.FinishBudgetExhausted, domain.FinishStuckDetected, domain.FinishContextOverflow,
	domain.FinishOutputLimit, domain.FinishContentFiltered, domain.FinishEmptyAnswer,
}

// checkPoints checks the checkpoints and what their snapshots hold.
func (p *pack) checkPoints() error {
	if len(p.points.Checkpoints) > maxCheckpoints || len(p.points.Snapshots) > maxCheckpoints {
		return badf("%s holds more than a session can have", checkpointsFile)
	}

	branches, points, snapshots := ids{}, ids{}, ids{}
	for _, b := range p.tree.Branches {
		branches[string(b.ID)] = true
	}

	for _, s := range p.points.Snapshots {
		if err := snapshots.add("the snapshots", s.ID); err != nil {
			return err
		}
	}

	for _, k := range p.points.Checkpoints {
		if err := points.add("the checkpoints", string(k.ID)); err != nil {
			return err
		}

		if err := has(branches, "the branch of a checkpoint,", &k.BranchID); err != nil {
			return err
		}

		if err := has(snapshots, "the snapshot of a checkpoint,", k.SnapshotID); err != nil {
			return err
		}

		if err := oneOf(
			"the kind of a checkpoint",
			k.Kind,
			domain.CheckpointUserTurn,
			domain.CheckpointToolBatch,
			domain.CheckpointCompaction,
			domain.CheckpointManual,
			domain.CheckpointPreRewind,
		); err != nil {
			return err
		}

		if !countable(maxTurns+1, k.Sequence) || !countable(maxFiles, k.Changed, k.Added, k.Deleted) || !countable(maxCount, k.Bytes) ||
			len(k.Label) > 10_000 {
			return badf("checkpoint %q has impossible values", shorten(k.ID))
		}
	}

	return nil
}

func (p *pack) checkEvents() error {
	return p.eachEvent(func(domain.LoggedEvent) error {
		if p.events++; p.events > maxEvents {
			return badf("%s holds more than %d events", eventsFile, maxEvents)
		}

		return nil
	})
}

func (p *pack) eachEvent(yield func(domain.LoggedEvent) error) error {
	f := p.files[eventsFile]
	if f == nil {
		return badf("%s is missing", eventsFile)
	}

	content, err := f.Open()
	if err != nil {
		return refusal(err)
	}
	defer content.Close()

	var stop error

	err = recordings.ReadLines(content, maxEvent, func(e domain.LoggedEvent) error {
		stop = yield(e)
		return stop
	})
	if err != nil && stop == nil {
		return badf("%s: an event cannot be read", eventsFile)
	}

	return stop
}

// later gives a time that the database can keep, whatever the archive says.
func later(t time.Time) time.Time {
	if t.Year() < 1970 || t.Year() > 9999 {
		return time.Unix(0, 0).UTC()
	}

	return t
}
