// Package result is what measurements give: samples with their quantiles, and rows with
// their goals, printed and saved. It knows nothing of what is measured.
package result

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"everloop/bench/proc"
)

// Report collects the rows of all parts.
type Report struct {
	Machine string    `json:"machine"`
	Began   time.Time `json:"began"`
	Rows    []Row     `json:"rows"`
}

// Row is one measured quantity.
type Row struct {
	Part    string   `json:"part"`
	Measure string   `json:"measure"`
	Unit    string   `json:"unit"`
	Value   float64  `json:"value"` // the median where there are samples
	P95     *float64 `json:"p95,omitempty"`
	Min     *float64 `json:"min,omitempty"`
	N       int      `json:"n,omitempty"`
	Bare    *float64 `json:"bare,omitempty"` // the baseline's median in the same run
	Goal    *Goal    `json:"goal,omitempty"`
	Load    float64  `json:"load"` // load average of the last minute when the row was written
}

// Goal is a bound that a value should keep.
type Goal struct {
	Limit   float64 `json:"limit"`
	AtLeast bool    `json:"at_least"` // else at most
}

// AtMost is a goal that larger values miss.
func AtMost(limit float64) *Goal { return &Goal{Limit: limit} }

// AtLeast is a goal that smaller values miss.
func AtLeast(limit float64) *Goal { return &Goal{Limit: limit, AtLeast: true} }

func (g *Goal) met(value float64) bool {
	if g.AtLeast {
		return value >= g.Limit
	}

	return value <= g.Limit
}

// String implements fmt.Stringer.
func (g *Goal) String() string {
	if g.AtLeast {
		return fmt.Sprintf(">= %g", g.Limit)
	}

	return fmt.Sprintf("<= %g", g.Limit)
}

// New makes a report of this machine.
func New() *Report {
	return &Report{
		Machine: fmt.Sprintf(
			"%d cores, %s, %s/%s, kernel %s, load %.2f",
			runtime.NumCPU(),
			cpuName(),
			runtime.GOOS,
			runtime.GOARCH,
			kernel(),
			proc.LoadAverage(),
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

// Add keeps a row and prints it.
func (r *Report) Add(row Row) {
	row.Load = proc.LoadAverage()
	r.Rows = append(r.Rows, row)
	fmt.Println("  " + row.line())
}

func (r Row) line() string {
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

// Summary prints the rows that have a goal.
func (r *Report) Summary() {
	fmt.Printf("\nGoals (load %.2f now)\n", proc.LoadAverage())

	for _, row := range r.Rows {
		if row.Goal != nil {
			fmt.Printf("  %-12s %s\n", row.Part, row.line())
		}
	}
}

// Save writes all rows as JSON.
func (r *Report) Save(path string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}

	return os.WriteFile(path, append(data, '\n'), 0o644)
}

// Sample is a list of measured numbers.
type Sample []float64

// Add adds a time, in milliseconds.
func (s *Sample) Add(d time.Duration) { *s = append(*s, Milliseconds(d)) }

// Median is the middle value.
func (s Sample) Median() float64 { return s.Quantile(0.5) }

// Quantile gives the value below which the share q of the sample lies.
func (s Sample) Quantile(q float64) float64 {
	if len(s) == 0 {
		return 0
	}

	sorted := slices.Sorted(slices.Values(s))
	if q == 0.5 && len(sorted)%2 == 0 {
		return (sorted[len(sorted)/2-1] + sorted[len(sorted)/2]) / 2
	}

	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// Milliseconds gives a time as a number.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Mebibytes gives a size as a number.
func Mebibytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }
