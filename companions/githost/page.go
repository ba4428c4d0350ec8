package githost

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	htmltemplate "html/template"
	"net/http"
	"strings"

	"everloop/companions/edge"
)

//go:embed page.html
var pageSource string

//go:embed page.css
var pageStyle string

var page = htmltemplate.Must(htmltemplate.New("page").Parse(pageSource))

// pagePolicy allows only a page's own style, by its hash.
var pagePolicy = func() string {
	sum := sha256.Sum256([]byte(pageStyle))

	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
}()

// view contains the data of a page.
type view struct {
	Title string
	Style htmltemplate.CSS
	Home  bool // the list of repositories

	Query        string
	Repositories []string
	Total        int

	Repo    string // organisation/name
	Clone   string
	Rev     revision
	Path    string
	Parent  string // path of the directory above
	Rows    []row
	File    *found
	Size    int64
	Commits []commit
	Changes []change
	Message string
	History bool // the page lists commits
	Single  bool // the page shows one commit

	Page, Previous, Next int // numbers of pages; Previous and Next are -1 when there is none
	More                 bool
}

// pageRoutes binds the pages and the health checks.
func (s *Service) pageRoutes() http.Handler {
	mux := http.NewServeMux()
	s.handle(mux, "GET /api/health", s.health)
	s.handle(mux, "GET /readyz", s.ready)
	s.handle(mux, "GET /{$}", s.homePage)
	s.handle(mux, "GET /-/{org}/{name}", s.limited(s.treePage))
	s.handle(mux, "GET /-/{org}/{name}/commits", s.limited(s.historyPage))
	s.handle(mux, "GET /-/{org}/{name}/commit", s.limited(s.commitPage))
	mux.HandleFunc("/", edge.NoRoute(mux, "git hosting has no such page"))

	return mux
}

// limited bounds the number of pages that run git concurrently.
func (s *Service) limited(serve func(w http.ResponseWriter, r *http.Request) error) func(w http.ResponseWriter, r *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		release, err := s.views.acquire(r.Context(), address(r))
		if err != nil {
			return err
		}
		defer release()

		err = serve(w, r)
		if errors.Is(err, errTooMany) || errors.Is(err, errTooLong) {
			err = edge.Refuse(http.StatusUnprocessableEntity, "too_large_to_show", "this is too large to be shown: clone the repository")
		}

		return err
	}
}

func (v *view) paginate(number int, more bool) {
	v.Page, v.Previous, v.Next = number, number-1, -1
	if more {
		v.Next = number + 1
	}
}

// homePage lists the repositories.
func (s *Service) homePage(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query().Get("q")
	if len(query) > maxQuery {
		return edge.Invalid("query.q", "has more than %d bytes", maxQuery)
	}

	number, err := edge.Number(r, "page", 0, 0, maxPage)
	if err != nil {
		return err
	}

	list, err := s.store.list()
	if err != nil {
		return err
	}

	v := view{Title: "Repositories", Home: true, Query: query}
	for _, id := range list {
		if !strings.Contains(strings.ToLower(id.String()), strings.ToLower(query)) {
			continue
		}

		if v.Total++; v.Total > number*perPage && len(v.Repositories) < perPage {
			v.Repositories = append(v.Repositories, id.String())
		}
	}

	v.paginate(number, v.Total > (number+1)*perPage)

	return render(w, v)
}

func (s *Service) repositoryView(r *http.Request) (v view, err error) {
	rev, err := s.revision(r)
	if err != nil {
		return v, err
	}

	repo := rev.repo.id.String()

	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}

	return view{Title: repo, Repo: repo, Clone: scheme + r.Host + "/" + repo + suffix, Rev: rev, Previous: -1, Next: -1}, nil
}

// treePage shows a directory or a file of a commit.
func (s *Service) treePage(w http.ResponseWriter, r *http.Request) error {
	v, err := s.repositoryView(r)
	if err != nil {
		return err
	}

	if v.Rev.Commit == "" {
		return render(w, v)
	}

	v.Path = r.URL.Query().Get("path")
	if v.Commits, _, err = s.commits(r.Context(), v.Rev.repo, v.Rev.Commit, 0, 1); err != nil {
		return err
	}

	tree := v.Rev.Commit
	if v.Path != "" {
		file, err := s.find(r.Context(), v.Rev, v.Path)
		if err != nil {
			return err
		}

		if i := strings.LastIndex(v.Path, "/"); i >= 0 {
			v.Parent = v.Path[:i]
		}

		tree = file.entry.id
		if kind(file.entry) != "directory" {
			v.File, v.Size = &file, file.entry.size
			return render(w, v)
		}
	}

	if v.Rows, err = s.directory(r.Context(), v.Rev.repo, tree, v.Path); err != nil {
		return err
	}

	number, err := edge.Number(r, "page", 0, 0, maxPage)
	if err != nil {
		return err
	}

	const most = 10 * perPage

	first := min(number*most, len(v.Rows))
	last := min(first+most, len(v.Rows))
	v.paginate(number, last < len(v.Rows))
	v.Rows = v.Rows[first:last]

	return render(w, v)
}

// historyPage lists commits.
func (s *Service) historyPage(w http.ResponseWriter, r *http.Request) error {
	number, err := edge.Number(r, "page", 0, 0, maxPage)
	if err != nil {
		return err
	}

	v, err := s.repositoryView(r)
	if err != nil {
		return err
	}

	v.History = true
	if v.Rev.Commit != "" {
		more := false
		if v.Commits, more, err = s.commits(r.Context(), v.Rev.repo, v.Rev.Commit, number, perPage); err != nil {
			return err
		}

		v.paginate(number, more)
	}

	return render(w, v)
}

// commitPage shows one commit: its message and its changes.
func (s *Service) commitPage(w http.ResponseWriter, r *http.Request) error {
	v, err := s.repositoryView(r)
	if err != nil {
		return err
	}

	if v.Rev.Commit == "" {
		return edge.Refuse(http.StatusNotFound, "revision_not_found", "the repository has no commit")
	}

	if v.Commits, _, err = s.commits(r.Context(), v.Rev.repo, v.Rev.Commit, 0, 1); err != nil {
		return err
	}

	if v.Changes, v.More, err = s.changes(r.Context(), v.Rev); err != nil {
		return err
	}

	out, err := s.store.git.output(r.Context(), v.Rev.repo.place(), maxMessage, "log", "--max-count=1", "--encoding=UTF-8",
		"--no-show-signature", "--format=%B", v.Rev.Commit)
	if err != nil {
		return err
	}

	v.Single = true
	v.Message = strings.TrimSpace(strings.ToValidUTF8(string(out), "�"))

	return render(w, v)
}

func render(w http.ResponseWriter, v view) error {
	v.Style = htmltemplate.CSS(pageStyle)

	var html bytes.Buffer
	if err := page.Execute(&html, v); err != nil {
		return err
	}

	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", pagePolicy)
	_, _ = w.Write(html.Bytes()) // fails only if the client has disconnected

	return nil
}
