package gateway

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBody_parseJSON_dropsRedirectingFields(t *testing.T) {
	t.Parallel()

	for in, want := range map[string]string{
		`{"model":"m","api_base":"http://10.0.0.1","x":1}`:                    `{"model":"m","x":1}`,
		`{"base_url":"http://10.0.0.1","Base_URL":"http://b","model":"m"}`:    `{"model":"m"}`,
		`{"model":"m","\u0061pi_base":"http://10.0.0.1","api_key":"k"}`:       `{"model":"m"}`,
		`{"model":"m","fallbacks":[{"api_base":"http://10.0.0.1"}]}`:          `{"model":"m"}`,
		`{"model": "m",  "unknown_field": {"api_base": "of a tool"}, "t": 1}`: `{"model": "m",  "unknown_field": {"api_base": "of a tool"}, "t": 1}`,
		`{"api_base":"http://10.0.0.1"}`:                                      `{}`,
	} {
		b := body{text: []byte(in)}
		require.Nil(t, b.parseJSON(), in)
		require.Equal(t, want, string(b.text), in)
	}
}
