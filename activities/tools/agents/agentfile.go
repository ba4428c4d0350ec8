package agents

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"everloop/activities/tools"
	"everloop/domain"
)

// AgentDir holds, in a workspace, one file for each further type of sub-agent:
// front matter with name, description, tools and model, and below it the prompt.
const AgentDir = ".agents/agents"

// What a workspace may hold of types; the agent itself can write there.
const (
	maxAgentFiles       = 50
	maxAgentFile        = 64 << 10 // bytes
	maxAgentHead        = 8 << 10  // bytes of front matter
	maxAgentDescription = 2000
	maxAgentTools       = 100
)

var agentName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// readAgentFiles reads the types that a workspace holds. What is wrong with one
// is said in words and keeps no other from being used.
func readAgentFiles(ctx context.Context, workspaces tools.Workspaces, session tools.SessionView) agentFiles {
	found := agentFiles{read: time.Now()}
	if workspaces == nil {
		return found
	}

	files, err := workspaces.Open(ctx, session)
	if err != nil {
		return found // the tools that use the workspace will say so
	}
	defer files.Close()

	if info, err := files.Stat(AgentDir); err != nil || !info.IsDir {
		return found
	}

	paths, more := agentPaths(ctx, files)
	if more {
		found.problems = append(
			found.problems, fmt.Sprintf("%s holds more than %d files, the others are left out", AgentDir, maxAgentFiles),
		)
	}

	for _, file := range paths {
		agent, err := readAgentFile(files, file)
		switch {
		case err != nil:
			found.problems = append(found.problems, fmt.Sprintf("%s: %s", tools.Cut(tools.OneLine(tools.Clean(file)), 200), err))
		case slices.ContainsFunc(found.types, func(t domain.AgentType) bool { return t.Name == agent.Name }):
			found.problems = append(
				found.problems,
				fmt.Sprintf("%s: the name %s is taken by another file", tools.Cut(tools.OneLine(tools.Clean(file)), 200), agent.Name),
			)
		default:
			found.types = append(found.types, agent)
		}
	}

	return found
}

// agentPaths lists the files of types in the order of their names, no deeper
// than the directory itself.
func agentPaths(ctx context.Context, files tools.Files) (paths []string, more bool) {
	seen := 0
	_ = files.Walk(ctx, AgentDir, func(info tools.FileInfo) error {
		if seen++; seen > 20*maxAgentFiles {
			more = true
			return fs.SkipAll
		}

		switch {
		case info.Path == AgentDir:
			return nil
		case info.IsDir:
			return fs.SkipDir
		case path.Ext(info.Path) != ".md":
			return nil
		case len(paths) == maxAgentFiles:
			more = true
			return fs.SkipAll
		}

		paths = append(paths, info.Path)

		return nil
	})

	return paths, more
}

func readAgentFile(files tools.Files, name string) (domain.AgentType, error) {
	file, info, err := files.Read(name)
	if err != nil {
		return domain.AgentType{}, errors.New("it cannot be read as a file")
	}
	defer file.Close()

	if info.Size > maxAgentFile {
		return domain.AgentType{}, fmt.Errorf("it is larger than %d bytes", maxAgentFile)
	}

	content, err := io.ReadAll(io.LimitReader(file, maxAgentFile+1))
	switch {
	case err != nil:
		return domain.AgentType{}, errors.New("it cannot be read")
	case len(content) > maxAgentFile:
		return domain.AgentType{}, fmt.Errorf("it is larger than %d bytes", maxAgentFile)
	}

	return parseAgentFile(content)
}

// parseAgentFile reads a type from its file.
func parseAgentFile(content []byte) (agent domain.AgentType, err error) {
	defer func() {
		// The YAML library has panicked on malformed text before.
		if p := recover(); p != nil {
			agent, err = domain.AgentType{}, errors.New("its front matter is not valid YAML")
		}
	}()

	if !utf8.Valid(content) || bytes.IndexByte(content, 0) >= 0 {
		return agent, errors.New("it is not UTF-8 text")
	}

	text := strings.ReplaceAll(strings.TrimPrefix(string(content), "\uFEFF"), "\r\n", "\n")
	rest, ok := strings.CutPrefix(text, "---\n")

	head, body, closed := strings.Cut("\n"+rest, "\n---\n")
	if !closed {
		head, closed = strings.CutSuffix("\n"+rest, "\n---")
	}

	switch {
	case !ok || !closed:
		return agent, errors.New("it must begin with front matter between two lines of three hyphens")
	case len(head) > maxAgentHead:
		return agent, fmt.Errorf("its front matter is larger than %d bytes", maxAgentHead)
	}

	var fields struct {
		Name        string    `yaml:"name"`
		Description string    `yaml:"description"`
		Tools       yaml.Node `yaml:"tools"`
		Model       string    `yaml:"model"`
	}
	if err := yaml.Unmarshal([]byte(head), &fields); err != nil {
		return agent, errors.New("its front matter is not valid YAML with name, description, tools and model")
	}

	agent = domain.AgentType{
		Name: fields.Name, Description: tools.OneLine(tools.Clean(fields.Description)), Prompt: strings.TrimSpace(tools.Clean(body)),
		Model: strings.TrimSpace(fields.Model),
	}
	switch {
	case !agentName.MatchString(agent.Name):
		return agent, errors.New("name must be 1 to 64 letters, digits, hyphens and underscores")
	case agent.Description == "":
		return agent, errors.New("description is missing")
	case tools.Length(agent.Description) > maxAgentDescription:
		return agent, fmt.Errorf("description is longer than %d characters", maxAgentDescription)
	case tools.Length(agent.Model) > 200:
		return agent, errors.New("model is longer than 200 characters")
	}

	agent.Tools, err = agentTools(fields.Tools)

	return agent, err
}

// agentTools reads the list of tools: a YAML list, or names between commas. Left
// out it means all of them.
func agentTools(node yaml.Node) ([]string, error) {
	var names []string
	switch {
	case node.Kind == 0 || node.Tag == "!!null":
		return nil, nil
	case node.Kind == yaml.ScalarNode:
		names = strings.Split(node.Value, ",")
	case node.Kind != yaml.SequenceNode || node.Decode(&names) != nil:
		return nil, errors.New("tools must be a list of names")
	}

	if len(names) > maxAgentTools {
		return nil, fmt.Errorf("tools lists more than %d names", maxAgentTools)
	}

	list := make([]string, 0, len(names))
	for _, name := range names {
		if name = strings.TrimSpace(name); name == "" || len(name) > 200 {
			return nil, errors.New("tools must be a list of names")
		}

		list = append(list, tools.OneLine(tools.Clean(name)))
	}

	return list, nil
}
