package library

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/gofiber/fiber/v2"

	"everloop/api/access"
	"everloop/api/fields"
	"everloop/api/httpx"
	"everloop/auth"
	"everloop/domain"
	"everloop/domain/skill"
	"everloop/service/skills"
)

// onPackage are the error codes of a skill's package (422).
const onPackage = "invalid_skill invalid_skill_archive"

// SkillItem is one skill of a list (docs/skills.md). It is exported so that the
// document shows its fields where it is embedded.
type SkillItem struct {
	ID              string       `json:"id" doc:"Its id." example:"builtin:data-table-report"`
	Name            string       `json:"name" doc:"Its name." example:"data-table-report"`
	Org             string       `json:"org,omitempty" doc:"Its organization in the registry." example:"acme"`
	Description     string       `json:"description" doc:"The description."`
	Version         string       `json:"version" doc:"Empty when its author gives none." example:"1.0.0"`
	Digest          string       `json:"digest" doc:"sha256: and the SHA-256 of the package as it is now; empty when it cannot be read."`
	Source          skill.Source `json:"source" enum:"builtin,registry,uploaded,partner" doc:"The source."`
	Enabled         bool         `json:"enabled" doc:"False for a package that cannot be used; problem says why."`
	InstalledAt     *time.Time   `json:"installed_at" doc:"null for what came with the service."`
	ReleaseVersion  string       `json:"release_version,omitempty" doc:"The version that the registry recommends, when it is known." example:"1.0.0"`
	UpdateAvailable bool         `json:"update_available" doc:"Whether a newer version is available."`
	Changed         bool         `json:"changed" doc:"The package is not as it was when it was installed or last read by resync."`
	Problem         string       `json:"problem,omitempty" doc:"The reason why it cannot be used; left out if it can."`
	SkillDir        string       `json:"skill_dir,omitempty" doc:"Where it lies in the session's workspace."`
}

func skillItemOf(s skill.Skill) SkillItem {
	return SkillItem{
		ID: s.ID, Name: s.Name, Org: s.Org, Description: s.Description, Version: s.Version, Digest: s.Digest, Source: s.Source,
		Enabled: s.Problem == "", InstalledAt: s.InstalledAt, ReleaseVersion: s.ReleaseVersion, UpdateAvailable: s.UpdateAvailable,
		Changed: s.Changed, Problem: s.Problem, SkillDir: s.Dir,
	}
}

func skillItems(skills []skill.Skill, err error) (*httpx.Body[fields.List[SkillItem]], error) {
	items := make([]SkillItem, len(skills))
	for i, s := range skills {
		items[i] = skillItemOf(s)
	}

	return httpx.Answer(fields.ListOf(items), err)
}

type skillFile struct {
	Path string `json:"path" doc:"Relative to the package." example:"SKILL.md"`
	Size int64  `json:"size" doc:"Bytes." example:"2483"`
}

type skillDetail struct {
	SkillItem
	Files       []skillFile    `json:"files" doc:"Its files."`
	FrontMatter map[string]any `json:"frontmatter" doc:"The front matter of SKILL.md."`
	RequiredEnv []string       `json:"required_env" doc:"Variables that it needs: metadata.required_env."`
	Permissions []string       `json:"permissions" doc:"What it says it needs: metadata.permissions."`
	Readme      string         `json:"readme" doc:"The text of SKILL.md below its front matter."`
}

type skillHit struct {
	ID          string  `json:"id" doc:"Its id." example:"registry:acme:tables"`
	Org         string  `json:"org" doc:"The publisher." example:"acme"`
	Name        string  `json:"name" doc:"Its name." example:"tables"`
	Description string  `json:"description" doc:"The description." example:"Writes release notes from the history of a repository."`
	Version     string  `json:"version" doc:"The version." example:"1.0.0"`
	Score       float64 `json:"score" doc:"From 0 to 1." example:"1"`
	Downloads   *int64  `json:"downloads,omitempty" doc:"Number of downloads."`
}

type skillStat struct {
	Name          string    `json:"name" doc:"Its name." example:"release-notes"`
	Invocations   int       `json:"invocations" doc:"Calls of the tool Skill that came to an end, errors included." example:"3"`
	Errors        int       `json:"errors" doc:"Number of uses that failed." example:"0"`
	LastUsedAt    time.Time `json:"last_used_at" doc:"Time of the last use; null: never."`
	AvgDurationMS int64     `json:"avg_duration_ms" doc:"Average duration of a use in milliseconds." example:"12"`
	Tokens        int       `json:"tokens" doc:"That its texts took in the context, estimated." example:"96"`
}

