package secrets_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/secrets"
)

// sealedBuckets keeps the buckets of one user and counts how often they are read.
type sealedBuckets struct {
	kept  map[string][]byte
	reads int
}

func (*sealedBuckets) AllowSecrets(context.Context, domain.Session) (bool, error) { return false, nil }

func (s *sealedBuckets) SealedBuckets(_ context.Context, _ string, names ...string) (found []domain.SealedBucket, err error) {
	s.reads++
	for _, name := range names {
		if sealed, there := s.kept[name]; there {
			found = append(found, domain.SealedBucket{Bucket: name, Sealed: sealed})
		}
	}

	return found, nil
}

func (s *sealedBuckets) SetSealedBucket(_ context.Context, _ string, b domain.SealedBucket) error {
	s.kept[b.Bucket] = b.Sealed
	return nil
}

func (s *sealedBuckets) DeleteBucket(_ context.Context, _, name string) (bool, error) {
	_, found := s.kept[name]
	delete(s.kept, name)

	return found, nil
}

func TestBuckets_ToolEnv_readsBucketsOnceInAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		box, err := secrets.NewBox(strings.Repeat("k", 32))
		require.NoError(t, err)

		records := &sealedBuckets{kept: map[string][]byte{}}
		here := secrets.Buckets{Store: records, Box: box, Recent: secrets.NewRecent()}
		elsewhere := secrets.Buckets{Store: records, Box: box}
		session := domain.Session{OwnerID: "u"}
		env := func() string {
			got, err := here.ToolEnv(t.Context(), session)
			require.NoError(t, err)

			return got["TOKEN"]
		}
		set := func(b secrets.Buckets, token string) {
			require.NoError(
				t,
				b.Set(t.Context(), "u", domain.EnvBucket{Bucket: domain.DefaultBucket, Env: map[string]string{"TOKEN": token}}),
			)
		}

		set(here, "one")
		require.Equal(t, "one", env())
		require.Equal(t, "one", env())
		require.Equal(t, 1, records.reads)

		set(here, "two")
		require.Equal(t, "two", env(), "a change in this process counts at once")
		set(elsewhere, "three")
		require.Equal(t, "two", env())
		time.Sleep(6 * time.Second) //nolint:forbidigo // in a synctest bubble
		require.Equal(t, "three", env(), "one in another process counts after 5 s")
		require.NoError(t, here.Delete(t.Context(), "u", domain.DefaultBucket))
		require.Empty(t, env())
	})
}
