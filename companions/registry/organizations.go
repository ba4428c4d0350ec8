package registry

import (
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"everloop/companions/edge"
)

type organization struct {
	Name        string `json:"name"`
	DisplayName string `json:"display_name"`
	SkillCount  int    `json:"skill_count"`
}

// Bounds of texts and lists.
const (
	maxTitle         = 200
	maxDescription   = 4000
	maxMembers       = 500
	maxListed        = 2000
	maxOrgsListed    = 5000
	maxUserID        = 200
	defaultPage      = 50
	maxPage          = 200
	defaultResources = 200
	maxResources     = 1000
	maxOffset        = 1_000_000
)

func (s *Service) listOrganizations(w http.ResponseWriter, r *http.Request) error {
	rows, err := s.db.Query(r.Context(), `
		SELECT o.name, o.display_name, count(k.released_version)
		FROM registry.organizations o LEFT JOIN registry.skills k ON k.org = o.name
		GROUP BY o.name ORDER BY o.name LIMIT $1`, maxOrgsListed)
	if err != nil {
		return err
	}

	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[organization])
	if err != nil {
		return err
	}

	edge.WriteJSON(w, http.StatusOK, items[organization]{list})

	return nil
}

// putOrganization creates an organisation, or changes its display name.
func (s *Service) putOrganization(w http.ResponseWriter, r *http.Request) error {
	org := r.PathValue("org")
	if err := checkOrg(org); err != nil {
		return err
	}

	caller, err := s.writer(r)
	if err != nil {
		return err
	}

	var in struct {
		DisplayName string `json:"display_name"`
	}
	if err := edge.ReadJSON(w, r, edge.MaxBody, &in); err != nil {
		return err
	}

	if err := checkText("body.display_name", in.DisplayName, 1, maxTitle); err != nil {
		return err
	}

	out := organization{Name: org, DisplayName: in.DisplayName}

	err = pgx.BeginFunc(r.Context(), s.db, func(tx pgx.Tx) error {
		if err := claim(r.Context(), tx, org, caller); err != nil {
			return err
		}

		return tx.QueryRow(r.Context(), `
			UPDATE registry.organizations SET display_name = $2 WHERE name = $1
			RETURNING (SELECT count(released_version) FROM registry.skills WHERE org = $1)`, org, in.DisplayName).Scan(&out.SkillCount)
	})
	if err != nil {
		return err
	}

	edge.WriteJSON(w, http.StatusOK, out)

	return nil
}

func checkText(where, text string, least, most int) error {
	n := utf8.RuneCountInString(text)
	if n < least || n > most || !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return edge.Invalid(where, "must have %d to %d characters", least, most)
	}

	return nil
}

// checkUser checks an id of a user of the agent: text without spaces.
func checkUser(id string) error {
	if strings.ContainsFunc(id, unicode.IsSpace) {
		return edge.Invalid("path.user", "must be the id of a user")
	}

	return checkText("path.user", id, 1, maxUserID)
}

// memberOf authorizes a request about the members of an organisation: only members can list and
// change them.
func (s *Service) memberOf(r *http.Request) (org string, err error) {
	org = r.PathValue("org")
	if err := checkOrg(org); err != nil {
		return org, err
	}

	caller, err := s.writer(r)
	if err != nil {
		return org, err
	}

	exists, err := mayPublish(r.Context(), s.db, org, caller)
	if err == nil && !exists {
		err = edge.Refuse(http.StatusNotFound, "organization_not_found", "there is no organisation %s", org)
	}

	return org, err
}

func (s *Service) listMembers(w http.ResponseWriter, r *http.Request) error {
	org, err := s.memberOf(r)
	if err != nil {
		return err
	}

	rows, err := s.db.Query(r.Context(),
		`SELECT user_id FROM registry.members WHERE org = $1 ORDER BY added_at, user_id LIMIT $2`, org, maxMembers)
	if err != nil {
		return err
	}

	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}

	edge.WriteJSON(w, http.StatusOK, items[string]{list})

	return nil
}

func (s *Service) addMember(w http.ResponseWriter, r *http.Request) error {
	org, err := s.memberOf(r)
	if err != nil {
		return err
	}

	user := r.PathValue("user")
	if err := checkUser(user); err != nil {
		return err
	}

	added, err := s.db.Exec(r.Context(), `
		INSERT INTO registry.members (org, user_id) SELECT $1, $2
		WHERE (SELECT count(*) FROM registry.members WHERE org = $1) < $3
		ON CONFLICT (org, user_id) DO UPDATE SET user_id = EXCLUDED.user_id`,
		org, user, maxMembers)
	if err != nil {
		return err
	}

	if added.RowsAffected() == 0 {
		return edge.Refuse(http.StatusConflict, "too_many_members", "an organisation has at most %d members", maxMembers)
	}

	w.WriteHeader(http.StatusNoContent)

	return nil
}

func (s *Service) removeMember(w http.ResponseWriter, r *http.Request) error {
	org, err := s.memberOf(r)
	if err != nil {
		return err
	}

	user := r.PathValue("user")
	if err := checkText("path.user", user, 1, maxUserID); err != nil {
		return err
	}

	var last bool

	err = s.db.QueryRow(r.Context(), `
		WITH gone AS (
			DELETE FROM registry.members WHERE org = $1 AND user_id = $2
			AND (SELECT count(*) FROM (SELECT FROM registry.members WHERE org = $1 FOR UPDATE) AS m) > 1 RETURNING 1)
		SELECT NOT EXISTS (SELECT FROM gone) AND EXISTS (SELECT FROM registry.members WHERE org = $1 AND user_id = $2)`,
		org, user).Scan(&last)
	if err != nil {
		return err
	}

	if last {
		return edge.Refuse(http.StatusConflict, "last_member", "an organisation needs a member: add another one first")
	}

	w.WriteHeader(http.StatusNoContent)

	return nil
}
