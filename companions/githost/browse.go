package githost

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"everloop/companions/edge"
	"everloop/internal/safezip"
)

// Bounds of pages.
const (
	perPage      = 50
	maxPage      = 10_000
	maxShownFile = 256 << 10
	maxLog       = 1 << 20
	maxChanges   = 1000
	maxMessage   = 64 << 10
	maxQuery     = 200
)

// ref is a branch or a tag.
type ref struct{ Name, ID string }

// commit is an entry of a list of commits.
type commit struct{ ID, Author, Date, Subject string }

// Short returns the abbreviated id.
func (c commit) Short() string { return c.ID[:10] }

// revision is a commit of a repository, by the requested name.
type revision struct {
	repo   *repository
	Name   string // branch, tag or id; empty in an empty repository
	Commit string
	Refs   []ref
}

// refs lists branches, main first, and tags.
func (s *Service) refs(ctx context.Context, repo *repository) (list []ref, err error) {
	out, err := s.store.git.output(
		ctx,
		repo.place(),
		maxRefsText,
		"for-each-ref",
		"--format=%(objectname) %(refname)",
		"refs/heads",
		"refs/tags",
	)
	if err != nil {
		return nil, err
	}

	for line := range strings.Lines(string(out)) {
		id, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if !ok {
			continue
		}

		one := ref{strings.TrimPrefix(strings.TrimPrefix(name, "refs/heads/"), "refs/tags/"), id}
		if name == mainRef {
			list = slices.Insert(list, 0, one)
		} else {
			list = append(list, one)
		}
	}

	return list, nil
}

// revision reads the repository and the requested commit: a branch, a tag, or the id of a
// reachable commit.
func (s *Service) revision(r *http.Request) (rev revision, err error) {
	id, err := newRepoID(r.PathValue("org"), r.PathValue("name"))
	if err != nil {
		return rev, err
	}

	if rev.repo, err = s.repository(id); err != nil {
		return rev, err
	}

	if rev.Refs, err = s.refs(r.Context(), rev.repo); err != nil {
		return rev, err
	}

	rev.Name = r.URL.Query().Get("ref")
	if rev.Name == "" && len(rev.Refs) > 0 {
		rev.Name = rev.Refs[0].Name
	}

	if rev.Name == "" {
		return rev, nil
	}

	object := ""
	if i := slices.IndexFunc(rev.Refs, func(one ref) bool { return one.Name == rev.Name }); i >= 0 {
		object = rev.Refs[i].ID
	} else if commitForm.MatchString(rev.Name) {
		out, err := s.store.git.output(r.Context(), rev.repo.place(), maxRefsText, "for-each-ref", "--count=1", "--contains="+rev.Name)
		if exit, ok := errors.AsType[*exited](err); err != nil && (!ok || exit.code < 0) {
			return rev, err
		}

		if err == nil && len(out) > 0 {
			object = rev.Name
		}
	}

	if object == "" {
		return rev, edge.Refuse(http.StatusNotFound, "revision_not_found", "the repository has no such branch, tag or commit")
	}

	out, err := s.store.git.output(r.Context(), rev.repo.place(), maxQuery, "rev-parse", "--verify", "--quiet", object+"^{commit}")
	if exit, ok := errors.AsType[*exited](err); ok && exit.code > 0 {
		return rev, edge.Refuse(http.StatusNotFound, "revision_not_found", "the tag does not point to a commit")
	}

	rev.Commit = strings.TrimSpace(string(out))

	return rev, err
}

// commits lists commits from one on, newest first.
func (s *Service) commits(ctx context.Context, repo *repository, from string, page, most int) (list []commit, more bool, err error) {
	out, err := s.store.git.output(
		ctx,
		repo.place(),
		maxLog,
		"log",
		"-z",
		"--encoding=UTF-8",
		"--no-show-signature",
		"--format=%H%x00%<(60,trunc)%an%x00%aI%x00%<(120,trunc)%s",
		"--max-count="+strconv.Itoa(most+1),
		"--skip="+strconv.Itoa(page*most),
		from,
	)
	if err != nil {
		return nil, false, err
	}

	fields := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	for ; len(fields) >= 4; fields = fields[4:] {
		if len(list) == most {
			return list, true, nil
		}

		if !commitForm.MatchString(fields[0]) {
			return nil, false, errors.New("git lists commits in another form")
		}

		list = append(list, commit{fields[0], shown(fields[1]), shown(fields[2]), shown(fields[3])})
	}

	return list, false, nil
}

