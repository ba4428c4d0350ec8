package domain

import "time"

// DefaultPolicy is how a question that no user answers in time is resolved.
type DefaultPolicy string

// The default policies. A permission request is always denied.
const (
	PolicyChoose      DefaultPolicy = "choose"       // the question is returned to the model, which chooses
	PolicyFirstOption DefaultPolicy = "first_option" // the first option of each question is the answer
	PolicyAnswer      DefaultPolicy = "answer"       // the answer in the DAG node's configuration
)

// AnsweredByPolicy is the resolver of a question that timed out.
const AnsweredByPolicy = "default_policy"

// MaxQuestionWaitS bounds the times of a question policy, in seconds.
const MaxQuestionWaitS = 30 * 24 * 3600

// QuestionPolicy is how questions that no user answers are handled. Without times they wait
// indefinitely.
type QuestionPolicy struct {
	TimeoutS       int           `json:"timeout_s,omitempty" doc:"Seconds after which on_timeout answers; left out: never." example:"3600"`
	OnTimeout      DefaultPolicy `json:"on_timeout,omitempty" enum:"choose,first_option,answer" doc:"What answers then: answer is what a node of a DAG says. A permission request is denied."`
	EscalateAfterS int           `json:"escalate_after_s,omitempty" doc:"Seconds after which webhooks are sent question.escalated; left out: never." example:"600"`
}

// QuestionTimes are the times at which a policy acts on one question.
type QuestionTimes struct {
	ExpiresAt     *time.Time
	DefaultPolicy DefaultPolicy // empty: none
	EscalateAt    *time.Time
}

// Times returns the deadlines of a question that is asked now. A nil policy has none.
func (p *QuestionPolicy) Times(asked time.Time) QuestionTimes {
	var times QuestionTimes
	if p == nil {
		return times
	}

	if p.TimeoutS > 0 {
		at := asked.Add(time.Duration(p.TimeoutS) * time.Second)

		times.ExpiresAt, times.DefaultPolicy = &at, p.OnTimeout
		if times.DefaultPolicy == "" {
			times.DefaultPolicy = PolicyChoose
		}
	}

	if p.EscalateAfterS > 0 && (p.TimeoutS == 0 || p.EscalateAfterS < p.TimeoutS) {
		at := asked.Add(time.Duration(p.EscalateAfterS) * time.Second)
		times.EscalateAt = &at
	}

	return times
}

// Valid reports whether the policy has known values within their bounds.
func (p *QuestionPolicy) Valid() bool {
	if p == nil {
		return true
	}

	switch p.OnTimeout {
	case "", PolicyChoose, PolicyFirstOption, PolicyAnswer:
	default:
		return false
	}

	return p.TimeoutS >= 0 && p.TimeoutS <= MaxQuestionWaitS && p.EscalateAfterS >= 0 && p.EscalateAfterS <= MaxQuestionWaitS
}

// Escalation is the handling of a DAG node's question, in addition to the times.
type Escalation struct {
	DefaultAnswer string   `json:"default_answer,omitempty"` // of PolicyAnswer
	Webhooks      []string `json:"webhooks,omitempty"`       // webhooks that receive it, regardless of their events
	UserID        string   `json:"user_id,omitempty"`        // a user who can then answer, in addition to the owner
}

// ExpiredQuestion is an open question that has timed out.
type ExpiredQuestion struct {
	Question
	OwnerID       string `db:"owner_id"`
	DefaultAnswer string `db:"default_answer"` // of PolicyAnswer
}

// InboxQuestion identifies a question for a user who can answer it.
type InboxQuestion struct {
	SessionID  SessionID
	OwnerID    string // of the session
	ToolCallID string
}
