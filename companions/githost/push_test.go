package githost_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/companions/githost"
)

func TestPush_publishesMain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.skill("acme/tables", "ann", "1.0.0")
	c.write("run.sh", "#!/bin/sh\n")
	require.NoError(t, os.Chmod(filepath.Join(c.dir, "run.sh"), 0o755))
	c.commit("Add a program")
	out := c.must("push", "origin", "main")
	require.Contains(t, out, "remote: published acme/tables 1.0.0, sha256:")
	whole := w.version("acme/tables", "1.0.0").json(t)
	git := whole["git"].(map[string]any)
	require.Equal(t, c.must("rev-parse", "HEAD"), git["commit"])
	require.Equal(t, "main", git["branch"])
	require.Len(t, whole["files"], 2)

	// A commit with the same files is no other version; changed files are.
	c.commit("Say nothing new")
	require.Contains(t, c.must("push", "origin", "main"), "remote: acme/tables 1.0.0 is published already with this content")
	c.commit("Change", "ref.md", "more")
	c.refused("remote: acme/tables 1.0.0 is not published: acme/tables 1.0.0 exists with other content", "push", "origin", "main")
	require.NotEqual(t, c.must("rev-parse", "HEAD"), w.head("acme/tables", "main"))
	c.commit("Change the version", "SKILL.md", document("tables", "1.1.0", "two"))
	c.must("push", "origin", "main")
	require.Equal(t, c.must("rev-parse", "HEAD"), w.head("acme/tables", "main"))
	require.Equal(t, 200, w.version("acme/tables", "1.1.0").status)
}

// head returns the commit of a branch at the service; empty when there is none.
func (w *world) head(repo, branch string) string {
	w.t.Helper()
	c := &clone{w.t, w.t.TempDir()}
	id, _, _ := strings.Cut(c.must("ls-remote", w.remote(repo, ""), "refs/heads/"+branch), "\t")

	return id
}

func TestPush_refusesWhatIsNoSkill(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.newClone("acme/tables", "ann")
	c.commit("Start", "README.md", "x")
	require.Contains(t, c.must("push", "origin", "main"), "remote: main has no SKILL.md: nothing is published")

	for _, tc := range []struct{ name, content, reason string }{
		{"no front matter", "x", "remote: main is not a valid skill: "},
		{"another name", document("other", "1.0.0", ""), "the name in SKILL.md is other, but the repository's is tables"},
		{"no version", "---\nname: tables\ndescription: d\n---\n", "has no metadata.version"},
		{"no semantic version", document("tables", "one", ""), "the version in SKILL.md must be a semantic version"},
		{"a path as version", document("tables", "../../x", ""), "must be a semantic version"},
		{"control characters", "---\nname: \"a\\e[2J\"\ndescription: d\n---\n", "name may have lower-case letters"},
	} {
		c.commit(tc.name, "SKILL.md", tc.content)
		out, ok := c.git("push", "origin", "main")
		require.False(t, ok, tc.name)
		require.Contains(t, out, tc.reason, tc.name)
		require.NotContains(t, out, "\x1b[2J", tc.name)
	}

	c.write("SKILL.md", document("tables", "1.0.0", ""))
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(c.dir, "link")))
	c.commit("Link")
	c.refused(`"link" is a link or a submodule`, "push", "origin", "main")
	c.must("rm", "--quiet", "--cached", "link")
	require.NoError(t, os.Remove(filepath.Join(c.dir, "link")))

	for i := range 500 {
		c.write(fmt.Sprintf("f%d", i), "x")
	}

	c.commit("Add many files")
	c.refused("main has more than 500 files", "push", "origin", "main")
	c.must("push", "origin", "HEAD:refs/heads/many") // a branch may have more
	require.Equal(t, 404, w.version("acme/tables", "1.0.0").status)
}

