package pg_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/postgres"
	"everloop/infra/postgres/pgtest"
	"everloop/service/accounts"
)

func TestOpenHidesThePassword(t *testing.T) {
	t.Parallel()
	_, err := postgres.Open(t.Context(), "postgres://me:hunter2@:::/x?pool_max_conns=zz", postgres.Options{})
	require.Error(t, err)
	require.NotContains(t, err.Error(), "hunter2")
}

func TestTimesComeBackInUTC(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)

	var at time.Time
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT now()`).Scan(&at))
	require.Equal(t, time.UTC, at.Location())

	var zone, name string
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT current_setting('timezone'),
		current_setting('application_name')`).Scan(&zone, &name))
	require.Equal(t, "UTC", zone)
	require.Equal(t, "everloop", name)
}

// The server of the tests has it off, too: an operator's has it on unless it is configured otherwise.
func TestOpen_compilesNoStatements(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)

	var setting, source string
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT setting, source FROM pg_settings WHERE name = 'jit'`).Scan(&setting, &source))
	require.Equal(t, "off", setting)
	require.Equal(t, "client", source)
}

func TestInTx(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)

	t.Run("rolls back on an error", func(t *testing.T) {
		refused := errors.New("refused")
		err := db.InTx(t.Context(), func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), `INSERT INTO audit (id, actor_id, action, target) VALUES ('a', '', '', '')`)
			require.NoError(t, err)

			return refused
		})
		require.ErrorIs(t, err, refused)

		var n int
		require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM audit`).Scan(&n))
		require.Zero(t, n)
	})
	t.Run("runs a serialization failure again", func(t *testing.T) {
		runs := 0
		err := db.InTx(t.Context(), func(pgx.Tx) error {
			if runs++; runs < 3 {
				return &pgconn.PgError{Code: "40001"}
			}

			return nil
		})
		require.NoError(t, err)
		require.Equal(t, 3, runs)
	})
	t.Run("gives up in the end", func(t *testing.T) {
		runs := 0
		err := db.InTx(t.Context(), func(pgx.Tx) error { runs++; return &pgconn.PgError{Code: "40P01"} })
		require.Error(t, err)
		require.Equal(t, 5, runs)
	})
	t.Run("a real deadlock ends well for both", func(t *testing.T) {
		a, b := pgtest.User(t, db, "left", false), pgtest.User(t, db, "right", false)

		var met atomic.Int32

		both := make(chan struct{})
		touch := func(first, second string) error {
			waited := false

			return db.InTx(t.Context(), func(tx pgx.Tx) error {
				if _, err := tx.Exec(t.Context(), `UPDATE users SET name = name || '.' WHERE id = $1`, first); err != nil {
					return err
				}

				if !waited { // only the first run waits for the other to hold its row
					waited = true

					if met.Add(1) == 2 {
						close(both)
					}

					<-both
				}

				_, err := tx.Exec(t.Context(), `UPDATE users SET name = name || '.' WHERE id = $1`, second)

				return err
			})
		}

		other := make(chan error, 1)
		go func() { other <- touch(b.ID, a.ID) }()

		require.NoError(t, touch(a.ID, b.ID))
		require.NoError(t, <-other)
		left, err := accounts.New(db.DB).User(t.Context(), a.ID)
		require.NoError(t, err)
		require.Equal(t, "..", left.Name)
	})
}

func TestFaultsAreDomainErrors(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)

	user := pgtest.User(t, db, "u", false)
	session, err := db.CreateSession(t.Context(), user.ID, domain.NewSession{})
	require.NoError(t, err)

	store := postgres.NewStore(db, &pgtest.Log{}, slog.New(slog.DiscardHandler))

	for name, call := range map[string]func() error{
		"NUL in text": func() error {
			_, err := db.CreateSession(t.Context(), user.ID, domain.NewSession{Intent: "a\x00b"})
			return err
		},
		"NUL in JSON": func() error {
			_, err := db.CreateSession(t.Context(), user.ID, domain.NewSession{Env: map[string]string{"A": "\x00"}})
			return err
		},
		"bytes that are not UTF-8": func() error {
			_, err := db.Sessions(t.Context(), domain.SessionQuery{OwnerID: user.ID, Search: "\xff\xfe", Limit: 1})
			return err
		},
		"half of a surrogate pair in JSON": func() error {
			_, err := db.MergeExtraInfo(t.Context(), session.ID, map[string]json.RawMessage{"n": json.RawMessage(`"\ud800"`)})
			return err
		},
		"half of a surrogate pair in JSON of a batch": func() error {
			_, err := store.Enqueue(t.Context(), user.ID, domain.Send{
				SessionID: session.ID, Message: []domain.ContentPart{{Type: "text", Text: "x"}}, Trigger: domain.TriggerUser,
				Delivery: domain.DeliverEnqueue, OutputSchema: json.RawMessage(`{"description":"\ud800"}`),
			})

			return err
		},
		"NUL in the id of a tool call": func() error {
			_, _, err := db.Question(t.Context(), user.ID, session.ID, "a\x00b")
			return err
		},
		"outside a CHECK": func() error {
			_, err := accounts.New(db.DB).CreateKey(t.Context(), domain.APIKey{ID: "x", UserID: user.ID}, make([]byte, 32))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			refused, ok := errors.AsType[*domain.Error](call())
			require.True(t, ok, "no domain error")
			require.Equal(t, domain.Invalid, refused.Kind)
		})
	}

	db.Close()
	_, err = accounts.New(db.DB).Users(context.Background())
	require.Error(t, err)
}

func TestAnAbsentDatabaseIsUnavailable(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)

	var name string
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT current_database()`).Scan(&name))

	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()

	_, err := accounts.New(db.DB).Users(ctx)
	require.Equal(t, domain.Unavailable, domain.AsError(err).Kind)
}
