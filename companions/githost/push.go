package githost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"path"
	"path/filepath"
	"strings"

	"everloop/companions/credentials"
	"everloop/companions/edge"
	"everloop/companions/githost/hook"
)

// Bounds of a repository after a push.
const (
	maxRefs      = 1000
	maxFiles     = 10_000    // of a branch or tag
	maxFileBytes = 100 << 20 // of one file
	maxRefName   = 200       // bytes
	maxRefsText  = 4 << 20   // bytes of their list
)

// push is one push in progress.
type push struct {
	service *Service
	repo    *repository
	caller  credentials.Caller
	token   string
	conn    net.Conn // to the hook; closed with the push
	replies *json.Encoder

	claims    bool // the organisation does not exist yet
	accepted  bool
	published bool // locked repo.published
	removes   bool // a branch or tag is deleted
}

// serve answers the hook: one request, texts and one decision.
func (p *push) serve(ctx context.Context) {
	p.replies = json.NewEncoder(p.conn)

	var request hook.Request
	if err := json.NewDecoder(io.LimitReader(p.conn, hook.MaxRequest)).Decode(&request); err != nil {
		return // git ended without a request, or another push failed before its hook
	}

	err := p.decide(ctx, request)
	if reason, ok := errors.AsType[*refusal](err); ok {
		p.say("%s", reason.text)
	} else if err != nil {
		if ctx.Err() == nil {
			p.service.log.Error("failed to check a push", "repository", p.repo.id.String(), "error", err)
		}

		p.say("the push could not be checked: nothing was changed; try again")
	}

	p.accepted = err == nil
	_ = p.replies.Encode(hook.Reply{Done: true, Accept: p.accepted}) // without a reply the hook rejects
}

// say sends the client a text.
func (p *push) say(format string, args ...any) {
	_ = p.replies.Encode(hook.Reply{Say: plainText(fmt.Sprintf(format, args...))}) // fails only if the client has disconnected
}

// decide checks all updates of a push, and publishes main last.
func (p *push) decide(ctx context.Context, request hook.Request) error {
	if request.TooMany {
		return refusef("one push may change at most %d branches and tags", hook.MaxUpdates)
	}

	at, err := p.quarantined(request.Quarantine)
	if err != nil {
		return err
	}

	if err := p.checkRoom(request); err != nil {
		return err
	}

	if err := p.checkRefs(ctx, request.Updates); err != nil {
		return err
	}

	for _, u := range request.Updates {
		if u.New == zeroID {
			continue
		}

		if err := p.checkFiles(ctx, at, u); err != nil {
			return err
		}
	}

	for _, u := range request.Updates {
		if u.Ref == mainRef {
			if err := p.updateMain(ctx, at, u); err != nil {
				return err
			}
		}
	}

	return p.claim(ctx)
}

// claim creates the organisation for the pusher after all other checks have passed.
func (p *push) claim(ctx context.Context) error {
	if !p.claims {
		return nil
	}

	err := p.service.registry.claim(ctx, p.repo.id.org, p.token)
	if refused, ok := errors.AsType[*edge.Problem](err); ok {
		return refusef("the skill registry refuses the organisation %s: %s", p.repo.id.org, refused.Detail)
	}

	return err
}

// quarantined returns the repository including the objects of the push.
func (p *push) quarantined(dir string) (place, error) {
	if dir == "" { // the push contains no objects
		return p.repo.place(), nil
	}

	objects := filepath.Join(p.repo.dir, "objects")
	if filepath.Dir(dir) != objects || !strings.HasPrefix(filepath.Base(dir), "tmp_objdir-") {
		return place{}, errors.New("git keeps the objects of a push in another directory than expected")
	}

	return place{dir: p.repo.dir, quarantine: dir}, nil
}

// checkRoom rejects a push that would exceed the quota of its repository or organisation.
func (p *push) checkRoom(request hook.Request) error {
	removes := true
	for _, u := range request.Updates {
		removes = removes && u.New == zeroID
	}

	if removes {
		return nil
	}

	used, err := size(p.repo.dir)
	if err != nil {
		return err
	}

	if quota := p.service.cfg.RepositoryBytes; used > quota {
		return refusef("the repository would have %d bytes, of which %d are allowed: delete branches, or push less", used, quota)
	}

	if used, err = size(filepath.Dir(p.repo.dir)); err != nil {
		return err
	}

	if most := p.service.cfg.OrganizationBytes; used > most {
		return refusef("the repositories of %s would have %d bytes, of which %d are allowed: delete branches, or push less",
			p.repo.id.org, used, most)
	}

	return nil
}

// room rejects a push while the disk has not enough space.
func (s *Service) room() error {
	if s.cfg.Room == nil {
		return nil
	}

	if err := s.cfg.Room(); err != nil {
		s.log.Warn("push refused: the disk is full", "error", err)
		return edge.Refuse(http.StatusServiceUnavailable, "disk_full", "the disk of the service is full: nothing was changed")
	}

	return nil
}

