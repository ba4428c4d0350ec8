package api

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"everloop/auth"
	"everloop/domain"
)

// Shares keep public links to sessions; they know only the hash of a token.
type Shares interface {
	CreateShare(ctx context.Context, link domain.ShareLink, hash []byte, life time.Duration) (domain.ShareLink, error)
	RevokeShare(ctx context.Context, sessionID string, hash []byte) error
	// OpenShare is share_gone for a link that was revoked or has expired.
	OpenShare(ctx context.Context, hash []byte, view bool) (domain.SharedSession, error)
}

// Bounds of the life of a share link, in seconds (shapes.md section 4).
const (
	shareTTL    = 7 * 24 * 3600
	maxShareTTL = 90 * 24 * 3600
)

// shareLink is a share link as it is told once, when it is made.
type shareLink struct {
	Token     string                `json:"token"`
	URL       string                `json:"url" doc:"Where everybody can read the session."`
	ExpiresAt time.Time             `json:"expires_at"`
	CreatedAt time.Time             `json:"created_at"`
	Views     int64                 `json:"views"`
	Redact    domain.ShareRedaction `json:"redact" doc:"What a view leaves out; environment values always."`
}

// redactBody says what a view leaves out besides environment values.
type redactBody struct {
	ToolResults bool `json:"tool_results,omitempty"`
	Thinking    bool `json:"thinking,omitempty"`
}

// ShareRef is the path of an operation on a shared session.
type ShareRef struct {
	Token string `path:"token" maxLength:"200"`
}

type revokedBody struct {
	Revoked bool `json:"revoked"`
}

func (s *server) shareRoutes() {
	const tag = "Sharing"
	add(s, operation{
		id: "create-share-link", method: fiber.MethodPost, path: "/api/sessions/{session_id}/share", tag: tag,
		summary: "Make a public, read-only link to a session", scope: auth.SessionsWrite, secret: true,
	}, s.createShare)
	add(s, operation{
		id: "revoke-share-link", method: fiber.MethodDelete, path: "/api/sessions/{session_id}/share/{token}", tag: tag,
		summary: "Revoke a public link", scope: auth.SessionsWrite,
	}, s.revokeShare)
	add(s, operation{
		id: "read-shared-session", method: fiber.MethodGet, path: "/api/share/{token}", tag: tag, public: true,
		summary: "The turns of a shared session; no credentials needed", changes: describeJSON[[]domain.Turn](s),
	}, s.readShared)
	add(s, operation{
		id: "read-shared-attachment", method: fiber.MethodGet, path: "/api/share/{token}/attachments/{attachment}", tag: tag, public: true,
		summary: "A picture of a shared session's message", changes: describeAs(http.StatusOK, "image/*"),
	}, s.readSharedAttachment)
}

// sharing refuses when this installation shares nothing.
func (s *server) sharing() error {
	if !s.Client.PublicSharingEnabled {
		return domain.Newf(domain.Forbidden, "sharing_disabled", "public links are turned off in this installation")
	}
	return nil
}

