package modelcall

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"everloop/activities/prompt"
	"everloop/domain"
	"everloop/domain/modelretry"
)

// maxRefusedCalls bounds the model calls of one turn while tool servers are left out.
const maxRefusedCalls = 4

var (
	// aboutTools matches refusals of a tool or of its schema.
	aboutTools = regexp.MustCompile(`(?i)grammar|schema|sampler|\btools?\b|tools?[._\[]|function|mcp__`)
	// aboutGrammar matches what servers say that break instead of refusing a schema.
	aboutGrammar = regexp.MustCompile(`(?i)grammar|schema|sampler|tool parser|mcp__`)
	// toolIndexes match the place of a tool in the request. Some servers group the tools.
	toolIndexes = []*regexp.Regexp{
		regexp.MustCompile(`(?i)function_?declarations[.\[](\d+)`),
		regexp.MustCompile(`(?i)\btools[.\[](\d+)`),
	}
	// toolNames match what may be the name of a tool of a tool server.
	toolNames = regexp.MustCompile(`mcp__[A-Za-z0-9_-]+`)
)

// refusesTools reports whether a call may have failed because of the tools in its request.
func refusesTools(err error) bool {
	fault, known := errors.AsType[*domain.ModelError](err)
	if !known {
		return false
	}

	switch fault.Status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return fault.Fault == domain.FaultRefused && aboutTools.MatchString(fault.Words())
	case 0, http.StatusInternalServerError, http.StatusNotImplemented:
		return aboutGrammar.MatchString(fault.Words())
	default:
		return false
	}
}

// toolServer is a tool server whose tools are offered.
type toolServer struct {
	name  string // as in the names of its tools
	tools string // a digest
}

// serverOf returns the tool server of a tool; empty: the tool is built in.
func serverOf(tool string) string {
	rest, provided := strings.CutPrefix(tool, "mcp__")
	if !provided {
		return ""
	}

	server, _, _ := strings.Cut(rest, "__")

	return server
}

// toolServers returns the tool servers of offered tools, in their order.
func toolServers(offered []domain.ToolSpec) []toolServer {
	var servers []toolServer

	digests := map[string]string{}

	for _, spec := range offered {
		server := serverOf(spec.Name)
		if server == "" {
			continue
		}

		if digests[server] == "" {
			servers = append(servers, toolServer{name: server})
		}

		sum := sha256.Sum256([]byte(digests[server] + spec.Name + "\x00" + string(spec.Parameters)))
		digests[server] = hex.EncodeToString(sum[:])
	}

	for i, s := range servers {
		servers[i].tools = digests[s.name]
	}

	return servers
}

// withoutServers returns the offered tools without those of some tool servers.
func withoutServers(offered []domain.ToolSpec, servers []toolServer) []domain.ToolSpec {
	return slices.DeleteFunc(slices.Clone(offered), func(spec domain.ToolSpec) bool {
		server := serverOf(spec.Name)
		return server != "" && slices.ContainsFunc(servers, func(s toolServer) bool { return s.name == server })
	})
}

// acceptedTools returns the offered tools without the tool servers that the model server has
// refused before.
func acceptedTools(offered []domain.ToolSpec, limits []domain.ModelLimit) []domain.ToolSpec {
	return withoutServers(offered, slices.DeleteFunc(toolServers(offered), func(s toolServer) bool {
		return !slices.ContainsFunc(limits, func(l domain.ModelLimit) bool {
			return l.Kind == domain.LimitToolServer && l.Subject == s.name && l.Digest == s.tools
		})
	}))
}

// named returns the tool servers of the tools that a refusal names, by their name or by
// their place in the request.
func named(refusal error, offered []domain.ToolSpec) []toolServer {
	fault, known := errors.AsType[*domain.ModelError](refusal)
	if !known {
		return nil
	}

	words, servers := fault.Words(), map[string]bool{}

	for _, name := range toolNames.FindAllString(words, -1) {
		servers[serverOf(name)] = true
	}

	for _, index := range toolIndexes {
		if len(servers) > 0 {
			break
		}

		for _, match := range index.FindAllStringSubmatch(words, -1) {
			if n, err := strconv.Atoi(match[1]); err == nil && n < len(offered) {
				servers[serverOf(offered[n].Name)] = true
			}
		}
	}

	return slices.DeleteFunc(toolServers(offered), func(s toolServer) bool { return !servers[s.name] })
}

// answerWithoutServers calls the model again without the tool servers whose tools it names
// in its refusal, then without all of them. Those that were left out of the call that was
// answered are recorded, so that later prompts leave them out. Where that does not help, the
// fault is the first one.
func (m *modelCall) answerWithoutServers(
	ctx context.Context, in prompt.Input, reply domain.Reply, refusal error,
) (domain.Reply, error) {
	all := toolServers(in.Tools)

	var left []toolServer // out of the request

	for calls, last := 1, refusal; len(left) < len(all); calls++ {
		request := in
		request.Tools = withoutServers(in.Tools, left)

		suspected := named(last, request.Tools)
		if left = append(left, suspected...); len(suspected) == 0 || calls == maxRefusedCalls-1 {
			left = all
		}

		m.Logger.Warn("calling the model again without tool servers", "model", m.model.ID, "session_id", m.key.SessionID,
			"chat_id", m.key.ChatID, "servers", serverNames(left), "error", last)

		request.Tools = withoutServers(in.Tools, left)

		without, err := m.answer(ctx, prompt.Build(request))
		if refusesTools(err) && !m.stream.Shown() {
			last = err
			continue
		}

		if err == nil {
			m.notes = append(m.notes, domain.Block{Type: domain.BlockSystemNote, Content: domain.CleanText(fmt.Sprintf(
				"The model server refused tools of tool servers (%s). This conversation goes on without the tool servers %s "+
					"for a day, or until their tools change.", modelretry.Reason(refusal), serverNames(left),
			))})
			err = m.keepRefused(ctx, left)
		}

		return without, err
	}

	return reply, refusal
}

// keepRefused records that the model server does not take the tools of tool servers.
func (m *modelCall) keepRefused(ctx context.Context, servers []toolServer) error {
	limits := make([]domain.ModelLimit, len(servers))
	for i, s := range servers {
		limits[i] = domain.ModelLimit{
			Model: m.model.ID, SessionID: m.key.SessionID, Kind: domain.LimitToolServer, Subject: s.name, Digest: s.tools,
		}
	}

	return m.Store.KeepModelLimits(ctx, limits...)
}

func serverNames(servers []toolServer) string {
	names := make([]string, len(servers))
	for i, s := range servers {
		names[i] = s.name
	}

	slices.SortFunc(names, cmp.Compare)

	return strings.Join(names, ", ")
}

// noteTools notes, once in a conversation, which tools of tool servers it is not offered.
func (m *modelCall) noteTools() {
	for _, note := range m.Plans.Tools.Notes(m.scope) {
		block := domain.Block{Type: domain.BlockSystemNote, Content: domain.CleanText(note)}

		noted := slices.ContainsFunc(m.transcript.Turns, func(turn domain.TranscriptTurn) bool {
			return slices.ContainsFunc(turn.Blocks, func(b domain.Block) bool { return b.Type == block.Type && b.Content == block.Content })
		})
		if !noted {
			m.notes = append(m.notes, block)
		}
	}
}
