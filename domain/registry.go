package domain

import "time"

// RegistryResource is something that the skill registry keeps for others to use:
// a skill, a template, a scenario (shapes.md section 8).
type RegistryResource struct {
	ID          string         `json:"id"`
	Type        string         `json:"type"`
	Subtype     string         `json:"subtype"`
	Name        string         `json:"name"`
	Version     string         `json:"version"`
	Description string         `json:"description"`
	Digest      string         `json:"digest"`
	Size        int64          `json:"size" doc:"Bytes."`
	Owner       string         `json:"owner"`
	Tags        []string       `json:"tags" nullable:"false"`
	CreatedAt   time.Time      `json:"created_at"`
	UpdatedAt   time.Time      `json:"updated_at"`
	Data        map[string]any `json:"data,omitempty"`
}

// RegistryQuery narrows the resources down; empty fields do not.
type RegistryQuery struct {
	Type, Subtype string
	Offset, Limit int
}

// RegistryOrganization owns skills.
type RegistryOrganization struct {
	Name        string `json:"name"`
	DisplayName string `json:"display_name"`
	SkillCount  int    `json:"skill_count"`
}

// RegistryTemplate is a form that something is made from.
type RegistryTemplate struct {
	TypeKey     string         `json:"type_key"`
	Subtype     string         `json:"subtype"`
	Driver      string         `json:"driver,omitempty"`
	Title       string         `json:"title"`
	Description string         `json:"description"`
	Version     string         `json:"version"`
	Schema      map[string]any `json:"schema" doc:"JSON Schema of the values."`
	Defaults    map[string]any `json:"defaults" doc:"Values to begin with."`
}

// RegistryScenario bundles resources for one purpose.
type RegistryScenario struct {
	ID          string   `json:"id"`
	Title       string   `json:"title"`
	Description string   `json:"description"`
	Type        string   `json:"type"`
	Tags        []string `json:"tags" nullable:"false"`
	ResourceIDs []string `json:"resource_ids" nullable:"false"`
}

// RegistryStats counts what the registry holds.
type RegistryStats struct {
	Skills        int        `json:"skills"`
	Versions      int        `json:"versions"`
	Organizations int        `json:"organizations"`
	Downloads     int64      `json:"downloads"`
	UpdatedAt     *time.Time `json:"updated_at" nullable:"true" doc:"null: nothing was published yet"`
}

// GISStatus says whether the map of situations can be used.
type GISStatus struct {
	Enabled   bool      `json:"enabled"`
	Healthy   bool      `json:"healthy"`
	Source    string    `json:"source" doc:"Address of the map service; empty: none is configured."`
	UpdatedAt time.Time `json:"updated_at" doc:"When it was last asked."`
}
