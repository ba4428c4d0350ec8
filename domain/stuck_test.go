package domain_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

func TestRepeats(t *testing.T) {
	t.Parallel()

	turn := func(arguments, result string) domain.TranscriptTurn {
		return domain.TranscriptTurn{
			Role:  domain.RoleAssistant,
			Calls: []domain.ToolCall{{ToolName: "Bash", Arguments: arguments, Result: result}},
		}
	}
	again := []domain.RequestedCall{{Name: "Bash", Arguments: `{"command": "make", "timeout": 5}`}}
	same := turn(`{"timeout":5,"command":"make"}`, "failed")

	user := domain.TranscriptTurn{Role: domain.RoleUser}
	for name, c := range map[string]struct {
		turns []domain.TranscriptTurn
		want  int
	}{
		"nothing yet":         {nil, 0},
		"only now":            {[]domain.TranscriptTurn{user}, 0},
		"three times":         {[]domain.TranscriptTurn{user, same, same, same}, 3},
		"another result ends": {[]domain.TranscriptTurn{same, turn(`{"timeout":5,"command":"make"}`, "7 %"), same}, 1},
		"another call ends":   {[]domain.TranscriptTurn{same, same, turn(`{"command":"ls"}`, "failed")}, 0},
		"a message ends":      {[]domain.TranscriptTurn{same, user, same}, 1},
	} {
		require.Equal(t, c.want, domain.Repeats(c.turns, again), name)
	}
}
