package pg_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/infra/postgres/pgtest"
)

func TestOpenEventLog_reservesNumbersOnlyAfterAnUncleanStop(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	open := func(writer, server string) (high, reserved uint64) {
		high, reserved, err := db.OpenEventLog(t.Context(), writer, server)
		require.NoError(t, err)

		return high, reserved
	}

	_, reserved := open("first", "server 1")
	require.Zero(t, reserved)

	_, reserved = open("second", "server 1")
	require.Zero(t, reserved, "the server did not restart")
	require.NoError(t, db.CloseEventLog(t.Context(), "first", 17))
	require.NoError(t, db.CloseEventLog(t.Context(), "second", 5))

	high, reserved := open("third", "server 2")
	require.Equal(t, uint64(17), high)
	require.Zero(t, reserved, "all processes have saved how far the log came")

	before := uint64(time.Now().Add(-time.Hour).UnixMicro())
	_, reserved = open("fourth", "server 3")
	require.Greater(t, reserved, before, "the third was killed with its server")

	_, again := open("fifth", "server 3")
	require.Equal(t, reserved, again, "until the log has gone on above it")

	ahead := uint64(time.Now().Add(time.Hour).UnixMicro())
	require.NoError(t, db.CloseEventLog(t.Context(), "fourth", ahead))

	_, reserved = open("sixth", "server 4")
	require.Greater(t, reserved, ahead, "a clock that went back")
}
