package app

import (
	"everloop/activities/background"
	"everloop/service/board"
	"everloop/service/work"
)

// newBoard builds the service of production workspaces.
func (b *backend) newBoard(chats board.Chats) (*board.Service, error) {
	return board.New(board.Config{Store: b.DB, Runs: b.Runs, Chats: chats, Agents: b.agents, Logger: b.logger})
}

// boardWork is what a worker does for issue runs: their activities, and the repair of what
// crashes left behind.
func (b *backend) boardWork() (*background.IssueRuns, *work.IssueRuns, error) {
	chats, err := b.newChats()
	if err != nil {
		return nil, nil, err
	}

	board, err := b.newBoard(chats)
	if err != nil {
		return nil, nil, err
	}

	repair, err := work.NewIssueRuns(b.DB, board)

	return &background.IssueRuns{Board: board}, repair, err
}
