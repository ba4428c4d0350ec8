package temporal_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/mocks"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/domain/history"
	"everloop/domain/operator"
	"everloop/domain/transfer"
	"everloop/infra/temporal"
	"everloop/internal/durable"
)

// subjects know the subject of all work by its kind and id.
type subjects struct{}

func (subjects) Subject(_ context.Context, kind, id string) (durable.Attributes, error) {
	return durable.Attributes{OwnerID: "owner of " + kind + " " + id, SolutionID: "solution", ParentRun: "parent"}, nil
}

// Administrators find runs of every kind by their owner.
func TestRuns_startWithTheOwner(t *testing.T) {
	t.Parallel()

	for kind, start := range map[string]func(ctx context.Context, r temporal.Runs) error{
		operator.RunKindChat: func(ctx context.Context, r temporal.Runs) error {
			return r.Wake(ctx, domain.SessionRun{SessionID: "s", OwnerID: "owner"})
		},
		operator.RunKindTask: func(ctx context.Context, r temporal.Runs) error {
			return r.StartTask(ctx, contract.TaskInput{TaskID: "t", SessionID: "s", OwnerID: "owner"})
		},
		operator.RunKindCompaction: func(ctx context.Context, r temporal.Runs) error {
			return r.StartCompaction(ctx, domain.CompactionRun{ID: "k", SessionID: "s", OwnerID: "owner"})
		},
		operator.RunKindReplay: func(ctx context.Context, r temporal.Runs) error { return r.StartReplay(ctx, "s", "owner") },
		operator.RunKindDeletion: func(ctx context.Context, r temporal.Runs) error {
			return r.StartDeletion(ctx, domain.DeletedSession{SessionID: "s", OwnerID: "owner"})
		},
		operator.RunKindHistory: func(ctx context.Context, r temporal.Runs) error {
			return r.StartMove(ctx, history.Operation{ID: "o", SessionID: "s", OwnerID: "owner"})
		},
		operator.RunKindImport: func(ctx context.Context, r temporal.Runs) error {
			return r.StartImport(ctx, transfer.Import{SessionID: "s", OwnerID: "owner"})
		},
		operator.RunKindSchedule: func(ctx context.Context, r temporal.Runs) error { return r.ResumeScheduledRun(ctx, "r") },
		operator.RunKindIssue:    func(ctx context.Context, r temporal.Runs) error { return r.StartIssueRun(ctx, "r") },
		operator.RunKindDAG:      func(ctx context.Context, r temporal.Runs) error { return r.StartDAGRun(ctx, "solution", "r") },
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()

			var started client.StartWorkflowOptions

			keep := func(args mock.Arguments) {
				for _, arg := range args {
					if options, is := arg.(client.StartWorkflowOptions); is {
						started = options
					}
				}
			}

			engine := &mocks.Client{}
			engine.On("ExecuteWorkflow", mock.Anything, mock.Anything, mock.Anything, mock.Anything).Run(keep).Return(nil, nil)
			engine.On("SignalWithStartWorkflow", mock.Anything, mock.Anything, mock.Anything, mock.Anything, mock.Anything, mock.Anything,
				mock.Anything).Run(keep).Return(nil, nil)
			engine.On("SignalWorkflow", mock.Anything, mock.Anything, mock.Anything, mock.Anything, mock.Anything).Return(nil)
			require.NoError(t, start(t.Context(), temporal.Runs{Client: engine, Subjects: subjects{}}))

			want := "owner"
			if kind == operator.RunKindSchedule || kind == operator.RunKindIssue || kind == operator.RunKindDAG {
				want = "owner of " + kind + " r"
			}

			owner, _ := started.TypedSearchAttributes.GetKeyword(durable.OwnerID)
			require.Equal(t, want, owner)

			marked, _ := started.TypedSearchAttributes.GetKeyword(durable.Kind)
			require.Equal(t, kind, marked)

			if kind != operator.RunKindChat { // the caller knows what its session works for
				parent, _ := started.TypedSearchAttributes.GetKeyword(durable.ParentRun)
				require.Equal(t, "parent", parent)
			}

			require.Equal(t, len(durable.AttributeKeys), started.TypedSearchAttributes.Size(), "it lacks an attribute")
		})
	}
}
