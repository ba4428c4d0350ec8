package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// WaitRecords know how long work has waited, over all workers.
type WaitRecords interface {
	// Waits returns the longest wait by its reason, 0 where nothing waits, and scheduled
	// tasks that are not where they should be, by kind.
	Waits(ctx context.Context) (longest map[string]time.Duration, drifted map[string]int, err error)
}

// RegisterWaits shows the longest waits and the drift of scheduled tasks, read from the
// records at each scrape.
func RegisterWaits(registry *prometheus.Registry, store WaitRecords) {
	registry.MustRegister(&waits{
		store: store,
		longest: prometheus.NewDesc(
			"everloop_longest_wait_seconds",
			"The longest wait under way, by reason: an open question, faults of model calls, or a queued message; 0 where nothing waits.",
			[]string{"reason"}, nil,
		),
		drifted: prometheus.NewDesc(
			"everloop_schedule_drift",
			"Scheduled tasks: overdue ones have a tick that was not taken within 5 s, unsynced ones an outdated schedule in Temporal.",
			[]string{"kind"}, nil,
		),
	})
}

type waits struct {
	store            WaitRecords
	longest, drifted *prometheus.Desc
}

func (w *waits) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- w.longest

	descriptions <- w.drifted
}

func (w *waits) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()

	longest, drifted, err := w.store.Waits(ctx)
	if err != nil {
		metrics <- prometheus.NewInvalidMetric(w.longest, err)
		return
	}

	for reason, waited := range longest {
		metrics <- prometheus.MustNewConstMetric(w.longest, prometheus.GaugeValue, waited.Seconds(), reason)
	}

	for kind, n := range drifted {
		metrics <- prometheus.MustNewConstMetric(w.drifted, prometheus.GaugeValue, float64(n), kind)
	}
}
