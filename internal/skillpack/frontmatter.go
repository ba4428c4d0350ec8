package skillpack

import (
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxDepth bounds how deep lists and maps of the front matter nest.
const maxDepth = 8

// readFrontMatter reads YAML into JSON values. It takes plain data only: no
// anchors, by which a small text unfolds into a large one, no types of its own,
// no name twice in one map.
func readFrontMatter(text string) (fields map[string]any, err error) {
	defer func() {
		// The YAML library has panicked on malformed text before.
		if p := recover(); p != nil {
			fields, err = nil, failf("the front matter is not valid YAML")
		}
	}()

	decoder := yaml.NewDecoder(strings.NewReader(text))

	var root yaml.Node
	switch err := decoder.Decode(&root); {
	case errors.Is(err, io.EOF):
		return nil, failf("the front matter is empty")
	case err != nil:
		return nil, failf("the front matter is not valid YAML: %s", yamlReason(err))
	}

	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, failf("the front matter must be one YAML document")
	}

	if root.Kind != yaml.DocumentNode || len(root.Content) != 1 || root.Content[0].Kind != yaml.MappingNode {
		return nil, failf("the front matter must have lines like \"name: my-skill\"")
	}

	var wrong problems

	value, _ := convert(root.Content[0], 1, &wrong).(map[string]any)

	return value, wrong.err()
}

// yamlReason returns the library's message without its own name. It holds line numbers
// of the front matter, which begins in line 2 of the file.
func yamlReason(err error) string {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if runes := []rune(text); len(runes) > 200 {
		text = string(runes[:200]) + "…"
	}

	return strings.ToValidUTF8(text, "�")
}

// convert gives a node as JSON values. Numbers stay as they are written, so that
// version 1.10 does not become 1.1.
func convert(n *yaml.Node, depth int, wrong *problems) any {
	// Lines are counted in the file, where the front matter begins in the second.
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
			wrong.addf("line %d: %s comes twice", key.Line+1, shown(key.Value))
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
		if strings.ContainsRune(n.Value, 0) { // as "\0", which the text of the file does not show
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

// maxExponent bounds the powers of ten of numbers; databases take no large ones.
const maxExponent = 1000

// absurd reports whether a number has so large an exponent that it is better kept as text.
func absurd(number string) bool {
	at := strings.IndexAny(number, "eE")
	if at < 0 {
		return false
	}

	exponent, err := strconv.Atoi(number[at+1:])

	return err != nil || exponent > maxExponent || exponent < -maxExponent
}
