package systemtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/dagrun"
	"everloop/infra/snapshots"
	"everloop/internal/durable"
)

// code returns a node of the type code; rest are further fields, each after a comma.
func code(id, script, rest string) string {
	raw, err := json.Marshal(script)
	if err != nil {
		panic(err)
	}

	return `{"id":"` + id + `","type":"code","config":{"code":` + string(raw) + `}` + rest + `}`
}

// chain returns edges from the start through nodes to the end.
func chain(nodes ...string) string {
	edges, before := []string{}, "s"
	for i, id := range append(nodes, "z") {
		edges = append(edges, edge(fmt.Sprintf("c%d", i), before, id))
		before = id
	}

	return strings.Join(edges, ",")
}

// output returns the output of a node as text.
func (s *works) output(run dagrun.RunRecord, id string) (text string) {
	s.t.Helper()
	require.NoError(s.t, json.Unmarshal(s.node(run, id).Outputs, &text))

	return text
}

// names returns the paths of the output files of a node.
func (s *works) names(run dagrun.RunRecord, id string) (names []string) {
	s.t.Helper()

	for _, f := range s.node(run, id).Files {
		names = append(names, f.Path)
	}

	return names
}

func (s *works) retry(run dagrun.RunRecord) dagrun.RunRecord {
	s.t.Helper()

	run, err := s.runs.Retry(s.t.Context(), s.caller.User, run.ProdSolutionID, run.ID, dagrun.Resumption{})
	require.NoError(s.t, err)

	return s.over(run)
}

// Files that a node writes are in the workspaces of nodes after it, with their modes; other
// files and links are not.
func TestDAGRun_files(t *testing.T) {
	t.Parallel()
	s := newWorks(t)
	prompt, err := json.Marshal("read" + script(obj{"steps": []obj{{"text": "done"}}}))
	require.NoError(t, err)

	run := s.play(strings.Join([]string{
		code(
			"a",
			`mkdir -p report/sub .everloop && touch .everloop/x.none && echo one > report/one.txt && echo 'echo two' > report/sub/two.sh
			: > report/empty && chmod 700 report/sub/two.sh && echo no > secret.txt && ln -s /etc/passwd report/passwd && mkfifo report/pipe
			ln -s /etc report/etc`,
			`,"outputs":{"files":["report/**","**/*.none"]}`,
		),
		`{"id":"b","type":"tool","config":{"tool":"Bash","arguments":{"command":"cat in/one.txt; in/sub/two.sh; cat in/one.txt > b; find . -type f -o -type l"}},
			"inputs_files":[{"from":"a","path":"report/**","to":"in"}],"outputs":{"files":["b"]}}`,
		`{"id":"c","type":"agent","config":{"prompt":` + string(
			prompt,
		) + `},"inputs_files":[{"from":"a","path":"report/one.txt","to":"x/"},{"from":"b"}]}`,
	}, ","), chain("a", "b", "c"), `{}`)
	require.Equal(t, dagrun.Completed, run.Status, "%+v", run.Error)

	lines := strings.Fields(s.output(run, "b"))
	require.ElementsMatch(t, []string{"one", "two", "./b", "./in/one.txt", "./in/sub/two.sh", "./in/empty"}, lines)
	require.Equal(t, []string{"report/empty", "report/one.txt", "report/sub/two.sh"}, s.names(run, "a"))

	sum := sha256.Sum256([]byte("one\n"))
	require.Equal(t, []dagrun.OutputFile{{Path: "b", Size: 4, SHA256: hex.EncodeToString(sum[:]), Mode: 0o644}}, s.node(run, "b").Files)
	require.Empty(t, s.node(run, "c").Files)

	content, info, err := s.runs.OpenNodeFile(t.Context(), run.ID, "a", dagrun.NoItem, "report/one.txt")
	require.NoError(t, err)

	text, err := io.ReadAll(content)
	require.NoError(t, err)
	require.Equal(t, "one\n", string(text))
	require.Equal(t, `"`+hex.EncodeToString(sum[:])+`"`, info.ETag)

	_, _, err = s.runs.OpenNodeFile(t.Context(), run.ID, "a", dagrun.NoItem, "secret.txt")
	require.True(t, domain.HasCode(err, domain.CodeFileNotFound), err)

	session, err := s.journal.OwnSession(t.Context(), s.caller.User, *s.node(run, "c").SessionID)
	require.NoError(t, err)

	var given []string

	require.NoError(t, s.files.Walk(t.Context(), session, func(f domain.CarriedFile) error {
		given = append(given, f.Path)
		return nil
	}))
	require.ElementsMatch(t, []string{"x", "x/one.txt", "b"}, given)

	s.replayRun("dag_run_files", durable.DAGRunWorkflowID(run.ProdSolutionID, run.ID))
}

