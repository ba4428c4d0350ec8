package objects_test

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/objects"
	"everloop/internal/testkit"
)

// A picture that a message of the session has shown can be sent again by its path
// (docs/history.md: a rewound message is for editing).
func TestStore_Keep_attachmentOfTheSession(t *testing.T) {
	t.Parallel()
	bucket := testkit.Objects(t)
	store, err := objects.Open(t.Context(), objects.Config{
		Endpoint: bucket.Endpoint, Bucket: bucket.Name, AccessKey: bucket.AccessKey, SecretKey: bucket.SecretKey,
	})
	require.NoError(t, err)

	const picture = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="

	_, err = base64.StdEncoding.DecodeString(picture)
	require.NoError(t, err)
	object, err := store.Keep(t.Context(), "s1", "data:image/png;base64,"+picture)
	require.NoError(t, err)

	again, err := store.Keep(t.Context(), "s1", domain.AttachmentPath("s1", object))
	require.NoError(t, err)
	require.Equal(t, object, again)

	for name, address := range map[string]string{
		"another session's":      domain.AttachmentPath("s2", object),
		"one that is not there":  "/api/sessions/s1/attachments/" + strings.Repeat("0", 64),
		"a path out of the rest": "/api/sessions/s1/attachments/../../s1/" + strings.Repeat("0", 64),
		"an object's reference":  object,
		"an address":             "http://169.254.169.254/latest/meta-data/",
	} {
		_, err := store.Keep(t.Context(), "s1", address)
		require.True(t, domain.HasCode(err, domain.CodeInvalidRequest), "%s: %v", name, err)
	}
}

// What messages bring is refused while only the reserve of the disk is free.
func TestStore_Keep_diskFull(t *testing.T) {
	t.Parallel()
	bucket := testkit.Objects(t)

	var full error

	store, err := objects.Open(t.Context(), objects.Config{
		Endpoint: bucket.Endpoint, Bucket: bucket.Name, AccessKey: bucket.AccessKey, SecretKey: bucket.SecretKey,
		Room: func() error { return full },
	})
	require.NoError(t, err)

	picture := "data:image/gif;base64," + base64.StdEncoding.EncodeToString([]byte("GIF89a"))
	recording := "data:audio/ogg;base64," + base64.StdEncoding.EncodeToString([]byte("OggS speech"))

	full = errors.New("12 bytes are free")

	_, err = store.Keep(t.Context(), "s1", picture)
	require.True(t, domain.HasCode(err, domain.CodeDiskFull), "%v", err)
	_, err = store.KeepAudio(t.Context(), "s1", recording, 1000)
	require.True(t, domain.HasCode(err, domain.CodeDiskFull), "%v", err)
	keys, err := store.Keys(t.Context(), "images/")
	require.NoError(t, err)
	require.Empty(t, keys)

	full = nil

	_, err = store.Keep(t.Context(), "s1", picture)
	require.NoError(t, err)
	_, err = store.KeepAudio(t.Context(), "s1", recording, 1000)
	require.NoError(t, err)
}
