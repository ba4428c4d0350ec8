package production

import (
	"context"
	"time"

	"github.com/gofiber/fiber/v2"

	"everloop/api/fields"
	"everloop/api/httpx"
	"everloop/auth"
	"everloop/domain"
	"everloop/domain/production"
)

// Error codes that change a document.
const (
	onChange = "prod_solution_archived version_conflict version_limit"
	onSize   = "document_too_large document_quota"
)

// DocumentVersionRef is the path of an operation on one version.
type DocumentVersionRef struct {
	ProdSolutionRef
	Version int `path:"version" minimum:"1" maximum:"2147483647" doc:"The version." example:"2"`
}

// DocumentVersionItem is a version without its content. It is exported so that the
// document shows its fields where it is embedded.
type DocumentVersionItem struct {
	Version   int       `json:"version" doc:"The version." example:"2"`
	Status    string    `json:"status" enum:"draft,published" doc:"Whether it is published now."`
	Digest    string    `json:"digest" doc:"sha256: and the SHA-256 of the canonical form."`
	Message   string    `json:"message" doc:"The message of the save."`
	CreatedBy string    `json:"created_by" doc:"The user who saved it." example:"01a1ff63-2da3-7551-9a1e-abad628e9c3d"`
	CreatedAt time.Time `json:"created_at" doc:"Creation time."`
	Published bool      `json:"published" doc:"Whether it is published now."`
	NodeCount int       `json:"node_count" doc:"How many nodes it has." example:"5"`
	EdgeCount int       `json:"edge_count" doc:"How many edges or links it has." example:"6"`
	Runs      int       `json:"runs" doc:"How many runs it had." example:"0"`
}

func versionItem(v domain.DocumentVersion) DocumentVersionItem {
	return DocumentVersionItem{
		Version: v.Version, Status: versionStatus(v), Digest: v.Digest, Message: v.Message, CreatedBy: v.CreatedBy, CreatedAt: v.CreatedAt,
		Published: v.Published, NodeCount: v.NodeCount, EdgeCount: v.EdgeCount, Runs: v.Runs,
	}
}

func versionStatus(v domain.DocumentVersion) string {
	if v.Published {
		return "published"
	}

	return "draft"
}