// SkillsAPI lists and installs skills.
type SkillsAPI struct {
	access.Sessions
	access.FileEvents
	Skills *skills.Service
}

// Register adds the operations of the area to the interface.
func (a *SkillsAPI) Register(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID: "list-skills", Method: fiber.MethodGet, Path: "/api/skills", Tag: "Skills",
		Summary: "List the skills of the caller's sessions",
		Scope:   auth.Skills,
	},
		func(ctx context.Context, _ *struct{}) (*httpx.Body[fields.List[SkillItem]], error) {
			return skillItems(a.Skills.Catalog(ctx, httpx.CallerOf(ctx).User))
		})
	// Before the skill itself: the first route that matches is taken.
	httpx.Register(r, httpx.Operation{
		ID: "search-skills", Method: fiber.MethodGet, Path: "/api/skills/search", Tag: "Skills",
		Summary:     "Search skills in the catalog and in the registry",
		Description: "Searches for words in names and descriptions.",
		Scope:       auth.Skills,
		Errors:      httpx.Codes{503: "registry_not_configured"},
	}, a.searchSkills)
	httpx.Register(r, httpx.Operation{
		ID: "list-installed-skills", Method: fiber.MethodGet, Path: "/api/skills/installed", Tag: "Skills",
		Summary: "List the skills added to those of the service",
		Scope:   auth.Skills,
	},
		func(ctx context.Context, _ *struct{}) (*httpx.Body[fields.List[SkillItem]], error) {
			return skillItems(a.Skills.Installed(ctx, httpx.CallerOf(ctx).User))
		})
	httpx.Register(r, httpx.Operation{
		ID: "get-skill", Method: fiber.MethodGet, Path: "/api/skills/{skill_id}", Tag: "Skills",
		Summary: "Get a skill",
		Scope:   auth.Skills,
		Errors:  httpx.Codes{404: "skill_not_found", 422: onPackage},
	}, a.getSkill)

	httpx.Register(r, httpx.Operation{
		ID: "list-session-skills", Method: fiber.MethodGet, Path: "/api/sessions/{session_id}/skills", Tag: "Skills",
		Summary: "List the skills of a session",
		Scope:   auth.SessionsRead,
	},
		func(ctx context.Context, in *access.SessionRef) (*httpx.Body[fields.List[SkillItem]], error) {
			session, _, err := a.Readable(ctx, in.SessionID)
			if err != nil {
				return nil, err
			}

			return skillItems(a.Skills.OfSession(ctx, session))
		})
	httpx.Register(r, httpx.Operation{
		ID: "get-skill-stats", Method: fiber.MethodGet, Path: "/api/sessions/{session_id}/skill-stats", Tag: "Skills",
		Summary: "Get how a session has used its skills",
		Scope:   auth.SessionsRead,
	}, a.skillStats)
	httpx.Register(r, httpx.Operation{
		ID: "upload-skill", Method: fiber.MethodPost, Path: "/api/sessions/{session_id}/skills:upload", Tag: "Skills",
		Summary: "Upload a skill to a session's workspace",
		Scope:   auth.SessionsWrite,
		Errors:  httpx.Codes{409: "session_busy", 413: httpx.OnDisk, 422: onPackage, 503: "disk_full"},
		Example: `{"name": "release-notes", "files": [{"path": "SKILL.md", ` +
			`"content": "---\nname: release-notes\n---\n# Release notes"}]}`,
	}, a.uploadSkill)
	httpx.Register(r, httpx.Operation{
		ID: "install-skill", Method: fiber.MethodPost, Path: "/api/sessions/{session_id}/skills/install", Tag: "Skills",
		Summary: "Install a skill from the registry",
		Scope:   auth.SessionsWrite,
		Errors: httpx.Codes{
			404: "skill_not_found skill_not_released skill_version_not_found",
			409: "digest_mismatch session_busy",
			413: "invalid_skill_archive no_space zip_too_large",
			422: onPackage + " " + httpx.OnArchive,
			503: "disk_full registry_not_configured",
		},
		Example: `{"org": "acme", "name": "tables", "version": "1.0.0", ` +
			`"digest": "sha256:6809e5a7f8c87fb10bc53380fe7b788641321ea510cec8d503c2a5f35dd1fe99"}`,
	}, a.installSkill)
	httpx.Register(r, httpx.Operation{
		ID: "resync-skills", Method: fiber.MethodPost, Path: "/api/sessions/{session_id}/skills:resync", Tag: "Skills",
		Summary:     "Reload a session's skills",
		Description: "Reads the packages in the workspace that were changed by hand.",
		Scope:       auth.SessionsWrite,
	}, a.resyncSkills)
}

