package api

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/gofiber/fiber/v2"

	"everloop/auth"
	"everloop/domain"
)

// Skills are the skills of users and sessions; callers were let in to the
// sessions. infra/skills implements it.
type Skills interface {
	Catalog(ctx context.Context, user domain.User) ([]domain.Skill, error)
	Installed(ctx context.Context, user domain.User) ([]domain.Skill, error)
	Search(ctx context.Context, user domain.User, q string, limit int) ([]domain.SkillHit, error)
	// Detail finds a skill that the user may see; else skill_not_found.
	Detail(ctx context.Context, user domain.User, id string) (domain.SkillDetail, error)

	OfSession(ctx context.Context, session domain.Session) ([]domain.Skill, error)
	// SetUp is OfSession for the detail of a session, which it does not hold up.
	SetUp(ctx context.Context, session domain.Session) ([]domain.Skill, error)
	Stats(ctx context.Context, session domain.Session) ([]domain.SkillStat, error)
	// Snapshot gives the version of the primary skill that the session keeps to,
	// and takes it at first; nil when there is none.
	Snapshot(ctx context.Context, session domain.Session) (*domain.SkillSnapshot, error)
	Upload(ctx context.Context, session domain.Session, name string, files []domain.NewSkillFile) (domain.SkillUpload, error)
	Install(ctx context.Context, session domain.Session, in domain.SkillInstall) (domain.SkillInstalled, error)
	Resync(ctx context.Context, session domain.Session) (domain.SkillResync, error)
}

// SkillItem is one skill of a list (shapes.md section 5). It is exported so that
// the document shows its fields where it is embedded.
type SkillItem struct {
	ID              string             `json:"id"`
	Name            string             `json:"name"`
	Org             string             `json:"org,omitempty" doc:"Its organization in the registry."`
	Description     string             `json:"description"`
	Version         string             `json:"version" doc:"Empty when its author gives none."`
	Digest          string             `json:"digest" doc:"sha256: and the SHA-256 of the package as it is now; empty when it cannot be read."`
	Source          domain.SkillSource `json:"source" enum:"builtin,registry,uploaded,partner"`
	Enabled         bool               `json:"enabled" doc:"False for a package that cannot be used; problem says why."`
	InstalledAt     *time.Time         `json:"installed_at" doc:"null for what came with the service."`
	ReleaseVersion  string             `json:"release_version,omitempty" doc:"The version that the registry recommends, when it is known."`
	UpdateAvailable bool               `json:"update_available"`
	Changed         bool               `json:"changed" doc:"The package is not as it was when it was installed or last read by resync."`
	Problem         string             `json:"problem,omitempty"`
	SkillDir        string             `json:"skill_dir,omitempty" doc:"Where it lies in the session's workspace."`
}

func skillItemOf(s domain.Skill) SkillItem {
	return SkillItem{
		ID: s.ID, Name: s.Name, Org: s.Org, Description: s.Description, Version: s.Version, Digest: s.Digest, Source: s.Source,
		Enabled: s.Problem == "", InstalledAt: s.InstalledAt, ReleaseVersion: s.ReleaseVersion, UpdateAvailable: s.UpdateAvailable,
		Changed: s.Changed, Problem: s.Problem, SkillDir: s.Dir,
	}
}

func skillItems(skills []domain.Skill, err error) (*body[list[SkillItem]], error) {
	items := make([]SkillItem, len(skills))
	for i, s := range skills {
		items[i] = skillItemOf(s)
	}
	return answer(listOf(items), err)
}

type skillFile struct {
	Path string `json:"path"`
	Size int64  `json:"size" doc:"Bytes."`
}

type skillDetail struct {
	SkillItem
	Files       []skillFile    `json:"files"`
	FrontMatter map[string]any `json:"frontmatter"`
	RequiredEnv []string       `json:"required_env" doc:"Variables that it needs: metadata.required_env."`
	Permissions []string       `json:"permissions" doc:"What it says it needs: metadata.permissions."`
	Readme      string         `json:"readme" doc:"The text of SKILL.md below its front matter."`
}

