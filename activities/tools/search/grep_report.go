package search

import (
	"fmt"
	"strings"

	"everloop/activities/tools"
)

const (
	maxGrepLine = 1000    // characters of a line that are shown
	maxGrepText = 1 << 20 // characters of a report: what passes MaxResult goes to a file
)

// report gathers what a search finds, in the form of one output mode.
type report struct {
	mode    string
	numbers bool
	context bool
	limit   int // lines or files; 0 is no limit

	out     strings.Builder
	chars   int
	entries int
	full    bool

	path     string
	count    int  // matching lines of the file
	lastLine int  // of the file that was shown last
	groups   bool // something was shown, so that a gap is marked
}

func newReport(s search, in grepArguments) *report {
	r := &report{mode: in.Mode, numbers: in.Numbers == nil || *in.Numbers, limit: int(in.HeadLimit)}
	if r.mode == "" {
		r.mode = grepContent
	}

	r.context = s.before > 0 || s.after > 0

	return r
}

// empty returns a new report of the same form.
func (r *report) empty() *report {
	return &report{mode: r.mode, numbers: r.numbers, context: r.context, limit: r.limit}
}

// begin starts a file.
func (r *report) begin(path string) {
	r.path, r.count, r.lastLine = path, 0, 0
}

// line adds a line of the file: one that matched, or one around it.
func (r *report) line(number int, text []byte, matched bool) {
	if r.limit > 0 && r.entries >= r.limit || r.chars > maxGrepText {
		r.full = true
		return
	}

	if r.context && r.groups && number != r.lastLine+1 {
		r.write("--\n")
	}

	r.lastLine, r.groups = number, true

	mark := byte(':')
	if !matched {
		mark = '-'
	}

	row := fmt.Sprintf("%s%c", r.path, mark)
	if r.numbers {
		row += fmt.Sprintf("%d%c", number, mark)
	}

	r.write(row + shownLine(text) + "\n")
	r.entries++
}

// end closes the file.
func (r *report) end() {
	switch {
	case r.mode == grepContent:
	case r.limit > 0 && r.entries >= r.limit || r.chars > maxGrepText:
		r.full = true
	default:
		row := tools.Clean(r.path)
		if r.mode == grepCount {
			row += fmt.Sprintf(":%d", r.count)
		}

		r.write(row + "\n")
		r.entries++
	}
}

func (r *report) write(s string) {
	r.out.WriteString(s)
	r.chars += tools.Length(s)
}

// text returns the whole report.
func (r *report) text() string {
	if r.entries == 0 {
		return "Nothing matches."
	}

	if !r.full {
		return r.out.String()
	}

	what := "files"
	if r.mode == grepContent {
		what = "lines"
	}

	return r.out.String() + fmt.Sprintf(
		"\n[The first %d %s are shown; there are more. Narrow the search, or give a higher head_limit.]\n", r.entries, what,
	)
}
