package sessiondetail

import (
	"everloop/api/fields"
	"everloop/domain"
)

// QuestionPolicyBody is what becomes of questions that no user answers.
type QuestionPolicyBody struct {
	TimeoutS       *int                  `json:"timeout_s,omitempty" nullable:"true" minimum:"1" maximum:"2592000" doc:"Seconds after which on_timeout answers; left out: a question waits." example:"3600"`
	OnTimeout      *domain.DefaultPolicy `json:"on_timeout,omitempty" nullable:"true" enum:"choose,first_option" doc:"choose (default): the model chooses, on record; first_option: the first option of each question. A permission request is denied."`
	EscalateAfterS *int                  `json:"escalate_after_s,omitempty" nullable:"true" minimum:"1" maximum:"2592000" doc:"Seconds after which webhooks are sent question.escalated, before the timeout; left out: they are not." example:"600"`
}

// Domain gives the policy as the database keeps it; nil stays nil.
func (b *QuestionPolicyBody) Domain() *domain.QuestionPolicy {
	if b == nil {
		return nil
	}

	return &domain.QuestionPolicy{
		TimeoutS:       fields.Value(b.TimeoutS),
		OnTimeout:      fields.Value(b.OnTimeout),
		EscalateAfterS: fields.Value(b.EscalateAfterS),
	}
}
