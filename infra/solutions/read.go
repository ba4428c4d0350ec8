package solutions

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"everloop/domain"
	"everloop/domain/toolserver"
)

// file is solution.yaml. Prompts may be written in files next to it instead:
// prompt.md for the solution, roles/<id>.md for a role, agents/<name>.md for a
// sub-agent.
type file struct {
	Name           string         `yaml:"name"`
	Version        string         `yaml:"version"`
	Description    string         `yaml:"description"`
	LayoutType     string         `yaml:"layout_type"`
	InitialMessage string         `yaml:"initial_message"`
	Data           map[string]any `yaml:"data"`
	Roles          []role         `yaml:"roles"`
	DisableTools   []string       `yaml:"disable_tools"`
	Agents         []agent        `yaml:"agents"`
	Permissions    []permission   `yaml:"permissions"`
	Budget         *budget        `yaml:"budget"`
	Compaction     *compaction    `yaml:"compaction"`
	MaxSteps       *int           `yaml:"max_steps"`
	ModelsAllowed  []string       `yaml:"models_allowed"`
	StuckAfter     *int           `yaml:"stuck_after"`
	Skills         []string       `yaml:"skills"`
	Servers        []server       `yaml:"mcp_servers"`
}

type role struct {
	ID           string   `yaml:"id"`
	Name         string   `yaml:"name"`
	Description  string   `yaml:"description"`
	DisableTools []string `yaml:"disable_tools"`
}

type agent struct {
	Name        string   `yaml:"name"`
	Description string   `yaml:"description"`
	Tools       []string `yaml:"tools"`
	Model       string   `yaml:"model"`
}

type permission struct {
	Tool     string                    `yaml:"tool"`
	Pattern  string                    `yaml:"pattern"`
	Decision domain.PermissionDecision `yaml:"decision"`
	Argument string                    `yaml:"argument"`
}

type budget struct {
	MaxTokens *int64   `yaml:"max_tokens"`
	MaxCost   *float64 `yaml:"max_cost"`
}

type compaction struct {
	Auto         *bool `yaml:"auto"`
	ThresholdPct *int  `yaml:"threshold_pct"`
	KeepLast     *int  `yaml:"keep_last"`
}

type server struct {
	Name      string            `yaml:"name"`
	Preset    string            `yaml:"preset"`
	Transport string            `yaml:"transport"`
	Command   string            `yaml:"command"`
	Args      []string          `yaml:"args"`
	Env       map[string]string `yaml:"env"`
	URL       string            `yaml:"url"`
	Headers   map[string]string `yaml:"headers"`
	Tools     []string          `yaml:"tools"`
	TimeoutS  *int              `yaml:"timeout_s"`
}

