package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// report collects the rows of all parts.
type report struct {
	Machine string    `json:"machine"`
	Began   time.Time `json:"began"`
	Rows    []row     `json:"rows"`
}

// row is one measured quantity.
type row struct {
	Part    string   `json:"part"`
	Measure string   `json:"measure"`
	Unit    string   `json:"unit"`
	Value   float64  `json:"value"` // the median where there are samples
	P95     *float64 `json:"p95,omitempty"`
	Min     *float64 `json:"min,omitempty"`
	N       int      `json:"n,omitempty"`
	Bare    *float64 `json:"bare,omitempty"` // the baseline's median in the same run
	Goal    *goal    `json:"goal,omitempty"`
	Load    float64  `json:"load"` // load average of the last minute when the row was written
}

// goal is a bound that a value should keep.
type goal struct {
	Limit   float64 `json:"limit"`
	AtLeast bool    `json:"at_least"` // else at most
}

func atMost(limit float64) *goal  { return &goal{Limit: limit} }
func atLeast(limit float64) *goal { return &goal{Limit: limit, AtLeast: true} }

func (g *goal) met(value float64) bool {
	if g.AtLeast {
		return value >= g.Limit
	}

	return value <= g.Limit
}

func (g *goal) String() string {
	if g.AtLeast {
		return fmt.Sprintf(">= %g", g.Limit)
	}

	return fmt.Sprintf("<= %g", g.Limit)
}

func newReport() *report {
	return &report{
		Machine: fmt.Sprintf(
			"%d cores, %s, %s/%s, kernel %s, load %.2f",
			runtime.NumCPU(),
			cpuName(),
			runtime.GOOS,
			runtime.GOARCH,
			kernel(),
			loadAverage(),
		),
		Began: time.Now().UTC(),
	}
}

func cpuName() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.SplitSeq(string(text), "\n") {
		if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}

	return "unknown processor"
}

func kernel() string {
	text, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return strings.TrimSpace(string(text))
}

// value adds a single number.
func (b *bench) value(measure, unit string, value float64, goal *goal) {
	b.report.add(row{Part: b.part, Measure: measure, Unit: unit, Value: value, Goal: goal})
}

// compare adds a single number beside the baseline's.
func (b *bench) compare(measure, unit string, value, bare float64, goal *goal) {
	b.report.add(row{Part: b.part, Measure: measure, Unit: unit, Value: value, Bare: &bare, Goal: goal})
}

// samples adds the median of many; bare may be nil.
func (b *bench) samples(measure, unit string, values, bare sample, goal *goal) {
	if len(values) == 0 {
		return
	}

	p95, least := values.quantile(0.95), values.quantile(0)

	r := row{Part: b.part, Measure: measure, Unit: unit, Value: values.median(), P95: &p95, Min: &least, N: len(values), Goal: goal}
	if len(bare) > 0 {
		median := bare.median()
		r.Bare = &median
	}

	b.report.add(r)
}

// cost adds the CPU time of the service for one of n things, and how much of the
// machine others used meanwhile.
func (b *bench) cost(what string, u usage, n int) {
	per := func(d time.Duration) float64 { return ms(d) / float64(n) }
	b.value("CPU per "+what, "ms", per(u.tree.sum()), nil)
	b.value("  of which the service", "ms", per(u.tree.service), nil)
	b.value("  of which sandbox and commands", "ms", per(u.tree.sandbox), nil)
	b.value("  of which PostgreSQL", "ms", per(u.tree.records), nil)
	b.value("other programs' share of the machine", "", u.foreign, nil)
}

func (r *report) add(row row) {
	row.Load = loadAverage()
	r.Rows = append(r.Rows, row)
	fmt.Println("  " + row.line())
}

func (r row) line() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%-52s %10s %-8s", r.Measure, number(r.Value), r.Unit)

	if r.P95 != nil {
		fmt.Fprintf(&text, " p95 %-8s min %-8s n %-4d", number(*r.P95), number(*r.Min), r.N)
	}

	if r.Bare != nil {
		fmt.Fprintf(&text, " bare %-8s", number(*r.Bare))

		if *r.Bare > 0 {
			fmt.Fprintf(&text, " x %-7s", number(r.Value / *r.Bare))
		}
	}

	if r.Goal != nil {
		verdict := "met"
		if !r.Goal.met(r.Value) {
			verdict = "MISSED"
		}

		fmt.Fprintf(&text, " goal %s: %s", r.Goal, verdict)
	}

	return strings.TrimRight(text.String(), " ")
}

func number(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

// summary prints the rows that have a goal.
func (r *report) summary() {
	fmt.Printf("\nGoals (load %.2f now)\n", loadAverage())

	for _, row := range r.Rows {
		if row.Goal != nil {
			fmt.Printf("  %-12s %s\n", row.Part, row.line())
		}
	}
}

func (r *report) save(path string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}

	return os.WriteFile(path, append(data, '\n'), 0o644)
}

// sample is a list of measured numbers.
type sample []float64

func (s *sample) add(d time.Duration) { *s = append(*s, ms(d)) }

func (s sample) median() float64 { return s.quantile(0.5) }

// quantile gives the value below which the share q of the sample lies.
func (s sample) quantile(q float64) float64 {
	if len(s) == 0 {
		return 0
	}

	sorted := slices.Sorted(slices.Values(s))
	if q == 0.5 && len(sorted)%2 == 0 {
		return (sorted[len(sorted)/2-1] + sorted[len(sorted)/2]) / 2
	}

	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }
