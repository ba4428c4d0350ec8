// Package memories is the room of memories: what agents and users record for later sessions of
// a user.
package memories

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

// Store reads and writes the memories of users. A memory of another user does not exist for a
// caller: the error is memory_not_found.
type Store struct{ db *pg.DB }

// New returns a store on a database.
func New(db *pg.DB) *Store { return &Store{db} }

const memoryColumns = `id, type, content, skill_name, record_type, scope, owner, topic, external_id, superseded_by, write_reason,
	created_at, updated_at, hit_count, last_hit_at, disabled, source_session`

// CreateMemory stores a memory of the user. It is idempotent by the tool call that writes the
// memory: a repeated call returns the stored one.
func (s *Store) CreateMemory(ctx context.Context, userID string, in domain.NewMemory) (domain.Memory, error) {
	var made domain.Memory

	err := s.db.InTx(ctx, func(tx pgx.Tx) error {
		rows, _ := tx.Query(ctx, `
			INSERT INTO memories (user_id, type, content, skill_name, record_type, scope, owner, topic, external_id, write_reason,
			    source_session, call_id, disabled)
			VALUES (@user, @type, @content, @skill, @record, @scope, @owner, @topic, @external, @reason, @session, nullif(@call, ''),
			    EXISTS (SELECT 1 FROM tool_calls t WHERE t.chat_id = @after AND `+pg.ReadsOutside+`))
			ON CONFLICT (call_id) DO UPDATE SET call_id = excluded.call_id
			RETURNING `+memoryColumns,
			pgx.NamedArgs{
				"user": userID, "type": in.Type, "content": in.Content, "skill": in.SkillName, "record": in.RecordType, "scope": in.Scope,
				"owner": in.Owner, "topic": in.Topic, "external": in.ExternalID, "reason": in.WriteReason, "session": in.SourceSession,
				"call": in.CallID, "after": in.DisabledAfter,
			})

		var err error
		if made, err = pgx.CollectExactlyOneRow(
			rows,
			pgx.RowToStructByName[domain.Memory],
		); err != nil || in.Supersedes == 0 ||
			made.Disabled {
			return err
		}

		tag, err := tx.Exec(ctx, `
			UPDATE memories SET superseded_by = $3, updated_at = now() WHERE id = $1 AND user_id = $2 AND id <> $3`,
			in.Supersedes, userID, made.ID)
		if err == nil && tag.RowsAffected() == 0 {
			return domain.MemoryNotFound(in.Supersedes)
		}

		return err
	})

	return made, pg.Fault("create memory", err)
}

// Memories returns a page of the user's memories that match q, newest first, and their total
// number.
func (s *Store) Memories(ctx context.Context, q domain.MemoryQuery) ([]domain.Memory, int, error) {
	where := []string{"user_id = @user"}

	args := pgx.NamedArgs{"user": q.UserID, "limit": q.Limit, "offset": q.Offset}
	for column, value := range map[string]string{
		"skill_name": q.SkillName, "type": q.Type, "record_type": q.RecordType, "scope": q.Scope, "owner": q.Owner, "topic": q.Topic,
	} {
		if value != "" {
			where = append(where, column+" = @"+column)
			args[column] = value
		}
	}

	slices.Sort(where) // one text for one set of filters

	if q.Keyword != "" {
		where = append(where, "strpos(fold_case(content), fold_case(@keyword)) > 0")
		args["keyword"] = q.Keyword
	}

	switch q.Status {
	case "active":
		where = append(where, "NOT disabled AND superseded_by IS NULL")
	case "disabled":
		where = append(where, "disabled")
	case "superseded":
		where = append(where, "superseded_by IS NOT NULL")
	}

	condition := strings.Join(where, " AND ")

	var (
		found []domain.Memory
		total int
		batch pgx.Batch
	)
	batch.Queue(`SELECT `+memoryColumns+` FROM memories WHERE `+condition+` ORDER BY id DESC LIMIT @limit OFFSET @offset`, args).
		Query(func(rows pgx.Rows) (err error) {
			found, err = pgx.CollectRows(rows, pgx.RowToStructByName[domain.Memory])
			return err
		})
	batch.Queue(`SELECT count(*) FROM memories WHERE `+condition, args).
		QueryRow(func(row pgx.Row) error { return row.Scan(&total) })

	return found, total, pg.Fault("list memories", s.db.Pool.SendBatch(ctx, &batch).Close())
}

// Memory returns one memory of the user.
func (s *Store) Memory(ctx context.Context, userID string, id int64) (domain.Memory, error) {
	rows, _ := s.db.Pool.Query(ctx, `SELECT `+memoryColumns+` FROM memories WHERE id = $1 AND user_id = $2`, id, userID)
	return oneMemory(rows, id, "read memory")
}

// memoryChanges are the columns that a change can set.
var memoryChanges = []string{"type", "content", "skill_name", "record_type", "scope", "owner", "topic", "external_id", "write_reason"}