// The items of a map have their own files, which are below their numbers.
func TestDAGRun_files_ofItems(t *testing.T) {
	t.Parallel()
	s := newWorks(t)

	run := s.play(code("a", `echo shared > base`, `,"outputs":{"files":["base"]}`)+`,
		{"id":"m","type":"map","inputs":{"items":["x","y"]},
		"config":{"tool":"Bash","arguments":{"command":"cat base; echo {{item}} >> base"}},"inputs_files":[{"from":"a"}],"outputs":{"files":["base"]}},`+
		code("b", `cat in/0/base in/1/base`, `,"inputs_files":[{"from":"m","to":"in"}]`), chain("a", "m", "b"), `{}`)
	require.Equal(t, dagrun.Completed, run.Status, "%+v", run.Error)
	require.Equal(t, "shared\nx\nshared\ny", strings.TrimSpace(s.output(run, "b")))

	files := s.node(run, "m").Files
	require.Len(t, files, 2)
	require.Equal(t, 1, *files[1].Item)

	_, _, err := s.runs.OpenNodeFile(t.Context(), run.ID, "m", 1, "base")
	require.NoError(t, err)
}

// A node that is reused passes on the files that it made, also when its session is deleted, and
// a node runs again when its files have changed.
func TestDAGRun_files_reused(t *testing.T) {
	t.Parallel()
	s := newWorks(t)
	flag := filepath.Join(t.TempDir(), "flag")

	run := s.play(strings.Join([]string{
		code("a", `date +%N > x`, `,"outputs":{"files":["x"]}`),
		code("b", `cat x`, `,"inputs_files":[{"from":"a"}]`),
		code("c", `cat x; test -e `+flag, `,"inputs_files":[{"from":"a"}]`),
	}, ","), chain("a", "b", "c"), `{}`)
	require.Equal(t, dagrun.Failed, run.Status)

	first := s.node(run, "a")
	text := s.output(run, "b")

	s.exec(`UPDATE sessions SET deleted_at = now() WHERE id = $1`, *first.SessionID)
	require.NoError(t, os.WriteFile(flag, nil, 0o600))

	run = s.retry(run)
	require.Equal(t, dagrun.Completed, run.Status, "%+v", run.Error)
	require.Equal(t, []dagrun.Status{dagrun.Reused, dagrun.Reused}, []dagrun.Status{s.node(run, "a").Status, s.node(run, "b").Status})
	require.Equal(t, first.Files, s.node(run, "a").Files)
	require.Equal(t, text, s.output(run, "c"))
}

