package registry_test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/minio/minio-go/v7"
	miniocredentials "github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/stretchr/testify/require"

	"everloop/companions/credentials"
	"everloop/companions/registry"
	"everloop/internal/testkit"
)

const machineKey = "machine-key-of-the-test"

// world is a registry on real engines, with an agent that knows some tokens.
type world struct {
	t        *testing.T
	url      string
	database string
	bucket   testkit.Bucket
	service  *registry.Service
}

// callers are who the agent of the tests knows.
var callers = map[string]string{
	"Bearer ann":    `{"id":"ann","username":"ann","scopes":null}`,
	"Bearer bob":    `{"id":"bob","username":"bob","scopes":["skills:write"]}`,
	"Bearer reader": `{"id":"ann","username":"ann","scopes":["skills"]}`,
}

// newWorld starts a service with some of its configuration changed.
func newWorld(t *testing.T, changes ...func(cfg *registry.Config)) *world {
	t.Helper()

	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		known, ok := callers[r.Header.Get("Authorization")]
		if !ok {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}

		_, _ = io.WriteString(w, known)
	}))
	t.Cleanup(agent.Close)
	w := &world{t: t, database: testkit.Postgres(t), bucket: testkit.Objects(t)}

	cfg := registry.Config{
		DatabaseURL: w.database, Credentials: credentials.New(agent.URL, machineKey), UploadAge: 1,
		Packages: registry.Bucket{
			Endpoint: w.bucket.Endpoint, Name: w.bucket.Name, AccessKey: w.bucket.AccessKey, SecretKey: w.bucket.SecretKey,
		},
	}
	for _, change := range changes {
		change(&cfg)
	}

	service, err := registry.Open(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(service.Close)
	server := httptest.NewServer(service.Handler())
	t.Cleanup(server.Close)
	w.service, w.url = service, server.URL

	return w
}

type response struct {
	status int
	header http.Header
	body   []byte
}

func (r response) json(t *testing.T) map[string]any {
	t.Helper()

	var fields map[string]any
	require.NoError(t, json.Unmarshal(r.body, &fields), string(r.body))

	return fields
}

func (w *world) send(method, path, token, contentType string, body []byte) response {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, bytes.NewReader(body))
	require.NoError(w.t, err)

	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}

	request.Header.Set("Content-Type", contentType)
	answer, err := http.DefaultClient.Do(request)
	require.NoError(w.t, err)

	defer answer.Body.Close()

	data, err := io.ReadAll(answer.Body)
	require.NoError(w.t, err)

	return response{answer.StatusCode, answer.Header, data}
}

func (w *world) get(path string) response { return w.send(http.MethodGet, path, "", "", nil) }

func (w *world) put(path, token, body string) response {
	return w.send(http.MethodPut, path, token, "application/json", []byte(body))
}

func (w *world) upload(skill, version, token string, archive []byte) response {
	w.t.Helper()

	var body bytes.Buffer

	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("file", "skill.zip")
	require.NoError(w.t, err)

	_, _ = part.Write(archive)

	require.NoError(w.t, form.WriteField("git_commit", "abc"))
	require.NoError(w.t, form.Close())

	return w.send(http.MethodPost, "/skills/"+skill+"/versions/"+version, token, form.FormDataContentType(), body.Bytes())
}

// refused requires an error with a status and a code.
func (w *world) refused(r response, status int, code string) {
	w.t.Helper()
	require.Equal(w.t, status, r.status, string(r.body))
	require.Equal(w.t, code, r.json(w.t)["code"], string(r.body))
	require.Equal(w.t, "application/problem+json", r.header.Get("Content-Type"))
}

func document(name, version, text string) string {
	return fmt.Sprintf("---\nname: %s\ndescription: What it is for.\nmetadata:\n  version: %s\n---\n%s\n", name, version, text)
}

// pack makes an archive of names and contents.
func pack(t *testing.T, files ...string) []byte {
	t.Helper()

	var out bytes.Buffer

	z := zip.NewWriter(&out)
	for i := 0; i < len(files); i += 2 {
		f, err := z.Create(files[i])
		require.NoError(t, err)

		_, _ = io.WriteString(f, files[i+1])
	}

	require.NoError(t, z.Close())

	return out.Bytes()
}

