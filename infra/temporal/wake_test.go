package temporal_test

import (
	"testing"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/mocks"

	"everloop/domain"
	"everloop/infra/temporal"
)

// An open run is woken by one request, and a run that is not there is started by one.
// What the database suggests may be wrong by then: the other way is tried next, and a run
// that opens and closes all the time is given up.
func TestRuns_Wake_triesTheLikelyFirst(t *testing.T) {
	t.Parallel()

	const start, signal = "ExecuteWorkflow", "SignalWorkflow"

	started, gone := serviceerror.NewWorkflowExecutionAlreadyStarted("", "", ""), serviceerror.NewNotFound("")
	for name, c := range map[string]struct {
		open    bool
		answers []error
		want    []string
		fails   string
	}{
		"open":                          {open: true, answers: []error{nil}, want: []string{signal}},
		"closed meanwhile":              {open: true, answers: []error{gone, nil}, want: []string{signal, start}},
		"closed, and started by others": {open: true, answers: []error{gone, started, nil}, want: []string{signal, start, signal}},
		"not open":                      {answers: []error{nil}, want: []string{start}},
		"opened meanwhile":              {answers: []error{started, nil}, want: []string{start, signal}},
		"opens and closes": {
			answers: []error{started, gone, started, gone, started, gone},
			want:    []string{start, signal, start, signal, start, signal}, fails: "opens and closes",
		},
		"not reached": {open: true, answers: []error{serviceerror.NewUnavailable("away")}, want: []string{signal}, fails: "away"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var (
				engine mocks.Client
				asked  []string
			)

			answer := func(method string) func(mock.Arguments) {
				return func(mock.Arguments) { asked = append(asked, method) }
			}

			for i, err := range c.answers {
				switch c.want[i] {
				case start:
					engine.On(start, mock.Anything, mock.Anything, mock.Anything, mock.Anything).Run(answer(start)).Return(nil, err).Once()
				case signal:
					engine.On(signal, mock.Anything, mock.Anything, mock.Anything, mock.Anything, mock.Anything).
						Run(answer(signal)).Return(err).Once()
				}
			}

			err := temporal.Runs{Client: &engine}.Wake(t.Context(), domain.SessionRun{SessionID: "s", OwnerID: "owner", Open: c.open})
			if c.fails == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.fails)
			}

			require.Equal(t, c.want, asked)
		})
	}
}
