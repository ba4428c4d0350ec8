package activities

import (
	"everloop/activities/tools"
	"everloop/domain"
)

// scopeOfTurn says whose tools a model call offers.
func (a *Activities) scopeOfTurn(key domain.TurnKey, turn domain.OpenedTurn) tools.Scope {
	return tools.Scope{
		Session: turn.Session, Mode: turn.Chat.Mode, Headless: turn.Chat.Headless,
		LoopID: key.LoopID, Depth: turn.Loop.Depth, Only: turn.Loop.Only, Profile: a.Profiles.Profile(turn.Session),
	}
}

// scopeOfCall returns the scope that a call of the ledger is checked against: the same
// as when it was requested.
func (a *Activities) scopeOfCall(call domain.LedgerCall) tools.Scope {
	return tools.Scope{
		Session: call.Session, Mode: call.Mode, Headless: call.Headless,
		LoopID: call.LoopID, Depth: call.Loop.Depth, Only: call.Loop.Only, Profile: a.Profiles.Profile(call.Session),
	}
}