func TestService_publishesAndReleases(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := pack(t, "tables/SKILL.md", document("tables", "1.2.0", "one"), "tables/ref.md", "r")
	made := w.upload("acme/tables", "1.2.0", "ann", one)
	require.Equal(t, http.StatusCreated, made.status, string(made.body))
	digest := made.json(t)["digest"].(string)
	require.InDelta(t, 2, made.json(t)["file_count"], 0)

	// The same content again, packed in another way, changes nothing.
	again := w.upload("acme/tables", "1.2.0", "ann", pack(t, "ref.md", "r", "SKILL.md", document("tables", "1.2.0", "one")))
	require.Equal(t, http.StatusOK, again.status, string(again.body))
	require.Equal(t, made.json(t)["created_at"], again.json(t)["created_at"])
	w.refused(w.upload("acme/tables", "1.2.0", "ann", pack(t, "SKILL.md", document("tables", "1.2.0", "two"))), 409, "version_exists")
	require.Equal(t, 201, w.upload("acme/tables", "1.10.0", "ann", pack(t, "SKILL.md", document("tables", "1.10.0", "ten"))).status)
	preview := pack(t, "SKILL.md", document("tables", "1.10.0-beta.1", "b"))
	require.Equal(t, 201, w.upload("acme/tables", "1.10.0-beta.1", "ann", preview).status)

	w.refused(w.get("/skills/acme/tables/download"), 404, "skill_not_released")
	w.refused(w.get("/skills/acme/nothing/download"), 404, "skill_not_found")
	w.refused(w.put("/skills/acme/tables/release", "ann", `{"version":"9.0.0"}`), 404, "skill_version_not_found")
	done := w.put("/skills/acme/tables/release", "ann", `{"version":"1.2.0"}`)
	require.Equal(t, 200, done.status, string(done.body))
	require.NotContains(t, done.json(t), "previous_version")
	require.Equal(t, "ann", done.json(t)["released_by"])

	got := w.get("/skills/acme/tables/download")
	require.Equal(t, 200, got.status)
	require.Equal(t, one, got.body)
	require.Equal(t, `"`+digest+`"`, got.header.Get("ETag"))
	require.Equal(t, 200, w.get("/skills/acme/tables/download?version=1.10.0").status)
	w.refused(w.get("/skills/acme/tables/download?version=3.0.0"), 404, "skill_version_not_found")

	list := w.get("/skills/acme/tables/versions").json(t)["items"].([]any)

	var order []string
	for _, v := range list {
		order = append(order, v.(map[string]any)["version"].(string))
	}

	require.Equal(t, []string{"1.10.0", "1.10.0-beta.1", "1.2.0"}, order)
	whole := w.get("/skills/acme/tables/versions/1.2.0").json(t)
	require.Equal(t, true, whole["released"])
	require.Equal(t, "abc", whole["git"].(map[string]any)["commit"])
	require.Equal(t, "tables", whole["frontmatter"].(map[string]any)["name"])
	require.Len(t, whole["files"], 2)

	require.Equal(t, "1.2.0", w.put("/skills/acme/tables/release", "ann", `{"version":"1.10.0"}`).json(t)["previous_version"])
	require.Equal(t, 200, w.put("/skills/acme/tables/versions/1.10.0/yank", "ann", "").status)
	w.refused(w.get("/skills/acme/tables/download"), 404, "skill_not_released")
	w.refused(w.put("/skills/acme/tables/release", "ann", `{"version":"1.10.0"}`), 409, "version_yanked")
	require.Equal(t, 200, w.get("/skills/acme/tables/download?version=1.10.0").status)
	require.Equal(t, 200, w.send(http.MethodDelete, "/skills/acme/tables/versions/1.10.0/yank", "ann", "", nil).status)
	require.Equal(t, 200, w.put("/skills/acme/tables/release", "ann", `{"version":"1.10.0"}`).status)

	health := w.get("/api/health")
	require.Equal(t, 200, health.status)
	require.JSONEq(t, `{"status":"ok","skills":1,"storage_ok":true}`, string(health.body))
	require.Contains(t, string(w.get("/").body), `href="/browse/acme/tables"`)
	require.Contains(t, string(w.get("/browse/acme/tables").body), digest)
}

