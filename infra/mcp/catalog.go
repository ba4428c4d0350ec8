package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"everloop/activities/tools"
	"everloop/domain"
	"everloop/domain/toolserver"
)

// Limits of a server's list of tools. Every tool is part of every prompt.
const (
	maxTools       = 128
	maxPages       = 64
	maxRawToolName = 256
	maxSchema      = 32 << 10  // bytes of one tool's schema
	maxSchemas     = 192 << 10 // bytes of all of a server's schemas and descriptions
)

// listTools reads all pages of a server's list of tools. The note describes the omitted tools
// with reasons; empty: none.
func listTools(ctx context.Context, from *connection) (list []toolserver.Tool, note string, err error) {
	c := collector{tasks: &from.tools}
	c.tasks.reset()

	params := &sdk.ListToolsParams{}
	for page := 1; ; page++ {
		result, err := from.session.ListTools(ctx, params)
		if err != nil {
			return nil, "", err
		}

		for _, tool := range result.Tools {
			c.add(tool)
		}

		switch {
		case result.NextCursor == "" || len(c.list) >= maxTools:
			return c.list, c.note(), nil
		case page == maxPages || result.NextCursor == params.Cursor:
			c.problem("the list has no end")
			return c.list, c.note(), nil
		}

		params.Cursor = result.NextCursor
	}
}

// collector collects tools up to the limits.
type collector struct {
	list     []toolserver.Tool
	tasks    *taskTools
	size     int
	left     int // number of omitted tools
	problems []string
}

func (c *collector) problem(format string, args ...any) {
	if len(c.problems) < 5 {
		c.problems = append(c.problems, fmt.Sprintf(format, args...))
	}
}

func (c *collector) note() string {
	if c.left > 0 {
		c.problem("%d tools are not offered", c.left)
	}

	return strings.Join(c.problems, "; ")
}

// add validates a tool and adds it to the list, or counts it as omitted and records the problem.
func (c *collector) add(tool *sdk.Tool) {
	if tool == nil {
		return
	}

	if len(c.list) >= maxTools {
		if c.left == 0 {
			c.problem("it has more than %d tools", maxTools)
		}

		c.left++

		return
	}

	made, err := describe(tool)
	if err == nil && slices.ContainsFunc(c.list, func(t toolserver.Tool) bool { return t.Name == made.Name }) {
		err = fmt.Errorf("it is there twice")
	}

	if err == nil && c.tasks.has(tool.Name) {
		err = fmt.Errorf("its server runs it only as a task, which is not supported")
	}

	size := len(made.Schema) + len(made.Description)
	if err == nil && c.size+size > maxSchemas {
		err = fmt.Errorf("all descriptions together are larger than %d KiB", maxSchemas>>10)
	}

	if err != nil {
		c.problem("tool %q: %s", cleanText(oneLine(tool.Name), 80), cleanText(oneLine(err.Error()), 200))
		c.left++

		return
	}

	c.size += size
	c.list = append(c.list, made)
}

// describe converts a tool of the SDK.
func describe(tool *sdk.Tool) (toolserver.Tool, error) {
	if tool.Name == "" || len(tool.Name) > maxRawToolName || strings.ContainsRune(tool.Name, 0) ||
		tool.Name != strings.ToValidUTF8(tool.Name, "") {
		return toolserver.Tool{}, fmt.Errorf("its name cannot be used")
	}

	schema, err := schemaOf(tool.InputSchema)
	if err != nil {
		return toolserver.Tool{}, err
	}

	made := toolserver.Tool{Name: tool.Name, Title: tool.Title, Description: cleanText(tool.Description, maxDescription), Schema: schema}
	if a := tool.Annotations; a != nil {
		made.ReadOnly, made.Idempotent = a.ReadOnlyHint, a.IdempotentHint
		if made.Title == "" {
			made.Title = a.Title
		}
	}

	made.Title = cleanText(oneLine(made.Title), maxTitle)
	if _, err := checker(made.Schema); err != nil {
		return toolserver.Tool{}, err
	}

	return made, nil
}

// schemaOf returns the schema of a tool's arguments in the form of model APIs: an object, without
// $schema.
func schemaOf(given any) (json.RawMessage, error) {
	schema, ok := given.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("its schema is not an object")
	}

	switch kind := schema["type"]; kind {
	case "object":
	case nil:
		schema["type"] = "object"
	default:
		return nil, fmt.Errorf("its arguments are not an object")
	}

	if dialect, _ := schema["$schema"].(string); !strings.Contains(dialect, "json-schema.org/") {
		delete(schema, "$schema")
	}

	withoutPatterns(schema)

	encoded, err := json.Marshal(schema)
	switch {
	case err != nil:
		return nil, err
	case len(encoded) > maxSchema:
		return nil, fmt.Errorf("its schema is larger than %d KiB", maxSchema>>10)
	case bytes.Contains(encoded, []byte(`\u0000`)):
		return nil, fmt.Errorf("its schema holds a NUL character")
	}

	return encoded, nil
}

// anyObject accepts every object, for schemas that only the server validates.
const anyObject = `{"type": "object"}`

// checker returns a tool that validates its arguments by the schema. A schema with references is
// validated by the server only, because validation with references may not terminate.
func checker(schema json.RawMessage) (prepared tools.Tool, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("its schema cannot be read: %v", p)
		}
	}()

	local := schema
	if bytes.Contains(schema, []byte(`Ref"`)) || bytes.Contains(schema, []byte(`$ref"`)) {
		local = json.RawMessage(anyObject)
	}

	prepared, err = tools.Prepare(tools.Tool{Spec: domain.ToolSpec{Parameters: local}})
	if err != nil {
		return prepared, fmt.Errorf("its schema is not valid: %w", err)
	}

	prepared.Spec.Parameters = schema

	return prepared, nil
}
