package skillpack

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Document is a parsed SKILL.md.
type Document struct {
	Name          string
	Description   string
	License       string
	Compatibility string
	// Version is metadata.version, or version; empty: unspecified.
	Version string
	// AllowedTools are the tools of the skill.
	AllowedTools []string
	// RequiredEnv are the variables, and Permissions the rights, that the skill requires:
	// metadata.required_env and metadata.permissions.
	RequiredEnv []string
	Permissions []string
	// FrontMatter contains the whole front matter as JSON values: strings, numbers, booleans,
	// nil, []any and map[string]any.
	FrontMatter map[string]any
	// Body is the text below the front matter.
	Body string
	// Warnings are harmless departures from the specification.
	Warnings []string
}

// Parse parses a SKILL.md. An invalid document is an *Error with all detectable problems.
func Parse(content []byte) (Document, error) {
	if len(content) > MaxDocument {
		return Document{}, failf("%s is larger than %d bytes", DocumentName, MaxDocument)
	}

	text, err := decoded(content)
	if err != nil {
		return Document{}, err
	}

	head, body, err := split(text)
	if err != nil {
		return Document{}, err
	}

	fields, warnings, err := readFrontMatter(head)
	if err != nil {
		return Document{}, err
	}

	d, err := document(fields)
	if err != nil {
		return Document{}, err
	}

	for _, warning := range warnings {
		d.warn(warning)
	}

	d.Body = body
	if strings.TrimSpace(body) == "" {
		d.warn("the text below the front matter is empty")
	}

	if lines := strings.Count(body, "\n"); lines > maxBodyLines {
		d.warn("the text has more than 500 lines: move details to files of their own, which are read only when they are needed")
	}

	return d, nil
}

// decoded returns the text with LF line endings.
func decoded(content []byte) (string, error) {
	switch {
	case bytes.HasPrefix(content, []byte{0xFF, 0xFE}), bytes.HasPrefix(content, []byte{0xFE, 0xFF}):
		return "", failf("%s is UTF-16: save it as UTF-8", DocumentName)
	case !utf8.Valid(content):
		return "", failf("%s is not UTF-8", DocumentName)
	case bytes.IndexByte(content, 0) >= 0:
		return "", failf("%s holds NUL characters, so it is not text", DocumentName)
	}

	text := strings.TrimPrefix(string(content), "\uFEFF")

	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n"), nil
}

// split splits a document into the front matter, between two lines of three hyphens, and the text
// after it.
func split(text string) (head, body string, err error) {
	first, rest, _ := strings.Cut(text, "\n")
	if strings.TrimRight(first, " \t") != "---" {
		return "", "", failf(
			"%s must begin with front matter: a line with three hyphens, then name and description, then three hyphens",
			DocumentName,
		)
	}

	for at := 0; at <= len(rest); {
		line, _, more := strings.Cut(rest[at:], "\n")

		next := at + len(line) + 1
		if strings.TrimRight(line, " \t") == "---" {
			if at > maxFrontMatter {
				return "", "", failf("the front matter is larger than %d bytes", maxFrontMatter)
			}

			return rest[:at], rest[min(next, len(rest)):], nil
		}

		if !more {
			break
		}

		at = next
	}

	return "", "", failf("the front matter does not end: a line with three hyphens is missing")
}

// document converts the fields of the front matter.
func document(fields map[string]any) (Document, error) {
	var wrong problems

	d := Document{FrontMatter: fields}

	d.Name = word(fields, "name", true, &wrong)
	if lower := strings.ToLower(d.Name); lower != d.Name && nameProblem(lower) == "" {
		d.warn("the name " + shown(d.Name) + " has capital letters: it is taken as " + shown(lower))
		d.Name = lower
	}

	if problem := CheckName(d.Name); d.Name != "" && problem != "" {
		wrong.addf("name %s", problem)
	}

	d.Description = strings.TrimSpace(word(fields, "description", true, &wrong))
	if n := utf8.RuneCountInString(d.Description); n > MaxDescription {
		wrong.addf("description has %d characters; %d are allowed", n, MaxDescription)
	}

	d.License = word(fields, "license", false, &wrong)

	d.Compatibility = word(fields, "compatibility", false, &wrong)
	if n := utf8.RuneCountInString(d.Compatibility); n > MaxCompatibility {
		wrong.addf("compatibility has %d characters; %d are allowed", n, MaxCompatibility)
	}

	d.AllowedTools = list(fields, "allowed-tools", "allowed-tools", &wrong)

	d.Version = word(fields, "version", false, &wrong)
	switch metadata := fields["metadata"].(type) {
	case nil:
	case map[string]any:
		d.metadata(metadata, &wrong)
	default:
		wrong.addf("metadata must be a map")
	}

	d.unknownFields()

	return d, wrong.err()
}