func TestService_checksCredentialsAndMembership(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	archive := pack(t, "SKILL.md", document("tables", "1.0.0", "one"))
	w.refused(w.upload("acme/tables", "1.0.0", "", archive), 401, "unauthorized")
	w.refused(w.upload("acme/tables", "1.0.0", "wrong", archive), 401, "unauthorized")
	w.refused(w.upload("acme/tables", "1.0.0", "reader", archive), 403, "scope_missing")
	require.Equal(t, 201, w.upload("acme/tables", "1.0.0", "ann", archive).status)
	w.refused(w.upload("acme/other", "1.0.0", "bob", archive), 403, "not_a_member")
	w.refused(w.upload("Acme/tables", "1.0.0", "bob", archive), 409, "organization_exists")
	w.refused(w.put("/skills/acme/tables/release", "bob", `{"version":"1.0.0"}`), 403, "not_a_member")
	w.refused(w.put("/skills/acme/tables/versions/1.0.0/yank", "bob", ""), 403, "not_a_member")
	w.refused(w.put("/registry/organizations/acme/members/bob", "bob", ""), 403, "not_a_member")
	require.Equal(t, 204, w.put("/registry/organizations/acme/members/bob", "ann", "").status)
	require.Equal(t, 200, w.put("/skills/acme/tables/release", "bob", `{"version":"1.0.0"}`).status)
	require.Equal(t, 204, w.send(http.MethodDelete, "/registry/organizations/acme/members/bob", "ann", "", nil).status)
	w.refused(w.send(http.MethodDelete, "/registry/organizations/acme/members/ann", "ann", "", nil), 409, "last_member")
	require.Equal(t, 204, w.send(http.MethodDelete, "/registry/organizations/acme/members/none", "ann", "", nil).status)
	w.refused(w.put("/skills/acme/tables/release", "bob", `{"version":"1.0.0"}`), 403, "not_a_member")
	require.Equal(t, 200, w.put("/skills/acme/tables/release", machineKey, `{"version":"1.0.0"}`).status)
	w.refused(w.put("/registry/scenarios/first", "ann", `{}`), 403, "administrator_required")
}

// The packages of an organisation share its room, and a full disk takes none.
func TestService_roomOfTheOrganisation(t *testing.T) {
	t.Parallel()

	var full atomic.Bool

	one, two := pack(t, "SKILL.md", document("tables", "1.0.0", "one")), pack(t, "SKILL.md", document("charts", "1.0.0", "one"))
	w := newWorld(t, func(cfg *registry.Config) {
		cfg.OrganizationBytes = int64(len(one)+len(two)) - 1
		cfg.Room = func() error {
			if full.Load() {
				return errors.New("12 bytes are free")
			}

			return nil
		}
	})

	full.Store(true)
	w.refused(w.upload("acme/tables", "1.0.0", "ann", one), 503, "disk_full")
	full.Store(false)

	require.Equal(t, 201, w.upload("acme/tables", "1.0.0", "ann", one).status)
	w.refused(w.upload("acme/charts", "1.0.0", "ann", two), 409, "organization_full")
	require.Equal(t, 201, w.upload("other/charts", "1.0.0", "ann", two).status)
	require.Equal(t, 201, w.upload("acme/charts", "1.0.0", machineKey, two).status, "administrators may go on")
}