type searchResults struct {
	Results []skillHit `json:"results" doc:"The results, best match first."`
}

func (a *SkillsAPI) searchSkills(ctx context.Context, in *struct {
	Q     string `query:"q" required:"true" minLength:"1" maxLength:"1000" doc:"Words to find in names and descriptions, in any case." example:"release notes"`
	Limit int    `query:"limit" default:"10" minimum:"1" maximum:"50" doc:"Maximum number of entries." example:"20"`
},
) (*httpx.Body[searchResults], error) {
	hits, err := a.Skills.Search(ctx, httpx.CallerOf(ctx).User, in.Q, in.Limit)

	out := searchResults{make([]skillHit, len(hits))}
	for i, hit := range hits {
		out.Results[i] = skillHit(hit)
	}

	return httpx.Answer(out, err)
}

func (a *SkillsAPI) getSkill(ctx context.Context, in *struct {
	SkillID string `path:"skill_id" doc:"The id of a list, or a skill's name." example:"code-review"`
},
) (*httpx.Body[skillDetail], error) {
	d, err := a.Skills.Detail(ctx, httpx.CallerOf(ctx).User, in.SkillID)
	if err != nil {
		return nil, err
	}

	out := skillDetail{
		SkillItem: skillItemOf(d.Skill), Files: make([]skillFile, len(d.Files)), FrontMatter: d.FrontMatter,
		RequiredEnv: fields.OrEmpty(d.RequiredEnv), Permissions: fields.OrEmpty(d.Permissions), Readme: d.Readme,
	}
	for i, f := range d.Files {
		out.Files[i] = skillFile(f)
	}

	if out.FrontMatter == nil {
		out.FrontMatter = map[string]any{}
	}

	return httpx.Answer(out, nil)
}

func (a *SkillsAPI) skillStats(ctx context.Context, in *access.SessionRef) (*httpx.Body[fields.List[skillStat]], error) {
	session, _, err := a.Readable(ctx, in.SessionID)
	if err != nil {
		return nil, err
	}

	stats, err := a.Skills.Stats(ctx, session)

	items := make([]skillStat, len(stats))
	for i, stat := range stats {
		items[i] = skillStat{
			Name: stat.Name, Invocations: stat.Invocations, Errors: stat.Errors, LastUsedAt: stat.LastUsedAt,
			AvgDurationMS: stat.AvgDuration.Milliseconds(), Tokens: stat.Tokens,
		}
	}

	return httpx.Answer(fields.ListOf(items), err)
}

type uploadedSkill struct {
	Name        string `json:"name" doc:"Its name." example:"release-notes"`
	SkillDir    string `json:"skill_dir" doc:"In the session's workspace." example:".skills/release-notes"`
	FileCount   int    `json:"file_count" doc:"Number of files in the package." example:"1"`
	Overwritten bool   `json:"overwritten" doc:"Whether an existing one was replaced."`
}

func (a *SkillsAPI) uploadSkill(ctx context.Context, in *struct {
	access.SessionRef
	Body struct {
		Name  string `json:"name" minLength:"1" maxLength:"64" doc:"As in the front matter of SKILL.md." example:"release-notes"`
		Files []struct {
			Path     string `json:"path" doc:"Relative to the package." example:"SKILL.md"`
			Content  string `json:"content" doc:"The content of the file."`
			Encoding string `json:"encoding,omitempty" enum:"utf-8,base64" doc:"Of content; utf-8 when left out."`
		} `json:"files" minItems:"1" maxItems:"500" doc:"The whole package; one of them is SKILL.md."`
	}
},
) (*httpx.Body[uploadedSkill], error) {
	session, err := a.Own(ctx, in.SessionID)
	if err != nil {
		return nil, err
	}

	files := make([]skill.NewFile, len(in.Body.Files))
	for i, f := range in.Body.Files {
		files[i] = skill.NewFile{Path: f.Path, Content: []byte(f.Content)}
		if f.Encoding == "base64" {
			if files[i].Content, err = base64.StdEncoding.DecodeString(f.Content); err != nil {
				return nil, domain.Invalidf(fmt.Sprintf("body.files[%d].content", i), "is not base64")
			}
		}
	}

	done, err := a.Skills.Upload(ctx, session, in.Body.Name, files)
	if err != nil {
		return nil, err
	}

	a.emitSkillChange(ctx, session.ID, done.Dir, done.Overwritten)

	return httpx.Answer(uploadedSkill{Name: done.Name, SkillDir: done.Dir, FileCount: done.FileCount, Overwritten: done.Overwritten}, nil)
}