// ChangeMemory sets the given fields.
func (s *Store) ChangeMemory(ctx context.Context, userID string, id int64, fields []domain.MemoryField) (domain.Memory, error) {
	sets := []string{"updated_at = now()"}
	args := pgx.NamedArgs{"id": id, "user": userID}

	for _, f := range fields {
		if !slices.Contains(memoryChanges, f.Column) {
			return domain.Memory{}, fmt.Errorf("cannot change field %s of memories", f.Column)
		}

		sets = append(sets, f.Column+" = @"+f.Column)
		args[f.Column] = f.Value
	}

	rows, _ := s.db.Pool.Query(ctx, `
		UPDATE memories SET `+strings.Join(sets, ", ")+` WHERE id = @id AND user_id = @user RETURNING `+memoryColumns, args)

	return oneMemory(rows, id, "change memory")
}

// SetMemoryDisabled disables or enables a memory. A disabled memory is not recalled.
func (s *Store) SetMemoryDisabled(ctx context.Context, userID string, id int64, disabled bool) (domain.Memory, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		UPDATE memories SET disabled = $3, updated_at = now() WHERE id = $1 AND user_id = $2
		    RETURNING `+memoryColumns, id, userID, disabled)

	return oneMemory(rows, id, "disable memory")
}

// DeleteMemory deletes a memory.
func (s *Store) DeleteMemory(ctx context.Context, userID string, id int64) error {
	n, err := s.ChangeMemories(ctx, userID, "delete", []int64{id})
	if err == nil && n == 0 {
		return domain.MemoryNotFound(id)
	}

	return err
}

// ChangeMemories deletes, disables or enables the memories of the user with the ids, and
// returns their number.
func (s *Store) ChangeMemories(ctx context.Context, userID, action string, ids []int64) (int, error) {
	statement := `UPDATE memories SET disabled = ($3 = 'disable'), updated_at = now() WHERE id = ANY ($2) AND user_id = $1`

	args := []any{userID, ids, action}
	if action == "delete" {
		statement, args = `DELETE FROM memories WHERE id = ANY ($2) AND user_id = $1`, args[:2]
	}

	tag, err := s.db.Pool.Exec(ctx, statement, args...)

	return int(tag.RowsAffected()), pg.Fault("change memories", err)
}

// Limits of one recall.
const (
	recallMatches  = 6 // memories that match words of the question
	recallGuidance = 4 // newest feedback, independent of the question
)

// RecallMemories returns the user's memories for a question: the best matches of its words, and
// the newest feedback. Stop words ("the", "is") do not match. It counts a hit for each memory
// that it returns.
func (s *Store) RecallMemories(ctx context.Context, userID, question string) ([]domain.RecalledMemory, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		WITH asked AS (
			SELECT nullif(array_to_string(array(
				SELECT '''' || replace(replace(lexeme, '\', '\\'), '''', '''''') || ''''
				FROM   unnest(to_tsvector('simple', @question) || to_tsvector('english', @question))
				WHERE  to_tsvector('english', lexeme) <> '' LIMIT 100), ' | '), '')::tsquery AS q),
		usable AS (SELECT m.id, m.type, m.words FROM memories m WHERE m.user_id = @user AND NOT m.disabled AND m.superseded_by IS NULL),
		matching AS (
			SELECT u.id, ts_rank(u.words, asked.q) AS score FROM usable u, asked WHERE u.words @@ asked.q
			ORDER BY score DESC, u.id DESC LIMIT @matches),
		guidance AS (SELECT u.id, 0::real AS score FROM usable u WHERE u.type = 'feedback' ORDER BY u.id DESC LIMIT @guidance),
		chosen AS (SELECT id, max(score) AS score FROM (SELECT * FROM matching UNION ALL SELECT * FROM guidance) both_kinds GROUP BY id)
		UPDATE memories m SET hit_count = hit_count + 1, last_hit_at = now()
		FROM   chosen WHERE m.id = chosen.id
		RETURNING m.id, m.type, m.topic, m.content, chosen.score`,
		pgx.NamedArgs{"user": userID, "question": first(question, 4000), "matches": recallMatches, "guidance": recallGuidance})
	recalled, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (domain.RecalledMemory, error) {
		var m domain.RecalledMemory

		err := row.Scan(&m.ID, &m.Type, &m.Topic, &m.Content, &m.Score)

		return m, err
	})
	slices.SortFunc(
		recalled,
		func(a, b domain.RecalledMemory) int { return cmp.Compare(a.ID, b.ID) },
	) // a stable order keeps prompts cacheable

	return recalled, pg.Fault("recall memories", err)
}

// SessionMemories returns the owner's memories that a session created, at most 10,000.
func (s *Store) SessionMemories(ctx context.Context, ownerID string, sessionID domain.SessionID) ([]domain.Memory, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		SELECT `+memoryColumns+` FROM memories WHERE user_id = $1 AND source_session = $2 ORDER BY id DESC LIMIT 10000`, ownerID, sessionID)

	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[domain.Memory])
	if err != nil {
		return nil, fmt.Errorf("read the memories of a session: %w", err)
	}

	return list, nil
}

// first returns at most n bytes of a text, cut at a character.
func first(s string, n int) string {
	if len(s) <= n {
		return s
	}

	return strings.ToValidUTF8(s[:n], "")
}

func oneMemory(rows pgx.Rows, id int64, doing string) (domain.Memory, error) {
	m, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[domain.Memory])
	if errors.Is(err, pgx.ErrNoRows) {
		return m, domain.MemoryNotFound(id)
	}

	return m, pg.Fault(doing, err)
}