// checkRefs checks the names and the number of references, and that git will store them, so
// that a published main is also stored.
func (p *push) checkRefs(ctx context.Context, updates []hook.Update) error {
	count := 0

	for _, u := range updates {
		branch, tag := strings.HasPrefix(u.Ref, "refs/heads/"), strings.HasPrefix(u.Ref, "refs/tags/")
		switch {
		case !branch && !tag:
			return refusef("%s is neither a branch nor a tag: only those are kept", u.Ref)
		case len(u.Ref) > maxRefName || plainText(u.Ref) != u.Ref:
			return refusef("a name of a branch or tag is longer than %d bytes, or no text", maxRefName)
		case u.Ref == mainRef && u.New == zeroID:
			return refusef("main may not be deleted: it is the branch that is published")
		case u.New == zeroID:
			p.removes = true
		case u.Old == zeroID:
			count++
		}
	}

	there, err := p.refs(ctx)
	if err != nil {
		return err
	}

	if count > 0 && count+len(there) > maxRefs {
		return refusef("a repository has at most %d branches and tags: delete some first", maxRefs)
	}

	return fits(there, updates)
}

// refs returns the references of the repository and their object ids.
func (p *push) refs(ctx context.Context) (map[string]string, error) {
	out, err := p.service.store.git.output(ctx, p.repo.place(), maxRefsText, "for-each-ref", "--format=%(objectname) %(refname)")
	if err != nil {
		return nil, err
	}

	refs := map[string]string{}

	for line := range strings.Lines(string(out)) {
		id, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		refs[name] = id
	}

	return refs, nil
}

// fits rejects updates that git cannot store with the existing references: an update of a moved
// reference, and a name that is a directory of another name.
func fits(there map[string]string, updates []hook.Update) error {
	names := maps.Clone(there)

	for _, u := range updates {
		now := there[u.Ref]
		if now == "" {
			now = zeroID
		}

		if u.Old != now {
			return refusef("%s has changed meanwhile: fetch, merge and push again", shortName(u.Ref))
		}

		if u.New != zeroID {
			names[u.Ref] = u.New
		}
	}

	for name := range names {
		for parent := path.Dir(name); parent != "."; parent = path.Dir(parent) {
			if _, taken := names[parent]; taken {
				return refusef("%s and %s cannot be there at once: rename one of them", shortName(parent), shortName(name))
			}
		}
	}

	return nil
}

// shortName returns the short name of a branch or tag.
func shortName(ref string) string {
	return strings.TrimPrefix(strings.TrimPrefix(ref, "refs/heads/"), "refs/tags/")
}

// checkFiles bounds the files of a reference after the push.
func (p *push) checkFiles(ctx context.Context, at place, u hook.Update) error {
	list, err := p.service.store.git.files(ctx, at, u.New, maxFiles)
	if errors.Is(err, errTooMany) {
		return refusef("%s has more than %d files", u.Ref, maxFiles)
	}

	if exit, ok := errors.AsType[*exited](err); ok && ctx.Err() == nil {
		p.service.log.Info("push of an unusual object refused", "repository", p.repo.id.String(), "error", exit)
		return refusef("%s does not point to a commit whose files can be listed", u.Ref)
	}

	if err != nil {
		return err
	}

	if strings.HasPrefix(u.Ref, "refs/heads/") {
		kind, err := p.service.store.git.output(ctx, at, 100, "cat-file", "-t", u.New)
		if err != nil {
			return err
		}

		if strings.TrimSpace(string(kind)) != "commit" {
			return refusef("%s does not point to a commit; a branch must", shortName(u.Ref))
		}
	}

	for _, e := range list {
		if e.size > maxFileBytes {
			return refusef("%q in %s is larger than %d bytes", e.path, u.Ref, maxFileBytes)
		}
	}

	return nil
}

// updateMain publishes the new commit of main. Until the push ends, no other push changes main,
// so that main always has the published commit.
func (p *push) updateMain(ctx context.Context, at place, u hook.Update) error {
	git := p.service.store.git
	if err := take(ctx, p.repo.published, 1); err != nil {
		return refusef("another push to main takes its time: try again")
	}

	p.published = true

	out, err := git.output(ctx, p.repo.place(), maxRefsText, "for-each-ref", "--format=%(objectname)", mainRef)
	if err != nil {
		return err
	}

	now := strings.TrimSpace(string(out))
	if now == "" {
		now = zeroID
	}

	if now != u.Old {
		return refusef("main has changed meanwhile: fetch, merge and push again")
	}

	if u.Old != zeroID {
		err := git.run(ctx, at, nil, nil, "merge-base", "--is-ancestor", u.Old, u.New)
		if exit, ok := errors.AsType[*exited](err); ok && exit.code == 1 {
			return refusef("main may only be fast-forwarded: fetch, merge and push again")
		}

		if err != nil {
			return err
		}
	}

	return p.publishMain(ctx, at, u.New)
}
