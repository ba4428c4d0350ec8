package clients

import (
	"crypto/sha256"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestGuesses(t *testing.T) {
	t.Parallel()

	now := time.Now()
	g := NewGuesses(2, func() time.Time { return now })

	sum := func(text string) [sha256.Size]byte { return sha256.Sum256([]byte(text)) }
	ann, bob := "198.51.100.1/32", "198.51.100.2/32"

	g.Note(ann, sum("right"), true)

	for range 5 {
		g.Note(ann, sum("wrong"), false)
	}

	require.Zero(t, g.Wait(ann, sum("new")), "the same again is no new guess")
	g.Note(ann, sum("wrong too"), false)

	require.Equal(t, 30, g.Wait(ann, sum("new")))
	require.Zero(t, g.Wait(ann, sum("right")), "accepted before")
	require.Zero(t, g.Wait(ann, sum("wrong")), "refused before, and no secret any more")
	require.Zero(t, g.Wait(bob, sum("new")), "another client")

	now = now.Add(30 * time.Second)

	require.Zero(t, g.Wait(ann, sum("new")))

	for i := range maxRemembered {
		g.Note(strconv.Itoa(i), sum("x"), false)
	}

	require.LessOrEqual(t, len(g.left), maxRemembered)
	require.LessOrEqual(t, len(g.judged), maxRemembered)
}
