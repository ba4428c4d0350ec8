package schema

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestJSONAnswer_wrapped(t *testing.T) {
	t.Parallel()

	for _, in := range []string{
		"{\"a\":1}", "```json\n{\"a\":1}\n```", "```\n{\"a\":1}\n```\n", "~~~json\r\n{\"a\":1}\r\n~~~", "```JSON \n\n{\"a\":1}\n\n```",
		"<think>x {} y</think>\n{\"a\":1}", "<think>\n</think>\n\n```json\n{\"a\":1}\n```",
	} {
		got, err := JSONAnswer(in)
		require.NoError(t, err, in)
		require.JSONEq(t, `{"a":1}`, string(got), in)
	}

	for _, in := range []string{
		"Here: ```json\n{}\n```", "```json\n{}\n```\n```json\n{}\n```", "```json\n{}\n``` done", "<think>{}", "```json\n```", "",
		"```\n```json\n{}\n```\n```",
	} {
		_, err := JSONAnswer(in)
		require.Error(t, err, in)
	}
}
