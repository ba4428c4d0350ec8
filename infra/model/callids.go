package model

import (
	"crypto/sha256"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"

	"everloop/domain"
)

// callIDs assigns the ids of tool calls in one request. A server's id is sent back unchanged. A
// missing id, or a duplicate of an earlier call in the request, is replaced by an id of the same
// shape. The ids are deterministic, so that servers can reuse a prompt's prefix.
type callIDs struct {
	sent   map[string]string // by the call's own id
	used   map[string]bool
	sample string // the server's first id; empty: none
	count  int    // number of calls so far
}

// newCallIDs assigns an id to every call of the messages.
func newCallIDs(messages []domain.PromptMessage) *callIDs {
	c := &callIDs{sent: map[string]string{}, used: map[string]bool{}}

	var (
		replaced  []domain.PromptCall
		positions []int
	)

	for _, m := range messages {
		for _, call := range m.Calls {
			switch id := call.ServerID; {
			case id == "" || c.used[id]:
				replaced, positions = append(replaced, call), append(positions, c.count)
			default:
				c.sent[call.ID], c.used[id] = id, true
				if c.sample == "" {
					c.sample = id
				}
			}

			c.count++
		}
	}

	for i, call := range replaced {
		id := c.replacement(call, positions[i])
		c.sent[call.ID], c.used[id] = id, true
	}

	return c
}

// of returns the request's id of the call with an id of Everloop's.
func (c *callIDs) of(own string) string {
	if id, known := c.sent[own]; known {
		return id
	}

	return own // a result without a call: the server reports the error
}

// numbered is the id format of Kimi K2: the tool, and the number of the call in the conversation.
var numbered = regexp.MustCompile(`^functions\.[^:]+:[0-9]+$`)

// Limits of a replacement: longer ids are not imitated, and a shape with too few distinct ids is
// abandoned after some attempts.
const (
	maxImitated   = 128
	imitatedTries = 32
)

// replacement returns a new id for the call at a position in the request.
func (c *callIDs) replacement(call domain.PromptCall, position int) string {
	if numbered.MatchString(c.sample) {
		for n := position; ; n++ {
			if id := "functions." + call.Name + ":" + strconv.Itoa(n); !c.used[id] {
				return id
			}
		}
	}

	draw := rand.New(rand.NewChaCha8(sha256.Sum256([]byte(call.ID))))

	if c.sample != "" && len(c.sample) <= maxImitated {
		for range imitatedTries {
			if id := imitate(c.sample, draw); !c.used[id] {
				return id
			}
		}
	}

	for {
		if id := alphanumeric(draw); !c.used[id] {
			return id
		}
	}
}

const (
	digits  = "0123456789"
	hexes   = "0123456789abcdef"
	lowers  = "abcdefghijklmnopqrstuvwxyz"
	letters = lowers + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

// alphanumeric returns an id that all tested servers accept: Mistral requires nine letters and
// digits.
func alphanumeric(draw *rand.Rand) string {
	return drawn(9, digits+letters, draw)
}

var segment = regexp.MustCompile(`[0-9A-Za-z]+`)

// imitate returns an id in the shape of the sample: each run of letters and digits is replaced by
// one of the same length and alphabet; leading words are preserved (call_…, chatcmpl-tool-…).
func imitate(sample string, draw *rand.Rand) string {
	runs := segment.FindAllStringIndex(sample, -1)
	if len(runs) == 0 {
		return alphanumeric(draw)
	}

	var out strings.Builder

	end := 0
	for i, run := range runs {
		out.WriteString(sample[end:run[0]])
		end = run[1]

		text := sample[run[0]:run[1]]
		if i < len(runs)-1 && !strings.ContainsAny(text, digits) {
			out.WriteString(text)
			continue
		}

		out.WriteString(drawn(len(text), alphabet(text), draw))
	}

	out.WriteString(sample[end:])

	return out.String()
}

// alphabet returns the smallest common alphabet that contains all characters of the text.
func alphabet(text string) string {
	only := func(set string) bool { return strings.Trim(text, set) == "" }
	switch {
	case only(digits):
		return digits
	case only(hexes):
		return hexes
	case only(lowers):
		return lowers
	case only(digits + lowers):
		return digits + lowers
	}

	return digits + letters
}

func drawn(n int, set string, draw *rand.Rand) string {
	out := make([]byte, n)
	for i := range out {
		out[i] = set[draw.IntN(len(set))]
	}

	return string(out)
}
