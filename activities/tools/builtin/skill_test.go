package builtin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/activities/tools"
	"everloop/domain"
	"everloop/domain/skill"
)

// shelf has skills in memory.
type shelf struct {
	offers []skill.Offer
	loaded skill.Loaded
	err    error
	asked  []string
}

func (s *shelf) Offer(context.Context, domain.Session) ([]skill.Offer, error) {
	return s.offers, s.err
}

func (s *shelf) Offers(context.Context, domain.Session) (bool, error) {
	return len(s.offers) > 0, s.err
}

func (s *shelf) Load(_ context.Context, session domain.Session, name string) (skill.Loaded, error) {
	s.asked = append(s.asked, session.OwnerID+" "+name)
	return s.loaded, s.err
}

func skillSet(t *testing.T, s *shelf, scope tools.Scope) *tools.Toolset {
	t.Helper()

	registry, err := New(tools.Deps{})
	require.NoError(t, err)
	registry.Provide(NewSkillTool(s, slog.New(slog.DiscardHandler)))

	scope.Session.OwnerID = "ann"

	return registry.For(t.Context(), scope)
}

func specOf(set *tools.Toolset, name string) (domain.ToolSpec, bool) {
	for _, spec := range set.Offered() {
		if spec.Name == name {
			return spec, true
		}
	}

	return domain.ToolSpec{}, false
}

func TestSkill_offeredWithSessionSkills(t *testing.T) {
	t.Parallel()

	s := &shelf{
		offers: []skill.Offer{
			{Name: "main", Description: "First\nof all", Primary: true},
			{Name: "other", Description: "Second"},
			{Name: "third", Description: "Third", OfSolution: true},
		},
	}
	spec, offered := specOf(skillSet(t, s, tools.Scope{Mode: domain.ModeExecuting}), SkillTool)
	require.True(t, offered)
	require.Contains(
		t, spec.Description, "- main (this session was made for this skill: load it before anything else): First of all\n- other: Second\n",
	)
	require.Contains(t, string(spec.Parameters), `"enum":["main","other","third"]`)
	require.Contains(t, spec.Description, "- third (chosen for the work of this session")

	_, offered = specOf(skillSet(t, &shelf{}, tools.Scope{Mode: domain.ModeExecuting}), SkillTool)
	require.False(t, offered, "no skills, no tool")
	_, offered = specOf(skillSet(t, s, tools.Scope{Mode: domain.ModePlanning}), SkillTool)
	require.False(t, offered)

	disabled := tools.Scope{Mode: domain.ModeExecuting, Session: domain.Session{DisableTools: []string{SkillTool}}}
	_, offered = specOf(skillSet(t, s, disabled), SkillTool)
	require.False(t, offered)

	s.err = errors.New("the database is away")
	_, offered = specOf(skillSet(t, s, tools.Scope{Mode: domain.ModeExecuting}), SkillTool)
	require.True(t, offered, "what could be found is offered all the same")
}

func TestSkill_manySkillsFitDescription(t *testing.T) {
	t.Parallel()

	s := &shelf{}
	for i := range 100 {
		s.offers = append(s.offers, skill.Offer{Name: fmt.Sprintf("skill-%d", i), Description: strings.Repeat("x", 1024)})
	}

	spec, _ := specOf(skillSet(t, s, tools.Scope{Mode: domain.ModeExecuting}), SkillTool)
	require.Less(t, tools.Length(spec.Description), 30_000)
	require.Contains(t, spec.Description, "- skill-99: xxx")
	require.Contains(t, string(spec.Parameters), "skill-99")

	s.offers = append(s.offers, skill.Offer{Name: "one-more", Description: "y"})
	spec, _ = specOf(skillSet(t, s, tools.Scope{Mode: domain.ModeExecuting}), SkillTool)
	require.NotContains(t, string(spec.Parameters), "enum")
}

func TestSkill_loads(t *testing.T) {
	t.Parallel()

	s := &shelf{
		offers: []skill.Offer{{Name: "forms", Description: "d"}},
		loaded: skill.Loaded{
			Name: "forms", Version: "1.2.0", Dir: ".skills/forms", Digest: "sha256:1", Body: "\n# Forms\n\nDo it.\n",
			Files: []skill.File{{Path: "SKILL.md"}, {Path: "scripts/run.sh"}}, RequiredEnv: []string{"SET", "MISSING"},
		},
	}
	set := skillSet(t, s, tools.Scope{Mode: domain.ModeExecuting})
	run := func(arguments string) tools.Result {
		t.Helper()

		tool, checked, refused := set.Admit(SkillTool, arguments)
		if refused != nil {
			return *refused
		}

		result, err := tool.Run(
			t.Context(), &tools.Call{ID: "call_1", Arguments: checked, Session: tools.SessionView{Env: map[string]string{"SET": ""}}},
		)
		require.NoError(t, err)

		return result
	}
	result := run(`{"name":"forms","arguments":"a.pdf"}`)
	require.False(t, result.IsError)
	require.Equal(t, `Skill forms (version 1.2.0). Its package is in .skills/forms, and paths in its text are relative to that directory.
It needs variables that are not set in this session: MISSING. Say so to the user when you cannot go on without them.
Files beside SKILL.md: scripts/run.sh.

<skill name="forms">
# Forms

Do it.
</skill>

Apply it to: a.pdf
`, result.Output)
	require.Equal(t, []string{"ann forms"}, s.asked)

	require.Contains(t, run(`{"name":"forms","arguments":{"a":1}}`).Output, `Apply it to: {"a":1}`)
	require.NotContains(t, run(`{"name":"forms"}`).Output, "Apply")

	s.loaded.Body, s.loaded.Changed = "Work on $ARGUMENTS.", true
	result = run(`{"name":"forms","arguments":"b.pdf"}`)
	require.Contains(t, result.Output, "Work on b.pdf.")
	require.NotContains(t, result.Output, "Apply it to")
	require.Contains(t, result.Output, "has changed since it was last loaded")

	require.True(t, run(`{"name":"unknown"}`).IsError)
	require.True(t, run(`{}`).IsError)
	require.True(t, run(`{"name":"forms","file":"x"}`).IsError)

	s.err = domain.Newf(domain.NotFound, skill.CodeNotFound, "skill forms does not exist")
	result = run(`{"name":"forms"}`)
	require.True(t, result.IsError)
	require.Equal(t, "skill forms does not exist.", result.Output)

	s.err = errors.New("the disk is gone")
	tool, checked, _ := set.Admit(SkillTool, `{"name":"forms"}`)
	result, err := tool.Run(t.Context(), &tools.Call{Arguments: checked})
	require.Error(t, err, "operators hear of it")
	require.True(t, result.IsError)
	require.NotContains(t, result.Output, "disk")
}
