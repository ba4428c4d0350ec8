//go:build linux

package history_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/history"
)

func TestCheckoutShowsAndChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.chat("first", w.writes("a.txt", "1"))
	two := w.chat("second", w.writes("b.txt", "22"), w.writes("a.txt", "changed"))
	require.NoError(t, w.service.Settled(t.Context(), w.session.ID))
	w.write("later.txt", "x")
	w.chat("third", w.writes("c.txt", "3"))
	files, texts := w.files(), w.messages()
	moves := len(w.checkpoints())

	before, err := w.service.Checkout(t.Context(), w.session.ID, w.before(two.TurnID).ID, history.CheckoutBefore)
	require.NoError(t, err)
	require.Len(t, before.Turns, 3)
	require.Equal(t, []history.FileDifference{{Path: "a.txt", Change: "unchanged", Size: 1}}, before.Files)
	require.EqualValues(t, 22, before.Tokens)

	end, err := w.service.Checkout(t.Context(), w.session.ID, w.before(two.TurnID).ID, history.CheckoutTurnEnd)
	require.NoError(t, err)
	require.Len(t, end.Turns, 7, "to the end of the chat that the turn started")
	require.Equal(t, []history.FileDifference{
		{Path: "a.txt", Change: "modified", Size: 7}, {Path: "b.txt", Change: "created", Size: 2},
	}, end.Files)

	require.Equal(t, files, w.files())
	require.Equal(t, texts, w.messages())
	require.Len(t, w.checkpoints(), moves)
}

func TestTheTreeHoldsEveryBranch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.chat("first", w.writes("a.txt", "1"))
	two := w.chat("second")
	w.rewind(two.TurnID)
	tree, err := w.service.Tree(t.Context(), w.session.ID)
	require.NoError(t, err)
	require.Len(t, tree.Nodes, 5)
	require.Len(t, tree.Branches, 2)
	require.Equal(t, tree.Nodes[2].ID, *tree.HeadID, "an empty branch stands where it forked")
	require.True(t, tree.Nodes[2].IsHead)

	three := w.chat("third", w.writes("c.txt", "3"))
	tree, err = w.service.Tree(t.Context(), w.session.ID)
	require.NoError(t, err)
	require.Len(t, tree.Nodes, 8)

	byID := map[domain.TurnID]history.Node{}
	for _, n := range tree.Nodes {
		byID[n.ID] = n
	}

	fork := tree.Nodes[2]
	require.ElementsMatch(t, []domain.TurnID{two.TurnID, three.TurnID}, fork.Children)
	require.Equal(t, fork.ID, *byID[three.TurnID].ParentID)
	require.Nil(t, byID[one.TurnID].ParentID)
	require.True(t, byID[one.TurnID].OnActiveBranch)
	require.False(t, byID[two.TurnID].OnActiveBranch)
	require.True(t, byID[three.TurnID].OnActiveBranch)
	require.Equal(t, "second", byID[two.TurnID].Label)
	require.Equal(t, []string{"Bash"}, byID[byID[three.TurnID].Children[0]].ToolNames)
	require.NotNil(t, byID[three.TurnID].CheckpointID)
	require.Equal(t, []int{0, 1, 2, 2, 3, 2, 3, 4}, steps(tree.Nodes))
	require.Equal(t, "rewind", tree.Branches[1].Reason)
	require.Nil(t, tree.Branches[0].BaseID)
	require.Equal(t, tree.Branches[0].ID, *tree.Branches[1].BaseID)
	require.Equal(t, fork.ID, *tree.Branches[1].ForkedFromID)
	require.Equal(t, tree.Nodes[7].ID, *tree.Branches[1].HeadID)
	require.True(t, tree.Branches[1].Active)
}

func steps(nodes []history.Node) (all []int) {
	for _, n := range nodes {
		all = append(all, n.Step)
	}

	return all
}

func TestBranchesAreHeldAgainstEachOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.chat("first", w.writes("a.txt", "1"))
	two := w.chat("second", w.writes("b.txt", "2"))
	moved := w.rewind(two.TurnID)
	w.chat("other way", w.writes("a.txt", "other"), w.writes("c.txt", "3"))
	got, err := w.service.Compare(t.Context(), w.session.ID, moved.PreviousBranchID, moved.BranchID)
	require.NoError(t, err)
	require.EqualValues(t, 3, got.ForkSequence)
	require.Equal(t, []int{3, 4}, []int{got.Base.Turns, got.Other.Turns})
	require.Equal(t, []int{2, 3}, []int{got.Base.Steps, got.Other.Steps})
	require.EqualValues(t, 30, got.Base.Usage.InputTokens)
	require.EqualValues(t, 60, got.Other.Usage.InputTokens)
	require.Len(t, got.Turns, 7)
	require.Equal(t, []history.FileDifference{
		{Path: "a.txt", Change: "modified", Size: 5}, {Path: "b.txt", Change: "deleted"}, {Path: "c.txt", Change: "created", Size: 1},
	}, got.Files)
	_, err = w.service.Compare(t.Context(), w.session.ID, "none", moved.BranchID)
	require.True(t, domain.HasCode(err, "branch_not_found"), "%v", err)
	same, err := w.service.Compare(t.Context(), w.session.ID, moved.BranchID, moved.BranchID)
	require.NoError(t, err)
	require.Empty(t, same.Turns)
	require.Empty(t, same.Files)
}
