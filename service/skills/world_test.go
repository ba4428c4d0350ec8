//go:build linux

package skills_test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/skill"
	"everloop/infra/postgres"
	"everloop/infra/skillregistry"
	"everloop/infra/workspace"
	"everloop/internal/testkit"
	"everloop/service/accounts"
	"everloop/service/skills"
)

// world is the skills of a service with real records and files.
type world struct {
	t          *testing.T
	db         *postgres.DB
	workspaces *workspace.Store
	dir        string
	registry   *registry
	skills     *skills.Service
	ann, bob   domain.User
}

func newWorld(t *testing.T) *world {
	t.Helper()
	db := testkit.OpenDatabase(t, postgres.Options{MaxConns: 8})
	w := &world{t: t, db: db, workspaces: workspace.New(t.TempDir()), dir: t.TempDir(), registry: newRegistry(t)}
	w.ann, w.bob = w.person("ann"), w.person("bob")
	w.skills = w.start(w.registry.server.URL)

	return w
}

// start returns the service after a restart.
func (w *world) start(registryURL string) *skills.Service {
	w.t.Helper()

	logger := slog.New(slog.DiscardHandler)
	s, err := skills.New(skills.Config{
		Dir:        w.dir,
		Workspaces: w.workspaces,
		Store:      skills.NewStore(w.db.DB),
		Registry:   skillregistry.NewRegistries(registryURL, nil),
		Logger:     logger,
	})
	require.NoError(w.t, err)

	return s
}

func (w *world) person(name string) domain.User {
	w.t.Helper()

	user := domain.User{ID: domain.NewID(), Username: name}
	key := domain.APIKey{ID: domain.NewID(), UserID: user.ID, Name: "k", Masked: "m", Scopes: []string{}}
	hash := make([]byte, 32)
	copy(hash, user.ID)
	_, _, err := accounts.New(w.db.DB).CreateUser(w.t.Context(), user, key, hash)
	require.NoError(w.t, err)

	return user
}

func (w *world) session(primary string) domain.Session {
	w.t.Helper()

	in := domain.NewSession{}
	if primary != "" {
		in.PrimarySkillID = &primary
	}

	session, err := w.db.CreateSession(w.t.Context(), w.ann.ID, in)
	require.NoError(w.t, err)

	session.SandboxUID = 0

	return session
}

// write makes or changes a file of a session's workspace, as its agent does.
func (w *world) write(session domain.Session, path, content string) {
	w.t.Helper()
	files, err := w.workspaces.Open(w.t.Context(), session.ID, 0)
	require.NoError(w.t, err)

	defer files.Close()

	_, err = files.WriteFile(w.t.Context(), path, strings.NewReader(content), workspace.WriteOptions{Parents: true})
	require.NoError(w.t, err)
}

func (w *world) read(session domain.Session, path string) string {
	w.t.Helper()
	files, err := w.workspaces.Open(w.t.Context(), session.ID, 0)
	require.NoError(w.t, err)

	defer files.Close()

	content, _, err := files.ReadFile(path, 1<<20)
	require.NoError(w.t, err)

	return string(content)
}

func (w *world) remove(session domain.Session, path string) {
	w.t.Helper()
	files, err := w.workspaces.Open(w.t.Context(), session.ID, 0)
	require.NoError(w.t, err)

	defer files.Close()

	require.NoError(w.t, files.Remove(w.t.Context(), path, true))
}

// operator puts a file next to the service's skills.
func (w *world) operator(path, content string) {
	w.t.Helper()
	path = filepath.Join(w.dir, path)
	require.NoError(w.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(w.t, os.WriteFile(path, []byte(content), 0o644))
}

func document(name, version, body string) string {
	return "---\nname: " + name + "\ndescription: What " + name + " does. Use when it is asked for.\nmetadata:\n  version: " +
		"" + version + "\n---\n" + body
}

func files(pairs ...string) []skill.NewFile {
	var list []skill.NewFile
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, skill.NewFile{Path: pairs[i], Content: []byte(pairs[i+1])})
	}

	return list
}

func (w *world) upload(session domain.Session, name string, pairs ...string) skill.Upload {
	w.t.Helper()
	done, err := w.skills.Upload(w.t.Context(), session, name, files(pairs...))
	require.NoError(w.t, err)

	return done
}