type skillHit struct {
	ID          string  `json:"id"`
	Org         string  `json:"org"`
	Name        string  `json:"name"`
	Description string  `json:"description"`
	Version     string  `json:"version"`
	Score       float64 `json:"score" doc:"From 0 to 1."`
	Downloads   *int64  `json:"downloads,omitempty"`
}

type skillStat struct {
	Name          string    `json:"name"`
	Invocations   int       `json:"invocations" doc:"Calls of the tool Skill that came to an end, errors included."`
	Errors        int       `json:"errors"`
	LastUsedAt    time.Time `json:"last_used_at"`
	AvgDurationMS int64     `json:"avg_duration_ms"`
	Tokens        int       `json:"tokens" doc:"That its texts took in the context, estimated."`
}

func (s *server) skillRoutes() {
	const catalog, session = "/api/skills", "/api/sessions/{session_id}"
	op := func(id, method, path, summary string, scope auth.Scope) operation {
		return operation{id: id, method: method, path: path, tag: "Skills", summary: summary, scope: scope}
	}
	add(s, op("list-skills", fiber.MethodGet, catalog, "The skills that the caller's sessions have", auth.Skills),
		func(ctx context.Context, _ *struct{}) (*body[list[SkillItem]], error) {
			return skillItems(s.Skills.Catalog(ctx, callerOf(ctx).User))
		})
	// Before the skill itself: the first route that matches is taken.
	add(s, op("search-skills", fiber.MethodGet, catalog+"/search", "Find skills, in the catalog and in the registry", auth.Skills), s.searchSkills)
	add(s, op("list-installed-skills", fiber.MethodGet, catalog+"/installed", "The skills that were added to those of the service", auth.Skills),
		func(ctx context.Context, _ *struct{}) (*body[list[SkillItem]], error) {
			return skillItems(s.Skills.Installed(ctx, callerOf(ctx).User))
		})
	add(s, op("get-skill", fiber.MethodGet, catalog+"/{skill_id}", "One skill", auth.Skills), s.getSkill)

	add(s, op("list-session-skills", fiber.MethodGet, session+"/skills", "The skills of a session", auth.SessionsRead),
		func(ctx context.Context, in *SessionRef) (*body[list[SkillItem]], error) {
			session, _, err := s.readable(ctx, in.SessionID)
			if err != nil {
				return nil, err
			}
			return skillItems(s.Skills.OfSession(ctx, session))
		})
	add(s, op("get-skill-stats", fiber.MethodGet, session+"/skill-stats", "How a session has used its skills", auth.SessionsRead), s.skillStats)
	add(s, op("upload-skill", fiber.MethodPost, session+"/skills:upload", "Put a skill into a session's workspace", auth.SessionsWrite), s.uploadSkill)
	add(s, op("install-skill", fiber.MethodPost, session+"/skills/install", "Install a skill of the registry", auth.SessionsWrite), s.installSkill)
	add(s, op("resync-skills", fiber.MethodPost, session+"/skills:resync", "Read a session's skills again", auth.SessionsWrite), s.resyncSkills)
}

type searchResults struct {
	Results []skillHit `json:"results"`
}

func (s *server) searchSkills(ctx context.Context, in *struct {
	Q     string `query:"q" required:"true" minLength:"1" maxLength:"1000" doc:"Words to find in names and descriptions, in any case."`
	Limit int    `query:"limit" default:"10" minimum:"1" maximum:"50"`
},
) (*body[searchResults], error) {
	hits, err := s.Skills.Search(ctx, callerOf(ctx).User, in.Q, in.Limit)
	out := searchResults{make([]skillHit, len(hits))}
	for i, hit := range hits {
		out.Results[i] = skillHit(hit)
	}
	return answer(out, err)
}

