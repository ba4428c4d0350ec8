package skillpack

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxDepth is the maximum nesting of lists and maps in the front matter.
const maxDepth = 8

// readFrontMatter converts YAML to JSON values. It accepts plain data only: no anchors, which can
// expand a small text to a large one, no custom types, no duplicate keys. Unquoted texts that
// need quotes in YAML, such as a description with a colon, are accepted with a warning.
func readFrontMatter(text string) (fields map[string]any, warnings []string, err error) {
	root, err := parseYAML(text)
	if err != nil {
		quoted, lines := quoteTexts(text)

		repaired, still := parseYAML(quoted)
		if still != nil {
			return nil, nil, err
		}

		root = repaired

		for _, line := range lines {
			warnings = append(
				warnings,
				fmt.Sprintf("line %d: the text must be in quotes: it has characters that mean something in YAML", line),
			)
		}
	}

	if root.Kind != yaml.DocumentNode || len(root.Content) != 1 || root.Content[0].Kind != yaml.MappingNode {
		return nil, nil, failf("the front matter must have lines like \"name: my-skill\"")
	}

	var wrong problems

	value, _ := convert(root.Content[0], 1, &wrong).(map[string]any)

	return value, warnings, wrong.err()
}

func parseYAML(text string) (root *yaml.Node, err error) {
	defer func() {
		// The YAML library can panic on malformed text.
		if p := recover(); p != nil {
			root, err = nil, failf("the front matter is not valid YAML")
		}
	}()

	decoder := yaml.NewDecoder(strings.NewReader(text))

	root = &yaml.Node{}
	switch err := decoder.Decode(root); {
	case errors.Is(err, io.EOF):
		return nil, failf("the front matter is empty")
	case err != nil:
		return nil, failf("the front matter is not valid YAML: %s", yamlReason(err))
	}

	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, failf("the front matter must be one YAML document")
	}

	return root, nil
}

// quotable matches a line with a key and an unmarked scalar.
var quotable = regexp.MustCompile(`^( *[A-Za-z][A-Za-z0-9_-]*:[ \t]+)([^\s'"\[{|>&*!#].*)$`)

// quoteTexts quotes texts that are not valid YAML, each including its folded continuation lines.
// lines are their line numbers in the file.
func quoteTexts(text string) (quoted string, lines []int) {
	var out []string

	all := strings.Split(text, "\n")
	for i := 0; i < len(all); {
		end := i + 1
		for end < len(all) && indent(all[end]) > indent(all[i]) {
			end++
		}

		parts := quotable.FindStringSubmatch(all[i])
		if parts == nil {
			out = append(out, all[i])
			i++

			continue
		}

		if _, err := parseYAML(strings.Join(all[i:end], "\n")); err == nil {
			out = append(out, all[i:end]...)
			i = end

			continue
		}

		folded := strings.TrimSpace(parts[2])
		for _, more := range all[i+1 : end] {
			folded += " " + strings.TrimSpace(more)
		}

		out = append(out, parts[1]+"'"+strings.ReplaceAll(folded, "'", "''")+"'")
		lines = append(lines, i+2)
		i = end
	}

	return strings.Join(out, "\n"), lines
}

// indent returns the number of leading spaces of a line; -1 for a blank line.
func indent(line string) int {
	text := strings.TrimLeft(line, " ")
	if text == "" {
		return -1
	}

	return len(line) - len(text)
}

var (
	lineNumber = regexp.MustCompile(`\bline (\d+)`)
	// ofParser matches messages in which the library counts lines from 0.
	ofParser = regexp.MustCompile(`did not find expected (key|node content|',' or|'-' indicator|<)`)
)

// yamlReason returns the library's message without the library's name, and with line numbers of
// the file, in which the front matter starts at line 2.
func yamlReason(err error) string {
	shift := 1
	if ofParser.MatchString(err.Error()) {
		shift = 2
	}

	text := lineNumber.ReplaceAllStringFunc(strings.TrimPrefix(err.Error(), "yaml: "), func(found string) string {
		n, _ := strconv.Atoi(strings.TrimPrefix(found, "line "))
		return fmt.Sprintf("line %d", n+shift)
	})
	if runes := []rune(text); len(runes) > 200 {
		text = string(runes[:200]) + "…"
	}

	return strings.ToValidUTF8(text, "�")
}

// convert returns a node as JSON values. Numbers keep their source form, so that version 1.10
// does not become 1.1.
func convert(n *yaml.Node, depth int, wrong *problems) any {
	// The front matter starts at line 2 of the file.
	line := n.Line + 1
	switch {
	case depth > maxDepth:
		wrong.addf("line %d: the front matter nests too deep", line)
		return nil
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		wrong.addf("line %d: anchors and aliases are not allowed", line)
		return nil
	}

	switch n.Kind {
	case yaml.ScalarNode:
		return scalar(n, line, wrong)
	case yaml.SequenceNode:
		if n.Tag != "!!seq" {
			wrong.addf("line %d: the type %s is not allowed", line, shown(n.Tag))
		}

		list := make([]any, len(n.Content))
		for i, item := range n.Content {
			list[i] = convert(item, depth+1, wrong)
		}

		return list
	case yaml.MappingNode:
		if n.Tag != "!!map" {
			wrong.addf("line %d: the type %s is not allowed", line, shown(n.Tag))
		}

		return mapping(n, depth, wrong)
	default:
		wrong.addf("line %d: this is not understood", line)
		return nil
	}
}

func mapping(n *yaml.Node, depth int, wrong *problems) any {
	fields := make(map[string]any, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode || key.Anchor != "" || key.Tag == "!!merge" || key.Tag == "!!binary" {
			wrong.addf("line %d: a name must be a plain word", key.Line+1)
			continue
		}

		if _, twice := fields[key.Value]; twice {
			wrong.addf("line %d: %s is duplicated", key.Line+1, shown(key.Value))
			continue
		}

		if strings.ContainsRune(key.Value, 0) {
			wrong.addf("line %d: a name holds a NUL character", key.Line+1)
			continue
		}

		fields[key.Value] = convert(value, depth+1, wrong)
	}

	return fields
}

func scalar(n *yaml.Node, line int, wrong *problems) any {
	switch n.Tag {
	case "!!str", "!!timestamp":
		if strings.ContainsRune(n.Value, 0) { // for example "\0", which is invisible in the file
			wrong.addf("line %d: a text holds a NUL character", line)
		}

		return n.Value
	case "!!null":
		return nil
	case "!!bool":
		return strings.EqualFold(n.Value, "true") || strings.EqualFold(n.Value, "yes") || strings.EqualFold(n.Value, "on")
	case "!!int", "!!float":
		if json.Valid([]byte(n.Value)) && !absurd(n.Value) {
			return json.Number(n.Value)
		}

		return n.Value // 0x10, .inf, 1_000: JSON has no such numbers
	default:
		wrong.addf("line %d: the type %s is not allowed", line, shown(n.Tag))
		return nil
	}
}

// maxExponent is the maximum decimal exponent of numbers; databases reject larger ones.
const maxExponent = 1000

// absurd reports whether a number's exponent is so large that it is stored as text.
func absurd(number string) bool {
	at := strings.IndexAny(number, "eE")
	if at < 0 {
		return false
	}

	exponent, err := strconv.Atoi(number[at+1:])

	return err != nil || exponent > maxExponent || exponent < -maxExponent
}
