package work

import (
	"everloop/domain"
	"everloop/domain/operator"
	"everloop/internal/durable"
)

// possible returns why an action on a run is refused; nil: it is possible.
func possible(run operator.Run, action operator.RunAction) error {
	kind, open := run.Kind, run.Status == "running"
	if subject, _ := durable.KindOfWorkflow(run.WorkflowID); subject == "" {
		kind = "" // such as a tick of a schedule, which takes seconds
	}

	work := run.Work != nil && run.Work.Open
	if !open && !work {
		return refused("run_over", "the run is over")
	}

	if !open && run.Status != operator.RunLost {
		return refused("run_over", "the run is over; its work goes on in a newer one")
	}

	if reason := impossible[action][kind]; reason != "" {
		return refused("run_action_impossible", reason)
	}

	switch {
	case action != operator.RunCancel && kind != operator.RunKindFork && work &&
		(run.Work.Status == "queued" || run.Work.Status == "waiting"):
		return refused("run_action_impossible", "the run waits for its turn, and nothing has begun: cancel it, or wait")
	case action == operator.RunResume && !work && kind != operator.RunKindArchive:
		return refused("run_over", "the work is over: there is nothing to resume")
	case action == operator.RunResume && kind == operator.RunKindChat && run.Work.Status == "parked":
		return refused("run_waits_for_answer", "the chat waits for an answer of its user: there is nothing to resume")
	case !open && action == operator.RunCancel && !cancelledInStore[kind]:
		return refused("run_action_impossible", "no workflow is open that could be cancelled: resume the run first, or force it to fail")
	case !open && action == operator.RunForceFail && kind == operator.RunKindChat:
		return refused("run_action_impossible", "no workflow is open that could be closed: resume the run first")
	}

	return nil
}

func refused(code, reason string) error { return domain.Newf(domain.Conflict, code, "%s", reason) }

// cancelledInStore are the kinds whose cancellation is a record that their workflow reads.
var cancelledInStore = map[string]bool{
	operator.RunKindDAG: true, operator.RunKindIssue: true, operator.RunKindSchedule: true, operator.RunKindCompaction: true,
}

// impossible are the reasons why runs of a kind cannot be cancelled, failed or resumed.
var impossible = map[operator.RunAction]map[string]string{
	operator.RunCancel: {
		"":                       "the run takes seconds, and ends by itself",
		operator.RunKindReplay:   "a replay is paused or ended by the operations of its session",
		operator.RunKindArchive:  "archiving would be started again: events of chats that ended have to be archived",
		operator.RunKindDeletion: "a session that was deleted cannot be kept",
	},
	operator.RunForceFail: {
		"":                       "the run takes seconds, and ends by itself",
		operator.RunKindReplay:   "a replay is paused or ended by the operations of its session",
		operator.RunKindArchive:  "archiving would be started again: events of chats that ended have to be archived",
		operator.RunKindDeletion: "a session that was deleted cannot be kept",
		operator.RunKindHistory:  "the session is claimed until its files are whole: cancel the run, which leaves the session as it was",
		operator.RunKindImport:   "cancel the run, which leaves nothing behind",
	},
	operator.RunResume: {
		"":                   "the reconciler takes what is due within seconds",
		operator.RunKindFork: "a sub-agent continues with its chat: resume the run of its session",
		operator.RunKindTask: "a command or a background sub-agent that was broken off cannot continue: cancel it",
	},
}
