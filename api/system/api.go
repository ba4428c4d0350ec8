// Package system is the area of the service itself in the REST interface: its version,
// health and models, diagnostics, workflow runs, the inbox, and speech input. It depends on
// no engine but PostgreSQL.
package system

import (
	"context"

	"golang.org/x/sync/semaphore"

	"everloop/api/httpx"
	"everloop/api/sessiondetail"
	"everloop/domain"
	"everloop/infra/postgres/conversation"
	"everloop/service/compute"
)

// API is the area with the services that its operations call.
type API struct {
	Version      Version
	Client       ClientConfig
	DefaultModel string // the model of sessions that name none
	Models       sessiondetail.Models
	Speech       Speech    // nil: no model for speech is configured
	Readiness    Readiness // nil: always ready
	Compute      *compute.Service
	Runs         OperatorRuns
	Inbox        *conversation.Base

	// Configuration and Checks show administrators how the service is set up and the state
	// of its dependencies.
	Configuration func() []domain.ConfigGroup
	Checks        func() []domain.Check
	// Answer resolves a question of the inbox; question_not_found.
	Answer func(ctx context.Context, caller domain.Caller, questionID string, answer domain.Answer) (domain.AnswerAck, error)
}

// Register adds the operations of the area to the interface.
func (a API) Register(r *httpx.Server) {
	(&metaAPI{a.Version, a.Client, a.DefaultModel, a.Models, a.Readiness, r.Config.Metrics}).Register(r)
	(&speechAPI{speech: a.Speech, open: semaphore.NewWeighted(maxTranscriptions), room: r.Config.Room}).Register(r)
	(&diagnosticsAPI{a.Configuration, a.Checks, r.Streams}).Register(r)
	(&computeAPI{a.Compute}).Register(r)
	(&runsAPI{a.Runs, a.Inbox, a.Answer}).Register(r)
}
