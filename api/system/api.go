// Package system is the area of the service itself in the REST interface: its version,
// health and models, diagnostics, workflow runs, the inbox, and speech input. It must not
// know an engine.
package system

import (
	"golang.org/x/sync/semaphore"

	"everloop/api/httpx"
	"everloop/api/sessiondetail"
)

// API is the area with the services that its operations call.
type API struct {
	Version      Version
	Client       ClientConfig
	DefaultModel string // the model of sessions that name none
	Models       Models
	ModelFinder  sessiondetail.ModelFinder
	Speech       Speech    // nil: no model for speech is configured
	Readiness    Readiness // nil: always ready
	Diagnostics  Diagnostics
	Compute      ComputeEnvironment
	Runs         OperatorRuns
	Inbox        Inbox
	Answers      Answers
}

// Register adds the operations of the area to the interface.
func (a API) Register(r *httpx.Server) {
	(&metaAPI{a.Version, a.Client, a.DefaultModel, a.Models, a.ModelFinder, a.Readiness, r.Config.Metrics}).Register(r)
	(&speechAPI{a.Speech, semaphore.NewWeighted(maxTranscriptions), &shares{}, r.Config.Room}).Register(r)
	(&diagnosticsAPI{a.Diagnostics, r.Streams}).Register(r)
	(&computeAPI{a.Compute}).Register(r)
	(&runsAPI{a.Runs, a.Inbox, a.Answers}).Register(r)
}
