package builtin

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"everloop/activities/tools"
	"everloop/domain"
	"everloop/domain/skill"
)

//go:embed skill.md
var skillDescription string

// SkillTool names the tool that loads skills.
const SkillTool = "Skill"

// Bounds of what the model reads about skills before it loads one, in characters:
// of all descriptions together, and of one when they are too long.
const (
	maxOffered     = 16_000
	maxOfferedEach = 240
	maxSkillEnum   = 100 // names that the schema lists
	maxFilesShown  = 60
	maxPrepared    = 256 // lists of skills whose tool is kept ready
)

// Skills finds the skills of sessions.
type Skills interface {
	// Offer gives what the model of a session can load, in a stable order. It is
	// asked at each step and is quick. An error comes with what could be found all
	// the same.
	Offer(ctx context.Context, session domain.Session) ([]skill.Offer, error)
	// Offers reports whether Offer gives anything.
	Offers(ctx context.Context, session domain.Session) (bool, error)
	// Load reads a skill and places its package in the workspace.
	Load(ctx context.Context, session domain.Session, name string) (skill.Loaded, error)
}

// skillProvider gives each session the Skill tool with its own skills.
type skillProvider struct {
	skills Skills
	logger *slog.Logger

	mu       sync.Mutex
	prepared map[[sha256.Size]byte]tools.Tool // by list of skills
}

// NewSkillTool provides the Skill tool. Sessions without skills do not get it.
func NewSkillTool(skills Skills, logger *slog.Logger) tools.Provider {
	return &skillProvider{skills: skills, logger: logger, prepared: map[[sha256.Size]byte]tools.Tool{}}
}

// Tools implements Provider.
func (p *skillProvider) Tools(ctx context.Context, scope tools.Scope) []tools.Tool {
	offers, err := p.skills.Offer(ctx, scope.Session)
	if err != nil {
		p.logger.Warn("skills of a session are missing", "session_id", scope.Session.ID, "error", err)
	}

	if len(offers) == 0 {
		return nil
	}

	tool, err := p.prepare(offers)
	if err != nil {
		p.logger.Error("the Skill tool cannot be offered", "session_id", scope.Session.ID, "error", err)
		return nil
	}

	session := scope.Session
	tool.Run = func(ctx context.Context, c *tools.Call) (tools.Result, error) { return p.run(ctx, session, c) }

	return []tools.Tool{tool}
}

// Outline implements Outliner.
func (p *skillProvider) Outline(ctx context.Context, scope tools.Scope) []tools.Tool {
	some, err := p.skills.Offers(ctx, scope.Session)
	if err != nil {
		p.logger.Warn("skills of a session are missing", "session_id", scope.Session.ID, "error", err)
	}

	if !some {
		return nil
	}

	return []tools.Tool{skillOutline}
}

// skillOutline is the tool without a list of skills.
var skillOutline = must(tools.Prepare(newSkill("", json.RawMessage(`{"type": "object"}`))))

func newSkill(list string, parameters json.RawMessage) tools.Tool {
	return tools.Tool{
		Name: SkillTool, DisplayName: "Skill",
		Spec:      domain.ToolSpec{Name: SkillTool, Description: skillDescription + "\n" + list, Parameters: parameters},
		Executing: true, // it acts on nothing: placing a package twice places the same
		Summary:   tools.SummaryBy("name"),
	}
}

// prepare makes the tool for a list of skills, once.
func (p *skillProvider) prepare(offers []skill.Offer) (tools.Tool, error) {
	var offered []byte
	for _, o := range offers {
		offered = fmt.Appendf(offered, "%q %q %t %t\n", o.Name, o.Description, o.Primary, o.OfSolution)
	}

	key := sha256.Sum256(offered)

	p.mu.Lock()
	defer p.mu.Unlock()

	if tool, ok := p.prepared[key]; ok {
		return tool, nil
	}

	list := skillList(offers)

	schema, err := skillParameters(offers)
	if err != nil {
		return tools.Tool{}, err
	}

	tool, err := tools.Prepare(newSkill(list, schema))
	if err != nil {
		return tools.Tool{}, err
	}

	if len(p.prepared) >= maxPrepared {
		clear(p.prepared) // those in use come back at once
	}

	p.prepared[key] = tool

	return tool, nil
}

