package sessions_test

import (
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/postgres"
	"everloop/infra/postgres/pgtest"
)

func TestCreateAndReadSession(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	ann, bob, root := pgtest.User(t, db, "ann", false), pgtest.User(t, db, "bob", false), pgtest.User(t, db, "root", true)

	plain, err := db.CreateSession(t.Context(), ann.ID, domain.NewSession{})
	require.NoError(t, err)
	require.Equal(t, domain.SessionCreated, plain.Status)
	require.Equal(t, domain.WaitingNone, plain.WaitingReason)
	require.Equal(t, domain.ModeExecuting, plain.Mode)
	require.Zero(t, plain.QueueLength)
	require.NotZero(t, plain.SandboxUID)
	require.Equal(t, domain.SessionEnv{}, plain.Env)

	var branches int
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM branches WHERE session_id = $1 AND id = $2 AND reason = 'root'`,
		plain.ID, plain.ActiveBranchID).Scan(&branches))
	require.Equal(t, 1, branches)

	text, number := "x", int64(7)
	full, err := db.CreateSession(t.Context(), ann.ID, domain.NewSession{
		Intent: "i", SolutionID: &text, BizRoleID: &text, TemplateID: &text, PrimarySkillID: &text, Model: &text,
		SoftwareFactory: &number, WorkspaceID: &text, MemoryEnabled: true, Persistent: true, Mode: domain.ModePlanning,
		Env: map[string]string{"A": "1"}, DisableTools: []string{"Bash"},
	})
	require.NoError(t, err)
	read, role, err := db.ReadSession(t.Context(), ann, full.ID)
	require.NoError(t, err)
	require.Equal(t, domain.ViewerOwner, role)
	require.Equal(t, full, read)
	require.Equal(t, "1", read.Env["A"])
	require.Equal(t, domain.ModePlanning, read.Mode)
	require.NotEqual(t, plain.SandboxUID, full.SandboxUID)

	_, _, err = db.ReadSession(t.Context(), bob, full.ID)
	require.True(t, domain.HasCode(err, domain.CodeSessionNotFound))
	_, role, err = db.ReadSession(t.Context(), root, full.ID)
	require.NoError(t, err)
	require.Equal(t, domain.ViewerAdmin, role)
	_, err = db.SetSessionShared(t.Context(), ann, full.ID, true)
	require.NoError(t, err)
	_, role, err = db.ReadSession(t.Context(), bob, full.ID)
	require.NoError(t, err)
	require.Equal(t, domain.ViewerViewer, role)
}

func TestOnlyTheOwnerChanges(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	log := &pgtest.Log{}
	journal := postgres.NewStore(db, log, slog.New(slog.DiscardHandler))
	ann, bob, root := pgtest.User(t, db, "ann", false), pgtest.User(t, db, "bob", false), pgtest.User(t, db, "root", true)
	session, err := db.CreateSession(t.Context(), ann.ID, domain.NewSession{})
	require.NoError(t, err)
	shared, err := db.CreateSession(t.Context(), ann.ID, domain.NewSession{})
	require.NoError(t, err)
	shared, err = db.SetSessionShared(t.Context(), ann, shared.ID, true)
	require.NoError(t, err)

	changes := map[string]func(domain.User, domain.SessionID) (domain.Session, error){
		"env": func(u domain.User, id domain.SessionID) (domain.Session, error) {
			return db.SetSessionEnv(t.Context(), u, id, map[string]string{"K": "v"})
		},
		"pin": func(u domain.User, id domain.SessionID) (domain.Session, error) {
			return db.SetSessionPinned(t.Context(), u, id, true)
		},
		"share": func(u domain.User, id domain.SessionID) (domain.Session, error) {
			return db.SetSessionShared(t.Context(), u, id, true)
		},
		"memory": func(u domain.User, id domain.SessionID) (domain.Session, error) {
			return db.SetSessionMemory(t.Context(), u, id, true)
		},
		"rename": func(u domain.User, id domain.SessionID) (domain.Session, error) {
			return journal.RenameSession(t.Context(), u, id, "new name")
		},
	}
	for name, change := range changes {
		_, err := change(bob, session.ID)
		require.Truef(t, domain.HasCode(err, domain.CodeSessionNotFound), "%s of a hidden session: %v", name, err)
		_, err = change(bob, shared.ID)
		require.Truef(t, domain.HasCode(err, "forbidden"), "%s of a shared session: %v", name, err)
		_, err = change(root, session.ID)
		require.Truef(t, domain.HasCode(err, "forbidden"), "%s by an administrator: %v", name, err)
	}

	require.NoError(t, journal.Flush(t.Context()))
	require.Empty(t, log.Events())

	for name, change := range changes {
		_, err := change(ann, session.ID)
		require.NoError(t, err, name)
	}

	read, _, err := db.ReadSession(t.Context(), ann, session.ID)
	require.NoError(t, err)
	require.Equal(t, "new name", read.Intent)
	require.True(t, read.Pinned && read.Shared && read.MemoryEnabled)
	require.Equal(t, domain.SessionEnv{"K": "v"}, read.Env)
	require.True(t, read.UpdatedAt.After(session.UpdatedAt))
	require.NoError(t, journal.Flush(t.Context()))
	require.Len(t, log.Events(), 1)
	require.Equal(t, domain.EventSessionUpdated, log.Events()[0].Name)
	require.Contains(t, string(log.Events()[0].Data), `"new name"`)

	_, err = db.Pool.Exec(t.Context(), `UPDATE sessions SET deleted_at = now() WHERE id = $1`, session.ID)
	require.NoError(t, err)

	for name, change := range changes {
		_, err := change(ann, session.ID)
		require.Truef(t, domain.HasCode(err, domain.CodeSessionNotFound), "%s of a deleted session: %v", name, err)
	}
}

func TestListSessions(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	ann, bob := pgtest.User(t, db, "ann", false), pgtest.User(t, db, "bob", false)

	var made []domain.Session

	for i := range 5 {
		template := fmt.Sprintf("t_%d", i%2)
		s, err := db.CreateSession(
			t.Context(),
			ann.ID,
			domain.NewSession{Intent: fmt.Sprintf("Fix 100%% of ÄPFEL_%d", i), TemplateID: &template},
		)
		require.NoError(t, err)

		made = append(made, s)
	}

	_, err := db.CreateSession(t.Context(), bob.ID, domain.NewSession{Intent: "äpfel of bob"})
	require.NoError(t, err)
	_, err = db.SetSessionPinned(t.Context(), ann, made[1].ID, true)
	require.NoError(t, err)
	pgtest.Say(t, db, made[0], 0, `[{"type":"thinking","content":"secret plan"},{"type":"text","content":"Der \"Bär\"\nsagt 5% Hallo"}]`)

	for name, tc := range map[string]struct {
		query domain.SessionQuery
		want  []int
		total int
	}{
		"newest first, pinned before":      {domain.SessionQuery{Limit: 20}, []int{1, 4, 3, 2, 0}, 5},
		"a page":                           {domain.SessionQuery{Limit: 2, Offset: 1}, []int{4, 3}, 5},
		"beyond the end":                   {domain.SessionQuery{Limit: 2, Offset: 9}, []int{}, 5},
		"template prefix":                  {domain.SessionQuery{Limit: 9, TemplateIDPrefix: "t_1"}, []int{1, 3}, 2},
		"a prefix is literal":              {domain.SessionQuery{Limit: 9, TemplateIDPrefix: "t%"}, []int{}, 0},
		"intent in any case":               {domain.SessionQuery{Limit: 9, Search: "äpfel_3"}, []int{3}, 1},
		"percent is literal":               {domain.SessionQuery{Limit: 9, Search: "100% OF"}, []int{1, 4, 3, 2, 0}, 5},
		"underscore is literal":            {domain.SessionQuery{Limit: 9, Search: "Ä_FEL"}, []int{}, 0},
		"backslash is literal":             {domain.SessionQuery{Limit: 9, Search: `\`}, []int{}, 0},
		"message text in any case":         {domain.SessionQuery{Limit: 9, Search: "BÄR"}, []int{0}, 1},
		"quotes and line ends in messages": {domain.SessionQuery{Limit: 9, Search: "\"bär\"\nSAGT"}, []int{0}, 1},
		"no escape artefacts":              {domain.SessionQuery{Limit: 9, Search: `nsagt`}, []int{}, 0},
		"thinking is not message text":     {domain.SessionQuery{Limit: 9, Search: "secret plan"}, []int{}, 0},
		"JSON keys are not message text":   {domain.SessionQuery{Limit: 9, Search: "content"}, []int{}, 0},
		"search and prefix":                {domain.SessionQuery{Limit: 1, Search: "fix", TemplateIDPrefix: "t_0"}, []int{4}, 3},
		"a search beyond the end":          {domain.SessionQuery{Limit: 1, Offset: 7, Search: "fix"}, []int{}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			tc.query.OwnerID = ann.ID
			page, err := db.Sessions(t.Context(), tc.query)
			require.NoError(t, err)

			got := []int{}

			for _, s := range page.Items {
				for i, m := range made {
					if m.ID == s.ID {
						got = append(got, i)
					}
				}
			}

			require.Equal(t, tc.want, got)
			require.Equal(t, tc.total, page.Total)
		})
	}
}

func TestSessionTasks(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	ann := pgtest.User(t, db, "ann", false)
	s, err := db.CreateSession(t.Context(), ann.ID, domain.NewSession{})
	require.NoError(t, err)
	other, err := db.CreateSession(t.Context(), ann.ID, domain.NewSession{})
	require.NoError(t, err)

	subject, done, odd := "write tests", domain.SessionTaskCompleted, domain.SessionTaskStatus("odd")

	var all sync.WaitGroup
	for i := range 8 { // one turn's calls run side by side
		all.Go(func() {
			_, err := db.AddSessionTask(t.Context(), s.ID, fmt.Sprintf("task-%d", i), domain.SessionTaskChange{Subject: &subject})
			require.NoError(t, err)
		})
	}

	all.Wait()

	_, err = db.AddSessionTask(t.Context(), s.ID, "task-0", domain.SessionTaskChange{Subject: &subject})
	require.NoError(t, err, "a repeated call finds its task")
	_, err = db.AddSessionTask(t.Context(), s.ID, "x", domain.SessionTaskChange{})
	require.Equal(t, domain.Invalid, domain.AsError(err).Kind)
	_, err = db.AddSessionTask(t.Context(), other.ID, "task-0", domain.SessionTaskChange{Subject: &subject})
	require.Error(t, err, "an id of another session")

	changed, err := db.ChangeSessionTask(t.Context(), s.ID, "task-3", domain.SessionTaskChange{Status: &done})
	require.NoError(t, err)
	require.Equal(t, done, changed.Status)
	require.Equal(t, subject, changed.Subject)
	_, err = db.ChangeSessionTask(t.Context(), s.ID, "task-3", domain.SessionTaskChange{Status: &odd})
	require.Equal(t, domain.Invalid, domain.AsError(err).Kind)
	_, err = db.ChangeSessionTask(t.Context(), other.ID, "task-3", domain.SessionTaskChange{Status: &done})
	require.True(t, domain.HasCode(err, "task_not_found"))

	owner, none := "Explore", ""
	changed, err = db.ChangeSessionTask(
		t.Context(),
		s.ID,
		"task-3",
		domain.SessionTaskChange{Owner: &owner, BlockedBy: &[]string{"task-1", "task-2"}},
	)
	require.NoError(t, err)
	require.Equal(t, &owner, changed.Owner)
	require.Equal(t, []string{"task-1", "task-2"}, changed.BlockedBy)
	changed, err = db.ChangeSessionTask(t.Context(), s.ID, "task-3", domain.SessionTaskChange{Owner: &none})
	require.NoError(t, err)
	require.Nil(t, changed.Owner)
	require.Len(t, changed.BlockedBy, 2, "what is not given stays")

	for _, blocker := range []string{"task-3", "nothing"} {
		_, err = db.ChangeSessionTask(t.Context(), s.ID, "task-3", domain.SessionTaskChange{BlockedBy: &[]string{blocker}})
		require.True(t, domain.HasCode(err, "task_not_found"), blocker)
	}

	_, err = db.AddSessionTask(t.Context(), other.ID, "y", domain.SessionTaskChange{Subject: &subject, BlockedBy: &[]string{"task-0"}})
	require.True(t, domain.HasCode(err, "task_not_found"), "a task of another session")

	tasks, err := db.SessionTasks(t.Context(), s.ID)
	require.NoError(t, err)
	require.Len(t, tasks, 8)

	for i, task := range tasks {
		require.Equal(t, fmt.Sprintf("task-%d", i), task.ID, "in the order of the calls, whichever was written first")
	}
}