func TestService_refusesHostileArchives(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	good := document("bad", "1.0.0", "x")

	many := []string{"SKILL.md", good}
	for i := range 500 {
		many = append(many, fmt.Sprintf("f%d", i), "")
	}

	linked := func() []byte {
		var out bytes.Buffer

		z := zip.NewWriter(&out)
		f, _ := z.Create("SKILL.md")
		_, _ = io.WriteString(f, good)
		header := &zip.FileHeader{Name: "link"}
		header.SetMode(fs.ModeSymlink | 0o777)
		f, _ = z.CreateHeader(header)
		_, _ = io.WriteString(f, "/etc/passwd")

		require.NoError(t, z.Close())

		return out.Bytes()
	}
	for what, tc := range map[string]struct {
		archive []byte
		status  int
		code    string
	}{
		"no archive":    {[]byte("hello"), 422, "invalid_skill_archive"},
		"nothing":       {nil, 422, "invalid_skill_archive"},
		"a parent":      {pack(t, "SKILL.md", good, "../evil", "x"), 422, "invalid_skill_archive"},
		"absolute":      {pack(t, "SKILL.md", good, "/evil", "x"), 422, "invalid_skill_archive"},
		"a link":        {linked(), 422, "invalid_skill_archive"},
		"twice":         {pack(t, "SKILL.md", good, "skill.md", good), 422, "invalid_skill_archive"},
		"too many":      {pack(t, many...), 413, "invalid_skill_archive"},
		"a bomb":        {pack(t, "SKILL.md", good, "zeros", strings.Repeat("\x00", 3<<20)), 413, "invalid_skill_archive"},
		"no document":   {pack(t, "README.md", good), 422, "invalid_skill"},
		"too deep":      {pack(t, "a/b/SKILL.md", good), 422, "invalid_skill"},
		"broken":        {pack(t, "SKILL.md", "broken"), 422, "invalid_skill"},
		"another name":  {pack(t, "SKILL.md", document("other", "1.0.0", "x")), 422, "invalid_skill"},
		"other version": {pack(t, "SKILL.md", document("bad", "2.0.0", "x")), 422, "invalid_skill"},
		"too large":     {bytes.Repeat([]byte{1}, 51<<20), 413, "invalid_skill_archive"},
	} {
		r := w.upload("acme/bad", "1.0.0", "ann", tc.archive)
		require.Equal(t, tc.status, r.status, "%s: %s", what, r.body)
		require.Equal(t, tc.code, r.json(t)["code"], what)
	}

	raw := func(contentType string, body []byte) response {
		return w.send(http.MethodPost, "/skills/acme/bad/versions/1.0.0", "ann", contentType, body)
	}
	w.refused(raw("application/json", []byte(`{}`)), 415, "unsupported_media_type")

	cut := []byte("--x\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nabc")
	w.refused(raw("multipart/form-data; boundary=x", cut), 400, "malformed_request")
	w.refused(w.upload("acme/bad", "1.0", "ann", nil), 422, "invalid_request")
	w.refused(w.upload("acme/bad", "1.0.0+b", "ann", nil), 422, "invalid_request")
	w.refused(w.upload("acme/Bad", "1.0.0", "ann", nil), 422, "invalid_request")
	w.refused(w.upload("a.b/bad", "1.0.0", "ann", nil), 422, "invalid_request")
	w.refused(w.get("/skills/acme/bad/versions"), 404, "skill_not_found")
	require.Empty(t, w.objects())
}

// objectStore returns a client of the bucket.
func (w *world) objectStore() *minio.Client {
	w.t.Helper()
	keys := miniocredentials.NewStaticV4(w.bucket.AccessKey, w.bucket.SecretKey, "")
	client, err := minio.New(w.bucket.Endpoint, &minio.Options{Creds: keys})
	require.NoError(w.t, err)

	return client
}

// objects lists what is in the bucket.
func (w *world) objects() (keys []string) {
	w.t.Helper()

	for object := range w.objectStore().ListObjects(w.t.Context(), w.bucket.Name, minio.ListObjectsOptions{Recursive: true}) {
		require.NoError(w.t, object.Err)
		keys = append(keys, object.Key)
	}

	return keys
}

func TestService_sameVersionAtOnceIsStoredOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)

	// Ann is a member from here on, whose upload ever is the first of those below.
	other := pack(t, "SKILL.md", document("other", "1.0.0", "x"))
	require.Equal(t, http.StatusCreated, w.upload("acme/other", "1.0.0", "ann", other).status)

	var all sync.WaitGroup

	statuses := make([]int, 4) // as many as may upload at once, two of a caller
	for i := range statuses {
		archive := pack(t, "SKILL.md", document("tables", "1.0.0", fmt.Sprint(i%2)))

		all.Go(func() {
			statuses[i] = w.upload("acme/tables", "1.0.0", []string{"ann", machineKey}[i/2], archive).status
		})
	}

	all.Wait()

	counts := map[int]int{}
	for _, status := range statuses {
		counts[status]++
	}

	require.Equal(t, 1, counts[201], statuses)
	require.Equal(t, 1, counts[200], statuses)
	require.Equal(t, 2, counts[409], statuses)
	require.Len(t, w.objects(), 2)
}