func TestPush_rulesOfBranches(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.skill("acme/tables", "ann", "1.0.0")
	c.must("push", "origin", "main", "HEAD:refs/heads/topic", "HEAD:refs/tags/v1")
	c.must("commit", "--quiet", "--amend", "-m", "Another start")
	c.refused("remote: main may only be fast-forwarded", "push", "--force", "origin", "main")
	c.refused("remote: main may not be deleted", "push", "origin", ":main")
	c.refused("is neither a branch nor a tag", "push", "origin", "HEAD:refs/notes/commits")
	c.must("push", "--force", "origin", "HEAD:topic") // branches freely
	require.Equal(t, c.must("rev-parse", "HEAD"), w.head("acme/tables", "topic"))
	// One refused change refuses the whole push.
	c.refused("main may not be deleted", "push", "origin", ":main", ":topic")
	require.NotEmpty(t, w.head("acme/tables", "topic"))
	c.must("push", "origin", ":topic", ":v1")
	require.Empty(t, w.head("acme/tables", "topic"))
}

// What git itself would refuse after the check must not have been published.
func TestPush_thatGitCannotStore_publishesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.skill("acme/tables", "ann", "1.0.0")
	c.must("tag", "-a", "v1", "-m", "one")
	c.refused("main does not point to a commit", "push", "origin", "refs/tags/v1:refs/heads/main")

	c.must("push", "origin", "HEAD:refs/heads/main/topic")
	c.refused("main and main/topic cannot be there at once", "push", "origin", "main")
	c.must("push", "origin", ":refs/heads/main/topic", "HEAD:refs/heads/topic")
	c.refused("topic and topic/a cannot be there at once", "push", "--atomic", "origin", "main", "HEAD:refs/heads/topic/a")
	c.refused("new and new/a cannot be there at once", "push", "--atomic", "origin", "main", "HEAD:refs/heads/new", "HEAD:refs/heads/new/a")
	require.Equal(t, 404, w.version("acme/tables", "1.0.0").status)

	c.must("push", "--atomic", "origin", "main", "refs/tags/v1")
	require.Equal(t, 200, w.version("acme/tables", "1.0.0").status)
}

func TestPush_credentials(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.skill("acme/tables", "", "1.0.0")
	push := func(repo, token string) []string { return []string{"push", w.remote(repo, token), "main"} }
	c.refused("could not read Username", push("acme/tables", "")...)
	c.refused("Authentication failed", push("acme/tables", "wrong")...)
	c.refused("the key lacks the scope skills:write", push("acme/tables", "reader")...)
	require.NoDirExists(t, filepath.Join(w.dir, "repositories", "acme"))
	c.must(push("acme/tables", "ann")...)
	c.refused("only members of the organisation", push("acme/tables", "bob")...)
	c.refused("only members of the organisation", push("acme/new", "bob")...)
	c.refused("differs in case only", push("Acme/tables", "bob")...)
	require.NoDirExists(t, filepath.Join(w.dir, "repositories", "Acme"))
	added := w.send(
		http.MethodPut,
		w.registry+"/registry/organizations/acme/members/bob",
		"",
		map[string]string{"Authorization": "Bearer ann"},
		nil,
	)
	require.Equal(t, 204, added.status)
	c.must("push", w.remote("acme/tables", "bob"), "HEAD:refs/heads/bob")
	// Reading is open, as that of the registry.
	c.must("fetch", w.remote("acme/tables", ""), "bob")
	c.refused("there is no repository acme/none", "fetch", w.remote("acme/none", ""))
}

// A first push that is refused leaves nothing: no repository, and the organisation to others.
func TestPush_refusedAtFirst_leavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.newClone("fresh/tables", "ann")
	c.commit("Start", "SKILL.md", "---\nname: tables\ndescription: d\n---\n")
	c.refused("has no metadata.version", "push", "origin", "main")
	require.NoDirExists(t, filepath.Join(w.dir, "repositories", "fresh"))
	require.Equal(t, 404, w.get("/-/fresh/tables").status)
	c.refused("there is no repository fresh/tables", "fetch", w.remote("fresh/tables", ""))

	c.must("push", w.remote("fresh/tables", "bob"), "HEAD:refs/heads/draft")
	c.refused("only members of the organisation", "push", "origin", "HEAD:refs/heads/ann")
	c.refused("has no metadata.version", "push", w.remote("fresh/tables", "bob"), "main")
	require.NotEmpty(t, w.head("fresh/tables", "draft"), "a repository with a branch stays")

	// Of two first pushes at once, one that is refused does not take the other's repository.
	good := w.newClone("both/tables", "ann")
	good.commit("Good", "SKILL.md", document("tables", "1.0.0", ""))

	bad := w.newClone("both/tables", "ann")
	bad.commit("Bad", "SKILL.md", "x")

	var pushes sync.WaitGroup

	for range 4 {
		pushes.Go(func() { bad.git("push", "origin", "main") })
	}

	good.must("push", "origin", "main")
	pushes.Wait()
	require.NotEmpty(t, w.head("both/tables", "main"))
}

