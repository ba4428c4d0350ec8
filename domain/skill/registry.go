package skill

import "time"

// RegistryResource is a resource of the skill registry: a skill, a template, a scenario
// (docs/rest.md#registry).
type RegistryResource struct {
	ID          string         `json:"id" doc:"Its id." example:"agent.basic"`
	Type        string         `json:"type" doc:"The type." example:"agent"`
	Subtype     string         `json:"subtype" doc:"The subtype." example:"basic"`
	Name        string         `json:"name" doc:"Its name." example:"Basic agent"`
	Version     string         `json:"version" doc:"The version." example:"1.2.0"`
	Description string         `json:"description" doc:"The description." example:"A plain agent to begin with."`
	Digest      string         `json:"digest" doc:"SHA-256 of the content." example:"sha256:9f86d081884c7d65"`
	Size        int64          `json:"size" doc:"Bytes." example:"4096"`
	Owner       string         `json:"owner" doc:"The owner." example:"acme"`
	Tags        []string       `json:"tags" nullable:"false" doc:"The tags." example:"[\"start\"]"`
	CreatedAt   time.Time      `json:"created_at" doc:"Creation time."`
	UpdatedAt   time.Time      `json:"updated_at" doc:"Time of the last change."`
	Data        map[string]any `json:"data,omitempty" doc:"Further settings of any form."`
}

// RegistryQuery selects resources; empty fields match everything.
type RegistryQuery struct {
	Type, Subtype string
	Offset, Limit int
}

// RegistryOrganization is an organisation, which owns skills.
type RegistryOrganization struct {
	Name        string `json:"name" doc:"Its name." example:"acme"`
	DisplayName string `json:"display_name" doc:"The display name." example:"Acme"`
	SkillCount  int    `json:"skill_count" doc:"Number of released skills." example:"3"`
}

// RegistryTemplate is a template for new resources.
type RegistryTemplate struct {
	TypeKey     string         `json:"type_key" doc:"The type." example:"agent"`
	Subtype     string         `json:"subtype" doc:"The subtype." example:"basic"`
	Driver      string         `json:"driver,omitempty" doc:"The variant."`
	Title       string         `json:"title" doc:"The title." example:"Basic agent"`
	Description string         `json:"description" doc:"The description." example:"What a new agent is made from."`
	Version     string         `json:"version" doc:"The version." example:"1.0.0"`
	Schema      map[string]any `json:"schema" doc:"JSON Schema of the values." example:"{\"type\": \"object\"}"`
	Defaults    map[string]any `json:"defaults" doc:"Values to begin with."`
}

// RegistryScenario is a bundle of resources for one purpose.
type RegistryScenario struct {
	ID          string   `json:"id" doc:"Its id." example:"first-steps"`
	Title       string   `json:"title" doc:"The title." example:"First steps"`
	Description string   `json:"description" doc:"The description." example:"An agent and the skills that it begins with."`
	Type        string   `json:"type" doc:"The type." example:"demo"`
	Tags        []string `json:"tags" nullable:"false" doc:"The tags." example:"[\"start\"]"`
	ResourceIDs []string `json:"resource_ids" nullable:"false" doc:"The resources of the bundle." example:"[\"agent.basic\"]"`
}

// RegistryStats counts the resources of the registry.
type RegistryStats struct {
	Skills        int        `json:"skills" doc:"Number of skills." example:"3"`
	Versions      int        `json:"versions" doc:"Versions of all skills." example:"9"`
	Organizations int        `json:"organizations" doc:"Publishers." example:"1"`
	Downloads     int64      `json:"downloads" doc:"Number of downloads." example:"40"`
	UpdatedAt     *time.Time `json:"updated_at" nullable:"true" doc:"null: nothing was published yet"`
}

// GISStatus reports whether the map of situations can be used.
type GISStatus struct {
	Enabled   bool      `json:"enabled" doc:"Whether it is enabled."`
	Healthy   bool      `json:"healthy" doc:"Whether it is healthy."`
	Source    string    `json:"source" doc:"Address of the map service; empty: none is configured."`
	UpdatedAt time.Time `json:"updated_at" doc:"When it was last asked."`
}