func (s *server) getSkill(ctx context.Context, in *struct {
	SkillID string `path:"skill_id" doc:"The id of a list, or a skill's name."`
},
) (*body[skillDetail], error) {
	d, err := s.Skills.Detail(ctx, callerOf(ctx).User, in.SkillID)
	if err != nil {
		return nil, err
	}
	out := skillDetail{
		SkillItem: skillItemOf(d.Skill), Files: make([]skillFile, len(d.Files)), FrontMatter: d.FrontMatter,
		RequiredEnv: orEmpty(d.RequiredEnv), Permissions: orEmpty(d.Permissions), Readme: d.Readme,
	}
	for i, f := range d.Files {
		out.Files[i] = skillFile(f)
	}
	if out.FrontMatter == nil {
		out.FrontMatter = map[string]any{}
	}
	return answer(out, nil)
}

func (s *server) skillStats(ctx context.Context, in *SessionRef) (*body[list[skillStat]], error) {
	session, _, err := s.readable(ctx, in.SessionID)
	if err != nil {
		return nil, err
	}
	stats, err := s.Skills.Stats(ctx, session)
	items := make([]skillStat, len(stats))
	for i, stat := range stats {
		items[i] = skillStat{
			Name: stat.Name, Invocations: stat.Invocations, Errors: stat.Errors, LastUsedAt: stat.LastUsedAt,
			AvgDurationMS: stat.AvgDuration.Milliseconds(), Tokens: stat.Tokens,
		}
	}
	return answer(listOf(items), err)
}

type uploadedSkill struct {
	Name        string `json:"name"`
	SkillDir    string `json:"skill_dir" doc:"In the session's workspace."`
	FileCount   int    `json:"file_count"`
	Overwritten bool   `json:"overwritten"`
}

func (s *server) uploadSkill(ctx context.Context, in *struct {
	SessionRef
	Body struct {
		Name  string `json:"name" minLength:"1" maxLength:"64" doc:"As in the front matter of SKILL.md."`
		Files []struct {
			Path     string `json:"path" doc:"Relative to the package."`
			Content  string `json:"content"`
			Encoding string `json:"encoding,omitempty" enum:"utf-8,base64" doc:"Of content; utf-8 when left out."`
		} `json:"files" minItems:"1" maxItems:"500" doc:"The whole package; one of them is SKILL.md."`
	}
},
) (*body[uploadedSkill], error) {
	session, err := s.Store.OwnSession(ctx, callerOf(ctx).User, in.SessionID)
	if err != nil {
		return nil, err
	}
	files := make([]domain.NewSkillFile, len(in.Body.Files))
	for i, f := range in.Body.Files {
		files[i] = domain.NewSkillFile{Path: f.Path, Content: []byte(f.Content)}
		if f.Encoding == "base64" {
			if files[i].Content, err = base64.StdEncoding.DecodeString(f.Content); err != nil {
				return nil, domain.Invalidf(fmt.Sprintf("body.files[%d].content", i), "is not base64")
			}
		}
	}
	done, err := s.Skills.Upload(ctx, session, in.Body.Name, files)
	if err != nil {
		return nil, err
	}
	s.tellSkillChange(ctx, session.ID, done.Dir, done.Overwritten)
	return answer(uploadedSkill{Name: done.Name, SkillDir: done.Dir, FileCount: done.FileCount, Overwritten: done.Overwritten}, nil)
}

// tellSkillChange tells subscribers that a package in the workspace is another.
func (s *server) tellSkillChange(ctx context.Context, sessionID, dir string, replaced bool) {
	change := domain.FileChange{Path: dir, Change: "created"}
	if replaced {
		change.Change = "modified"
	}
	s.tellFileChange(ctx, sessionID, change)
}

type installedSkill struct {
	Name            string  `json:"name"`
	Version         string  `json:"version"`
	Digest          string  `json:"digest"`
	SkillDir        string  `json:"skill_dir" doc:"In the session's workspace."`
	FileCount       int     `json:"file_count"`
	ReplacedVersion *string `json:"replaced_version,omitempty" doc:"That the caller had installed before."`
}