func shown(text string) string { return strings.TrimSpace(plainText(text)) }

// row is an entry of a directory.
type row struct {
	Name, Path, Kind string
	Size             int64
}

// directory lists a directory, subdirectories first.
func (s *Service) directory(ctx context.Context, repo *repository, tree, path string) (rows []row, err error) {
	out, err := s.store.git.output(ctx, repo.place(), maxTreeText, "ls-tree", "-z", "--long", "--full-tree", tree)
	if err != nil {
		return nil, err
	}

	list, err := readEntries(strings.NewReader(string(out)), maxFiles)
	if err != nil {
		return nil, err
	}

	for _, e := range list {
		one := row{Name: e.path, Path: e.path, Kind: kind(e), Size: e.size}
		if path != "" {
			one.Path = path + "/" + e.path
		}

		rows = append(rows, one)
	}

	slices.SortStableFunc(rows, func(a, b row) int {
		switch {
		case (a.Kind == "directory") == (b.Kind == "directory"):
			return 0
		case a.Kind == "directory":
			return -1
		}

		return 1
	})

	return rows, nil
}

func kind(e entry) string {
	switch e.mode {
	case "040000":
		return "directory"
	case "120000":
		return "link"
	case "160000":
		return "submodule"
	}

	return "file"
}

// found is the object at a path of a commit.
type found struct {
	entry   entry
	Text    string
	Binary  bool
	TooLong bool
}

// find reads a path of a commit, with the content of a text file that is not too large.
func (s *Service) find(ctx context.Context, rev revision, path string) (out found, err error) {
	none := edge.Refuse(http.StatusNotFound, "path_not_found", "the commit has no such file or directory")
	if safezip.CheckName(path) != "" {
		return out, none
	}

	listed, err := s.store.git.output(ctx, rev.repo.place(), maxTreeText, "ls-tree", "-z", "--long", "--full-tree", rev.Commit, "--", path)
	if err != nil {
		return out, err
	}

	list, err := readEntries(strings.NewReader(string(listed)), 1)
	if err != nil {
		return out, err
	}

	if len(list) == 0 {
		return out, none
	}

	out.entry = list[0]
	switch kind(out.entry) {
	case "directory", "submodule":
		return out, nil
	}

	if out.TooLong = out.entry.size > maxShownFile; out.TooLong {
		return out, nil
	}

	err = s.store.git.contents(ctx, rev.repo.place(), list, func(_ entry, content io.Reader) error {
		data, err := io.ReadAll(content)
		out.Text = string(data)

		return err
	})

	if out.Binary = !utf8.ValidString(out.Text) || strings.ContainsRune(out.Text, 0); out.Binary {
		out.Text = ""
	}

	return out, err
}

// change is a file that a commit changes.
type change struct{ Status, Path string }

// changes lists the changes of a commit against its first parent.
func (s *Service) changes(ctx context.Context, rev revision) (list []change, more bool, err error) {
	out, err := s.store.git.output(ctx, rev.repo.place(), maxTreeText, "diff-tree", "-r", "-z", "--root", "--no-commit-id", "--no-renames",
		"-m", "--first-parent", "--name-status", rev.Commit)
	if errors.Is(err, errTooLong) {
		return nil, true, nil
	}

	if err != nil {
		return nil, false, err
	}

	fields := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	for ; len(fields) >= 2; fields = fields[2:] {
		if len(list) == maxChanges {
			return list, true, nil
		}

		list = append(list, change{fields[0], fields[1]})
	}

	return list, false, nil
}
