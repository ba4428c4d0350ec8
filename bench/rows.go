package main

import (
	"time"

	"everloop/bench/proc"
	"everloop/bench/result"
)

// value adds a single number.
func (b *bench) value(measure, unit string, value float64, goal *result.Goal) {
	b.report.Add(result.Row{Part: b.part, Measure: measure, Unit: unit, Value: value, Goal: goal})
}

// compare adds a single number beside the baseline's.
func (b *bench) compare(measure, unit string, value, bare float64, goal *result.Goal) {
	b.report.Add(result.Row{Part: b.part, Measure: measure, Unit: unit, Value: value, Bare: &bare, Goal: goal})
}

// samples adds the median of many; bare may be nil.
func (b *bench) samples(measure, unit string, values, bare result.Sample, goal *result.Goal) {
	if len(values) == 0 {
		return
	}

	p95, least := values.Quantile(0.95), values.Quantile(0)

	r := result.Row{Part: b.part, Measure: measure, Unit: unit, Value: values.Median(), P95: &p95, Min: &least, N: len(values), Goal: goal}
	if len(bare) > 0 {
		median := bare.Median()
		r.Bare = &median
	}

	b.report.Add(r)
}

// cost adds the CPU time of the service for one of n things, and how much of the
// machine others used meanwhile.
func (b *bench) cost(what string, u proc.Usage, n int) {
	per := func(d time.Duration) float64 { return result.Milliseconds(d) / float64(n) }
	b.value("CPU per "+what, "ms", per(u.Tree.Sum()), nil)
	b.value("  of which the service", "ms", per(u.Tree.Service), nil)
	b.value("  of which sandbox and commands", "ms", per(u.Tree.Sandbox), nil)
	b.value("  of which PostgreSQL", "ms", per(u.Tree.Records), nil)
	b.value("other programs' share of the machine", "", u.Foreign, nil)
}
