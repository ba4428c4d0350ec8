package postgres_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"

	"everloop/domain"
	"everloop/infra/postgres"
	"everloop/service/accounts"
)

// TestRecordsOnAnExternalServer holds that an external PostgreSQL server
// making is good enough: the one of a container, where an engine for them is
// there. EVERLOOP_TEST_POSTGRES_IMAGE names another image than the official one.
func TestRecordsOnAnExternalServer(t *testing.T) {
	testcontainers.SkipIfProviderIsNotHealthy(t)

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()

	container, err := testcontainers.GenericContainer(ctx, testcontainers.GenericContainerRequest{
		ContainerRequest: testcontainers.ContainerRequest{
			Image:        cmp.Or(os.Getenv("EVERLOOP_TEST_POSTGRES_IMAGE"), "postgres:15"),
			Env:          map[string]string{"POSTGRES_USER": "everloop", "POSTGRES_PASSWORD": "test", "POSTGRES_DB": "everloop"},
			ExposedPorts: []string{"5432/tcp"},
			WaitingFor:   wait.ForListeningPort("5432/tcp").WithStartupTimeout(2 * time.Minute),
		},
		Started: true,
	})
	testcontainers.CleanupContainer(t, container)
	require.NoError(t, err)
	host, err := container.Host(ctx)
	require.NoError(t, err)
	port, err := container.MappedPort(ctx, "5432/tcp")
	require.NoError(t, err)

	url := fmt.Sprintf("postgres://everloop:test@%s:%s/everloop?sslmode=disable", host, port.Port())

	require.EventuallyWithT(
		t,
		func(c *assert.CollectT) { require.NoError(c, postgres.Migrate(ctx, url)) },
		time.Minute,
		200*time.Millisecond,
	)
	require.NoError(t, postgres.Migrate(ctx, url), "migrating again changes nothing")
	db, err := postgres.Open(ctx, url, postgres.Options{ConnectTimeout: time.Minute})
	require.NoError(t, err)

	defer db.Close()

	user := domain.User{ID: domain.NewID(), Username: "ann"}
	_, _, err = accounts.New(db.DB).CreateUser(
		ctx,
		user,
		domain.APIKey{ID: domain.NewID(), UserID: user.ID, Name: "k", Masked: "m", Scopes: []string{}},
		make([]byte, 32),
	)
	require.NoError(t, err)
	made, err := db.CreateSession(ctx, user.ID, domain.NewSession{Intent: "on another server"})
	require.NoError(t, err)
	read, role, err := db.ReadSession(ctx, user, made.ID)
	require.NoError(t, err)
	require.Equal(t, domain.ViewerOwner, role)
	require.Equal(t, made.Intent, read.Intent)
}
