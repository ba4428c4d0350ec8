package questions

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

func TestPolicyAnswer(t *testing.T) {
	t.Parallel()

	questions := json.RawMessage(`[{"question":"Which?","options":[{"label":"a"},{"label":"b"}]},{"question":"Why?","options":[]}]`)

	first, choose, set, guarded := domain.PolicyFirstOption, domain.PolicyChoose, domain.PolicyAnswer, "call_1"
	for name, c := range map[string]struct {
		question domain.Question
		want     string
	}{
		"the model chooses": {
			domain.Question{Questions: questions, DefaultPolicy: &choose},
			`{"answers":[],"answered_by":"default_policy","note":"` + chooseNote + `"}`,
		},
		"the first option": {
			domain.Question{Questions: questions, DefaultPolicy: &first},
			`{"answers":[{"question":"Which?","selected":["a"],"custom":""},{"question":"Why?","selected":[],"custom":""}],` +
				`"answered_by":"default_policy","note":"` + firstOptionNote + `"}`,
		},
		"the answer that was set": {
			domain.Question{Questions: questions, DefaultPolicy: &set},
			`{"answers":[{"question":"Which?","selected":["b"],"custom":""},{"question":"Why?","selected":[],"custom":"b"}],` +
				`"answered_by":"default_policy","note":"` + answerNote + `"}`,
		},
		"a permission request is denied": {
			domain.Question{
				Questions: json.RawMessage(`[{"question":"May it?","options":[{"label":"` + domain.PermissionAllowOnce + `"}]}]`),
				Guards:    &guarded, DefaultPolicy: &first,
			},
			`{"answers":[{"question":"May it?","selected":["` + domain.PermissionRefuse + `"],"custom":""}],` +
				`"answered_by":"default_policy","note":"` + deniedNote + `"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got, err := PolicyAnswer(c.question, "b")
			require.NoError(t, err)
			require.JSONEq(t, c.want, string(got))
		})
	}

	denied, err := PolicyAnswer(domain.Question{Questions: questions[:0], Guards: &guarded}, "")
	require.Error(t, err, string(denied))
}

// A denial by policy is read as one.
func TestPolicyAnswer_isNoPermission(t *testing.T) {
	t.Parallel()

	call := "call_1"

	var asked struct{ Questions json.RawMessage }
	require.NoError(t, json.Unmarshal(PermissionQuestion(call, "rm -r x", true), &asked))
	answer, err := PolicyAnswer(domain.Question{Questions: asked.Questions, Guards: &call}, "Allow")
	require.NoError(t, err)

	decision, _, _ := domain.PermissionVerdict(string(answer))
	require.Equal(t, domain.PermissionDeny, decision)
}
