package account

import (
	"everloop/api/access"
	"everloop/api/httpx"
	"everloop/api/sessiondetail"
)

// API is the area with the services that its operations call.
type API struct {
	Sessions       access.Sessions
	Keys           KeyStore
	Users          UserStore
	Budgets        Budgets
	Usages         Usages
	EnvBuckets     access.EnvBuckets
	NetworkRules   NetworkRules
	Administration Administration
	UserSettings   UserSettings
	Workers        sessiondetail.MCPWorkers
}

// Register adds the operations of the area to the interface.
func (a API) Register(r *httpx.Server) {
	rights := r.Config.Rights

	(&MeAPI{}).Register(r)
	(&KeysAPI{a.Keys, rights}).Register(r)
	(&BudgetsAPI{a.Budgets}).Register(r)
	(&UsageAPI{a.Sessions, a.Usages}).Register(r)
	(&EnvBucketsAPI{a.EnvBuckets}).Register(r)
	(&NetworkRulesAPI{a.NetworkRules}).Register(r)
	(&AdministrationAPI{a.Administration, rights}).Register(r)
	(&PreferencesAPI{a.UserSettings}).Register(r)
	(&UsersAPI{a.Users, rights, a.Workers, r.Config.Logger}).Register(r)
}
