package chatrequest

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

func TestParseInboxAnswer(t *testing.T) {
	t.Parallel()

	answer, err := ParseInboxAnswer(json.RawMessage(`{"selections":{"0":[1]},"custom":{"1":"mine"}}`))
	require.NoError(t, err)
	require.Equal(t, &domain.Answer{Selections: map[string][]int{"0": {1}}, Custom: map[string]string{"1": "mine"}}, answer)

	for _, odd := range []string{
		`{}`, `{"selections":{"0":["red"]}}`, `{"selections":{"0":[]}}`, `{"custom":{"x":"y"}}`, `{"custom":{"0":5}}`,
	} {
		_, err := ParseInboxAnswer(json.RawMessage(odd))
		require.True(t, domain.HasCode(err, domain.CodeInvalidAnswer), odd)
	}
}
