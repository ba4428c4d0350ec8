package history

import (
	"context"

	"everloop/domain"
)

// Budget bounds what the object store keeps of checkpoints, in bytes; 0 is no bound. A
// checkpoint that does not fit keeps its place in the conversation, without files.
type Budget struct {
	Session int64 // of one session
	Owner   int64 // of all sessions of a user, and their published apps
}

// CodeCheckpointBudget is the code of a checkpoint whose files were not kept because
// there is no budget left for them.
const CodeCheckpointBudget = "checkpoint_budget"

// affords fails when the files of a checkpoint are more than the budget has left.
func (c *Capturer) affords(ctx context.Context, sessionID domain.SessionID, needs int64, retried func(func() error) error) error {
	if needs == 0 || c.cfg.Budget == (Budget{}) {
		return nil
	}

	var session, owner int64

	err := retried(func() (err error) {
		session, owner, err = c.cfg.Store.CheckpointBytes(ctx, sessionID)
		return err
	})

	over := func(used, budget int64) bool { return budget > 0 && used+needs > budget }
	switch {
	case err != nil:
		return err
	case over(session, c.cfg.Budget.Session):
		return domain.Newf(
			domain.TooLarge,
			CodeCheckpointBudget,
			"the files were not kept: the checkpoints of the session take %d bytes of %d, and these %d more",
			session,
			c.cfg.Budget.Session,
			needs,
		)
	case over(owner, c.cfg.Budget.Owner):
		return domain.Newf(
			domain.TooLarge,
			CodeCheckpointBudget,
			"the files were not kept: the checkpoints of the user's sessions take %d bytes of %d, and these %d more",
			owner,
			c.cfg.Budget.Owner,
			needs,
		)
	}

	return nil
}