func TestPush_atOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	first := w.skill("acme/tables", "ann", "1.0.0")
	first.must("push", "origin", "main")

	const pushers = 4

	var (
		all      sync.WaitGroup
		accepted [pushers]bool
		clones   [pushers]*clone
	)
	for i := range clones {
		clones[i] = &clone{t, t.TempDir()}
		clones[i].must("clone", "--quiet", w.remote("acme/tables", "ann"), ".")
		clones[i].commit("Next", "SKILL.md", document("tables", fmt.Sprintf("1.%d.0", i+1), "next"))
	}

	for i, c := range clones {
		all.Go(func() { _, accepted[i] = c.git("push", "origin", "main") })
	}

	all.Wait()
	// One wins, and only its version is published.
	count := 0

	for i, ok := range accepted {
		status := 404

		if ok {
			count++
			status = 200
		}

		require.Equal(t, status, w.version("acme/tables", fmt.Sprintf("1.%d.0", i+1)).status, accepted)
	}

	require.Equal(t, 1, count)
}

func TestPush_largeAndShallow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.skill("acme/large", "ann", "1.0.0")
	c.must("push", "origin", "main")

	data := make([]byte, 50<<20)
	_, _ = rand.Read(data)

	c.must("config", "core.compression", "0")
	c.commit("Add data", "data", string(data))
	c.must("push", "origin", "HEAD:refs/heads/data")

	shallow := &clone{t, t.TempDir()}
	shallow.must("clone", "--quiet", "--depth=1", "--branch=data", w.remote("acme/large", ""), ".")
	require.Equal(t, "1", shallow.must("rev-list", "--count", "HEAD"))
	got, err := os.ReadFile(filepath.Join(shallow.dir, "data"))
	require.NoError(t, err)
	require.True(t, string(data) == string(got))
	shallow.must("fetch", "--quiet", "--unshallow")
	require.Equal(t, "2", shallow.must("rev-list", "--count", "HEAD"))

	for _, version := range []string{"0", "1", "2"} {
		whole := &clone{t, t.TempDir()}
		whole.must(
			"-c",
			"protocol.version="+version,
			"clone",
			"--quiet",
			"--branch=main",
			"--single-branch",
			w.remote("acme/large", ""),
			".",
		)
		whole.must("fsck", "--strict")
	}
}

// Partial clones are served with the filters that cost little. Others make git walk all trees
// for each client, for as long as a transfer may take.
func TestClone_filters(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	c := w.skill("ann/tool", "ann", "1.0.0")
	c.commit("Rules", "rules", "/docs\n", "docs/a/b/c.md", "deep")
	c.must("push", "--quiet", "origin", "main")

	remote := w.remote("ann/tool", "ann")
	for i, filter := range []string{"blob:none", "blob:limit=1k", "tree:0", "tree:1"} {
		c.must("clone", "--quiet", "--no-checkout", "--filter="+filter, remote, fmt.Sprintf("../clone-%d", i))
	}

	for i, filter := range []string{
		"tree:2", "tree:100", "sparse:oid=" + c.must("rev-parse", "HEAD:rules"), "object:type=tree", "combine:blob:none+tree:5",
		"combine:sparse:oid=" + c.must("rev-parse", "HEAD:rules") + "+blob:none",
	} {
		c.refused("filter", "clone", "--quiet", "--no-checkout", "--filter="+filter, remote, fmt.Sprintf("../refused-%d", i))
	}
}