// skillList lists the skills for the tool's description.
func skillList(offers []skill.Offer) string {
	var list strings.Builder

	write := func(most int) {
		list.Reset()
		list.WriteString("The skills of this session:\n")

		for _, o := range offers {
			mark := ""

			switch {
			case o.Primary:
				mark = " (this session was made for this skill: load it before anything else)"
			case o.OfSolution:
				mark = " (chosen for the work of this session: load it before you begin with what it is for)"
			}

			fmt.Fprintf(&list, "- %s%s: %s\n", o.Name, mark, tools.Cut(tools.OneLine(tools.Clean(o.Description)), most))
		}
	}
	if write(maxOffered); tools.Length(list.String()) > maxOffered {
		write(maxOfferedEach)
	}

	return list.String()
}

// skillParameters returns the schema of the arguments, with the names that there are
// unless they are very many.
func skillParameters(offers []skill.Offer) (json.RawMessage, error) {
	name := map[string]any{"type": "string", "minLength": 1, "maxLength": 64, "description": "The skill to load"}

	if len(offers) <= maxSkillEnum {
		names := make([]string, len(offers))
		for i, o := range offers {
			names[i] = o.Name
		}

		name["enum"] = names
	}

	return json.Marshal(map[string]any{
		"type": "object",
		"properties": map[string]any{
			"name": name,
			"arguments": map[string]any{
				"description": "What the skill is to work on", "type": []string{"string", "object", "array", "number", "boolean", "null"},
			},
		},
		"required": []string{"name"}, "additionalProperties": false,
	})
}

func (p *skillProvider) run(ctx context.Context, session domain.Session, c *tools.Call) (tools.Result, error) {
	in, err := tools.Decode[struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}](c.Arguments)
	if err != nil {
		return tools.Result{}, err
	}

	skill, err := p.skills.Load(ctx, session, in.Name)
	if words, ok := tools.Refusal(err); err != nil && ok {
		return *tools.Failed("%s", tools.Sentence(words)), nil
	}

	if err != nil {
		return *tools.Failed("Skill %s cannot be read at the moment.", tools.Quote(in.Name)), err
	}

	return tools.Result{Output: describeSkill(skill, c.Session.Env, plainArguments(in.Arguments))}, nil
}

// describeSkill writes what the model reads of a loaded skill.
func describeSkill(skill skill.Loaded, env map[string]string, arguments string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "Skill %s", skill.Name)

	if skill.Version != "" {
		fmt.Fprintf(&out, " (version %s)", tools.OneLine(tools.Clean(skill.Version)))
	}

	fmt.Fprintf(&out, ". Its package is in %s, and paths in its text are relative to that directory.\n", skill.Dir)

	if skill.Changed {
		fmt.Fprintf(
			&out,
			"This skill has changed since it was last loaded or installed here: what you read of it before no longer counts, and neither "+
				"do its files. Its digest is now %s.\n",
			skill.Digest,
		)
	}

	var missing []string

	for _, name := range skill.RequiredEnv {
		if _, set := env[name]; !set {
			missing = append(missing, tools.OneLine(tools.Clean(name)))
		}
	}

	if len(missing) > 0 {
		fmt.Fprintf(
			&out, "It needs variables that are not set in this session: %s. Say so to the user when you cannot go on without them.\n",
			strings.Join(missing, ", "),
		)
	}

	listFiles(&out, skill.Files)

	body, used := skill.Body, false
	if strings.Contains(body, "$ARGUMENTS") {
		body, used = strings.ReplaceAll(body, "$ARGUMENTS", arguments), true
	}

	fmt.Fprintf(&out, "\n<skill name=%q>\n%s\n</skill>\n", skill.Name, strings.TrimSpace(body))

	if arguments != "" && !used {
		fmt.Fprintf(&out, "\nApply it to: %s\n", arguments)
	}

	return out.String()
}

func listFiles(out *strings.Builder, files []skill.File) {
	const document = "SKILL.md"

	var names []string

	for _, f := range files {
		if f.Path != document {
			names = append(names, tools.Clean(f.Path))
		}
	}

	if len(names) == 0 {
		return
	}

	more := ""
	if len(names) > maxFilesShown {
		more = fmt.Sprintf(" and %d more", len(names)-maxFilesShown)
		names = names[:maxFilesShown]
	}

	fmt.Fprintf(out, "Files beside SKILL.md: %s%s.\n", strings.Join(names, ", "), more)
}

// plainArguments returns a text as it is, and anything else as JSON.
func plainArguments(raw json.RawMessage) string {
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return ""
	}

	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}

	return string(raw)
}
