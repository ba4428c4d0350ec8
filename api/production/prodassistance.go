package production

import (
	"context"

	"everloop/api/fields"
	"everloop/api/httpx"
	"everloop/domain"
	"everloop/domain/production"
)

// assistedSession is a session of a production solution, and whether its agent assists.
type assistedSession struct {
	id      **domain.SessionID
	assists bool
	title   string
}

// ensureSession makes the session in which an agent assists, if none is named.
func (a *ProdSolutionsAPI) ensureSession(ctx context.Context, solution string, place assistedSession) error {
	if !place.assists || *place.id != nil {
		return nil
	}

	made, err := a.Store.CreateSession(ctx, httpx.CallerOf(ctx).User.ID, domain.NewSession{Intent: place.title + " of " + solution})
	*place.id = &made.ID

	return err
}

// assistingSessions completes a change that switches assistance on. An agent assists with
// the rights of its session's owner, so only the owner of the solution can switch it on.
func (a *ProdSolutionsAPI) assistingSessions(ctx context.Context, caller domain.User, id string, change *production.SolutionChange) error {
	places := []struct {
		on   *bool
		had  func(production.Solution) *domain.SessionID
		make **domain.SessionID
		name string
	}{
		{change.AIAssist, func(s production.Solution) *domain.SessionID { return s.SessionID }, &change.SessionID, "Assistant"},
		{change.FlowAIAssist, func(s production.Solution) *domain.SessionID { return s.FlowSessionID }, &change.FlowSessionID, "DAG"},
		{
			change.ArchitectureAIAssist, func(s production.Solution) *domain.SessionID { return s.ArchitectureSessionID },
			&change.ArchitectureSessionID, "Architecture",
		},
	}
	for _, place := range places {
		if !fields.Value(place.on) {
			continue
		}

		found, err := a.Production.ProdSolution(ctx, caller, id)
		if err != nil {
			return err
		}

		if found.OwnerID != caller.ID {
			return domain.Newf(domain.Forbidden, "forbidden", "only the owner of the production solution may switch assistance on")
		}

		if place.had(found) != nil {
			continue
		}

		if err := a.ensureSession(ctx, found.Name, assistedSession{place.make, true, place.name}); err != nil {
			return err
		}
	}

	return nil
}
