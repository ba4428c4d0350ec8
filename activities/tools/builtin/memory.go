package builtin

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"everloop/activities/tools"
	"everloop/domain"
)

//go:embed memory.md
var memoryDescription string

// Memories keep what agents want to know in later sessions.
type Memories interface {
	// CreateMemory keeps a memory; the same tool call again keeps no second one.
	CreateMemory(ctx context.Context, userID string, in domain.NewMemory) (domain.Memory, error)
	Memories(ctx context.Context, q domain.MemoryQuery) (page []domain.Memory, total int, err error)
	SetMemoryDisabled(ctx context.Context, userID string, id int64, disabled bool) (domain.Memory, error)
}

// MemoryTool gives the Memory tool to sessions that use memories; it is their
// Provider.
type MemoryTool struct{ memories Memories }

// NewMemoryTool makes the provider over the store.
func NewMemoryTool(m Memories) MemoryTool { return MemoryTool{m} }

// Tools implements Provider.
func (m MemoryTool) Tools(_ context.Context, s tools.Scope) []tools.Tool {
	if !s.Session.MemoryEnabled {
		return nil
	}

	tool := memoryTool
	tool.Run = func(ctx context.Context, c *tools.Call) (tools.Result, error) { return m.run(ctx, s, c) }

	return []tools.Tool{tool}
}

var memoryTool = must(tools.Prepare(tools.Tool{
	Name: "Memory", DisplayName: "Memory",
	Spec:      domain.ToolSpec{Name: "Memory", Description: memoryDescription, Parameters: tools.Parameters[memoryArguments]()},
	Executing: true, // tried again at no harm: a memory is written once for each call
	Check:     checkMemory,
	Summary:   tools.SummaryBy("action", "query", "topic"),
}))

func must(t tools.Tool, err error) tools.Tool {
	if err != nil {
		panic(err)
	}

	return t
}

type memoryArguments struct {
	Action      string            `json:"action" enum:"save|search|supersede|disable"`
	Content     string            `json:"content,omitempty" limits:"1..500"`
	ID          int64             `json:"id,omitempty" jsonschema:"The memory that is meant" limits:"1.."`
	Query       string            `json:"query,omitempty" limits:"..500"`
	Type        domain.MemoryType `json:"type,omitempty" jsonschema:"Default: experience" enum:"feedback|experience"`
	Topic       *string           `json:"topic,omitempty" limits:"..255"`
	SkillName   *string           `json:"skill_name,omitempty" limits:"..255"`
	WriteReason *string           `json:"write_reason,omitempty" limits:"1..500"`
}

func checkMemory(arguments json.RawMessage) string {
	in, err := tools.Decode[memoryArguments](arguments)
	switch {
	case err != nil:
		return "the arguments could not be read"
	case (in.Action == "save" || in.Action == "supersede") && strings.TrimSpace(tools.Clean(in.Content)) == "":
		return in.Action + " needs content"
	case (in.Action == "supersede" || in.Action == "disable") && in.ID == 0:
		return in.Action + " needs the id of a memory"
	default:
		return ""
	}
}

func (m MemoryTool) run(ctx context.Context, s tools.Scope, c *tools.Call) (tools.Result, error) {
	owner := s.Session.OwnerID

	in, err := tools.Decode[memoryArguments](c.Arguments)
	if err != nil {
		return tools.Result{}, err
	}

	var out string

	switch in.Action {
	case "search":
		out, err = m.search(ctx, owner, in.Query)
	case "disable":
		_, err = m.memories.SetMemoryDisabled(ctx, owner, in.ID, true)
		out = fmt.Sprintf("Memory %d is no longer used.", in.ID)
	default:
		out, err = m.save(ctx, s, c, in)
	}

	if words, ok := tools.Refusal(err); err != nil && ok {
		return *tools.Failed("%s", tools.Sentence(words)), nil
	}

	if err != nil {
		return *tools.Failed("The memories cannot be reached at the moment."), err
	}

	return tools.Result{Output: out}, nil
}

// save stores a memory. Where no user could be asked, one that is written after content
// from outside was read waits for a person to enable it.
func (m MemoryTool) save(ctx context.Context, s tools.Scope, c *tools.Call, in memoryArguments) (string, error) {
	if in.Type == "" {
		in.Type = domain.MemoryExperience
	}

	var after domain.ChatID
	if s.Headless {
		after = c.ChatID
	}

	made, err := m.memories.CreateMemory(ctx, s.Session.OwnerID, domain.NewMemory{
		DisabledAfter: after,
		Type:          in.Type,
		Content:       strings.TrimSpace(tools.Clean(in.Content)),
		Topic:         cleaned(in.Topic),
		SkillName:     cleaned(in.SkillName),
		WriteReason:   cleaned(in.WriteReason),
		SourceSession: string(c.Session.ID),
		Supersedes:    replaced(in),
		CallID:        c.ID,
	})
	if err != nil {
		return "", err
	}

	if made.Disabled {
		return fmt.Sprintf(
			"Memory %d is kept, but not used until a person enables it: this chat has read content from outside.",
			made.ID,
		), nil
	}

	if in.Action == "supersede" {
		return fmt.Sprintf("Memory %d is kept in place of %d.", made.ID, in.ID), nil
	}

	return fmt.Sprintf("Memory %d is kept.", made.ID), nil
}

const memoriesShown = 20

func (m MemoryTool) search(ctx context.Context, owner, query string) (string, error) {
	page, total, err := m.memories.Memories(
		ctx, domain.MemoryQuery{UserID: owner, Keyword: tools.Clean(query), Status: "active", Limit: memoriesShown},
	)
	if err != nil {
		return "", err
	}

	if len(page) == 0 {
		return "No memory holds that.", nil
	}

	var out strings.Builder
	for _, memory := range page {
		fmt.Fprintf(&out, "%d (%s, %s)", memory.ID, memory.Type, memory.CreatedAt.Format("2006-01-02"))

		if memory.Topic != nil {
			fmt.Fprintf(&out, " %s:", *memory.Topic)
		}

		fmt.Fprintf(&out, " %s\n", memory.Content)
	}

	if total > len(page) {
		fmt.Fprintf(&out, "… and %d more; search for something narrower.\n", total-len(page))
	}

	return out.String(), nil
}

// replaced returns the memory that a new one takes the place of; 0: none.
func replaced(in memoryArguments) int64 {
	if in.Action != "supersede" {
		return 0
	}

	return in.ID
}
