// Package annotation contains people's notes on turns, tool calls, files and nodes of runs, and
// the rules for their fields. It does not check who may write one.
package annotation

import (
	"math"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"everloop/domain"
)

// Kind is the kind of an annotation.
type Kind string

// The kinds of annotations.
const (
	Rating     Kind = "rating"
	Label      Kind = "label"
	Comment    Kind = "comment"
	Correction Kind = "correction"
	Bookmark   Kind = "bookmark"
)

// Bounds of annotations.
const (
	MaxOfPayload = 1_000 // of one payload
	MaxText      = 10_000
	MaxValue     = 1_000 // characters of a value that is text
	maxPathBytes = 4_096
)

// Annotation is a person's note on a turn, a tool call, a file, or a node of a DAG run.
type Annotation struct {
	ID         string     `json:"id" db:"id" doc:"Its id." example:"01a1fd9b-4f0b-74a3-bdbc-594f816ae120"`
	PayloadID  string     `json:"payload_id" db:"payload_id" doc:"The turn, the tool call or the node of a DAG run; the session, where it is on a file."`
	Kind       Kind       `json:"kind" db:"kind" enum:"rating,label,comment,correction,bookmark" doc:"The kind."`
	Target     *Target    `json:"target" db:"target" doc:"The part that it is on; null: the whole."`
	Value      any        `json:"value" db:"value" doc:"A number or a text; null: none."`
	Text       *string    `json:"text" db:"text" doc:"The text; null: none."`
	Labels     []string   `json:"labels" db:"labels" nullable:"false" doc:"The labels."`
	AuthorID   string     `json:"author_id" db:"author_id" doc:"The user who wrote it."`
	CreatedAt  time.Time  `json:"created_at" db:"created_at" doc:"Creation time."`
	UpdatedAt  time.Time  `json:"updated_at" db:"updated_at" doc:"Time of the last change."`
	ResolvedAt *time.Time `json:"resolved_at" db:"resolved_at" doc:"Time at which it was resolved; null: it is open."`
}

// Target is the annotated part of a payload.
type Target struct {
	TurnID     *domain.TurnID `json:"turn_id,omitempty" maxLength:"128" doc:"A turn of the same session."`
	BlockIndex *int           `json:"block_index,omitempty" minimum:"0" doc:"A block of the turn, from 0."`
	ToolCallID *string        `json:"tool_call_id,omitempty" maxLength:"128" doc:"A tool call of the same session."`
	Path       *string        `json:"path,omitempty" minLength:"1" maxLength:"4096" doc:"A file of the session's workspace." example:"report.md"`
	Range      *Range         `json:"range,omitempty" doc:"Characters of the text."`
}

// Range is a part of a text, in UTF-16 code units: [start, end).
type Range struct {
	Start int `json:"start" minimum:"0" doc:"The first code unit." example:"0"`
	End   int `json:"end" minimum:"0" doc:"The code unit behind the last." example:"12"`
}

// Payload is what annotations are on.
type Payload struct {
	ID         string           `db:"id"`
	SessionID  domain.SessionID `db:"session_id"`  // empty: a node of a DAG run
	SolutionID string           `db:"solution_id"` // of such a node: the production solution
	IsSession  bool             `db:"is_session"`  // the id is the session's own: the annotation is on one of its files
}

// NewAnnotation is an annotation to store.
type NewAnnotation struct {
	Kind   Kind
	Target *Target
	Value  any
	Text   *string
	Labels []string
}

// Change sets the fields that are not nil.
type Change struct {
	SetValue bool
	Value    any
	SetText  bool
	Text     *string
	Labels   []string // nil: unchanged
	Resolved *bool
}

// ChangesContent reports whether it changes fields that only the author can change.
func (c Change) ChangesContent() bool { return c.SetValue || c.SetText || c.Labels != nil }

// Check rejects an annotation whose fields do not match its kind, or whose target is invalid.
func (a *NewAnnotation) Check(payload Payload) error {
	if err := CheckValue(a.Value); err != nil {
		return err
	}

	if payload.IsSession && (a.Target == nil || a.Target.Path == nil) {
		return domain.Invalidf("body.target.path", "is required: the payload is a session, and the annotation is on one of its files")
	}

	if payload.SolutionID != "" && a.Target != nil && a.Target.Path != nil {
		return domain.Invalidf("body.target.path", "a node of a run has no files: annotate those of its session")
	}

	if err := a.Target.check(); err != nil {
		return err
	}

	return CheckKind(a.Kind, a.Value, a.Text, a.Labels)
}

// CheckKind rejects an annotation without the field that its kind requires.
func CheckKind(kind Kind, value any, text *string, labels []string) error {
	switch kind {
	case Rating:
		if _, number := value.(float64); !number {
			return domain.Invalidf("body.value", "a rating needs a number")
		}
	case Label:
		if len(labels) == 0 {
			return domain.Invalidf("body.labels", "a label needs at least one")
		}
	case Comment, Correction:
		if text == nil || strings.TrimSpace(*text) == "" {
			return domain.Invalidf("body.text", "a %s needs a text", kind)
		}
	case Bookmark: // needs no further field
	}

	return nil
}

// CheckValue rejects a value that is neither a number nor a text.
func CheckValue(value any) error {
	switch v := value.(type) {
	case nil:
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return domain.Invalidf("body.value", "is not a finite number")
		}
	case string:
		if utf8.RuneCountInString(v) > MaxValue {
			return domain.Invalidf("body.value", "has more than %d characters", MaxValue)
		}
	default:
		return domain.Invalidf("body.value", "must be a number or a text")
	}

	return nil
}

func (t *Target) check() error {
	if t == nil {
		return nil
	}

	if t.Range != nil && t.Range.End < t.Range.Start {
		return domain.Invalidf("body.target.range.end", "is before the start")
	}

	if t.Path == nil {
		return nil
	}

	clean := path.Clean(strings.TrimPrefix(*t.Path, "/workspace/"))
	if clean == "." || clean == ".." || strings.HasPrefix(clean, "../") || path.IsAbs(clean) || len(clean) > maxPathBytes {
		return domain.Invalidf("body.target.path", "is not a file of the workspace")
	}

	t.Path = &clean

	return nil
}

// NotFound returns the error for an annotation that is missing, or on a payload that the caller
// cannot see.
func NotFound(id string) *domain.Error {
	return domain.Newf(domain.NotFound, "annotation_not_found", "annotation %s does not exist", id)
}

// PayloadNotFound returns the error for a payload that is missing, or of a session or a
// production solution that the caller cannot see.
func PayloadNotFound(id string) *domain.Error {
	return domain.Newf(domain.NotFound, "payload_not_found", "there is no turn, tool call, session or node of a run %s", id)
}