// DocumentState is what a document shows next to its content. It is exported for the
// same reason as DocumentVersionItem.
type DocumentState struct {
	ProdSolutionID   string    `json:"prod_solution_id" doc:"The production solution." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	Version          int       `json:"version" doc:"The newest version." example:"2"`
	Status           string    `json:"status" enum:"draft,published" doc:"Whether this version is published."`
	Digest           string    `json:"digest" doc:"sha256: and the SHA-256 of the canonical form."`
	PublishedVersion *int      `json:"published_version,omitempty" doc:"The version that is published; left out: none."`
	Message          string    `json:"message,omitempty" doc:"The message of the last save; left out: none."`
	UpdatedBy        string    `json:"updated_by" doc:"The user who saved it." example:"01a1ff63-2da3-7551-9a1e-abad628e9c3d"`
	UpdatedAt        time.Time `json:"updated_at" doc:"Time of the last save."`
}

func documentState(solutionID string, d production.StoredDocument) DocumentState {
	return DocumentState{
		ProdSolutionID: solutionID, Version: d.Version, Status: versionStatus(d.DocumentVersion), Digest: d.Digest,
		PublishedVersion: d.PublishedVersion, Message: d.Message, UpdatedBy: d.CreatedBy, UpdatedAt: d.CreatedAt,
	}
}

type documentSaved struct {
	Version  int              `json:"version" doc:"The new version." example:"2"`
	Digest   string           `json:"digest" doc:"sha256: and the SHA-256 of the canonical form."`
	SavedAt  time.Time        `json:"saved_at" doc:"Time of the save."`
	Warnings []domain.Finding `json:"warnings" nullable:"false" doc:"What its validation has found, errors first: they keep it from being published."`
}

func savedBody(v domain.DocumentVersion, found []domain.Finding) documentSaved {
	return documentSaved{v.Version, v.Digest, v.CreatedAt, fields.OrEmpty(found)}
}

type rolledBack struct {
	Version     int    `json:"version" doc:"The new version." example:"4"`
	FromVersion int    `json:"from_version" doc:"The version whose content it has." example:"2"`
	Digest      string `json:"digest" doc:"sha256: and the SHA-256 of the canonical form."`
}

// DifferenceQuery names two versions.
type DifferenceQuery struct {
	From int `query:"from" required:"true" minimum:"1" maximum:"2147483647" doc:"The first version." example:"1"`
	To   int `query:"to" required:"true" minimum:"1" maximum:"2147483647" doc:"The second version." example:"2"`
}

// registerVersions adds the operations that are the same for both documents. What
// names them: the dag or the architecture.
func (a *ProdSolutionsAPI) registerVersions(r *httpx.Server, kind domain.DocumentKind, what string) {
	base := "/api/prod_solution/" + string(kind) + "/{prod_solution_id}"
	httpx.Register(r, httpx.Operation{
		ID: "list-" + string(kind) + "-versions", Method: fiber.MethodGet, Path: base + "/versions", Tag: prodTag,
		Summary: "List the versions of " + what + ", newest first",
		Scope:   auth.Solutions,
		Errors:  httpx.Codes{404: "prod_solution_not_found"},
	}, func(ctx context.Context, in *struct {
		ProdSolutionRef
		Offset int `query:"offset" default:"0" minimum:"0" doc:"Number of entries to skip." example:"0"`
		Limit  int `query:"limit" default:"1000" minimum:"1" maximum:"1000" doc:"Maximum number of entries." example:"20"`
	},
	) (*httpx.Body[fields.List[DocumentVersionItem]], error) {
		if err := a.auditAdministrator(ctx, in.ID); err != nil {
			return nil, err
		}

		page, total, err := a.Production.DocumentVersions(ctx, httpx.CallerOf(ctx).User, in.ID, kind, in.Limit, in.Offset)

		items := make([]DocumentVersionItem, len(page))
		for i, v := range page {
			items[i] = versionItem(v)
		}

		return httpx.Answer(fields.List[DocumentVersionItem]{Items: items, Total: total}, err)
	})
	httpx.Register(r, httpx.Operation{
		ID: "delete-" + string(kind) + "-version", Method: fiber.MethodDelete, Path: base + "/versions/{version}", Tag: prodTag,
		Summary: "Delete a version of " + what,
		Description: "The published version cannot be deleted, nor one with runs that are not over, nor the only one. With the " +
			"newest, the one before is the newest again; no number is given twice.",
		Scope: auth.Solutions, Audit: "prod_" + string(kind) + ".delete_version",
		Errors: httpx.Codes{
			403: "forbidden",
			404: "prod_solution_not_found version_not_found", 409: "version_published version_in_use prod_solution_archived",
		},
	}, func(ctx context.Context, in *DocumentVersionRef) (*httpx.Body[fields.OkBody], error) {
		err := a.Production.DeleteDocumentVersion(ctx, httpx.CallerOf(ctx).User, in.ID, kind, in.Version)
		return httpx.Answer(fields.OkBody{OK: true}, err)
	})
	httpx.Register(r, httpx.Operation{
		ID: "roll-back-" + string(kind), Method: fiber.MethodPost, Path: base + "/rollback", Tag: prodTag,
		Summary:     "Make an earlier version of " + what + " the newest one",
		Description: "Adds a version with the content of the earlier one. The published version stays as it is.",
		Scope:       auth.Solutions, Audit: "prod_" + string(kind) + ".rollback",
		Errors: httpx.Codes{
			403: "forbidden",
			404: "prod_solution_not_found version_not_found", 409: "prod_solution_archived version_limit", 413: "document_quota",
		},
		Example: `{"from_version": 2, "message": "The new prompts were worse."}`,
	}, func(ctx context.Context, in *struct {
		ProdSolutionRef
		Body struct {
			FromVersion int     `json:"from_version" minimum:"1" maximum:"2147483647" doc:"The version to return to." example:"2"`
			Message     *string `json:"message,omitempty" nullable:"true" maxLength:"2000" doc:"A message for the list of versions."`
		}
	},
	) (*httpx.Body[rolledBack], error) {
		made, err := a.Production.RollbackDocument(ctx, httpx.CallerOf(ctx).User, in.ID, kind, in.Body.FromVersion,
			domain.CleanText(fields.Value(in.Body.Message)))

		return httpx.Answer(rolledBack{made.Version, in.Body.FromVersion, made.Digest}, err)
	})
}