// One caller whose uploads do not end leaves places to others.
func TestService_upload_placesOfOneCaller(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	archive := pack(t, "SKILL.md", document("tables", "1.0.0", "one"))
	require.Equal(t, 201, w.upload("acme/tables", "1.0.0", "ann", archive).status)

	var (
		body bytes.Buffer
		all  sync.WaitGroup
		held []*io.PipeWriter
	)

	defer func() {
		for _, out := range held {
			out.Close()
		}

		all.Wait()
	}()

	form := multipart.NewWriter(&body)
	_, err := form.CreateFormFile("file", "skill.zip")
	require.NoError(t, err)

	for range 2 {
		in, out := io.Pipe()
		held = append(held, out)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+"/skills/acme/tables/versions/2.0.0", in)
		require.NoError(t, err)
		request.Header.Set("Authorization", "Bearer ann")
		request.Header.Set("Content-Type", form.FormDataContentType())
		all.Go(func() {
			if answer, err := http.DefaultClient.Do(request); err == nil {
				answer.Body.Close()
			}
		})

		// What is taken from the pipe was sent. The service reads a form whose file is longer
		// than what it buffers only after the upload has its place.
		_, err = out.Write(body.Bytes())
		require.NoError(t, err)
		_, err = out.Write(make([]byte, 16<<20))
		require.NoError(t, err)
	}

	w.refused(w.upload("acme/tables", "1.0.0", "ann", archive), 429, "rate_limited")
	require.Equal(t, 201, w.upload("other/tables", "1.0.0", "bob", archive).status)
}

// What others make a user a member of does not count as made by the user.
func TestService_organizationsOfAUser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)

	for i := range 20 {
		org := fmt.Sprintf("/registry/organizations/anns-%d", i)
		require.Equal(t, 200, w.put(org, "ann", `{"display_name":"x"}`).status)
		require.Equal(t, 204, w.put(org+"/members/bob", "ann", "").status)
	}

	w.refused(w.put("/registry/organizations/anns-20", "ann", `{"display_name":"x"}`), 409, "too_many_organizations")
	require.Equal(t, 204, w.send(http.MethodDelete, "/registry/organizations/anns-0/members/ann", "ann", "", nil).status)
	w.refused(w.put("/registry/organizations/anns-20", "ann", `{"display_name":"x"}`), 409, "too_many_organizations")
	require.Equal(t, 200, w.put("/registry/organizations/bobs", "bob", `{"display_name":"x"}`).status)
}