// emitSkillChange publishes that a package in the workspace is another.
func (a *SkillsAPI) emitSkillChange(ctx context.Context, sessionID domain.SessionID, dir string, replaced bool) {
	change := domain.FileChange{Path: dir, Change: "created"}
	if replaced {
		change.Change = "modified"
	}

	a.EmitFileChange(ctx, sessionID, change)
}

type installedSkill struct {
	Name            string  `json:"name" doc:"Its name." example:"tables"`
	Version         string  `json:"version" doc:"The version." example:"1.0.0"`
	Digest          string  `json:"digest" doc:"SHA-256 of the content."`
	SkillDir        string  `json:"skill_dir" doc:"In the session's workspace." example:".skills/tables"`
	FileCount       int     `json:"file_count" doc:"Number of files in the package." example:"1"`
	ReplacedVersion *string `json:"replaced_version,omitempty" doc:"That the caller had installed before."`
}

func (a *SkillsAPI) installSkill(ctx context.Context, in *struct {
	access.SessionRef
	Body struct {
		Org     string `json:"org" minLength:"1" maxLength:"64" doc:"The publisher." example:"acme"`
		Name    string `json:"name" minLength:"1" maxLength:"64" doc:"Its name." example:"tables"`
		Version string `json:"version,omitempty" maxLength:"128" doc:"The released one when left out." example:"1.0.0"`
		Digest  string `json:"digest,omitempty" maxLength:"128" doc:"Install only the package that it names."`
	}
},
) (*httpx.Body[installedSkill], error) {
	session, err := a.Own(ctx, in.SessionID)
	if err != nil {
		return nil, err
	}

	done, err := a.Skills.Install(ctx, session, skill.Install(in.Body))
	if err != nil {
		return nil, err
	}

	a.emitSkillChange(ctx, session.ID, done.Dir, done.ReplacedVersion != nil)

	return httpx.Answer(installedSkill{
		Name: done.Name, Version: done.Version, Digest: done.Digest, SkillDir: done.Dir, FileCount: done.FileCount,
		ReplacedVersion: done.ReplacedVersion,
	}, nil)
}

type resyncedSkills struct {
	Detail  string         `json:"detail" doc:"The outcome in words." example:"0 added, 0 updated, 0 removed, 0 cannot be used"`
	Added   []string       `json:"added" doc:"Names of added skills."`
	Updated []string       `json:"updated" doc:"Names of changed skills."`
	Removed []string       `json:"removed" doc:"Names of removed skills."`
	Failed  []skillFailure `json:"failed" doc:"The entries that failed, with the reason."`
}

type skillFailure struct {
	Name    string `json:"name" doc:"Its name."`
	Code    string `json:"code" doc:"The error code."`
	Message string `json:"message" doc:"The message in plain text."`
}

func (a *SkillsAPI) resyncSkills(ctx context.Context, in *access.SessionRef) (*httpx.Body[resyncedSkills], error) {
	session, err := a.Own(ctx, in.SessionID)
	if err != nil {
		return nil, err
	}

	done, err := a.Skills.Resync(ctx, session)

	out := resyncedSkills{
		Added: fields.OrEmpty(done.Added), Updated: fields.OrEmpty(done.Updated), Removed: fields.OrEmpty(done.Removed),
		Failed: make([]skillFailure, len(done.Failed)),
	}
	for i, f := range done.Failed {
		out.Failed[i] = skillFailure(f)
	}

	out.Detail = fmt.Sprintf("%d added, %d updated, %d removed, %d cannot be used",
		len(out.Added), len(out.Updated), len(out.Removed), len(out.Failed))

	return httpx.Answer(out, err)
}
