//go:build linux

package skills_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/skill"
	"everloop/infra/workspace"
	"everloop/internal/skillpack"
	"everloop/service/skills"
)

var builtin = []string{"data-table-report", "git-workflow", "skill-authoring"}

func TestBuiltinSkills(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	session := w.session("")
	list, err := w.skills.Catalog(t.Context(), w.ann)
	require.NoError(t, err)
	require.Len(t, list, len(builtin))

	for i, found := range list {
		require.Equal(t, builtin[i], found.Name)
		require.Equal(t, skill.Builtin, found.Source)
		require.NotEmpty(t, found.Version)
		detail, err := w.skills.Detail(t.Context(), w.ann, found.ID)
		require.NoError(t, err)
		require.NotEmpty(t, detail.Readme)
		require.Equal(t, found.Name, detail.FrontMatter["name"])
		byName, err := w.skills.Detail(t.Context(), w.ann, found.Name)
		require.NoError(t, err)
		require.Equal(t, detail, byName)

		loaded := w.load(session, found.Name)
		require.Equal(t, ".everloop/skills/"+found.Name, loaded.Dir)
		require.Equal(t, found.Digest, loaded.Digest)
		require.False(t, loaded.Changed)

		for _, f := range loaded.Files {
			require.Len(t, w.read(session, loaded.Dir+"/"+f.Path), int(f.Size))
		}
	}

	require.Equal(t, builtin, w.offered(session))
	require.Equal(t, builtin, w.offered(domain.Session{}), "of no session in particular")

	// What a command did to the copy is repaired when the skill is loaded again.
	w.write(session, ".everloop/skills/git-workflow/SKILL.md", "changed")
	w.write(session, ".everloop/skills/git-workflow/more", "changed")
	require.False(t, w.load(session, "git-workflow").Changed)
	require.Contains(t, w.read(session, ".everloop/skills/git-workflow/SKILL.md"), "Working with git")

	_, err = w.skills.Load(t.Context(), session, "unknown")
	require.True(t, domain.HasCode(err, skill.CodeNotFound), err)

	for _, id := range []string{"unknown", "builtin:unknown", "registry:a", "uploaded:x", "uploaded:x:y", "../x", "registry:acme:none"} {
		_, err = w.skills.Detail(t.Context(), w.ann, id)
		require.True(t, domain.HasCode(err, skill.CodeNotFound), "%s: %v", id, err)
	}
}

func TestUpload(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	session, other := w.session(""), w.session("")
	first := w.upload(session, "forms", "SKILL.md", document("forms", "1.0.0", "one"), "scripts/run.sh", "#!/bin/sh\necho hi\n", "old", "x")
	require.Equal(t, skill.Upload{Name: "forms", Dir: ".skills/forms", FileCount: 3}, first)
	require.Contains(t, w.offered(session), "forms")
	require.NotContains(t, w.offered(other), "forms")
	found := w.listed(session, "forms")
	require.Equal(t, skill.Uploaded, found.Source)
	require.Equal(t, "1.0.0", found.Version)
	require.NotNil(t, found.InstalledAt)
	require.False(t, found.Changed)
	require.Equal(t, found.Digest, w.load(session, "forms").Digest)

	host := filepath.Join(
		func() string { f, _ := w.workspaces.Open(t.Context(), session.ID, 0); return f.HostPath() }(),
		".skills/forms/scripts/run.sh",
	)
	info, err := os.Stat(host)
	require.NoError(t, err)
	require.EqualValues(t, 0o755, info.Mode().Perm(), "a script can be run")

	// In a directory of its own name it is the same package; it replaces all.
	second := w.upload(session, "forms", "forms/SKILL.md", document("forms", "2.0.0", "two"))
	require.Equal(t, skill.Upload{Name: "forms", Dir: ".skills/forms", FileCount: 1, Overwritten: true}, second)
	require.NoFileExists(t, filepath.Join(filepath.Dir(host), "../old"))

	loaded := w.load(session, "forms")
	require.True(t, loaded.Changed, "the model had read the first")
	require.Equal(t, "two", loaded.Body)
	require.False(t, w.load(session, "forms").Changed, "it is reported once")

	detail, err := w.skills.Detail(t.Context(), w.ann, found.ID)
	require.NoError(t, err)
	require.Equal(t, "two", detail.Readme)
	_, err = w.skills.Detail(t.Context(), w.bob, found.ID)
	require.True(t, domain.HasCode(err, skill.CodeNotFound), err)

	// It goes before a built-in one of its name.
	w.upload(session, "git-workflow", "SKILL.md", document("git-workflow", "9.0.0", "mine"))
	require.Equal(t, "mine", w.load(session, "git-workflow").Body)
	require.NotEqual(t, "mine", w.load(other, "git-workflow").Body)

	entries, err := os.ReadDir(filepath.Join(filepath.Dir(host), "../.."))
	require.NoError(t, err)
	require.Len(t, entries, 2, "nothing is left behind")
}

func TestUploadsThatAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	session := w.session("")
	w.upload(session, "forms", "SKILL.md", document("forms", "1.0.0", "kept"))

	good := document("forms", "1.0.0", "x")
	for what, tc := range map[string]struct {
		name  string
		files []skill.NewFile
		field string
	}{
		"name with a path":   {"../forms", files("SKILL.md", good), "body.name"},
		"capitals":           {"Forms", files("SKILL.md", good), "body.name"},
		"empty name":         {"", files("SKILL.md", good), "body.name"},
		"another name":       {"other", files("SKILL.md", good), "body.name"},
		"no document":        {"forms", files("README.md", good), "body.files"},
		"no front matter":    {"forms", files("SKILL.md", "# hi"), "body.files"},
		"parent":             {"forms", files("SKILL.md", good, "../../x", ""), "body.files[1].path"},
		"absolute":           {"forms", files("/etc/passwd", "", "SKILL.md", good), "body.files[0].path"},
		"backslash":          {"forms", files("SKILL.md", good, `a\b`, ""), "body.files[1].path"},
		"control characters": {"forms", files("SKILL.md", good, "a\x00b", ""), "body.files[1].path"},
		"empty path":         {"forms", files("SKILL.md", good, "", ""), "body.files[1].path"},
		"twice":              {"forms", files("SKILL.md", good, "SKILL.md", good), "body.files"},
		"file and directory": {"forms", files("SKILL.md", good, "a", "", "a/b", ""), "body.files"},
		"large document":     {"forms", files("SKILL.md", good+strings.Repeat("x", skillpack.MaxDocument)), "body.files"},
	} {
		_, err := w.skills.Upload(t.Context(), session, tc.name, tc.files)
		e := domain.AsError(err)
		require.Equal(t, domain.Invalid, e.Kind, "%s: %v", what, err)
		require.NotEmpty(t, e.Fields, what)
		require.Equal(t, tc.field, e.Fields[0].Location, what)
		require.NotContains(t, e.Fields[0].Message, "passwd", "values are not repeated")
	}

	require.Equal(t, "kept", w.load(session, "forms").Body)
	require.Nil(t, w.listed(session, "other"))
}

func TestWhatTheAgentWritesCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	session := w.session("")
	w.write(session, ".skills/own/SKILL.md", document("own", "1.0.0", "first"))
	require.Contains(t, w.offered(session), "own")
	require.Equal(t, "first", w.load(session, "own").Body)
	require.Equal(t, skill.Uploaded, w.listed(session, "own").Source)

	w.write(session, ".skills/own/SKILL.md", document("own", "1.0.1", "second"))
	require.True(t, w.listed(session, "own").Changed)
	require.True(t, w.load(session, "own").Changed)
	w.write(session, ".skills/own/data.txt", "a file beside it counts too")
	require.True(t, w.load(session, "own").Changed)
	require.False(t, w.load(session, "own").Changed)

	for name, content := range map[string]string{
		"broken": "# no front matter", "misnamed": document("else", "1.0.0", ""), "Bad_Name": document("bad", "1.0.0", ""), "empty": "",
	} {
		file := "SKILL.md"
		if content == "" {
			file = "README.md"
		}

		w.write(session, ".skills/"+name+"/"+file, content)
		skill := w.listed(session, name)
		require.NotEmpty(t, skill.Problem, name)
		require.NotContains(t, w.offered(session), name)
	}

	_, err := w.skills.Load(t.Context(), session, "broken")
	require.True(t, domain.HasCode(err, skill.CodeInvalid), err)
	// One that is broken hides no good one.
	w.write(session, ".skills/git-workflow/SKILL.md", "oops")
	require.Contains(t, w.offered(session), "git-workflow")

	for i := range skillpack.MaxFiles + 5 {
		w.write(session, fmt.Sprint(".skills/own/many/", i), "x")
	}

	require.Contains(t, w.listed(session, "own").Problem, "more than 500 files")
}

// TestTheSetupShowsSkillsAsTheyAreNow: what a command writes or removes in the
// workspace counts at once, also when there was nothing before.
func TestTheSetupShowsSkillsAsTheyAreNow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	session := w.session("")
	shown := func() (names []string) {
		list, err := w.skills.SetUp(t.Context(), session)
		require.NoError(t, err)

		for _, skill := range list {
			names = append(names, skill.Name)
		}

		some, err := w.skills.Offers(t.Context(), session)
		require.NoError(t, err)
		require.True(t, some)

		return names
	}
	builtin := []string{"data-table-report", "git-workflow", "skill-authoring"}
	require.Equal(t, builtin, shown())
	w.write(session, "notes.txt", "no skill")
	require.Equal(t, builtin, shown())
	w.write(session, ".skills/forms/SKILL.md", document("forms", "1.0.0", "text"))
	require.Equal(t, []string{"data-table-report", "forms", "git-workflow", "skill-authoring"}, shown())
	open, err := w.workspaces.Open(t.Context(), session.ID, session.SandboxUID)
	require.NoError(t, err)

	defer open.Close()

	require.NoError(t, open.Rename(".skills", "elsewhere", false))
	require.Equal(t, builtin, shown())
	require.NoError(t, open.Rename("elsewhere", ".skills", false))
	require.Contains(t, shown(), "forms")
	require.NoError(t, open.Remove(t.Context(), ".skills", true))
	require.Equal(t, builtin, shown())
}

func TestResync(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	session := w.session("")
	sync := func() skill.Resync {
		t.Helper()
		out, err := w.skills.Resync(t.Context(), session)
		require.NoError(t, err)

		return out
	}
	require.Empty(t, sync())
	w.upload(session, "a", "SKILL.md", document("a", "1.0.0", ""))
	w.upload(session, "b", "SKILL.md", document("b", "1.0.0", ""))
	require.Empty(t, sync())
	w.write(session, ".skills/a/more.txt", "x")
	w.remove(session, ".skills/b")
	w.write(session, ".skills/c/SKILL.md", document("c", "1.0.0", ""))
	w.write(session, ".skills/d/SKILL.md", "broken")
	require.True(t, w.listed(session, "a").Changed)

	out := sync()
	require.Equal(t, []string{"c"}, out.Added)
	require.Equal(t, []string{"a"}, out.Updated)
	require.Equal(t, []string{"b"}, out.Removed)
	require.Len(t, out.Failed, 1)
	require.Equal(t, "d", out.Failed[0].Name)
	require.NotEmpty(t, out.Failed[0].Message)
	require.False(t, w.listed(session, "a").Changed)

	again := sync()
	again.Failed = nil
	require.Empty(t, again)
}

