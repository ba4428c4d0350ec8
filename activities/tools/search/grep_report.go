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
	start    mark // where the file's part begins, for taking it back
	count    int  // matching lines of the file
	lastLine int  // of the file that was shown last
	groups   bool // something was shown, so that a gap is marked
}

type mark struct {
	length, chars, entries int
	full, groups           bool
}

func newReport(s search, in grepArguments) *report {
	r := &report{mode: in.Mode, numbers: in.Numbers == nil || *in.Numbers, limit: int(in.HeadLimit)}
	if r.mode == "" {
		r.mode = grepContent
	}

	r.context = s.before > 0 || s.after > 0

	return r
}

// begin starts a file.
func (r *report) begin(path string) {
	r.path, r.count, r.lastLine = path, 0, 0
	r.start = mark{r.out.Len(), r.chars, r.entries, r.full, r.groups}
}

// takes says whether the lines of a file are shown, of which there may be more.
func (r *report) takes() bool { return r.mode == grepContent && !r.full }

// line adds a line of the file: one that matched, or one around it.
func (r *report) line(number int, text []byte, matched bool) {
	if matched {
		r.count++
	}

	if r.mode != grepContent {
		return
	}

	var line shownLine

	_, _ = line.Write(text)
	r.show(number, line.String(), matched)
}

// show adds a line as it is shown.
func (r *report) show(number int, text string, matched bool) {
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

	r.write(row + text + "\n")
	r.entries++
}

// end closes the file. Of a binary file nothing is kept.
func (r *report) end(binary bool) {
	switch {
	case binary:
		text := r.out.String()[:r.start.length]
		r.out.Reset()
		r.out.WriteString(text)
		r.chars, r.entries, r.full, r.groups = r.start.chars, r.start.entries, r.start.full, r.start.groups
	case r.mode == grepContent || r.count == 0:
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

// text gives the whole report.
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