func (s *server) installSkill(ctx context.Context, in *struct {
	SessionRef
	Body struct {
		Org     string `json:"org" minLength:"1" maxLength:"64"`
		Name    string `json:"name" minLength:"1" maxLength:"64"`
		Version string `json:"version,omitempty" maxLength:"128" doc:"The released one when left out."`
		Digest  string `json:"digest,omitempty" maxLength:"128" doc:"Install only the package that it names."`
	}
},
) (*body[installedSkill], error) {
	session, err := s.Store.OwnSession(ctx, callerOf(ctx).User, in.SessionID)
	if err != nil {
		return nil, err
	}
	done, err := s.Skills.Install(ctx, session, domain.SkillInstall(in.Body))
	if err != nil {
		return nil, err
	}
	s.tellSkillChange(ctx, session.ID, done.Dir, done.ReplacedVersion != nil)
	return answer(installedSkill{
		Name: done.Name, Version: done.Version, Digest: done.Digest, SkillDir: done.Dir, FileCount: done.FileCount,
		ReplacedVersion: done.ReplacedVersion,
	}, nil)
}

type resyncedSkills struct {
	Detail  string         `json:"detail" doc:"The outcome in words."`
	Added   []string       `json:"added"`
	Updated []string       `json:"updated"`
	Removed []string       `json:"removed"`
	Failed  []skillFailure `json:"failed"`
}

type skillFailure struct {
	Name    string `json:"name"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (s *server) resyncSkills(ctx context.Context, in *SessionRef) (*body[resyncedSkills], error) {
	session, err := s.Store.OwnSession(ctx, callerOf(ctx).User, in.SessionID)
	if err != nil {
		return nil, err
	}
	done, err := s.Skills.Resync(ctx, session)
	out := resyncedSkills{
		Added: orEmpty(done.Added), Updated: orEmpty(done.Updated), Removed: orEmpty(done.Removed), Failed: make([]skillFailure, len(done.Failed)),
	}
	for i, f := range done.Failed {
		out.Failed[i] = skillFailure(f)
	}
	out.Detail = fmt.Sprintf("%d added, %d updated, %d removed, %d cannot be used", len(out.Added), len(out.Updated), len(out.Removed), len(out.Failed))
	return answer(out, err)
}

// sessionSkill is one skill in a session's setup (shapes.md section 2).
type sessionSkill struct {
	Name    string             `json:"name"`
	Org     string             `json:"org,omitempty"`
	Version string             `json:"version"`
	Digest  string             `json:"digest"`
	Source  domain.SkillSource `json:"source" enum:"builtin,registry,uploaded,partner"`
}

// skillSnapshot is the version of its primary skill that a session keeps to.
type skillSnapshot struct {
	SkillID    string    `json:"skill_id"`
	Org        string    `json:"org"`
	Name       string    `json:"name"`
	Version    string    `json:"version"`
	Digest     string    `json:"digest"`
	Path       string    `json:"path" doc:"In the session's workspace."`
	FilesCount int       `json:"files_count"`
	TakenAt    time.Time `json:"taken_at"`
}

// detailPatience bounds how long what is beside its row may hold up the detail of a
// session.
const detailPatience = 5 * time.Second

// skillsOf gives the part of a session's setup that is about skills. The detail
// is given without it when it cannot be had.
func (s *server) skillsOf(ctx context.Context, session domain.Session) []sessionSkill {
	out := []sessionSkill{}
	if session.ID == "" {
		return out // the answer is an error
	}
	skills, err := s.Skills.SetUp(ctx, session)
	if err != nil {
		s.Logger.Warn("skills of a session not shown", "session_id", session.ID, "error", err)
	}
	for _, skill := range skills {
		out = append(out, sessionSkill{Name: skill.Name, Org: skill.Org, Version: skill.Version, Digest: skill.Digest, Source: skill.Source})
	}
	return out
}

// snapshotOf gives the snapshot of the primary skill, and takes it at first.
func (s *server) snapshotOf(session domain.Session) *skillSnapshot {
	if session.ID == "" || value(session.PrimarySkillID) == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.Context, detailPatience)
	defer cancel()
	snapshot, err := s.Skills.Snapshot(ctx, session)
	if err != nil {
		s.Logger.Warn("the primary skill of a session was not kept", "session_id", session.ID, "error", err)
	}
	if snapshot == nil {
		return nil
	}
	out := skillSnapshot(*snapshot)
	return &out
}