func TestOperatorsSkills(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	session := w.session("")
	w.operator("house-style/SKILL.md", document("house-style", "1.0.0", "one"))
	w.operator("house-style/ref.md", "r")
	w.operator("broken/SKILL.md", "nothing")
	_, err := w.skills.Resync(t.Context(), session)
	require.NoError(t, err)

	loaded := w.load(session, "house-style")
	require.Equal(t, "r", w.read(session, loaded.Dir+"/ref.md"))
	list, err := w.skills.Installed(t.Context(), w.ann)
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.NotEmpty(t, list[0].Problem)
	require.Equal(t, skill.Partner, list[1].Source)
	require.NotContains(t, w.offered(session), "broken")

	w.operator("house-style/SKILL.md", document("house-style", "1.1.0", "another text"))
	_, err = w.skills.Resync(t.Context(), session)
	require.NoError(t, err)

	loaded = w.load(session, "house-style")
	require.True(t, loaded.Changed)
	require.Equal(t, "another text", loaded.Body)
	require.Contains(t, w.read(session, loaded.Dir+"/SKILL.md"), "another text")
	require.NoError(t, os.RemoveAll(filepath.Join(w.dir, "house-style")))
	require.Eventually(
		t,
		func() bool { return !strings.Contains(strings.Join(w.offered(session), " "), "house-style") },
		time.Minute,
		50*time.Millisecond,
		"it is noticed without a notification",
	)
}

func TestPrimarySkill(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.operator("house-style/SKILL.md", document("house-style", "1.0.0", "one"))

	for _, id := range []string{"house-style", "partner:house-style"} {
		session := w.session(id)
		snapshot, err := w.skills.Snapshot(t.Context(), session)
		require.NoError(t, err)
		require.Equal(t, "partner:house-style", snapshot.SkillID)
		require.Equal(t, "1.0.0", snapshot.Version)
		require.Equal(t, 1, snapshot.FilesCount)
		require.Contains(t, w.read(session, snapshot.Path+"/SKILL.md"), "one")
		require.Equal(t, "house-style", w.offered(session)[0], "it comes first")
	}

	session := w.session("house-style")
	before, err := w.skills.Snapshot(t.Context(), session)
	require.NoError(t, err)
	// The session keeps to its version, also over a restart.
	w.operator("house-style/SKILL.md", document("house-style", "2.0.0", "two, longer"))
	w.skills = w.start("")
	after, err := w.skills.Snapshot(t.Context(), session)
	require.NoError(t, err)
	require.Equal(t, before, after)
	require.Equal(t, "one", w.load(session, "house-style").Body)
	require.Equal(t, skill.Partner, w.listed(session, "house-style").Source)
	require.Equal(t, "two, longer", w.load(w.session(""), "house-style").Body)

	// What was kept has changed: it is not used.
	path := filepath.Join(w.dir, ".packages", strings.TrimPrefix(before.Digest, "sha256:"), "SKILL.md")
	require.NoError(t, os.WriteFile(path, []byte(document("house-style", "1.0.0", "evil")), 0o644))

	w.skills = w.start("")
	require.Equal(t, "two, longer", w.load(session, "house-style").Body)

	unknown := w.session("no-such-skill")
	snapshot, err := w.skills.Snapshot(t.Context(), unknown)
	require.NoError(t, err)
	require.Nil(t, snapshot)
	require.Contains(t, w.offered(unknown), "git-workflow")
}

func TestHostileWorkspaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "SKILL.md"), []byte(document("out", "1.0.0", "outside")), 0o644))

	link := func(session domain.Session, target, name string) {
		f, err := w.workspaces.Open(t.Context(), session.ID, 0)
		require.NoError(t, err)

		defer f.Close()

		require.NoError(t, f.MkdirAll(filepath.Dir(name)))
		require.NoError(t, f.Symlink(target, name))
	}
	// Links that lead outside are no packages, and nothing is written through them.
	session := w.session("")
	link(session, outside, ".skills/out")
	require.NotContains(t, w.offered(session), "out")
	session = w.session("")
	link(session, outside, ".skills")
	_, err := w.skills.Upload(t.Context(), session, "forms", files("SKILL.md", document("forms", "1.0.0", "")))
	require.Error(t, err)

	session = w.session("")
	link(session, outside, ".everloop/skills")
	_, err = w.skills.Load(t.Context(), session, "git-workflow")
	require.Error(t, err)

	session = w.session("")
	link(session, outside, ".everloop/skills/git-workflow")
	require.Equal(t, ".everloop/skills/git-workflow", w.load(session, "git-workflow").Dir)

	entries, err := os.ReadDir(outside)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	// A file instead of the directory.
	session = w.session("")
	w.write(session, ".skills", "a file")
	require.Equal(t, builtin, w.offered(session))
}

func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	session := w.session("skill-authoring")
	// A worker of another process shares the workspace.
	elsewhere := w.start("")

	var all sync.WaitGroup
	for i := range 24 {
		all.Go(func() {
			s := w.skills
			if i%2 == 0 {
				s = elsewhere
			}

			if _, err := s.Load(t.Context(), session, builtin[i%3]); err != nil {
				t.Errorf("load: %v", err)
			}

			if _, err := s.Snapshot(t.Context(), session); err != nil {
				t.Errorf("snapshot: %v", err)
			}

			if _, err := w.skills.Upload(t.Context(), session, "forms", files("SKILL.md", document("forms", "1.0.0", "x"))); err != nil {
				t.Errorf("upload: %v", err)
			}
		})
	}

	all.Wait()
	require.Equal(t, []string{"skill-authoring", "data-table-report", "forms", "git-workflow"}, w.offered(session))
	f, err := w.workspaces.Open(t.Context(), session.ID, 0)
	require.NoError(t, err)

	defer f.Close()

	for dir, want := range map[string]int{".skills": 1, ".everloop/skills": 3} {
		list, err := f.List(t.Context(), dir, workspace.MaxListed)
		require.NoError(t, err)
		require.Len(t, list, want, dir)
	}
}

// A solution's skills come first, those that are not there are reported, and other
// sessions see nothing of it.
func TestSkills_Offer_ofASolution(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wanted := []string{"builtin:git-workflow", "acme/release-notes", "no-such-skill", "registry:acme:gone"}
	s, err := skills.New(skills.Config{
		Dir: w.dir, Workspaces: w.workspaces, Store: skills.NewStore(w.db.DB), Logger: slog.New(slog.DiscardHandler),
		Wanted: func(domain.Session) []string { return wanted },
	})
	require.NoError(t, err)
	missing, err := s.Missing(t.Context(), wanted)
	require.NoError(t, err)
	require.Equal(t, wanted[1:], missing)

	plain := w.session("")
	session := plain
	solution := "factory"
	session.SolutionID = &solution
	offers, err := s.Offer(t.Context(), session)
	require.NoError(t, err)
	require.Equal(t, "git-workflow", offers[0].Name)

	for i, o := range offers {
		require.Equal(t, i == 0, o.OfSolution, o.Name)
	}

	list, err := s.OfSession(t.Context(), session)
	require.NoError(t, err)

	problems := map[string]string{}

	for _, skill := range list {
		if skill.Problem != "" {
			problems[skill.ID] = skill.Name
			require.Contains(t, skill.Problem, "names this skill")
		}
	}

	require.Equal(
		t,
		map[string]string{"acme/release-notes": "release-notes", "no-such-skill": "no-such-skill", "registry:acme:gone": "gone"},
		problems,
	)
	_, err = s.Load(t.Context(), session, "no-such-skill")
	require.ErrorContains(t, err, "names this skill")

	others, err := s.Offer(t.Context(), plain)
	require.NoError(t, err)
	require.Equal(t, "data-table-report", others[0].Name)
	require.False(t, others[0].OfSolution)
}
