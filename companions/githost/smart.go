package githost

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"everloop/companions/edge"
	"everloop/companions/githost/hook"
	"everloop/internal/clients"
)

// The two services of the smart protocol.
const (
	uploadPack  = "git-upload-pack"
	receivePack = "git-receive-pack"
)

// Bounds of requests and answers.
const (
	maxAdvertised = 8 << 20  // bytes of a list of references
	maxWants      = 16 << 20 // bytes of a request for objects, unpacked
	pushOverhead  = 1 << 20  // bytes of a push in addition to its pack
	drained       = 64 << 20 // bytes read of a push after git has rejected it, so that its client reads the reason
)

// protocolForm matches the Git-Protocol header of git clients: keys and values that are safe
// for a shell and a log.
var protocolForm = regexp.MustCompile(`^[a-z0-9=.:-]{1,100}$`)

func gitClient(r *http.Request) bool { return strings.HasPrefix(r.UserAgent(), "git/") }

// serveGit handles requests of git clients.
func (s *Service) serveGit(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), transferTime)
	defer cancel()

	r = r.WithContext(ctx)

	edge.Extend(w, transferTime)
	w.Header().Set("Cache-Control", "no-cache, max-age=0, must-revalidate")

	err := s.routeGit(w, r)
	if err == nil {
		return
	}

	if _, ok := errors.AsType[*edge.Problem](err); !ok {
		if r.Context().Err() == nil {
			s.log.Error("failed to answer a git request", "method", r.Method, "error", err)
		}

		err = edge.Refuse(http.StatusServiceUnavailable, "dependency_unavailable", "the service cannot reach what it depends on: try again")
	}

	writeGitProblem(w, r, err)
}

func (s *Service) routeGit(w http.ResponseWriter, r *http.Request) error {
	parts := strings.SplitN(strings.TrimPrefix(r.URL.Path, "/"), "/", 3)
	if len(parts) < 2 || !strings.HasSuffix(parts[1], suffix) {
		return edge.Refuse(http.StatusNotFound, "route_not_found", "git hosting has no such page: repositories are at "+
			"/organisation/name.git")
	}

	id, err := newRepoID(parts[0], strings.TrimSuffix(parts[1], suffix))
	if err != nil {
		return err
	}

	if len(parts) == 2 || parts[2] == "" { // the clone URL, opened in a browser
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			return methodNotAllowed(w, "GET, HEAD")
		}

		http.Redirect(w, r, "/-/"+id.String(), http.StatusFound)

		return nil
	}

	switch parts[2] {
	case "info/refs":
		return s.advertise(w, r, id)
	case uploadPack:
		return s.fetch(w, r, id)
	case receivePack:
		return s.receive(w, r, id)
	}

	return edge.Refuse(http.StatusForbidden, "dumb_protocol_refused", "only the smart protocol of git is served: use a git of 1.6.6 or "+
		"newer")
}

// advertise lists the references, as the first request of each fetch and push.
func (s *Service) advertise(w http.ResponseWriter, r *http.Request, id repoID) error {
	if r.Method != http.MethodGet {
		return methodNotAllowed(w, http.MethodGet)
	}

	query := r.URL.Query()

	service := query.Get("service")
	if service != uploadPack && service != receivePack {
		return edge.Refuse(http.StatusForbidden, "dumb_protocol_refused", "only the smart protocol of git is served: use a git of "+
			"1.6.6 or newer")
	}

	at, key, err := s.advertised(r, id, service)
	if err != nil {
		return err
	}

	release, err := s.slots.acquire(r.Context(), key)
	if err != nil {
		return err
	}
	defer release()

	cmd := s.store.git.command(r.Context(), strings.TrimPrefix(service, "git-"), "--stateless-rpc", "--advertise-refs", at.dir)

	version := ""
	if service == uploadPack {
		version = protocol(r)
		cmd.Env = append(cmd.Env, "GIT_PROTOCOL="+version)
	}

	out, complaint := &bounded{most: maxAdvertised}, &tail{}

	if !strings.Contains(":"+version+":", ":version=2:") { // version 2 has no service line
		line := "# service=" + service + "\n"
		fmt.Fprintf(out, "%04x%s0000", len(line)+4, line)
	}

	cmd.Stdout, cmd.Stderr = out, complaint

	done, err := s.store.git.start(cmd)
	if err != nil {
		return err
	}

	if err := <-done; err != nil {
		return fmt.Errorf("list references: %w: %s", err, complaint.text)
	}

	w.Header().Set("Content-Type", "application/x-"+service+"-advertisement")
	_, _ = w.Write(out.Bytes()) // fails only if the client has disconnected

	return nil
}