func shareHash(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

func (s *server) createShare(ctx context.Context, in *struct {
	SessionRef
	Host  string `header:"Host" hidden:"true"`
	Proto string `header:"X-Forwarded-Proto" hidden:"true"`
	Body  *struct {
		TTLSeconds *int64      `json:"ttl_seconds,omitempty" nullable:"true" minimum:"1" maximum:"7776000" doc:"Life of the link; default seven days, at most ninety."`
		Redact     *redactBody `json:"redact,omitempty" doc:"What a view leaves out besides environment values."`
	}
},
) (*body[shareLink], error) {
	if _, err := s.Store.OwnSession(ctx, callerOf(ctx).User, in.SessionID); err != nil {
		return nil, err
	}
	if err := s.sharing(); err != nil {
		return nil, err
	}
	life := int64(shareTTL)
	link := domain.ShareLink{ID: domain.NewID(), SessionID: in.SessionID, Redact: domain.ShareRedaction{Env: true}}
	if b := in.Body; b != nil {
		if b.TTLSeconds != nil {
			life = *b.TTLSeconds
		}
		if life > maxShareTTL {
			return nil, domain.Invalidf("body.ttl_seconds", "must be at most %d", maxShareTTL)
		}
		if b.Redact != nil {
			link.Redact.ToolResults, link.Redact.Thinking = b.Redact.ToolResults, b.Redact.Thinking
		}
	}
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	token := hex.EncodeToString(random[:])
	made, err := s.Shares.CreateShare(ctx, link, shareHash(token), time.Duration(life)*time.Second)
	if err != nil {
		return nil, err
	}
	scheme := "http"
	if strings.EqualFold(in.Proto, "https") {
		scheme = "https"
	}
	return answer(shareLink{
		Token: token, URL: scheme + "://" + in.Host + "/api/share/" + token,
		ExpiresAt: made.ExpiresAt, CreatedAt: made.CreatedAt, Views: made.Views, Redact: made.Redact,
	}, nil)
}

func (s *server) revokeShare(ctx context.Context, in *struct {
	SessionRef
	ShareRef
},
) (*body[revokedBody], error) {
	if _, err := s.Store.OwnSession(ctx, callerOf(ctx).User, in.SessionID); err != nil {
		return nil, err
	}
	err := s.Shares.RevokeShare(ctx, in.SessionID, shareHash(in.Token))
	return answer(revokedBody{err == nil}, err)
}

// opened gives what a link leads to, with headers that keep the answer out of
// caches and the link out of other sites' logs.
func (s *server) opened(ctx context.Context, token string, view bool) (domain.SharedSession, error) {
	if err := s.sharing(); err != nil {
		return domain.SharedSession{}, err
	}
	return s.Shares.OpenShare(ctx, shareHash(token), view)
}

func (s *server) readShared(ctx context.Context, in *ShareRef) (*streamed, error) {
	shared, err := s.opened(ctx, in.Token, true)
	if err != nil {
		return nil, err
	}
	hide, err := s.redactor(ctx, shared, in.Token)
	if err != nil {
		return nil, err
	}
	out, err := s.streamRows(ctx, func(ctx context.Context) iter.Seq2[[]byte, error] {
		return s.turns(ctx, shared.SessionID, nil, 0, hide.turn)
	})
	if err != nil {
		return nil, err
	}
	return private(out), nil
}

// redactor hides the environment of the session, and that of all of its owner's
// buckets: any of them may have reached a tool once.
func (s *server) redactor(ctx context.Context, shared domain.SharedSession, token string) (redactor, error) {
	buckets, err := s.EnvBuckets.List(ctx, shared.OwnerID)
	if err != nil {
		return redactor{}, err
	}
	environments := []map[string]string{shared.Env}
	for _, b := range buckets {
		environments = append(environments, b.Env)
	}
	return newRedactor(shared, token, environments...), nil
}

func (s *server) readSharedAttachment(ctx context.Context, in *struct {
	ShareRef
	Name string `path:"attachment" maxLength:"64" pattern:"^[0-9a-f]{64}$" doc:"SHA-256 of the picture."`
},
) (*streamed, error) {
	shared, err := s.opened(ctx, in.Token, false)
	if err != nil {
		return nil, err
	}
	data, mime, err := s.Images.Image(ctx, shared.SessionID, path.Base(in.Name))
	if err != nil {
		return nil, err
	}
	return private(&streamed{func(ctx huma.Context) {
		fiberOf(ctx).Set(fiber.HeaderContentType, mime)
		fiberOf(ctx).Response().SetBodyRaw(data)
	}}), nil
}

// private keeps an answer out of caches, and its address, which is a secret, out
// of what browsers tell other sites.
func private(out *streamed) *streamed {
	return &streamed{func(ctx huma.Context) {
		c := fiberOf(ctx)
		c.Set(fiber.HeaderCacheControl, "no-store")
		c.Set(fiber.HeaderReferrerPolicy, "no-referrer")
		c.Set("X-Robots-Tag", "noindex")
		out.Body(ctx)
	}}
}
