package accounts_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/postgres/pgtest"
	"everloop/service/accounts"
)

func TestIdempotency(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	begin := func(t *testing.T, key, request string) (*domain.StoredAnswer, error) {
		t.Helper()
		return accounts.New(db.DB).BeginIdempotent(t.Context(), "server", "u", key, []byte(request))
	}
	age := func(t *testing.T, key, by string) {
		t.Helper()
		_, err := db.Pool.Exec(t.Context(), `UPDATE idempotency_keys SET created_at = now() - $2::interval WHERE key = $1`, key, by)
		require.NoError(t, err)
	}
	kept := &domain.StoredAnswer{Status: 201, ContentType: "application/json", Body: []byte(`{}`), Form: []byte{}}

	t.Run("one of many at once runs", func(t *testing.T) {
		var ran, refused atomic.Int32

		done := make(chan struct{})

		for range 10 {
			go func() {
				defer func() { done <- struct{}{} }()

				if first, err := accounts.New(db.DB).
					BeginIdempotent(t.Context(), "server", "u", "race", []byte("r")); err == nil &&
					first == nil {
					ran.Add(1)
				} else if domain.HasCode(
					err,
					"idempotency_key_in_use",
				) {
					refused.Add(1)
				}
			}()
		}

		for range 10 {
			<-done
		}

		require.EqualValues(t, 1, ran.Load())
		require.EqualValues(t, 9, refused.Load())
	})
	t.Run("the answer is kept, for this request and this user", func(t *testing.T) {
		_, err := begin(t, "a", "r1")
		require.NoError(t, err)
		require.NoError(t, accounts.New(db.DB).FinishIdempotent(t.Context(), "u", "a", kept))
		first, err := begin(t, "a", "r1")
		require.NoError(t, err)
		require.Equal(t, kept, first)
		_, err = begin(t, "a", "r2")
		require.True(t, domain.HasCode(err, "idempotency_key_reused"))
		first, err = accounts.New(db.DB).BeginIdempotent(t.Context(), "server", "another user", "a", []byte("r1"))
		require.NoError(t, err)
		require.Nil(t, first)
	})
	t.Run("a secret is not kept", func(t *testing.T) {
		_, err := begin(t, "s", "r")
		require.NoError(t, err)
		require.NoError(t, accounts.New(db.DB).FinishIdempotent(t.Context(), "u", "s", nil))
		_, err = begin(t, "s", "r")
		require.True(t, domain.HasCode(err, "idempotency_secret_not_kept"))
		age(t, "s", "3 minutes")
		_, err = begin(t, "s", "r")
		require.True(t, domain.HasCode(err, "idempotency_secret_not_kept"), "it did finish")
	})
	t.Run("a released key is free", func(t *testing.T) {
		_, err := begin(t, "f", "r")
		require.NoError(t, err)
		require.NoError(t, accounts.New(db.DB).ReleaseIdempotent(t.Context(), "u", "f"))
		first, err := begin(t, "f", "another")
		require.NoError(t, err)
		require.Nil(t, first)
	})
	t.Run("a request whose process died is taken over, by the same request only", func(t *testing.T) {
		_, err := begin(t, "d", "r")
		require.NoError(t, err)
		_, err = begin(t, "d", "r")
		require.True(t, domain.HasCode(err, "idempotency_key_in_use"))
		age(t, "d", "3 minutes")
		_, err = begin(t, "d", "another")
		require.True(t, domain.HasCode(err, "idempotency_key_reused"))
		first, err := begin(t, "d", "r")
		require.NoError(t, err)
		require.Nil(t, first)
	})
	t.Run("a request whose server was started again is taken over", func(t *testing.T) {
		_, err := begin(t, "restart", "r")
		require.NoError(t, err)
		require.NoError(t, accounts.New(db.DB).FinishIdempotent(t.Context(), "u", "a", kept))
		require.NoError(t, accounts.New(db.DB).AbandonIdempotent(t.Context(), "another server"))
		_, err = begin(t, "restart", "r")
		require.True(t, domain.HasCode(err, "idempotency_key_in_use"))
		require.InDelta(t, 3, domain.AsError(err).RetryAfter, 2)

		require.NoError(t, accounts.New(db.DB).AbandonIdempotent(t.Context(), "server"))
		_, err = begin(t, "restart", "another")
		require.True(t, domain.HasCode(err, "idempotency_key_reused"))
		first, err := begin(t, "restart", "r")
		require.NoError(t, err)
		require.Nil(t, first)
		first, err = begin(t, "a", "r1")
		require.NoError(t, err)
		require.Equal(t, kept, first, "an answer stays")
	})
	t.Run("a request that takes long keeps its claim", func(t *testing.T) {
		_, err := begin(t, "long", "r")
		require.NoError(t, err)
		age(t, "long", "3 minutes")
		require.NoError(t, accounts.New(db.DB).RenewIdempotent(t.Context(), "u", "long"))
		_, err = begin(t, "long", "r")
		require.True(t, domain.HasCode(err, "idempotency_key_in_use"))
		require.NoError(t, accounts.New(db.DB).FinishIdempotent(t.Context(), "u", "long", kept))
		age(t, "long", "25 hours")
		require.NoError(t, accounts.New(db.DB).RenewIdempotent(t.Context(), "u", "long"))
		first, err := begin(t, "long", "r")
		require.NoError(t, err)
		require.Nil(t, first, "an answer is not renewed")
	})
	t.Run("what a form held comes back with its answer", func(t *testing.T) {
		form := *kept
		form.Form = []byte("what it held")
		request := strings.Repeat("r", 32)
		_, err := begin(t, "form", request)
		require.NoError(t, err)
		require.NoError(t, accounts.New(db.DB).FinishIdempotent(t.Context(), "u", "form", &form))
		first, err := begin(t, "form", request)
		require.NoError(t, err)
		require.Equal(t, &form, first)
		_, err = begin(t, "form", strings.Repeat("s", 32))
		require.True(t, domain.HasCode(err, "idempotency_key_reused"))
	})
	t.Run("after a day a key is new", func(t *testing.T) {
		age(t, "a", "25 hours")
		n, err := accounts.New(db.DB).PruneIdempotency(t.Context(), 1000)
		require.NoError(t, err)
		require.GreaterOrEqual(t, n, int64(1))
		first, err := begin(t, "a", "r2")
		require.NoError(t, err)
		require.Nil(t, first)
	})
}
