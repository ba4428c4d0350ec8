package workflows

import (
	"errors"
	"time"

	"go.temporal.io/sdk/workflow"

	"everloop/activities/contract"
	"everloop/domain"
)

// errLongHistory ends a run whose history is long enough: several runs wait for a model
// that is unavailable for a day. How often the call has failed, and when it may be made
// again, is in the database.
var errLongHistory = errors.New("the history is long enough")

// awaitModel waits until a model call must be made again, by a durable timer. A stop
// ends the wait at once. A sub-agent also ends it when it is signalled: the database
// knows whether it was stopped, or how long it still must wait. Its time limit is
// suspended in the meantime.
func (l *loop) awaitModel(ctx workflow.Context, wait contract.Wait) (stopped bool, err error) {
	if l.stopped {
		return true, nil
	}

	if workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
		return false, errLongHistory
	}

	l.clock.stop()
	defer l.clock.start(ctx)

	fork := l.id != domain.RootLoop
	before := workflow.GetCurrentDetails(ctx)

	workflow.SetCurrentDetails(
		ctx,
		before+"\n\nwaits for the model until "+workflow.Now(ctx).Add(wait.Duration()).UTC().Format(time.RFC3339)+
			": "+wait.Summary,
	)
	defer workflow.SetCurrentDetails(ctx, before)

	_, err = workflow.AwaitWithOptions(ctx, workflow.AwaitOptions{
		Timeout: wait.Duration(), TimerOptions: workflow.TimerOptions{Summary: wait.Summary},
	}, func() bool { return l.stopped || fork && l.waiter.notified(ctx) })
	if fork {
		l.waiter.drainSignals(ctx)
	}

	return l.stopped, err
}

// sleepUntilRetry is awaitModel for a run that no stop reaches.
func sleepUntilRetry(ctx workflow.Context, wait contract.Wait) (stopped bool, err error) {
	if workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
		return false, errLongHistory
	}

	return false, workflow.NewTimerWithOptions(ctx, wait.Duration(), workflow.TimerOptions{Summary: wait.Summary}).Get(ctx, nil)
}
