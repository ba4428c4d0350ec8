//go:build linux

package skills_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/skill"
)

func TestInstall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	session, other := w.session(""), w.session("")
	first := archive(t, "tables/SKILL.md", document("tables", "1.0.0", "one"), "tables/ref.md", "r")
	sum := sha256.Sum256(first)
	w.registry.publish("acme/tables", "1.0.0", true, first, "sha256:"+hex.EncodeToString(sum[:]))

	done, err := w.skills.Install(t.Context(), session, skill.Install{Org: "acme", Name: "tables"})
	require.NoError(t, err)
	require.Equal(t, "1.0.0", done.Version)
	require.Equal(t, ".skills/tables", done.Dir)
	require.Equal(t, 2, done.FileCount)
	require.Nil(t, done.ReplacedVersion)
	require.Equal(t, "r", w.read(session, ".skills/tables/ref.md"))
	require.Equal(t, done.Digest, w.load(session, "tables").Digest)

	// released waits for a release: a list does not wait for a registry that is slow to answer.
	released := func(version string) skill.Skill {
		var skill *skill.Skill

		require.Eventually(t, func() bool {
			skill = w.listed(session, "tables")
			return skill != nil && skill.ReleaseVersion == version
		}, 3*time.Minute, 10*time.Millisecond)

		return *skill
	}
	found := released("1.0.0")
	require.Equal(t, skill.Registry, found.Source)
	require.Equal(t, "acme", found.Org)
	require.Equal(t, "registry:acme:tables", found.ID)
	require.False(t, found.UpdateAvailable)

	// The owner's other sessions have it too; other people's do not.
	require.Equal(t, "one", w.load(other, "tables").Body)
	list, err := w.skills.Installed(t.Context(), w.ann)
	require.NoError(t, err)
	require.Len(t, list, 1)
	list, err = w.skills.Installed(t.Context(), w.bob)
	require.NoError(t, err)
	require.Empty(t, list)

	// A new release is seen, and does not change what is installed.
	w.registry.publish("acme/tables", "1.1.0", true, archive(t, "SKILL.md", document("tables", "1.1.0", "two")), "")
	w.skills = w.start(w.registry.server.URL)
	found = released("1.1.0")
	require.True(t, found.UpdateAvailable)
	require.Equal(t, "1.0.0", found.Version)
	detail, err := w.skills.Detail(t.Context(), w.ann, "acme/tables")
	require.NoError(t, err)
	require.Equal(t, "one", detail.Readme)
	require.True(t, detail.UpdateAvailable)

	done, err = w.skills.Install(t.Context(), other, skill.Install{Org: "acme", Name: "tables"})
	require.NoError(t, err)
	require.Equal(t, "1.0.0", *done.ReplacedVersion)
	require.Equal(t, "1.1.0", done.Version)
	require.Equal(t, "one", w.load(session, "tables").Body, "a session keeps to its package")
	require.True(t, w.load(other, "tables").Changed)

	// An older one by its version; also without a registry all stays usable.
	_, err = w.skills.Install(t.Context(), other, skill.Install{Org: "acme", Name: "tables", Version: "1.0.0", Digest: found.Digest})
	require.NoError(t, err)

	w.skills = w.start("")
	require.Equal(t, "one", w.load(w.session(""), "tables").Body)
}

func TestInstallsThatAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	session := w.session("")
	good := archive(t, "SKILL.md", document("tables", "1.0.0", "one"))
	w.registry.publish("acme/tables", "1.0.0", false, good, "")
	w.registry.publish("acme/tables", "2.0.0", false, good, "sha256:"+strings.Repeat("0", 64))
	w.registry.publish("acme/tables", "3.0.0", false, []byte("no archive"), "")
	w.registry.publish("acme/tables", "4.0.0", false, archive(t, "SKILL.md", document("tables", "1.0.0", ""), "../evil", "x"), "")
	w.registry.publish("acme/tables", "5.0.0", false, archive(t, "SKILL.md", "broken"), "")
	w.registry.publish(
		"acme/tables",
		"6.0.0",
		false,
		archive(t, "zeros", strings.Repeat("\x00", 3<<20), "SKILL.md", document("tables", "1.0.0", "")),
		"",
	)
	w.registry.publish("acme/other", "1.0.0", true, good, "")

	for what, tc := range map[string]struct {
		in   skill.Install
		kind domain.Kind
		code string
	}{
		"unknown":         {skill.Install{Org: "acme", Name: "nothing"}, domain.NotFound, "skill_not_found"},
		"not released":    {skill.Install{Org: "acme", Name: "tables"}, domain.NotFound, "skill_not_released"},
		"no such version": {skill.Install{Org: "acme", Name: "tables", Version: "9.0.0"}, domain.NotFound, "skill_version_not_found"},
		"another digest": {
			skill.Install{Org: "acme", Name: "tables", Version: "1.0.0", Digest: "sha256:" + strings.Repeat("1", 64)},
			domain.Conflict, "digest_mismatch",
		},
		"the registry's": {skill.Install{Org: "acme", Name: "tables", Version: "2.0.0"}, domain.Conflict, "digest_mismatch"},
		"no archive":     {skill.Install{Org: "acme", Name: "tables", Version: "3.0.0"}, domain.Invalid, "invalid_skill_archive"},
		"leaves":         {skill.Install{Org: "acme", Name: "tables", Version: "4.0.0"}, domain.Invalid, "invalid_skill_archive"},
		"broken":         {skill.Install{Org: "acme", Name: "tables", Version: "5.0.0"}, domain.Invalid, "invalid_skill"},
		"a bomb":         {skill.Install{Org: "acme", Name: "tables", Version: "6.0.0"}, domain.TooLarge, "invalid_skill_archive"},
		"another name":   {skill.Install{Org: "acme", Name: "other"}, domain.Invalid, "invalid_skill"},
		"org is a path":  {skill.Install{Org: "../x", Name: "tables"}, domain.Invalid, "invalid_request"},
		"name is a path": {skill.Install{Org: "acme", Name: "a/b"}, domain.Invalid, "invalid_request"},
		"no version":     {skill.Install{Org: "acme", Name: "tables", Version: "latest"}, domain.Invalid, "invalid_request"},
		"no digest at all": {
			skill.Install{Org: "acme", Name: "tables", Version: "1.0.0", Digest: "abc"},
			domain.Invalid, "invalid_request",
		},
	} {
		_, err := w.skills.Install(t.Context(), session, tc.in)
		e := domain.AsError(err)
		require.Equal(t, tc.kind, e.Kind, "%s: %v", what, err)
		require.Equal(t, tc.code, e.Code, what)
	}

	require.Nil(t, w.listed(session, "tables"))

	w.registry.fail(500)
	_, err := w.skills.Install(t.Context(), session, skill.Install{Org: "acme", Name: "tables", Version: "1.0.0"})
	require.Equal(t, domain.Unavailable, domain.AsError(err).Kind, err)
	w.registry.fail(422) // it takes no such name
	_, err = w.skills.Install(t.Context(), session, skill.Install{Org: "acme", Name: "tables", Version: "1.0.0"})
	require.Equal(t, "skill_not_found", domain.AsError(err).Code, err)
	w.registry.server.Close()
	_, err = w.skills.Install(t.Context(), session, skill.Install{Org: "acme", Name: "tables", Version: "1.0.0"})
	require.Equal(t, domain.Unavailable, domain.AsError(err).Kind, err)
	require.NotContains(t, domain.AsError(err).Message, "127.0.0.1")

	w.skills = w.start("")
	_, err = w.skills.Install(t.Context(), session, skill.Install{Org: "acme", Name: "tables"})
	require.True(t, domain.HasCode(err, skill.CodeNoRegistry), err)
	require.Equal(t, domain.Unavailable, domain.AsError(err).Kind)
}

func TestSearch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	found := func(q string, limit int) []string {
		t.Helper()
		hits, err := w.skills.Search(t.Context(), w.ann, q, limit)
		require.NoError(t, err)

		ids := make([]string, len(hits))
		for i, hit := range hits {
			require.Positive(t, hit.Score)
			require.LessOrEqual(t, hit.Score, 1.0)

			if i > 0 {
				require.LessOrEqual(t, hit.Score, hits[i-1].Score)
			}

			ids[i] = hit.ID
		}

		return ids
	}
	require.Equal(t, "builtin:git-workflow", found("GIT", 10)[0])
	require.Equal(t, "builtin:git-workflow", found("git-workflow", 10)[0])
	require.Equal(t, []string{"builtin:data-table-report", "registry:acme:tables"}, found("table report", 10))
	require.Len(t, found("table", 1), 1)
	require.Equal(t, []string{"registry:acme:tables"}, found("zzz", 10), "the registry knows why")
	detail, err := w.skills.Detail(t.Context(), w.ann, "registry:acme:tables")
	require.Error(t, err, detail)
	w.registry.publish("acme/tables", "3.0.0", true, nil, "sha256:x")
	detail, err = w.skills.Detail(t.Context(), w.ann, "registry:acme:tables")
	require.NoError(t, err)
	require.Equal(t, "From the registry", detail.Description)
	require.Len(t, detail.Files, 1)

	w.registry.mu.Lock()
	w.registry.noSearch = true
	w.registry.mu.Unlock()
	require.Empty(t, found("zzz", 10))
	w.registry.fail(503)
	require.Equal(t, "builtin:git-workflow", found("git", 10)[0])
}