// advertised checks a first request, and returns the repository and the key of its slot. The
// repository is nil if a push would create it.
func (s *Service) advertised(r *http.Request, id repoID, service string) (at place, key string, err error) {
	if service == uploadPack {
		repo, err := s.repository(id)
		if err != nil {
			return at, "", err
		}

		return repo.place(), address(r), nil
	}

	caller, _, err := s.writer(r.Context(), r, id.org)
	if err == nil {
		err = s.room()
	}

	if err != nil {
		return at, "", err
	}

	repo, ok, err := s.store.get(id)
	if err != nil || !ok {
		return s.store.empty(), caller.ID, err
	}

	return repo.place(), caller.ID, nil
}

// address returns the queue key of a client without credentials.
func address(r *http.Request) string {
	return "address " + clients.Network(edge.Client(r)).String()
}

// protocol returns the protocol version that a client requests.
func protocol(r *http.Request) string {
	if text := r.Header.Get("Git-Protocol"); protocolForm.MatchString(text) {
		return text
	}

	return ""
}

func methodNotAllowed(w http.ResponseWriter, allowed string) error {
	w.Header().Set("Allow", allowed)
	return edge.Refuse(http.StatusMethodNotAllowed, "method_not_allowed", "this address takes %s only", allowed)
}

// body checks the request of a service and returns its content, decompressed; reading beyond
// `most` bytes fails.
func body(w http.ResponseWriter, r *http.Request, service string, most int64) (io.ReadCloser, error) {
	if r.Method != http.MethodPost {
		return nil, methodNotAllowed(w, http.MethodPost)
	}

	if r.Header.Get("Content-Type") != "application/x-"+service+"-request" {
		return nil, edge.Refuse(http.StatusUnsupportedMediaType, "unsupported_media_type", "this is not a request of a git client")
	}

	in := http.MaxBytesReader(w, r.Body, most)
	switch r.Header.Get("Content-Encoding") {
	case "", "identity":
		return in, nil
	case "gzip", "x-gzip":
		unpacked, err := gzip.NewReader(in)
		if err != nil {
			return nil, edge.Refuse(http.StatusBadRequest, "malformed_request", "the body is not compressed with gzip as its header says")
		}

		return http.MaxBytesReader(w, unpacked, most), nil
	}

	return nil, edge.Refuse(http.StatusUnsupportedMediaType, "unsupported_media_type", "the body may be compressed with gzip only")
}

// fetch handles a request for objects.
func (s *Service) fetch(w http.ResponseWriter, r *http.Request, id repoID) error {
	in, err := body(w, r, uploadPack, maxWants)
	if err != nil {
		return err
	}

	repo, err := s.repository(id)
	if err != nil {
		return err
	}

	release, err := s.slots.acquire(r.Context(), address(r))
	if err != nil {
		return err
	}
	defer release()

	cmd := s.store.git.command(r.Context(), "upload-pack", "--stateless-rpc", repo.dir)
	cmd.Env = append(cmd.Env, "GIT_PROTOCOL="+protocol(r))
	out := answer(w, uploadPack)
	complaint := &tail{}
	cmd.Stdout, cmd.Stderr = out, complaint

	err = s.feed(cmd, in, nil)
	if err != nil && r.Context().Err() == nil {
		// Git's own output contains the reason.
		s.log.Debug("a fetch ended with an error", "repository", id.String(), "error", err, "stderr", plainText(string(complaint.text)))

		if !out.begun {
			return edge.Refuse(http.StatusBadRequest, "malformed_request", "git did not understand the request")
		}
	}

	return nil
}

// receive handles a push.
func (s *Service) receive(w http.ResponseWriter, r *http.Request, id repoID) error {
	caller, exists, err := s.writer(r.Context(), r, id.org)
	if err == nil {
		err = s.room()
	}

	if err != nil {
		return err
	}

	in, err := body(w, r, receivePack, s.cfg.PushBytes+pushOverhead+drained)
	if err != nil {
		return err
	}
	// Before a large push, a client checks for permission with an empty request, which must not
	// create a repository.
	start := make([]byte, len(flush))
	if _, err := io.ReadFull(in, start); err != nil {
		return edge.Refuse(http.StatusBadRequest, "malformed_request", "git did not understand the request")
	}

	if string(start) == flush {
		answer(w, receivePack).begin()
		return nil
	}

	release, err := s.slots.acquire(r.Context(), caller.ID)
	if err != nil {
		return err
	}
	defer release()

	repo, err := s.store.occupy(r.Context(), id)
	if err != nil {
		return err
	}

	p := &push{service: s, repo: repo, caller: caller, token: token(r), claims: !exists}
	err = p.receive(w, r, struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(start), in), in})

	repo.use.Release(1)

	if !p.accepted {
		s.dropEmpty(r.Context(), repo)
	}

	return err
}

