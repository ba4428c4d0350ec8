package app

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"everloop/infra/sandbox"

	"github.com/prometheus/client_golang/prometheus"

	"everloop/domain"
	"everloop/infra/metrics"
	"everloop/infra/model"
	"everloop/infra/postgres"
	"everloop/infra/secrets"
	"everloop/infra/solutions"
	"everloop/infra/tokens"
	"everloop/infra/tracing"
	"everloop/infra/workspace"
	"everloop/internal/app/engine"
	"everloop/internal/app/flags"
	"everloop/internal/lifecycle"
	"everloop/service/accounts"
	"everloop/service/work"
)

// backend holds the clients of the engines, embedded or not, and the services on them.
type backend struct {
	settings settings
	flags    any // all settings of the role, for the diagnostics; nil: the settings alone
	logger   *slog.Logger
	metrics  *prometheus.Registry
	tracing  *tracing.Tracing // nil: there are no traces

	*engine.Clients
	store     *postgres.Store
	waiters   *work.Waiters
	accounts  *accounts.Store
	models    *model.Client
	speech    *model.Speech // nil: no model for speech is configured
	prices    map[string]domain.Price
	tokens    *tokens.Counter
	workspace *workspace.Store
	solutions *solutions.Catalog
	buckets   secrets.Buckets
	services

	closers []func()
}

// dial connects to the engines that the settings name.
func dial(ctx context.Context, s settings) (_ *backend, err error) {
	b := &backend{settings: s, logger: slog.Default(), metrics: metrics.New()}

	defer func() {
		if err != nil {
			b.close()
		}
	}()

	ctx, cancel := context.WithTimeout(ctx, engine.ConnectTimeout)
	defer cancel()

	if b.tracing, err = tracing.Open(ctx, s.tracing(b.logger)); err != nil {
		return nil, err
	}

	b.closers = append(b.closers, b.tracing.Close) // the last one: what the others end is sent

	box, err := s.SecretBox(s.DataDir, s.EncryptionKey)
	if err != nil {
		return nil, err
	}

	b.buckets = secrets.Buckets{Box: box, Recent: secrets.NewRecent()}

	if b.Clients, err = s.Open(ctx, engine.Process{
		Box:          box,
		Tracing:      b.tracing,
		Metrics:      b.metrics,
		Logger:       b.logger,
		Room:         flags.CheckReserve(s.DataDir),
		SandboxUsers: sandbox.DefaultUserBase,
	}); err != nil {
		return nil, err
	}

	b.closers = append(b.closers, b.Clients.Close)
	b.accounts = accounts.New(b.DB.DB)
	b.buckets.Store = b.accounts
	b.registerSpace()

	b.store = postgres.NewStore(b.DB, b.Log, b.logger)
	b.waiters = work.NewWaiters(b.DB.DB, b.Runs, b.logger)
	b.store.OnChatEnded(b.waiters.Signal)

	if err := b.store.Requeue(ctx); err != nil {
		b.logger.Error("failed to look for events that the event log lost; the periodic job retries", "error", err)
	}

	prices, err := s.prices()
	if err != nil {
		return nil, err
	}

	b.models = model.New(model.Config{
		BaseURL: s.GatewayURL, Key: s.GatewayKey, DefaultModel: s.Model, ContextWindow: s.ContextWindow,
		Prices: prices, Limits: b.DB, Tracing: b.tracing,
	})
	b.prices = prices
	b.speech = b.newSpeech()

	if b.solutions, err = solutions.Load(flags.SolutionsIn(s.DataDir)); err != nil {
		return nil, err
	}

	for _, fault := range b.solutions.Faults() {
		b.logger.Error("failed to load a solution", "error", fault)
	}

	b.tokens = tokens.New(b.DB, b.logger)
	b.tokens.Load()

	b.workspace = workspace.NewLimited(filepath.Join(s.DataDir, "workspace"), workspace.Limits{
		Bytes: s.WorkspaceBytes, Inodes: s.WorkspaceInodes, Reserve: flags.Reserve,
	})
	b.workspace.AdmitWrites(b.DB.Free)

	if b.services, err = b.newServices(); err != nil {
		return nil, err
	}

	return b, nil
}

// publisher publishes the events of this process. It runs below everything that emits
// events, so that their last ones are published, for some seconds at most.
func (b *backend) publisher() lifecycle.Layer {
	return lifecycle.Layer{
		lifecycle.Loop("event publisher", b.store.Run),
		lifecycle.Loop("waiting reasons", b.reportChanged),
	}
}

// reportChanged reports what the sessions wait for that this process has changed, until ctx
// ends.
func (b *backend) reportChanged(ctx context.Context) {
	ticker := time.NewTicker(waitingEvery)
	defer ticker.Stop()

	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}

		if err := b.store.ReportChanged(ctx); err != nil && ctx.Err() == nil {
			b.logger.Warn("failed to report what sessions wait for; retrying", "error", err)
		}
	}
}

func (b *backend) close() {
	for i := len(b.closers) - 1; i >= 0; i-- {
		b.closers[i]()
	}
}
