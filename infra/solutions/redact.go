package solutions

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// definition is the file that makes a directory a solution.
const definition = "solution.yaml"

// hiddenText replaces redacted values, as in the responses about tool servers.
const hiddenText = "********"

// publicServerFields are the fields of a tool server that every user may read; the
// others say how it is reached, and hold its secrets.
var publicServerFields = []string{"name", "preset", "transport", "tools", "timeout_s"}

// redacted returns solution.yaml as users may read it: unchanged, but for how the
// operator's tool servers are reached.
func redacted(text []byte) ([]byte, error) {
	var file yaml.Node
	if err := yaml.Unmarshal(text, &file); err != nil {
		return nil, err
	}

	if len(file.Content) == 0 || file.Content[0].Kind != yaml.MappingNode {
		return text, nil
	}

	hidden := false

	eachField(file.Content[0], func(name string, value *yaml.Node) {
		if name != "mcp_servers" || value.Kind == yaml.SequenceNode && len(value.Content) == 0 {
			return
		}

		hidden = true

		if value.Kind != yaml.SequenceNode {
			hide(value)
			return
		}

		for _, server := range value.Content {
			if server.Kind != yaml.MappingNode {
				hide(server)
			}

			eachField(server, func(name string, value *yaml.Node) {
				if !slices.Contains(publicServerFields, name) {
					hide(value)
				}
			})
			uncomment(server)
		}
	})

	if !hidden {
		return text, nil
	}

	return yaml.Marshal(&file)
}

// eachField visits the fields of a mapping.
func eachField(mapping *yaml.Node, visit func(name string, value *yaml.Node)) {
	if mapping.Kind != yaml.MappingNode {
		return
	}

	for i := 0; i+1 < len(mapping.Content); i += 2 {
		visit(mapping.Content[i].Value, mapping.Content[i+1])
	}
}

// hide replaces all that a node says, but for the names of its fields.
func hide(node *yaml.Node) {
	switch node.Kind {
	case yaml.MappingNode:
		eachField(node, func(_ string, value *yaml.Node) { hide(value) })
	case yaml.SequenceNode:
		for _, inner := range node.Content {
			hide(inner)
		}
	default:
		*node = yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: hiddenText, Style: yaml.DoubleQuotedStyle, Anchor: node.Anchor}
	}
}

// uncomment removes the comments of a node and of all in it.
func uncomment(node *yaml.Node) {
	node.HeadComment, node.LineComment, node.FootComment = "", "", ""
	for _, inner := range node.Content {
		uncomment(inner)
	}
}