func TestDAGRun_files_rejected(t *testing.T) {
	t.Parallel()
	s := newWorks(t)

	outside := t.TempDir()

	for name, tc := range map[string]struct {
		nodes, edges, code string
	}{
		"too many bytes": {code("a", `truncate -s 257M x`, `,"outputs":{"files":["*"]}`), chain("a"), dagrun.CodeFilesTooLarge},
		"too many files": {code("a", `touch $(seq 1001)`, `,"outputs":{"files":["**"]}`), chain("a"), dagrun.CodeFilesTooLarge},
		"missing":        {code("a", `true`, `,"outputs":{"files":["x"]}`), chain("a"), dagrun.CodeFileMissing},
		"link": {
			code("a", `ln -s /etc/passwd x`, `,"outputs":{"files":["x"]}`), chain("a"), dagrun.CodeFileMissing,
		},
		"below a link": {
			code("a", `ln -s /etc x`, `,"outputs":{"files":["x/passwd"]}`), chain("a"), dagrun.CodeFileMissing,
		},
		"odd name": {code("a", `touch $'\xff'`, `,"outputs":{"files":["*"]}`), chain("a"), dagrun.CodeInvalidOutput},
		"not given": {
			code("a", `touch x`, `,"outputs":{"files":["x"]}`) + "," + code("b", `true`, `,"inputs_files":[{"from":"a","path":"y"}]`),
			chain("a", "b"), dagrun.CodeFileMissing,
		},
		"through a link": {
			code("a", `ln -s `+outside+` in; echo hostile > x`, `,"outputs":{"files":["x"]}`) + "," +
				code("b", `true`, `,"workspace":"a","inputs_files":[{"from":"a","to":"in/"}]`),
			chain("a", "b"), "path_outside_workspace",
		},
	} {
		t.Run(name, func(t *testing.T) {
			run := s.play(tc.nodes, tc.edges, `{}`)
			require.Equal(t, dagrun.Failed, run.Status)
			require.Equal(t, tc.code, run.Error.Code, run.Error.Message)
		})
	}

	left, err := os.ReadDir(outside)
	require.NoError(t, err)
	require.Empty(t, left)
}

// Nodes of one workspace see the files that the nodes before them left, a retry as if the
// attempt that failed had not been.
func TestDAGRun_workspace(t *testing.T) {
	t.Parallel()
	s := newWorks(t)
	flag := filepath.Join(t.TempDir(), "flag")

	run := s.play(strings.Join([]string{
		code("a", `echo a > x; mkdir d; ln -s x d/link`, ``),
		code("b", `cat x; echo b >> x`, `,"workspace":"a"`),
		code("c", `cat x; echo c >> x; test -e `+flag, `,"workspace":"a","on_error":"fail"`),
		code("d", `cat x; readlink d/link`, `,"workspace":"b"`),
		code("e", `ls; echo .`, ``),
	}, ","), chain("a", "b", "c", "d", "e"), `{}`)
	require.Equal(t, dagrun.Failed, run.Status)
	require.Equal(t, "a", strings.TrimSpace(s.output(run, "b")))

	require.NoError(t, os.WriteFile(flag, nil, 0o600))

	run = s.retry(run)
	require.Equal(t, dagrun.Completed, run.Status, "%+v", run.Error)
	require.Equal(t, dagrun.Reused, s.node(run, "b").Status)
	require.Equal(t, "a\nb", strings.TrimSpace(s.output(run, "c")))
	require.Equal(t, "a\nb\nc\nx", strings.TrimSpace(s.output(run, "d")))
	require.Equal(t, ".", strings.TrimSpace(s.output(run, "e")), "it has its own workspace")
}

// heldObjects are objects whose writes wait while they are held.
type heldObjects struct {
	snapshots.Objects
	held    atomic.Bool
	waiting chan struct{}
}

func (o *heldObjects) Put(ctx context.Context, key string, data []byte) error {
	if o.held.Load() {
		o.waiting <- struct{}{}

		<-ctx.Done()

		return ctx.Err()
	}

	return o.Objects.Put(ctx, key, data)
}