var (
	identifier = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$`)
	serverName = regexp.MustCompile(`^[a-z0-9_-]{1,64}$`) // it is part of its tools' names
)

// read reads one solution, whose id is the name of its directory.
func read(files fs.FS, id string) (domain.Solution, error) {
	var none domain.Solution
	if !identifier.MatchString(id) {
		return none, errors.New("its directory's name is not an identifier")
	}

	text, err := fs.ReadFile(files, "solution.yaml")
	if err != nil {
		return none, err
	}

	var f file

	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)

	if err := decoder.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return none, fmt.Errorf("solution.yaml: %s", strings.Join(strings.Fields(err.Error()), " ")) // several lines
	}

	if err := f.withinLimits(); err != nil {
		return none, fmt.Errorf("solution.yaml: %w", err)
	}

	if f.Name == "" {
		return none, errors.New("solution.yaml: name is missing")
	}

	if _, err := json.Marshal(f.Data); err != nil {
		return none, errors.New("solution.yaml: data holds what JSON cannot: its names must be texts, its numbers finite")
	}

	s := domain.Solution{
		ID:             id,
		Name:           f.Name,
		Version:        cmp.Or(f.Version, "1.0.0"),
		Description:    f.Description,
		LayoutType:     cmp.Or(f.LayoutType, "default"),
		InitialMessage: f.InitialMessage,
		Data:           f.Data,
		DisableTools:   f.DisableTools,
		MaxSteps:       value(f.MaxSteps, 0),
		ModelsAllowed:  f.ModelsAllowed,
		StuckAfter:     value(f.StuckAfter, 0),
		Skills:         f.Skills,
		Budget:         (*domain.Budget)(f.Budget),
		Compaction:     f.Compaction.policy(),
	}
	if s.Data == nil {
		s.Data = map[string]any{}
	}

	if s.Prompt, err = prompt(files, "prompt.md"); err != nil {
		return none, err
	}

	for _, r := range f.Roles {
		if !identifier.MatchString(r.ID) {
			return none, fmt.Errorf("solution.yaml: role id %q is not an identifier", r.ID)
		}

		text, err := prompt(files, "roles/"+r.ID+".md")
		if err != nil {
			return none, err
		}

		s.Roles = append(
			s.Roles,
			domain.BizRole{ID: r.ID, Name: cmp.Or(r.Name, r.ID), Description: r.Description, Prompt: text, DisableTools: r.DisableTools},
		)
	}

	for _, a := range f.Agents {
		if !identifier.MatchString(a.Name) || a.Description == "" {
			return none, fmt.Errorf("solution.yaml: agent %q needs an identifier as its name, and a description", a.Name)
		}

		text, err := prompt(files, "agents/"+a.Name+".md")
		if err != nil {
			return none, err
		}

		s.Agents = append(
			s.Agents, domain.AgentType{Name: a.Name, Description: a.Description, Prompt: text, Tools: a.Tools, Model: a.Model},
		)
	}

	for i, p := range f.Permissions {
		if p.Tool == "" {
			return none, fmt.Errorf("solution.yaml: permissions[%d].tool is missing", i)
		}

		switch p.Decision {
		case domain.PermissionAllow, domain.PermissionAsk, domain.PermissionDeny:
		default:
			return none, fmt.Errorf("solution.yaml: a permission's decision is allow, ask or deny, not %q", p.Decision)
		}

		if _, err := domain.NewNetworkRule(p.Pattern, p.Decision); p.Tool == domain.NetworkTool && p.Pattern != "" && err != nil {
			return none, fmt.Errorf("solution.yaml: permissions[%d].pattern: %w", i, err)
		}

		s.Permissions = append(s.Permissions, domain.PermissionRule{
			Tool: p.Tool, Pattern: p.Pattern, Argument: p.Argument, Decision: p.Decision,
		})
	}

	for _, m := range f.Servers {
		if m.Preset != "" && m.Transport == "" {
			m.Transport = toolserver.Stdio
		}

		if !serverName.MatchString(m.Name) || m.Transport != toolserver.Stdio && m.Transport != toolserver.HTTP {
			return none, fmt.Errorf(
				"solution.yaml: MCP server %q needs a name of a to z, 0 to 9, _ and - and the transport stdio or http", m.Name,
			)
		}

		if m.Transport == toolserver.Stdio && m.Command == "" && m.Preset == "" || m.Transport == toolserver.HTTP && m.URL == "" {
			return none, fmt.Errorf("solution.yaml: MCP server %q needs a command for stdio, or a url for http", m.Name)
		}

		made := domain.MCPServer{
			Name:      m.Name,
			Preset:    m.Preset,
			Transport: m.Transport,
			Command:   m.Command,
			Args:      m.Args,
			Env:       m.Env,
			URL:       m.URL,
			Headers:   m.Headers,
			Tools:     m.Tools,
			TimeoutS:  value(m.TimeoutS, 0),
			Enabled:   true,
		}
		if field, why := toolserver.PresetFault(made); field != "" {
			return none, fmt.Errorf("solution.yaml: MCP server %q: %s %s", m.Name, field, why)
		}

		s.MCPServers = append(s.MCPServers, made)
	}

	return s, nil
}

// prompt reads a prompt's file; without one there is nothing to say.
func prompt(files fs.FS, name string) (string, error) {
	text, err := fs.ReadFile(files, name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}

	return string(bytes.TrimSpace(text)), err
}

// policy returns the solution's compaction; what it leaves out is as everywhere.
func (c *compaction) policy() *domain.CompactionPolicy {
	if c == nil {
		return nil
	}

	everywhere := domain.DefaultCompaction

	return &domain.CompactionPolicy{
		Auto: value(c.Auto, everywhere.Auto), ThresholdPct: value(c.ThresholdPct, everywhere.ThresholdPct),
		KeepLast: value(c.KeepLast, everywhere.KeepLast),
	}
}

// value returns what a field says, otherwise what it means when it is left out.
func value[T any](given *T, otherwise T) T {
	if given == nil {
		return otherwise
	}

	return *given
}