func TestPush_limitsOfSize(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(cfg *githost.Config) { cfg.PushBytes, cfg.RepositoryBytes = 3<<20, 5<<20 })
	c := w.skill("acme/tables", "ann", "1.0.0")
	c.must("push", "origin", "main")

	random := func(size int) string {
		data := make([]byte, size)
		_, _ = rand.Read(data)

		return string(data)
	}
	c.commit("Add too much", "data", random(4<<20))
	c.refused("pack exceeds maximum allowed size", "push", "origin", "HEAD:refs/heads/large")

	left, err := filepath.Glob(filepath.Join(w.dir, "repositories/acme/tables.git/objects/tmp_objdir-*"))
	require.NoError(t, err)
	require.Empty(t, left)

	c.must("reset", "--quiet", "--hard", "origin/main")

	for _, branch := range []string{"one", "two"} {
		c.commit("Add data", branch, random(5<<19))

		if branch == "one" {
			c.must("push", "origin", "HEAD:refs/heads/one")
			c.must("reset", "--quiet", "--hard", "origin/main")
		}
	}

	c.refused("remote: the repository would have ", "push", "origin", "HEAD:refs/heads/two")
	c.must("push", "origin", ":one")

	for { // maintenance removes what the branch had
		if _, ok := c.git("push", "origin", "HEAD:refs/heads/two"); ok {
			break
		}

		require.NoError(t, t.Context().Err())
	}

	(&clone{t, t.TempDir()}).must("clone", "--quiet", "--branch=two", w.remote("acme/tables", ""), ".")
}

// All repositories of an organisation share its room, and a full disk takes no push.
func TestPush_roomOfTheOrganisation(t *testing.T) {
	t.Parallel()

	var full atomic.Bool

	w := newWorld(t, func(cfg *githost.Config) {
		cfg.OrganizationBytes = 3 << 20
		cfg.Room = func() error {
			if full.Load() {
				return errors.New("12 bytes are free")
			}

			return nil
		}
	})

	data := make([]byte, 2<<20)
	_, _ = rand.Read(data)

	one, two := w.skill("acme/tables", "ann", "1.0.0"), w.skill("acme/charts", "ann", "1.0.0")
	one.must("push", "origin", "main")
	one.commit("Add data", "data", string(data))

	full.Store(true)
	one.refused("the disk of the service is full", "push", "origin", "HEAD:refs/heads/data")
	full.Store(false)

	one.must("push", "origin", "HEAD:refs/heads/data")

	_, _ = rand.Read(data)
	two.commit("Add data", "data", string(data))
	two.refused("remote: the repositories of acme would have ", "push", "origin", "HEAD:refs/heads/data")
}

func TestService_names(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	for _, path := range []string{
		"/..%2f..%2fetc/x.git", "/acme/..%2f..%2fx.git", "/acme/...git", "/acme/.git.git", "/acme/A.git", "/acme/a%00b.git",
		"/.hidden/x.git", "/acme/-x.git", "/acme/x.git.git", "/%2e%2e/x.git", "/acme%2fother/x.git",
	} {
		got := w.send(http.MethodGet, w.url+path+"/info/refs?service=git-receive-pack", "ann", nil, nil)
		require.Contains(t, []int{404, 422}, got.status, "%s: %s", path, got.body)
	}

	entries, err := os.ReadDir(filepath.Join(w.dir, "repositories"))
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestService_smartProtocolOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.skill("acme/tables", "ann", "1.0.0").must("push", "origin", "main")

	for _, path := range []string{
		"/info/refs", "/info/refs?service=git-upload-archive", "/HEAD", "/config", "/objects/info/packs", "/objects/info/alternates",
		"/hooks/pre-receive",
	} {
		got := w.get("/acme/tables.git" + path)
		require.Equal(t, 403, got.status, path)
		require.Equal(t, "dumb_protocol_refused", got.json(t)["code"], path)
	}

	post := func(service, contentType, token string, body string) response {
		return w.send(
			http.MethodPost,
			w.url+"/acme/tables.git/"+service,
			token,
			map[string]string{"Content-Type": contentType},
			[]byte(body),
		)
	}

	require.Equal(t, 405, w.get("/acme/tables.git/git-upload-pack").status)
	require.Equal(t, 415, post("git-upload-pack", "text/plain", "", "0000").status)
	require.Equal(t, 401, post("git-receive-pack", "application/x-git-receive-pack-request", "", "0000").status)
	require.Equal(t, 200, post("git-receive-pack", "application/x-git-receive-pack-request", "ann", "0000").status)
	got := post("git-upload-pack", "application/x-git-upload-pack-request", "", "zzzz")
	require.Equal(t, 400, got.status, string(got.body))
	got = w.send(http.MethodPost, w.url+"/acme/tables.git/git-upload-pack", "",
		map[string]string{"Content-Type": "application/x-git-upload-pack-request", "Content-Encoding": "gzip"}, []byte("no gzip"))
	require.Equal(t, 400, got.status, string(got.body))
}

