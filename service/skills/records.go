//go:build linux

package skills

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/skill"
	"everloop/infra/postgres/pg"
	"everloop/infra/postgres/sessions"
)

// Store keeps the skills that users installed, and those of sessions.
type Store struct {
	db       *pg.DB
	sessions *sessions.Base
}

// NewStore returns a new store.
func NewStore(db *pg.DB) *Store { return &Store{db, sessions.NewBase(db)} }

// InstalledSkills lists what a user has installed, by name.
func (s *Store) InstalledSkills(ctx context.Context, ownerID string) ([]skill.Installed, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		SELECT owner_id, org, name, version, digest, installed_at
		FROM   installed_skills WHERE owner_id = $1 ORDER BY name`, ownerID)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[skill.Installed])

	return list, pg.Fault("list installed skills", err)
}

// InstallSkill records an installation in place of an earlier one of that name,
// whose version it gives; nil when there was none.
func (s *Store) InstallSkill(ctx context.Context, in skill.Installed) (replaced *string, err error) {
	err = s.db.Pool.QueryRow(ctx, `
		WITH earlier AS (SELECT version FROM installed_skills WHERE owner_id = @owner AND name = @name)
		INSERT INTO installed_skills (owner_id, name, org, version, digest)
		VALUES (@owner, @name, @org, @version, @digest)
		ON CONFLICT (owner_id, name) DO UPDATE
		SET org = excluded.org, version = excluded.version, digest = excluded.digest, installed_at = now()
		RETURNING (SELECT version FROM earlier)`,
		pgx.NamedArgs{"owner": in.OwnerID, "name": in.Name, "org": in.Org, "version": in.Version, "digest": in.Digest},
	).Scan(&replaced)

	return replaced, pg.Fault("record an installed skill", err)
}

// SessionSkills lists the packages that a session's workspace is known to hold.
// The caller may read the session.
func (s *Store) SessionSkills(ctx context.Context, sessionID domain.SessionID) ([]skill.SessionSkill, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		SELECT session_id, name, source, org, version, digest, installed_at
		FROM   session_skills WHERE session_id = $1 ORDER BY name`, sessionID)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[skill.SessionSkill])

	return list, pg.Fault("list skills of a session", err)
}

// PutSessionSkill records a package of a workspace as it now is.
func (s *Store) PutSessionSkill(ctx context.Context, in skill.SessionSkill) error {
	_, err := s.db.Pool.Exec(ctx, `
		INSERT INTO session_skills (session_id, name, source, org, version, digest)
		VALUES (@session, @name, @source, @org, @version, @digest)
		ON CONFLICT (session_id, name) DO UPDATE
		SET source = excluded.source, org = excluded.org, version = excluded.version, digest = excluded.digest, installed_at = now()`,
		pgx.NamedArgs{
			"session": in.SessionID, "name": in.Name, "source": in.Source, "org": in.Org, "version": in.Version, "digest": in.Digest,
		})

	return pg.Fault("record a skill of a session", err)
}

// DropSessionSkills forgets packages that a workspace no longer holds.
func (s *Store) DropSessionSkills(ctx context.Context, sessionID domain.SessionID, names []string) error {
	_, err := s.db.Pool.Exec(ctx, `DELETE FROM session_skills WHERE session_id = $1 AND name = ANY ($2)`, sessionID, names)
	return pg.Fault("forget skills of a session", err)
}

// LoadedSkill records that the model of a session has read this version of a
// skill, and gives the version that it had read before; empty for none.
func (s *Store) LoadedSkill(ctx context.Context, sessionID domain.SessionID, name, digest string) (before string, err error) {
	err = s.db.Pool.QueryRow(ctx, `
		WITH earlier AS (SELECT digest FROM skill_loads WHERE session_id = @session AND name = @name)
		INSERT INTO skill_loads (session_id, name, digest) VALUES (@session, @name, @digest)
		ON CONFLICT (session_id, name) DO UPDATE SET digest = excluded.digest, loaded_at = now()
		RETURNING coalesce((SELECT digest FROM earlier), '')`,
		pgx.NamedArgs{"session": sessionID, "name": name, "digest": digest}).Scan(&before)

	return before, pg.Fault("record the use of a skill", err)
}

