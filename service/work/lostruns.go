package work

import (
	"context"
	"time"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/internal/retry"
)

// maxRestarts is how often a chat continues in a new run without making progress
// before it fails.
const maxRestarts = 3

// plainEndAfter is how many tries the ordinary end of a lost chat has before the plain
// one takes its place.
const plainEndAfter = 3

// endTimeout bounds one try to end a chat.
const endTimeout = 30 * time.Second

// CheckRuns compares each chat that should run and shows no progress with its
// session's run. A chat whose run is unknown to Temporal, closed or stuck continues from
// the database in a new one; one that was restarted three times without making
// progress fails as run_lost.
func (r *Reconciler) CheckRuns(ctx context.Context) error {
	return r.running.each(ctx, maxConcurrent, r.checkRun)
}

func (r *Reconciler) checkRun(ctx context.Context, chat domain.OpenChat) error {
	look, err := r.runs.LookAtSession(ctx, chat.SessionID)
	if err != nil || look.State == domain.RunOpen {
		return err
	}

	if look.State == domain.RunStuck && !confirmed(r.suspects, look) {
		return nil
	}

	if look.State == domain.RunUnknown {
		if _, due := r.wakes.Try(string(chat.SessionID)); !due {
			return nil
		}

		r.report(chat, look)

		return r.wake(ctx, chat.SessionID)
	}

	return r.restart(ctx, chat, look)
}

// confirmed reports whether a run was found stuck before: what a dependency that was
// away has caused passes by itself soon after its return.
func confirmed(suspects *retry.Pauses, look domain.RunLook) bool {
	tries, due := suspects.Try(look.RunID)
	return due && tries > 1
}

// restart closes a stuck run and lets a new one take its chat, or ends the chat when
// that was done too often.
func (r *Reconciler) restart(ctx context.Context, chat domain.OpenChat, look domain.RunLook) error {
	restart, err := r.store.CountRestart(ctx, chat.ChatID, look.RunID)
	if err != nil || !restart.Running {
		return err // it has ended in the meantime
	}

	if restart.Counted {
		r.report(chat, look)
	}

	if look.State == domain.RunStuck {
		if err := r.runs.TerminateRun(ctx, chat.SessionID, look.RunID, "everloop: "+look.Cause); err != nil {
			return err
		}
	}

	switch {
	case restart.ForceFailed != "":
		return r.end(ctx, chat, domain.CodeRunLost, restart.ForceFailed)
	case look.Finishing:
		return r.end(ctx, chat, domain.CodeInternal, "the chat could not be finished: "+look.Cause)
	case restart.Count > maxRestarts:
		return r.end(ctx, chat, domain.CodeRunLost, look.Cause)
	}

	if _, due := r.wakes.Try(string(chat.SessionID)); !due && !restart.Counted {
		return nil
	}

	return r.wake(ctx, chat.SessionID)
}

func (r *Reconciler) report(chat domain.OpenChat, look domain.RunLook) {
	r.logger.Warn(
		"chat has no live workflow run",
		"session_id",
		chat.SessionID,
		"chat_id",
		chat.ChatID,
		"run_id",
		look.RunID,
		"cause",
		look.Cause,
	)
	r.found("lost_run")
}

// end fails a chat. When its ordinary end keeps failing, the chat is ended plainly, so
// that its session is free again.
func (r *Reconciler) end(ctx context.Context, chat domain.OpenChat, code, message string) error {
	tries, due := r.ends.Try(string(chat.ChatID))
	if !due {
		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()

	out, err := r.finish(ctx, contract.FinishChatIn{
		ChatID: chat.ChatID, Reason: domain.FinishFailed, Code: code, Message: message,
	})
	if err != nil && tries >= plainEndAfter {
		r.logger.Error(
			"failed to end a chat in order, ending it plainly",
			"session_id",
			chat.SessionID,
			"chat_id",
			chat.ChatID,
			"error",
			err,
		)
		r.found("abandoned_chat")
		out.Next, err = r.store.AbandonChat(ctx, chat.ChatID, domain.CodeInternal, message)
	}

	if err != nil || !out.Next {
		return err
	}

	return r.wake(ctx, chat.SessionID)
}
