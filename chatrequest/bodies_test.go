package chatrequest_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/chatrequest"
	"everloop/domain"
)

// bodyCase is a body of testdata/bodies.json, which the tests of both edges read too.
type bodyCase struct {
	Name    string          `json:"name"`
	Body    json.RawMessage `json:"body"`
	Code    string          `json:"code"`    // empty: the body is valid
	Message string          `json:"message"` // *: any

	// Documented reports whether the schema of the OpenAPI document allows the body.
	Documented bool `json:"documented"`
}

func TestParseChat_bodies(t *testing.T) {
	t.Parallel()

	text, err := os.ReadFile("testdata/bodies.json")
	require.NoError(t, err)

	var cases []bodyCase
	require.NoError(t, json.Unmarshal(text, &cases))

	for _, test := range cases {
		t.Run(test.Name, func(t *testing.T) {
			t.Parallel()

			_, err := chatrequest.ParseChat(test.Body)
			if test.Code == "" {
				require.NoError(t, err)
				return
			}

			require.Error(t, err)
			refused := domain.AsError(err)
			require.Equal(t, domain.Invalid, refused.Kind)
			require.Equal(t, test.Code, refused.Code)
			require.Len(t, refused.Fields, 1)

			if test.Message != "*" {
				require.Equal(t, test.Message, refused.Message)
				require.Equal(t, test.Message, refused.Fields[0].Location+": "+refused.Fields[0].Message)
			}
		})
	}
}