func TestService_Clean_removesCutOffUploads(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.Equal(t, 201, w.upload("acme/tables", "1.0.0", "ann", pack(t, "SKILL.md", document("tables", "1.0.0", "one"))).status)
	conn, err := pgx.Connect(t.Context(), w.database)

	require.NoError(t, err)
	defer conn.Close(t.Context())

	_, err = conn.Exec(t.Context(), `INSERT INTO registry.uploads (package_key) VALUES ('left'), ('never-stored')`)
	require.NoError(t, err)

	left := "registry/packages/left"
	_, err = w.objectStore().PutObject(t.Context(), w.bucket.Name, left, strings.NewReader("x"), 1, minio.PutObjectOptions{})
	require.NoError(t, err)
	require.Len(t, w.objects(), 2)
	require.NoError(t, w.service.Clean(t.Context()))
	require.Len(t, w.objects(), 1)

	var announced int
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM registry.uploads`).Scan(&announced))
	require.Zero(t, announced)
	w.put("/skills/acme/tables/release", "ann", `{"version":"1.0.0"}`)
	require.Equal(t, 200, w.get("/skills/acme/tables/download").status)
}

func TestService_views(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	empty := `{"skills":0,"versions":0,"organizations":0,"downloads":0,"updated_at":null}`
	require.JSONEq(t, empty, string(w.get("/registry/skill-store/stats").body))
	require.JSONEq(t, `{"items":[],"total":0}`, string(w.get("/skills?q=x").body))

	for _, name := range []string{"pdf-forms", "pdf", "letters"} {
		require.Equal(t, 201, w.upload("acme/"+name, "1.0.0", "ann", pack(t, "SKILL.md", document(name, "1.0.0", "x"))).status)

		if name != "letters" {
			require.Equal(t, 200, w.put("/skills/acme/"+name+"/release", "ann", `{"version":"1.0.0"}`).status)
		}
	}

	found := w.get("/skills?q=PDF%20%00").json(t)
	require.InDelta(t, 2, found["total"], 0)
	require.Equal(t, "pdf", found["items"].([]any)[0].(map[string]any)["name"])
	require.InDelta(t, 0, w.get("/skills?q=letters").json(t)["total"], 0)
	require.InDelta(t, 2, w.get("/skills?limit=1").json(t)["total"], 0)
	w.refused(w.get("/skills?limit=0"), 422, "invalid_request")

	require.Equal(t, 200, w.put("/registry/organizations/acme", "ann", `{"display_name":"Acme & Co"}`).status)

	acme := `{"items":[{"name":"acme","display_name":"Acme & Co","skill_count":2}]}`
	require.JSONEq(t, acme, string(w.get("/registry/organizations").body))

	form := `{"title":"Basic","description":"d","version":"1.0.0",
		"schema":{"type":"object","properties":{"n":{"type":"integer"}}},"defaults":%s}`
	for _, body := range []string{
		fmt.Sprintf(form, `{"n":"x"}`),
		`{"title":"a","version":"1.0.0","schema":{"$ref":"http://127.0.0.1/x"}}`,
		`{"title":"a","version":"1.0.0","schema":{"$ref":"file:///etc/passwd"}}`,
		`{"title":"a","version":"1.0.0","schema":{"type":7}}`,
		`{"title":"a","version":"1.0.0","schema":[]}`,
		`{"title":"a","version":"1.0.0","schema":{"const":"\u0000"}}`,
		`{"title":"","version":"1.0.0","schema":{}}`,
	} {
		w.refused(w.put("/registry/templates/agent/basic", machineKey, body), 422, "invalid_request")
	}

	w.refused(w.put("/registry/templates/agent/basic", machineKey, `{"unknown":1}`), 422, "invalid_request")
	require.Equal(t, 200, w.put("/registry/templates/agent/basic", machineKey, fmt.Sprintf(form, `{"n":1}`)).status)
	require.Equal(t, 200, w.put("/registry/templates/agent/basic?driver=http", machineKey, fmt.Sprintf(form, `{"n":2}`)).status)
	require.Len(t, w.get("/registry/templates").json(t)["items"], 2)
	require.Equal(t, map[string]any{"n": 1.0}, w.get("/registry/templates/agent/basic").json(t)["defaults"])
	require.Equal(t, map[string]any{"n": 2.0}, w.get("/registry/templates/agent/basic?driver=http").json(t)["defaults"])
	w.refused(w.get("/registry/templates/agent/none"), 404, "template_not_found")

	bundle := `{"title":"First steps","type":"demo","tags":["start"],"resource_ids":["skill.acme.pdf","%s"]}`
	w.refused(w.put("/registry/scenarios/first", machineKey, fmt.Sprintf(bundle, "skill.acme.letters")), 422, "invalid_request")
	require.Equal(t, 200, w.put("/registry/scenarios/first", machineKey, fmt.Sprintf(bundle, "template.agent.basic.http")).status)
	require.Len(t, w.get("/registry/scenarios?limit=2000").json(t)["items"], 1)
	w.refused(w.get("/registry/scenarios?limit=2001"), 422, "invalid_request")

	all := w.get("/registry/resources").json(t)
	require.InDelta(t, 5, all["total"], 0)
	skills := w.get("/registry/resources?type=skill&subtype=acme&limit=1").json(t)
	require.InDelta(t, 2, skills["total"], 0)
	require.Len(t, skills["items"], 1)

	for _, r := range all["items"].([]any) {
		one := w.get("/registry/resources/" + r.(map[string]any)["id"].(string))
		require.Equal(t, r, any(one.json(t)))
	}

	w.refused(w.get("/registry/resources/skill.acme.none"), 404, "resource_not_found")
	require.Equal(t, 204, w.send(http.MethodDelete, "/registry/scenarios/first", machineKey, "", nil).status)
	require.Equal(t, 204, w.send(http.MethodDelete, "/registry/templates/agent/basic?driver=http", machineKey, "", nil).status)
	require.InDelta(t, 3, w.get("/registry/skill-store/stats").json(t)["versions"], 0)
	w.refused(w.put("/registry/organizations/acme/members/%00", "ann", ""), 422, "invalid_request")
	w.refused(w.put("/registry/organizations/acme/members/%20", "ann", ""), 422, "invalid_request")
	w.refused(w.get("/registry/resources/%00"), 422, "invalid_request")
	w.refused(w.get("/registry/resources?type=%00"), 422, "invalid_request")
	w.refused(w.get("/elsewhere"), 404, "route_not_found")
}
