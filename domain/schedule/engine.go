package schedule

import "time"

// Push is a change of a task that its Schedule does not include yet.
type Push struct {
	Task    Task
	Token   string    // of the change
	Until   time.Time // of the claim
	Deleted bool
	Custom  bool // the times of the Schedule were edited in Temporal, and are preserved
}

// Observed is the Temporal Schedule of a task as Temporal describes it.
type Observed struct {
	Paused         bool
	Note           string
	Overlap        Overlap
	CatchupWindowS int
	JitterS        int
	Timezone       string
	ExpiresAt      *time.Time
	// Due identifies when the Schedule is due: its calendars, intervals and exclusions.
	Due string
	// Expression is the cron expression of its calendars; empty: there is none.
	Expression string
	Next       []time.Time // coming ticks, with their jitter
	Actions    []Action    // the last ten, oldest first
	Buffered   int         // ticks that wait for the end of a run
}

// Action is one start of a run by a Schedule.
type Action struct {
	RunID string
	Due   time.Time // with its jitter
}

// Started returns when a run that the Schedule started was due; false: it is not among the
// recent ones.
func (o Observed) Started(runID string) (due time.Time, found bool) {
	for _, action := range o.Actions {
		if action.RunID == runID {
			due, found = action.Due, true
		}
	}

	return due, found
}

// Listed is an entry of the list of Schedules.
type Listed struct {
	TaskID string
	// State changes with each change of pause, note and calendars, and with each tick.
	State string
}

// Missing is why Temporal does not describe a Schedule.
type Missing string

// It was deleted in Temporal, has no more ticks, or Temporal has lost it.
const (
	MissingDeleted  Missing = "deleted"
	MissingFinished Missing = "finished"
	MissingLost     Missing = "lost"
)

// RunID returns the id of the run of a task for one nominal time. Temporal appends the same
// text to the workflow id of the action.
func RunID(taskID string, nominal time.Time) string {
	return taskID + "-" + nominal.UTC().Truncate(time.Second).Format(time.RFC3339)
}

const nominalLength = len("2006-01-02T15:04:05Z")

// SplitRunID returns the task and the nominal time of a run id.
func SplitRunID(id string) (taskID string, nominal time.Time, ok bool) {
	at := len(id) - nominalLength - 1
	if at < 1 || id[at] != '-' {
		return "", nominal, false
	}

	nominal, err := time.Parse(time.RFC3339, id[at+1:])

	return id[:at], nominal, err == nil
}
