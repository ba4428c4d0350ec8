package api_test

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

// TestSendChat_bodies sends every body of the parser's table, and holds the schema
// of the document to what is accepted.
func TestSendChat_bodies(t *testing.T) {
	t.Parallel()

	text, err := os.ReadFile("../chatrequest/testdata/bodies.json")
	require.NoError(t, err)

	var cases []struct {
		Name, Code, Message string
		Body                json.RawMessage
		Documented          bool
	}
	require.NoError(t, json.Unmarshal(text, &cases))

	c, err := theContract()
	require.NoError(t, err)
	compiling.Lock()
	documented, err := c.schemas.Compile(documentURL + "#/components/schemas/ChatBody")
	compiling.Unlock()
	require.NoError(t, err)

	w := newWorld(t)
	path := "/api/sessions/" + w.session(`{}`) + "/chat"

	for _, test := range cases {
		t.Run(test.Name, func(t *testing.T) {
			value, err := jsonschema.UnmarshalJSON(bytes.NewReader(test.Body))
			require.NoError(t, err)

			if err := documented.Validate(value); test.Documented {
				require.NoError(t, err)
			} else {
				require.Error(t, err)
			}

			got := w.do("POST", path, w.ann, string(test.Body))
			if test.Code == "" {
				require.Equal(t, 202, got.status, got.text)
				return
			}

			refused := got.problem(422)
			require.Equal(t, test.Code, refused["code"], got.text)

			if test.Message != "*" {
				require.Equal(t, test.Message, refused["detail"])
			}
		})
	}
}
