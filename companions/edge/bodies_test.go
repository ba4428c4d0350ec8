package edge_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/companions/edge"
)

func open(bodies *edge.Bodies, text string) *edge.Body {
	return bodies.Open(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", strings.NewReader(text)))
}

// All bodies together are bounded, by what has come of them, until they are released.
func TestBodies_Open(t *testing.T) {
	t.Parallel()

	bodies := edge.NewBodies(10, 15, time.Minute)

	first := open(bodies, "0123456789")
	text, err := io.ReadAll(first)
	require.NoError(t, err)
	require.Equal(t, "0123456789", string(text))

	announced := open(bodies, "012345")
	second := open(bodies, "012345")
	_, err = io.ReadAll(second)
	require.ErrorIs(t, err, edge.ErrBusy)

	second.Release()
	first.Release()
	first.Release()

	text, err = io.ReadAll(announced)
	require.NoError(t, err)
	require.Equal(t, "012345", string(text))
	announced.Release()

	_, err = io.ReadAll(open(bodies, "0123456789a"))
	_, large := errors.AsType[*http.MaxBytesError](err)
	require.True(t, large, "%v", err)
}
