package githost

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"everloop/companions/credentials"
	"everloop/companions/edge"
)

// token returns the credential of a request: the password of Basic authentication, as
// git sends it, with any user name, or a bearer token.
func token(r *http.Request) string {
	if _, password, ok := r.BasicAuth(); ok {
		return password
	}

	return credentials.Bearer(r)
}

// writer returns the caller of a request that writes to an organisation's repositories, and
// whether the organisation exists: a missing organisation is created for its first writer.
func (s *Service) writer(ctx context.Context, r *http.Request, org string) (caller credentials.Caller, exists bool, err error) {
	caller, err = s.cfg.Credentials.Check(ctx, edge.Client(r), token(r))
	if err == nil {
		err = credentials.Require(caller, credentials.SkillsWrite)
	}

	if err != nil {
		return caller, false, err
	}

	exists, err = s.registry.mayWrite(ctx, org, token(r))

	return caller, exists, err
}

// repository returns a repository that can be read.
func (s *Service) repository(id repoID) (*repository, error) {
	repo, ok, err := s.store.get(id)
	if err == nil && !ok {
		err = edge.Refuse(http.StatusNotFound, "repository_not_found", "there is no repository %s: push one with an API key of the "+
			"agent", id)
	}

	return repo, err
}

// writeGitProblem writes a problem for a git client, which shows its user only plain text.
func writeGitProblem(w http.ResponseWriter, r *http.Request, err error) {
	p, ok := errors.AsType[*edge.Problem](err)
	if !ok {
		return
	}

	header := w.Header()
	if p.Status == http.StatusUnauthorized {
		header.Set("WWW-Authenticate", `Basic realm="Everloop git", charset="UTF-8"`)
	}

	if !gitClient(r) {
		edge.Answer(w, r, p)
		return
	}

	if p.RetryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}

	header.Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(p.Status)
	_, _ = w.Write([]byte(plainText(p.Detail) + " (" + p.Code + ")\n")) // fails only if the client has disconnected
}