// TestPush_hostilePacks sends packs that no client makes.
func TestPush_hostilePacks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.skill("acme/tables", "ann", "1.0.0")
	c.must("push", "origin", "main")
	old := c.must("rev-parse", "HEAD")

	t.Run("a path that leaves the directory", func(t *testing.T) {
		blob := c.must("hash-object", "-w", "SKILL.md")
		for _, name := range []string{"..", ".git", "."} {
			raw := "100644 " + name + "\x00" + string(unhex(t, blob))
			tree := c.object(raw, "tree")
			commit := c.object("tree "+tree+"\nparent "+old+"\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nx\n", "commit")
			c.refused("remote: fatal: ", "push", "origin", commit+":refs/heads/evil")
		}
	})
	t.Run("more files than any disk has", func(t *testing.T) {
		tree := c.must("write-tree")

		for range 12 { // ten times as many at each level
			var raw strings.Builder
			for i := range 10 {
				raw.WriteString(fmt.Sprintf("40000 d%d\x00", i) + string(unhex(t, tree)))
			}

			tree = c.object(raw.String(), "tree")
		}

		commit := c.object("tree "+tree+"\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nx\n", "commit")
		c.refused("has more than 10000 files", "push", "origin", commit+":refs/heads/evil")
	})
	t.Run("a file that unpacks to more than is kept", func(t *testing.T) {
		large := c.newFile(101 << 20)
		tree := c.input("100644 blob "+large+"\tzeros\n", "mktree")
		commit := c.must("commit-tree", tree, "-m", "x")
		c.refused("is larger than 104857600 bytes", "push", "origin", commit+":refs/heads/evil")
	})
	t.Run("a difference that unpacks to more than the memory", func(t *testing.T) {
		if w.unbounded {
			t.Skip("the memory of git is not limited without EVERLOOP_BIN")
		}

		got := w.pushRaw("acme/tables", "refs/heads/evil", old, deltaBomb(t, 1<<24-1, 300))
		require.Contains(t, got, "Out of memory")
		require.Contains(t, got, "ng refs/heads/evil")
	})
	t.Run("missing objects", func(t *testing.T) {
		missing := strings.Repeat("12", 20)
		commit := "tree " + missing + "\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nx\n"
		id := c.object(commit, "commit")
		got := w.pushRaw("acme/tables", "refs/heads/evil", id, c.pack(id))
		require.Contains(t, got, "ng refs/heads/evil")
	})
	t.Run("no pack", func(t *testing.T) {
		require.Contains(t, w.pushRaw("acme/tables", "refs/heads/evil", unknownCommit, []byte("PACKed with nothing")), "unpack ")
		require.Contains(t, w.pushRaw("acme/tables", "refs/heads/../../evil", old, c.pack(old)), "ng refs/heads/../../evil")
	})
	require.Empty(t, w.head("acme/tables", "evil"))
	require.Equal(t, old, w.head("acme/tables", "main"))
	_, err := os.Stat(filepath.Join(w.dir, "repositories/acme/tables.git/evil"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}