func (w *world) load(session domain.Session, name string) skill.Loaded {
	w.t.Helper()
	loaded, err := w.skills.Load(w.t.Context(), session, name)
	require.NoError(w.t, err)

	return loaded
}

func (w *world) listed(session domain.Session, name string) *skill.Skill {
	w.t.Helper()
	list, err := w.skills.OfSession(w.t.Context(), session)
	require.NoError(w.t, err)

	for _, skill := range list {
		if skill.Name == name {
			return &skill
		}
	}

	return nil
}

func (w *world) offered(session domain.Session) []string {
	w.t.Helper()
	offers, err := w.skills.Offer(w.t.Context(), session)
	require.NoError(w.t, err)

	var names []string
	for _, o := range offers {
		names = append(names, o.Name)
	}

	return names
}

// registry is a skill registry with the endpoints that the client uses.
type registry struct {
	server *httptest.Server

	mu       sync.Mutex
	versions map[string][]map[string]any
	packages map[string][]byte
	noSearch bool
	status   int // answers everything with it; 0: as usual
	asked    []string
}

func newRegistry(t *testing.T) *registry {
	t.Helper()

	r := &registry{versions: map[string][]map[string]any{}, packages: map[string][]byte{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /skills", r.search)
	mux.HandleFunc("GET /skills/{org}/{name}/versions", r.list)
	mux.HandleFunc("GET /skills/{org}/{name}/versions/{version}", r.one)
	mux.HandleFunc("GET /skills/{org}/{name}/download", r.download)
	r.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()

		r.asked = append(r.asked, q.URL.String())
		if r.status != 0 {
			w.WriteHeader(r.status)
			return
		}

		mux.ServeHTTP(w, q)
	}))
	t.Cleanup(r.server.Close)

	return r
}

// publish adds a version; released makes it the recommended one.
func (r *registry) publish(skill, version string, released bool, archive []byte, digest string) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if released {
		for _, v := range r.versions[skill] {
			v["released"] = false
		}
	}

	r.versions[skill] = append(r.versions[skill], map[string]any{
		"version": version, "digest": digest, "released": released, "yanked": false, "description": "From the registry",
		"frontmatter": map[string]any{"name": "x"}, "files": []map[string]any{{"path": "SKILL.md", "size": 3, "sha256": "y"}},
	})
	r.packages[skill+"@"+version] = archive
}

func (r *registry) fail(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()

	r.status = status
}

func reply(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }

func (r *registry) list(w http.ResponseWriter, q *http.Request) {
	versions, ok := r.versions[q.PathValue("org")+"/"+q.PathValue("name")]
	if !ok {
		http.NotFound(w, q)
		return
	}

	reply(w, map[string]any{"items": versions, "total": len(versions)})
}

func (r *registry) one(w http.ResponseWriter, q *http.Request) {
	for _, v := range r.versions[q.PathValue("org")+"/"+q.PathValue("name")] {
		if v["version"] == q.PathValue("version") {
			reply(w, v)
			return
		}
	}

	http.NotFound(w, q)
}

func (r *registry) download(w http.ResponseWriter, q *http.Request) {
	archive, ok := r.packages[q.PathValue("org")+"/"+q.PathValue("name")+"@"+q.URL.Query().Get("version")]
	if !ok {
		http.NotFound(w, q)
		return
	}

	_, _ = w.Write(archive)
}

func (r *registry) search(w http.ResponseWriter, q *http.Request) {
	if r.noSearch {
		http.NotFound(w, q)
		return
	}

	reply(w, map[string]any{"items": []map[string]any{
		{"org": "acme", "name": "tables", "description": "Works with tables", "released_version": "3.0.0", "downloads": 7},
	}})
}

func archive(t *testing.T, pairs ...string) []byte {
	t.Helper()

	var out bytes.Buffer

	w := zip.NewWriter(&out)
	for i := 0; i < len(pairs); i += 2 {
		f, err := w.Create(pairs[i])
		require.NoError(t, err)
		_, err = f.Write([]byte(pairs[i+1]))
		require.NoError(t, err)
	}

	require.NoError(t, w.Close())

	return out.Bytes()
}