func (d *Document) metadata(metadata map[string]any, wrong *problems) {
	if version := plain(metadata["version"]); version != "" {
		d.Version = version
	}

	d.RequiredEnv = list(metadata, "required_env", "metadata.required_env", wrong)

	d.Permissions = list(metadata, "permissions", "metadata.permissions", wrong)
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		if _, isMap := metadata[key].(map[string]any); isMap {
			d.warn("metadata." + key + " is a map; the specification has texts only")
		}
	}
}

// known contains the fields of the specification, and version, which many packages have at the
// top level.
var known = map[string]bool{
	"name": true, "description": true, "license": true, "compatibility": true, "metadata": true, "allowed-tools": true, "version": true,
}

func (d *Document) unknownFields() {
	for _, field := range slices.Sorted(maps.Keys(d.FrontMatter)) {
		if !known[field] {
			d.warn("the specification does not know the field " + shown(field))
		}
	}
}

func (d *Document) warn(text string) {
	if len(d.Warnings) < maxProblems {
		d.Warnings = append(d.Warnings, text)
	}
}

// CheckName returns the problem of a skill's name, with a suggestion of a valid name; empty:
// none.
func CheckName(name string) (problem string) {
	if problem = nameProblem(name); problem != "" {
		problem += offer(name)
	}

	return problem
}

func nameProblem(name string) string {
	switch {
	case name == "":
		return "is empty"
	case len(name) > MaxName:
		return "is longer than 64 characters"
	case strings.HasPrefix(name, "-") || strings.HasSuffix(name, "-"):
		return "begins or ends with a hyphen"
	case strings.Contains(name, "--"):
		return "has two hyphens in a row"
	}

	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' {
			return "may have lower-case letters a to z, digits and hyphens only"
		}
	}

	return ""
}

var notInName = regexp.MustCompile(`[^a-z0-9]+`)

// offer returns a valid name similar to an invalid one; empty: none.
func offer(name string) string {
	valid := strings.Trim(notInName.ReplaceAllString(strings.ToLower(name), "-"), "-")
	if len(valid) > MaxName {
		valid = strings.TrimRight(valid[:MaxName], "-")
	}

	if nameProblem(valid) != "" {
		return ""
	}

	return "; use " + shown(valid)
}

// word returns a text field.
func word(fields map[string]any, name string, required bool, wrong *problems) string {
	value, there := fields[name]
	if !there || value == nil {
		if required {
			wrong.addf("%s is missing", name)
		}

		return ""
	}

	text := plain(value)
	switch {
	case text == "" && value != "":
		wrong.addf("%s must be a text", name)
	case required && strings.TrimSpace(text) == "":
		wrong.addf("%s is empty", name)
	}

	return text
}

// plain returns a scalar value in its source form; empty for none, and for lists and maps.
func plain(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case bool:
		if v {
			return "true"
		}

		return "false"
	case json.Number:
		return v.String()
	default:
		return ""
	}
}

// list returns a field that is a list of words, or a text of words separated by spaces or commas,
// except within parentheses: "Bash(git add:*) Read".
func list(fields map[string]any, key, name string, wrong *problems) []string {
	switch value := fields[key].(type) {
	case nil:
		return nil
	case []any:
		words := make([]string, 0, len(value))
		for _, v := range value {
			if text := strings.TrimSpace(plain(v)); text != "" {
				words = append(words, text)
			} else {
				wrong.addf("%s must hold texts", name)
			}
		}

		return words
	case map[string]any:
		wrong.addf("%s must be a list, or a text", name)
		return nil
	default:
		return words(plain(value))
	}
}

func words(text string) []string {
	depth := 0

	return strings.FieldsFunc(text, func(r rune) bool {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		case ' ', ',', '\t', '\n':
			return depth <= 0
		}

		return false
	})
}
