// Package specified reads the operations that the specification names, out of its
// tables and its prose: method and path only. It knows the pages' habits of writing
// (abbreviated paths, one interface like another) and nothing of the service.
package specified

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// pages are the pages that name operations of the agent; of decisions.md only the
// sections that are about its REST interface.
var pages = []struct {
	name     string
	sections []string // headings begin so; nil: the whole page
}{
	{"agent-service.md", nil},
	{"decisions.md", []string{"## 2.", "## 7."}},
	{"shapes.md", nil},
}

// Operations gives each operation once, as "GET /api/sessions", sorted by path.
// Two paths that differ in the names of their parameters only are the same: the
// name that comes first is kept.
func Operations(spec fs.FS) ([]string, error) {
	found := list{named: map[string]bool{}}

	for _, page := range pages {
		text, err := fs.ReadFile(spec, page.name)
		if err != nil {
			return nil, err
		}

		if err := found.read(selected(string(text), page.sections)); err != nil {
			return nil, fmt.Errorf("%s: %w", page.name, err)
		}
	}

	slices.SortFunc(found.operations, func(a, b string) int {
		methodA, pathA, _ := strings.Cut(a, " ")
		methodB, pathB, _ := strings.Cut(b, " ")

		return strings.Compare(pathA+" "+methodA, pathB+" "+methodB)
	})

	return found.operations, nil
}

// selected keeps the sections of a page whose headings begin so.
func selected(text string, headings []string) string {
	if headings == nil {
		return text
	}

	var kept strings.Builder

	keep := false

	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "## ") {
			keep = slices.ContainsFunc(headings, func(h string) bool { return strings.HasPrefix(line, h) })
		}

		if keep {
			kept.WriteString(line)
		}
	}

	return kept.String()
}

const methods = `GET|POST|PUT|PATCH|DELETE`

var (
	// | GET, POST | /api/things | request | answer |
	row = regexp.MustCompile(`^\|\s*((?:` + methods + `)(?:,\s*(?:` + methods + `))*)\s*\|\s*(/[^\s|]+)\s*\|`)
	// | Operation | GET, PUT /api/a; POST …/b, …/c |, where the operation has no method of its own
	cell = regexp.MustCompile(`^\|[^|]*\|\s*((?:` + methods + `)\b.*)\|\s*$`)
	// `GET /api/things` in prose
	inline = regexp.MustCompile("`(" + methods + `) (/[^\s` + "`]*)`")
	// the same eight operations (…) under the prefix `/api/other/{id}`
	alike = regexp.MustCompile("(?i)the same (\\w+) operations .*under the prefix `(/[^`]+)`")

	group     = regexp.MustCompile(`\b((?:` + methods + `)(?:,\s*(?:` + methods + `))*)\s+([/…])`)
	shorthand = regexp.MustCompile(`(?:^|[\s,])((?:…|/)[A-Za-z0-9_{}./:-]+)`)
	parameter = regexp.MustCompile(`\{[^}]*\}`)
)

// list collects operations in the order in which they are named.
type list struct {
	operations []string
	named      map[string]bool // by method and path without the parameters' names
}

func (l *list) add(methods, at string) {
	at, _, _ = strings.Cut(at, "?")
	if !strings.HasPrefix(at, "/api") && at != "/metrics" && at != "/readyz" && at != "/healthz" {
		return // of another service
	}

	for method := range strings.SplitSeq(methods, ",") {
		method = strings.TrimSpace(method)
		if key := method + " " + parameter.ReplaceAllString(at, "{}"); !l.named[key] {
			l.named[key] = true
			l.operations = append(l.operations, method+" "+at)
		}
	}
}

func (l *list) read(text string) error {
	for line := range strings.Lines(text) {
		if found := row.FindStringSubmatch(line); found != nil {
			l.add(found[1], found[2])
			continue
		}

		if found := cell.FindStringSubmatch(strings.TrimRight(line, "\n")); found != nil {
			l.cell(found[1])
			continue
		}

		if found := alike.FindStringSubmatch(line); found != nil {
			if err := l.like(found[1], found[2]); err != nil {
				return err
			}
		}

		for _, found := range inline.FindAllStringSubmatch(line, -1) {
			l.add(found[1], found[2])
		}
	}

	return nil
}

// cell reads a cell with several operations: groups of methods, each followed by
// paths that are written short.
func (l *list) cell(text string) {
	first, groups := "", group.FindAllStringSubmatchIndex(text, -1)
	for i, g := range groups {
		end := len(text)
		if i+1 < len(groups) {
			end = groups[i+1][0]
		}

		methods, rest := text[g[2]:g[3]], text[g[4]:end]
		rest, _, _ = strings.Cut(rest, ";")
		rest = beforeBody(rest)

		before, opening := first, ""
		for _, found := range shorthand.FindAllStringSubmatch(rest, -1) {
			if strings.HasPrefix(found[1], "/") && opening != "" {
				before = opening // /b and /c stand beside the group's first path
			}

			before = expand(found[1], before)
			first, opening = cmp.Or(first, before), cmp.Or(opening, before)
			l.add(methods, before)
		}
	}
}

// beforeBody cuts what follows the paths: a body, an answer, an explanation.
func beforeBody(text string) string {
	for _, mark := range []string{" {", " →", " (", " with "} {
		text, _, _ = strings.Cut(text, mark)
	}

	return text
}

// expand gives the whole of a path that is written short after another one: …/stop
// and /stop continue it from where both have the same segment, else …/stop behind
// its last parameter (behind all of it without one), and /stop beside it.
func expand(short, before string) string {
	rest, dots := strings.CutPrefix(short, "…")
	if before == "" || !dots && strings.HasPrefix(rest, "/api/") {
		return short
	}

	segments := strings.Split(strings.Trim(before, "/"), "/")
	head, _, _ := strings.Cut(strings.Trim(rest, "/"), "/")

	cut := slices.Index(segments, head)
	switch {
	case cut >= 0:
	case dots:
		cut = len(segments)
		for i, segment := range segments {
			if strings.HasPrefix(segment, "{") {
				cut = i + 1
			}
		}
	default:
		cut = len(segments) - 1
	}

	return path.Join("/"+strings.Join(segments[:cut], "/"), rest)
}

var numbers = []string{"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"}

// like adds the operations of an interface that is said to be as another one: that
// whose prefix differs in one fixed segment.
func (l *list) like(number, prefix string) error {
	segments := strings.Split(prefix, "/")

	var made []string

	for _, operation := range l.operations {
		method, at, _ := strings.Cut(operation, " ")

		theirs := strings.Split(at, "/")
		if len(theirs) < len(segments) || !differInOne(segments, theirs[:len(segments)]) {
			continue
		}

		made = append(made, method+" "+path.Join(append([]string{prefix}, theirs[len(segments):]...)...))
	}

	if want := slices.Index(numbers, number); want != len(made) {
		return fmt.Errorf("%s operations are said to be below %s, and %d were found to be like them", number, prefix, len(made))
	}

	for _, operation := range made {
		method, at, _ := strings.Cut(operation, " ")
		l.add(method, at)
	}

	return nil
}

// differInOne reports whether two paths differ in exactly one segment, which is no
// parameter.
func differInOne(a, b []string) bool {
	differ := 0

	for i := range a {
		if a[i] == b[i] {
			continue
		}

		if strings.HasPrefix(a[i], "{") || strings.HasPrefix(b[i], "{") {
			return false
		}

		differ++
	}

	return differ == 1
}
