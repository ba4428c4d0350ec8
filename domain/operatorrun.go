package domain

import "time"

// OperatorRun is a run of the workflow engine as administrators look at it.
type OperatorRun struct {
	WorkflowID    string     `json:"workflow_id"`
	RunID         string     `json:"run_id"`
	Type          string     `json:"type" doc:"Chat, Fork, Task, Compact or Replay."`
	Kind          string     `json:"kind"`
	Status        string     `json:"status" enum:"running,completed,failed,canceled,terminated,continued_as_new,timed_out"`
	ChatStatus    string     `json:"chat_status" doc:"Of a chat: what it is about; else empty."`
	SessionID     string     `json:"session_id"`
	OwnerID       string     `json:"owner_id"`
	StartedAt     time.Time  `json:"started_at"`
	ClosedAt      *time.Time `json:"closed_at" nullable:"true"`
	HistoryEvents int64      `json:"history_events" doc:"Counted when the run has closed; 0 before."`
	HistoryBytes  int64      `json:"history_bytes" doc:"Counted when the run has closed; 0 before."`
}

// OperatorRunQuery narrows runs down; empty fields do not. Page is what an earlier
// answer gave as its next one.
type OperatorRunQuery struct {
	Status, Kind, SessionID, OwnerID string
	Page                             []byte
	Limit                            int
}
