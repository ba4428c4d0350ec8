// Package metrics counts what the service does, for Prometheus. It decides
// nothing, and no label holds an id or anything that a user wrote.
package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// New makes a registry with the metrics of every Go process.
func New() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	return registry
}

// Worker counts chats, model calls and tool calls of one worker.
type Worker struct {
	chats    *prometheus.CounterVec
	models   *prometheus.HistogramVec
	tools    *prometheus.HistogramVec
	findings *prometheus.CounterVec
	failures *prometheus.CounterVec
}

// NewWorker registers the worker's metrics.
func NewWorker(registry *prometheus.Registry) *Worker {
	seconds := prometheus.ExponentialBuckets(0.005, 3, 11) // 5 ms to 5 min
	w := &Worker{
		chats: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "everloop_chats_ended_total", Help: "Ends of chats, by finish_reason.",
		}, []string{"finish_reason"}),
		models: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "everloop_model_call_seconds", Help: "Time of one try of a model call, by outcome.", Buckets: seconds,
		}, []string{"outcome"}),
		tools: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "everloop_tool_call_seconds", Help: "Time of one tool call, by tool and status.", Buckets: seconds,
		}, []string{"tool", "status"}),
		findings: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "everloop_janitor_findings_total", Help: "What a crash left undone and the reconciler repaired, by kind. Zero in a " +
				"healthy service.",
		}, []string{"kind"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "everloop_maintenance_failures_total", Help: "Runs of maintenance jobs that returned an error, by job.",
		}, []string{"job"}),
	}
	registry.MustRegister(w.chats, w.models, w.tools, w.findings, w.failures)

	return w
}

// ChatEnded counts an end of a chat.
func (w *Worker) ChatEnded(finishReason string) { w.chats.WithLabelValues(finishReason).Inc() }

// ModelCalled counts one try of a model call: completed, interrupted or
// failed.
func (w *Worker) ModelCalled(outcome string, took time.Duration) {
	w.models.WithLabelValues(outcome).Observe(took.Seconds())
}

// ToolCalled counts one tool call by the status that it ended with.
func (w *Worker) ToolCalled(tool, status string, took time.Duration) {
	w.tools.WithLabelValues(tool, status).Observe(took.Seconds())
}

// JobFailed counts a run of a maintenance job that returned an error.
func (w *Worker) JobFailed(job string) { w.failures.WithLabelValues(job).Inc() }

// Found counts what the reconciler had to repair.
func (w *Worker) Found(kind string) { w.findings.WithLabelValues(kind).Inc() }

// Store counts what is under way, over all workers.
type Store interface {
	// Load counts chats by state, queued messages and unpublished events.
	Load(ctx context.Context) (chats map[string]int, queued, unpublished int, err error)
}

// RegisterLoad shows what is under way, read from the database at each scrape.
func RegisterLoad(registry *prometheus.Registry, store Store) {
	registry.MustRegister(&load{
		store: store,
		chats: prometheus.NewDesc(
			"everloop_chats",
			"Chats under way, by state: running, or parked on a question.",
			[]string{"state"},
			nil,
		),
		queued:      prometheus.NewDesc("everloop_queued_messages", "Messages that wait for their chat.", nil, nil),
		unpublished: prometheus.NewDesc("everloop_unpublished_events", "Events that were committed and not yet published.", nil, nil),
	})
}

type load struct {
	store                      Store
	chats, queued, unpublished *prometheus.Desc
}

const scrapeTimeout = 5 * time.Second

func (l *load) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- l.chats

	descriptions <- l.queued

	descriptions <- l.unpublished
}

func (l *load) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()

	chats, queued, unpublished, err := l.store.Load(ctx)
	if err != nil {
		metrics <- prometheus.NewInvalidMetric(l.chats, err)
		return
	}

	for state, n := range chats {
		metrics <- prometheus.MustNewConstMetric(l.chats, prometheus.GaugeValue, float64(n), state)
	}

	metrics <- prometheus.MustNewConstMetric(l.queued, prometheus.GaugeValue, float64(queued))

	metrics <- prometheus.MustNewConstMetric(l.unpublished, prometheus.GaugeValue, float64(unpublished))
}

// WorkerVersion shows the status of the build that a worker is of.
type WorkerVersion struct{ status *prometheus.GaugeVec }

// NewWorkerVersion registers the metric for a build.
func NewWorkerVersion(registry *prometheus.Registry, buildID string) *WorkerVersion {
	w := &WorkerVersion{status: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "everloop_worker_version", Help: "1 for the status of this worker's build: current, ramping, inactive, draining or drained.",
		ConstLabels: prometheus.Labels{"build_id": buildID},
	}, []string{"status"})}
	registry.MustRegister(w.status)

	return w
}

// Set replaces the status.
func (w *WorkerVersion) Set(status string) {
	w.status.Reset()
	w.status.WithLabelValues(status).Set(1)
}
