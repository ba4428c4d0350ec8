package objects_test

import (
	"encoding/base64"
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
	} {
		_, err := store.Keep(t.Context(), "s1", address)
		require.True(t, domain.HasCode(err, domain.CodeInvalidRequest), "%s: %v", name, err)
	}
}
