package transfer_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"everloop/domain"
)

// odd are values that some author of an archive may have thought of.
var odd = []any{
	nil,
	true,
	-1,
	1.5,
	1e15,
	json.Number("99999999999999999999999"),
	"",
	"x",
	"\x00",
	"\u202e../..",
	"2026-13-45T00:00:00Z",
	"0001-01-01T00:00:00Z",
	strings.Repeat("long ", 4000),
	[]any{},
	map[string]any{},
	[]any{nil},
	[]any{map[string]any{"type": "text"}},
}

// places lists where a value stands in a JSON value.
func places(v any, at []string, found *[][]string) {
	*found = append(*found, at)

	switch v := v.(type) {
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}

		slices.Sort(names)

		for _, name := range names {
			places(v[name], append(slices.Clone(at), name), found)
		}
	case []any:
		for i := range v {
			places(v[i], append(slices.Clone(at), strconv.Itoa(i)), found)
		}
	}
}

// put returns the value with another one at a place.
func put(v any, at []string, value any) any {
	if len(at) == 0 {
		return value
	}

	switch v := v.(type) {
	case map[string]any:
		v[at[0]] = put(v[at[0]], at[1:], value)
	case []any:
		i, _ := strconv.Atoi(at[0])
		v[i] = put(v[i], at[1:], value)
	}

	return v
}

// TestOddValuesAnywhere puts odd values into an archive, one at a time, wherever
// there is a value: it is refused for what it is, or makes a session that can be
// read and exported again.
func TestOddValuesAnywhere(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	whole := h.export(h.furnish())
	all := os.Getenv("EVERLOOP_ALL_ODD") != ""

	for _, name := range []string{
		"manifest.json", "session.json", "history.json", "checkpoints.json", "turns.jsonl", "events.jsonl", "memories.json",
	} {
		lines := []string{""}
		if text := unpack(t, whole).content[name]; strings.HasSuffix(name, "l") {
			lines = strings.Split(strings.TrimSpace(text), "\n")
		} else {
			lines[0] = text
		}

		for n := range lines {
			var v any
			require.NoError(t, json.Unmarshal([]byte(lines[n]), &v))

			var found [][]string
			places(v, nil, &found)

			for _, at := range found {
				for _, value := range tried(all) {
					changed := slices.Clone(lines)
					changed[n] = oddly(t, lines[n], at, value)
					b := unpack(t, whole)

					b.content[name] = strings.Join(changed, "\n")
					if name != "manifest.json" {
						b.sign()
					}

					h.survives(b.pack(), fmt.Sprintf("%s:%d %s = %.40v", name, n, strings.Join(at, "."), value))
				}
			}
		}
	}
}

// tried returns the odd values to try at a place: now and then one of them, or all of
// them everywhere, which takes minutes.
func tried(all bool) []any {
	if all {
		return odd
	}

	const oneIn = 12
	if rand.IntN(oneIn) > 0 {
		return nil
	}

	return []any{odd[rand.IntN(len(odd))]}
}

func oddly(t *testing.T, line string, at []string, value any) string {
	t.Helper()

	var v any

	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	require.NoError(t, d.Decode(&v))
	data, err := json.Marshal(put(v, at, value))
	require.NoError(t, err)

	return string(data)
}

// survives imports an archive and looks at what became of it.
func (h *house) survives(data []byte, what string) {
	t := h.t
	t.Helper()
	preview, err := h.service.Preview(t.Context(), h.owner, bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err, what)

	id, _, err := h.load(data)
	if err != nil {
		kind := domain.AsError(err).Kind
		assert.True(t, kind == domain.Invalid || kind == domain.TooLarge, "%s: %v", what, err)

		return
	}

	require.True(t, preview.Compatible, "%s: %v", what, preview.Errors)

	session := h.session(id)
	require.NoError(t, h.db.Messages(t.Context(), id, nil, 0, func(domain.Turn) error { return nil }), what)
	again := h.export(session)
	preview, err = h.service.Preview(t.Context(), h.owner, bytes.NewReader(again), int64(len(again)))
	require.NoError(t, err, what)
	assert.True(t, preview.Compatible, "%s, exported again: %v", what, preview.Errors)
	require.NoError(t, h.db.DeleteSession(t.Context(), id))
}
