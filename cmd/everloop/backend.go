package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"go.temporal.io/sdk/client"

	"everloop/history"
	"everloop/infra/events"
	"everloop/infra/metrics"
	"everloop/infra/model"
	"everloop/infra/objects"
	"everloop/infra/postgres"
	"everloop/infra/secrets"
	"everloop/infra/solutions"
	"everloop/infra/temporal"
	"everloop/infra/tokens"
	"everloop/infra/workspace"
	"everloop/publish"
)

// backend is everything that the API and the worker stand on, embedded or not.
type backend struct {
	settings settings
	flags    any // all that the role reads, for showing; nil: the settings alone
	logger   *slog.Logger
	metrics  *prometheus.Registry

	db        *postgres.DB
	journal   *postgres.Journal
	log       *events.Log
	signals   *events.Signals
	objects   *objects.Store
	temporal  client.Client
	runs      temporal.Runs
	models    *model.Client
	tokens    *tokens.Counter
	workspace *workspace.Store
	solutions *solutions.Catalog
	buckets   secrets.Buckets
	nats      *nats.Conn
	captures  *history.Capturer
	history   *history.Desk
	apps      *publish.Desk

	closers []func()
}

const (
	// connectTimeout bounds how long a role waits for its engines at start.
	connectTimeout = time.Minute
	// maxEventBytes bounds the event log on disk; beyond it the oldest go.
	maxEventBytes = 8 << 30
)

// dial connects to the engines that the settings name. connect gives the NATS
// connection, which stays in the process where the engine does.
func dial(ctx context.Context, s settings, connect func() (*nats.Conn, error)) (_ *backend, err error) {
	b := &backend{settings: s, logger: slog.Default(), metrics: metrics.New()}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()

	if err := postgres.Migrate(ctx, s.DatabaseURL); err != nil {
		return nil, err
	}
	if b.db, err = postgres.Open(ctx, s.DatabaseURL, postgres.Options{}); err != nil {
		return nil, err
	}
	b.closers = append(b.closers, b.db.Close)
	metrics.RegisterLoad(b.metrics, b.db)
	if b.objects, err = objects.Open(ctx, objects.Config{
		Endpoint: s.S3Endpoint, Bucket: s.S3Bucket, AccessKey: s.S3AccessKey, SecretKey: s.S3SecretKey, UseTLS: s.S3UseTLS,
	}); err != nil {
		return nil, err
	}
	if err := b.openEvents(ctx, connect); err != nil {
		return nil, err
	}
	if b.temporal, err = temporal.Dial(ctx, s.TemporalAddress, s.TemporalNamespace, b.logger); err != nil {
		return nil, err
	}
	b.closers = append(b.closers, b.temporal.Close)
	b.runs = temporal.Runs{Client: b.temporal}
	b.journal = postgres.NewJournal(b.db, b.log, b.logger)
	if err := b.journal.Recover(ctx); err != nil {
		return nil, fmt.Errorf("publish what an earlier process left: %w", err)
	}
	b.models = model.New(model.Config{BaseURL: s.GatewayURL, Key: s.GatewayKey, DefaultModel: s.Model, ContextWindow: s.ContextWindow})
	box, err := s.secretBox()
	if err != nil {
		return nil, err
	}
	b.buckets = secrets.Buckets{Records: b.db, Box: box}
	if b.solutions, err = solutions.Load(s.solutionsDir()); err != nil {
		return nil, err
	}
	for _, fault := range b.solutions.Faults() {
		b.logger.Error("solution left out", "error", fault)
	}
	b.tokens = tokens.New(b.db, b.logger)
	b.tokens.Load()
	b.workspace = workspace.New(filepath.Join(s.DataDir, "workspace"))
	if err := b.newHistory(); err != nil {
		return nil, err
	}
	return b, nil
}

func (b *backend) openEvents(ctx context.Context, connect func() (*nats.Conn, error)) (err error) {
	if b.nats, err = connect(); err != nil {
		return fmt.Errorf("reach NATS: %w", err)
	}
	b.closers = append(b.closers, b.nats.Close)
	mark, err := b.db.HighWater(ctx)
	if err != nil {
		return err
	}
	b.log, err = events.Open(ctx, b.nats, events.Config{HighWater: mark, Blobs: b.objects, MaxBytes: maxEventBytes, Logger: b.logger})
	if err != nil {
		return fmt.Errorf("open the event log: %w", err)
	}
	if b.signals, err = events.OpenSignals(ctx, b.nats); err != nil {
		return fmt.Errorf("open signals: %w", err)
	}
	b.closers = append(b.closers, b.signals.Close)
	return nil
}

func (b *backend) close() {
	for i := len(b.closers) - 1; i >= 0; i-- {
		b.closers[i]()
	}
}

// ready checks every dependency, by name.
func (b *backend) ready(ctx context.Context) map[string]error {
	checks := map[string]error{"postgres": b.db.Ping(ctx), "objects": b.objects.Ping(ctx)}
	if b.nats.IsConnected() {
		checks["nats"] = b.nats.FlushWithContext(ctx)
	} else {
		checks["nats"] = errors.New("not connected")
	}
	_, checks["temporal"] = b.temporal.CheckHealth(ctx, &client.CheckHealthRequest{})
	return checks
}
