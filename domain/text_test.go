package domain_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"everloop/domain"
)

func TestUnstorableIn(t *testing.T) {
	t.Parallel()

	for document, want := range map[string][]string{
		`{"a":"\u0000"}`:                        {"body.a"},
		`"\ud800"`:                              {"body"},
		`"\udc00\ud800"`:                        {"body"},
		`"\ud800\ud800"`:                        {"body"},
		`"\ud800x"`:                             {"body"},
		`"\ud83d\ude00"`:                        nil,
		`"\\ud800 \\\\u0000 \"\u00e9"`:          nil,
		`"\\\ud800"`:                            {"body"},
		"\"\xff\"":                              {"body"},
		`{"a":[1,{"b":[true,null,"\uDFFF"]}]}`:  {"body.a[1].b[2]"},
		`{"a":{"\ud800":1},"b":"\ud800","c":2}`: {"body.a", "body.b"},
		`{"\u0000":["\u0000"]}`:                 {"body", "body.\x00[0]"},
		`[[],{},"x",["\u0000"]]`:                {"body[3][0]"},
		`{"a":"\u0000`:                          nil,
		``:                                      nil,
	} {
		require.Equal(t, want, domain.UnstorableIn("body", []byte(document)), document)
	}

	deep := strings.Repeat(`{"`+strings.Repeat("a", 1000)+`":`, 9000) + `"\u0000"` + strings.Repeat("}", 9000)
	require.Len(t, domain.UnstorableIn("body", []byte(deep)), 1)
	require.Len(t, domain.UnstorableIn("body", []byte(`[`+strings.Repeat(`"\u0000",`, 1000)+`1]`)), 20, "the first ones")
}

// Text that PostgreSQL does not take is the fault of the client, also where a store
// forgets to say so.
func TestAsError_textThatPostgreSQLDoesNotTake(t *testing.T) {
	t.Parallel()

	for code, want := range map[string]domain.Kind{
		"22021": domain.Invalid, "22P05": domain.Invalid, "22P02": domain.Invalid, "22012": domain.Internal, "42601": domain.Internal,
	} {
		err := errors.Join(errors.New("x"), fmt.Errorf("write: %w", &pgconn.PgError{Code: code}))
		require.Equal(t, want, domain.AsError(err).Kind, code)
		require.Equal(t, want == domain.Internal, domain.NewFailure(err).Retryable, code)
	}
}