// A worker that ends while it captures files, or between two nodes, loses none: another one
// captures them.
func TestDAGRun_files_workerLost(t *testing.T) {
	t.Parallel()
	s := newWorks(t)
	objects := &heldObjects{Objects: s.objects, waiting: make(chan struct{}, 100)}
	objects.held.Store(true)

	s.files.Snapshots = snapshots.New(snapshots.Config{Objects: objects, SpoolDir: t.TempDir(), Logger: s.logger})
	s.restart()

	run := s.begin(code("a", `date +%N > x; cat x`, `,"outputs":{"files":["x"]}`)+`,{"id":"w","type":"wait","config":{"wait_s":3}},`+
		code("b", `cat x`, `,"inputs_files":[{"from":"a"}]`), chain("a", "w", "b"), `{}`)

	<-objects.waiting
	objects.held.Store(false)
	s.restart()

	require.Eventually(t, func() bool { return s.node(run, "w").Status == dagrun.Waiting }, patience, 50*time.Millisecond)
	s.restart()

	run = s.over(run)
	require.Equal(t, dagrun.Completed, run.Status, "%+v", run.Error)
	require.Equal(t, s.output(run, "a"), s.output(run, "b"))
	require.Equal(t, 1, s.node(run, "a").Attempt)
}

// The files of a run are removed after the run.
func TestDAGRun_files_deleted(t *testing.T) {
	t.Parallel()
	s := newWorks(t)

	run := s.play(code("a", `echo x > x`, `,"outputs":{"files":["x"]}`), chain("a"), `{}`)
	stored := func() int {
		keys, err := s.objects.Keys(t.Context(), "snapshots/dag-"+run.ID+"/")
		require.NoError(t, err)

		return len(keys)
	}
	require.NotZero(t, stored())

	clear := func() {
		s.exec(`UPDATE dag_run_snapshots SET captured_at = captured_at - interval '3 hours'`)
		require.NoError(t, s.runs.ClearFiles(t.Context()))
	}
	clear()
	require.NotZero(t, stored(), "the run is there")

	require.NoError(t, s.runs.DeleteSolution(t.Context(), s.caller.User, run.ProdSolutionID))
	require.NoError(t, s.runs.ClearFiles(t.Context()))
	clear()
	require.Zero(t, stored())
}

// The example of docs/dag-runs.md#files does what the page says.
func TestDAGRun_files_example(t *testing.T) {
	t.Parallel()
	s := newWorks(t)

	page, err := os.ReadFile("../../docs/dag-runs.md")
	require.NoError(t, err)

	_, section, found := strings.Cut(string(page), "\n## Files\n")
	require.True(t, found)

	_, example, _ := strings.Cut(section, "```json\n")
	example, _, _ = strings.Cut(example, "```")

	run := s.over(s.publish(example, `{}`))
	require.Equal(t, dagrun.Completed, run.Status, "%+v", run.Error)
	require.Equal(t, "./in/june.txt", strings.TrimSpace(s.output(run, "sign")))
	require.Equal(t, []string{"report/june.txt"}, s.names(run, "write"))
	require.JSONEq(t, `"sales: 7\nsigned\n"`, string(run.Outputs))
}

// A run of one node is given the files and the workspace of the run that its outputs are taken from.
func TestDAGRun_files_ofOneNode(t *testing.T) {
	t.Parallel()
	s := newWorks(t)

	whole := s.play(strings.Join([]string{
		code("a", `date +%N > x; cat x`, `,"outputs":{"files":["x"]}`),
		code("b", `echo b > b`, ``),
		code("c", `echo c >> b`, `,"workspace":"b"`),
		code("d", `cat in b`, `,"workspace":"b","inputs_files":[{"from":"a","path":"x","to":"in"}]`),
	}, ","), chain("a", "b", "c", "d"), `{}`)
	require.Equal(t, dagrun.Completed, whole.Status, "%+v", whole.Error)
	require.Equal(t, s.output(whole, "a")+"b\nc\n", s.output(whole, "d"))

	one, err := s.runs.RunNode(t.Context(), s.caller.User, whole.ProdSolutionID, dagrun.OneNode{NodeID: "d"})
	require.NoError(t, err)

	one = s.over(one)
	require.Equal(t, dagrun.Completed, one.Status, "%+v", one.Error)
	require.Equal(t, s.output(whole, "d"), s.output(one, "d"))
}