// dropEmpty removes a repository that a rejected first push has created.
func (s *Service) dropEmpty(ctx context.Context, repo *repository) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTime) // the client may have disconnected
	defer cancel()

	if err := s.store.dropEmpty(ctx, repo); err != nil {
		s.log.Warn("failed to remove an empty repository", "repository", repo.id.String(), "error", err)
	}
}

// flush is the flush packet, which ends a list of packets.
const flush = "0000"

// receive runs git on a push, with the hook's socket.
func (p *push) receive(w http.ResponseWriter, r *http.Request, in io.ReadCloser) error {
	s := p.service

	theirs, err := p.connect()
	if err != nil {
		return err
	}
	defer theirs.Close()
	defer p.conn.Close()

	cmd := s.store.git.command(r.Context(), "-c", "receive.maxInputSize="+strconv.FormatInt(s.cfg.PushBytes, 10),
		"receive-pack", "--stateless-rpc", p.repo.dir)
	cmd.Env = append(cmd.Env, hook.Variable+"=1")
	cmd.ExtraFiles = []*os.File{theirs}
	out := answer(w, receivePack)
	_ = http.NewResponseController(w).EnableFullDuplex() // a rejection is sent while the push is still read
	complaint := &tail{}
	cmd.Stdout, cmd.Stderr = out, complaint

	var asked sync.WaitGroup

	err = s.feed(cmd, in, func() {
		theirs.Close() // git has its own copy: the socket closes when git ends
		asked.Go(func() { p.serve(r.Context()) })
	})

	p.conn.Close()
	asked.Wait()

	if p.published {
		p.repo.published.Release(1)
	}

	s.log.Info("push ended", "repository", p.repo.id.String(), "user", p.caller.ID, "accepted", p.accepted && err == nil)

	if p.accepted {
		s.plan(p.repo, p.removes)
	}

	if err != nil && r.Context().Err() == nil && !out.begun {
		s.log.Warn("failed to run git on a push", "error", err, "stderr", plainText(string(complaint.text)))
		return edge.Refuse(http.StatusBadRequest, "malformed_request", "git did not understand the request")
	}

	return nil
}

// connect creates the socket of the hook, and returns git's end.
func (p *push) connect() (theirs *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("connect the hook: %w", err)
	}

	ours := os.NewFile(uintptr(pair[0]), "hook")
	theirs = os.NewFile(uintptr(pair[1]), "hook")

	defer ours.Close()

	if p.conn, err = net.FileConn(ours); err != nil {
		theirs.Close()
		return nil, fmt.Errorf("connect the hook: %w", err)
	}

	return theirs, nil
}

// feed runs a prepared git on the body of a request. After git has ended, it drains some more
// of the body, because clients read the response only after sending.
func (s *Service) feed(cmd *exec.Cmd, in io.ReadCloser, started func()) error {
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}

	done, err := s.store.git.start(cmd)
	if err != nil {
		return err
	}

	if started != nil {
		started()
	}

	fed := make(chan struct{})
	go func() {
		defer close(fed)

		if _, err := io.Copy(stdin, in); err == nil {
			stdin.Close()
			return
		}

		stdin.Close() // before its end: git detects truncated input

		_, _ = io.Copy(io.Discard, io.LimitReader(in, drained))
	}()

	err = <-done

	<-fed

	return err
}

// streamed streams git's output to the response.
type streamed struct {
	w       http.ResponseWriter
	service string
	begun   bool
}

func answer(w http.ResponseWriter, service string) *streamed {
	return &streamed{w: w, service: service}
}

func (s *streamed) begin() {
	if !s.begun {
		s.begun = true
		s.w.Header().Set("Content-Type", "application/x-"+s.service+"-result")
		s.w.WriteHeader(http.StatusOK)
	}
}

// Write implements io.Writer.
func (s *streamed) Write(data []byte) (int, error) {
	s.begin()

	n, err := s.w.Write(data)
	if err == nil {
		err = http.NewResponseController(s.w).Flush()
	}

	return n, err
}