const snapshotColumns = `skill_id, org, name, version, digest, path, files_count, taken_at`

// SkillSnapshot gives the version of its primary skill that a session keeps to;
// nil when none was taken.
func (s *Store) SkillSnapshot(ctx context.Context, sessionID domain.SessionID) (*skill.Snapshot, error) {
	rows, _ := s.db.Pool.Query(ctx, `SELECT `+snapshotColumns+` FROM skill_snapshots WHERE session_id = $1`, sessionID)

	snapshot, err := pgx.CollectExactlyOneRow(rows, pgx.RowToAddrOfStructByName[skill.Snapshot])
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}

	return snapshot, pg.Fault("read the snapshot of a skill", err)
}

// TakeSkillSnapshot records the version of its primary skill that a session
// keeps to. The first one stays; it is what is given.
func (s *Store) TakeSkillSnapshot(ctx context.Context, sessionID domain.SessionID, in skill.Snapshot) (*skill.Snapshot, error) {
	_, err := s.db.Pool.Exec(ctx, `
		INSERT INTO skill_snapshots (session_id, skill_id, org, name, version, digest, path, files_count)
		VALUES (@session, @skill, @org, @name, @version, @digest, @path, @files)
		ON CONFLICT (session_id) DO NOTHING`,
		pgx.NamedArgs{
			"session": sessionID, "skill": in.SkillID, "org": in.Org, "name": in.Name, "version": in.Version,
			"digest": in.Digest, "path": in.Path, "files": in.FilesCount,
		})
	if err != nil {
		return nil, pg.Fault("record the snapshot of a skill", err)
	}

	return s.SkillSnapshot(ctx, sessionID)
}

// maxCountedCalls bounds how many calls of a session its statistics are made of;
// the newest count.
const maxCountedCalls = 10_000

// charsPerToken is how many characters of English text make a token, about.
const charsPerToken = 4

// SkillStats returns how a session has used its skills, from the ledger of tool
// calls. The caller may read the session.
func (s *Store) SkillStats(ctx context.Context, sessionID domain.SessionID) ([]skill.Stat, error) {
	rows, err := s.db.Pool.Query(ctx, `
		SELECT arguments, status, duration_ms, length(result), coalesce(started_at, created_at)
		FROM   tool_calls
		WHERE  session_id = $1 AND tool_name = 'Skill' AND status IN ('done', 'error')
		ORDER BY created_at DESC LIMIT $2`, sessionID, maxCountedCalls)
	if err != nil {
		return nil, pg.Fault("read the use of skills", err)
	}

	stats := map[string]*skill.Stat{}

	var (
		arguments, status string
		milliseconds      int64
		chars             int
		used              time.Time
	)

	_, err = pgx.ForEachRow(rows, []any{&arguments, &status, &milliseconds, &chars, &used}, func() error {
		var in struct {
			Name string `json:"name"`
		}
		if json.Unmarshal([]byte(arguments), &in) != nil || in.Name == "" || len(in.Name) > 64 {
			return nil // names no skill
		}

		stat := stats[in.Name]
		if stat == nil {
			stat = &skill.Stat{Name: in.Name}
			stats[in.Name] = stat
		}

		stat.Invocations++
		if status == string(domain.CallError) {
			stat.Errors++
		} else {
			stat.Tokens += (chars + charsPerToken - 1) / charsPerToken
		}

		stat.AvgDuration += time.Duration(milliseconds) * time.Millisecond // the sum, until the end
		if used.After(stat.LastUsedAt) {
			stat.LastUsedAt = used
		}

		return nil
	})

	list := make([]skill.Stat, 0, len(stats))
	for _, stat := range stats {
		stat.AvgDuration /= time.Duration(stat.Invocations)
		list = append(list, *stat)
	}

	slices.SortFunc(list, func(a, b skill.Stat) int { return strings.Compare(a.Name, b.Name) })

	return list, pg.Fault("read the use of skills", err)
}
