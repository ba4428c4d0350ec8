package account

import (
	"context"

	"everloop/api/access"
	"everloop/api/httpx"
	"everloop/api/sessiondetail"
	"everloop/domain"
	"everloop/infra/secrets"
	"everloop/service/accounts"
)

// API is the area with the services that its operations call.
type API struct {
	Sessions   access.Sessions
	Accounts   *accounts.Store
	EnvBuckets secrets.Buckets
	Workers    sessiondetail.MCPWorkers
	// TokenStates returns the unattended work of people of the identity service.
	TokenStates func(ctx context.Context, people []domain.ExternalUser) ([]domain.TokenState, error)
}

// Register adds the operations of the area to the interface.
func (a API) Register(r *httpx.Server) {
	rights := r.Config.Rights

	(&MeAPI{}).Register(r)
	(&KeysAPI{a.Accounts, rights}).Register(r)
	(&BudgetsAPI{a.Sessions}).Register(r)
	(&UsageAPI{a.Sessions, a.Accounts}).Register(r)
	(&EnvBucketsAPI{a.EnvBuckets}).Register(r)
	(&NetworkRulesAPI{a.Accounts}).Register(r)
	(&AdministrationAPI{a.Accounts, a.TokenStates, rights}).Register(r)
	(&PreferencesAPI{a.Accounts}).Register(r)
	(&UsersAPI{a.Accounts, rights, a.Workers, r.Config.Logger}).Register(r)
}
