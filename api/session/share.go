package session

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

	"everloop/api/access"
	"everloop/api/httpx"
	"everloop/auth"
	"everloop/domain"
	"everloop/infra/secrets"
)

// Shares keep public links to sessions; they know only the hash of a token.
type Shares interface {
	CreateShare(ctx context.Context, link domain.ShareLink, hash []byte, life time.Duration) (domain.ShareLink, error)
	RevokeShare(ctx context.Context, sessionID domain.SessionID, hash []byte) error
	// OpenShare is share_gone for a link that was revoked or has expired.
	OpenShare(ctx context.Context, hash []byte, view bool) (domain.SharedSession, error)
}

// Bounds of the life of a share link, in seconds (docs/sharing.md).
const (
	shareTTL    = 7 * 24 * 3600
	maxShareTTL = 90 * 24 * 3600
)

// shareLink is a share link as it is shown once, when it is made.
type shareLink struct {
	Token     string                `json:"token" doc:"The token of the link; only this response contains it." example:"6f0e4ec201d4bd8c1a73ccc1e3efd80a"`
	URL       string                `json:"url" doc:"Where anybody with the link can read the session." example:"http://127.0.0.1:8020/api/share/6f0e4ec201d4bd8c1a73ccc1e3efd80a"`
	ExpiresAt time.Time             `json:"expires_at" doc:"Expiry time; null: never."`
	CreatedAt time.Time             `json:"created_at" doc:"Creation time."`
	Views     int64                 `json:"views" doc:"Number of times it was opened." example:"0"`
	Redact    domain.ShareRedaction `json:"redact" doc:"What a view leaves out; environment values always." example:"{\"env\": true, \"thinking\": false, \"tool_results\": true}"`
}

// redactBody says what a view leaves out in addition to environment values.
type redactBody struct {
	ToolResults bool `json:"tool_results,omitempty" doc:"Whether tool results are left out."`
	Thinking    bool `json:"thinking,omitempty" doc:"Whether thinking is left out."`
}

// ShareRef is the path of an operation on a shared session.
type ShareRef struct {
	Token string `path:"token" maxLength:"200" doc:"The token of the link." example:"b8c59d5d8ba7e47309a652665cb66ca3"`
}

type revokedBody struct {
	Revoked bool `json:"revoked" doc:"Whether the link is revoked."`
}

// ShareAPI shares sessions by public links.
type ShareAPI struct {
	access.Sessions
	Transcripts
	Shares     Shares
	Image      func(ctx context.Context, sessionID domain.SessionID, name string) (data []byte, mime string, err error)
	EnvBuckets secrets.Buckets
	Enabled    bool
}

// Register adds the operations of the area to the interface.
func (a *ShareAPI) Register(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID: "create-share-link", Method: fiber.MethodPost, Path: "/api/sessions/{session_id}/share", Tag: "Sharing",
		Summary: "Create a public, read-only link to a session",
		Description: "Anyone with the link can read the turns without credentials. It expires after seven days unless ttl_seconds is " +
			"given, and only this response returns it.",
		Scope: auth.SessionsWrite, Audit: "share_link.create", Secret: true,
		Errors:  httpx.Codes{403: "sharing_disabled"},
		Example: `{"ttl_seconds": 3600, "redact": {"tool_results": true}}`,
	}, a.createShare)
	httpx.Register(r, httpx.Operation{
		ID: "revoke-share-link", Method: fiber.MethodDelete, Path: "/api/sessions/{session_id}/share/{token}", Tag: "Sharing",
		Summary:     "Revoke a public link",
		Description: "Further requests to the link are rejected with share_gone.",
		Scope:       auth.SessionsWrite, Audit: "share_link.delete",
		Errors: httpx.Codes{404: "share_not_found"},
	}, a.revokeShare)
	httpx.Register(r, httpx.Operation{
		ID: "read-shared-session", Method: fiber.MethodGet, Path: "/api/share/{token}", Tag: "Sharing",
		Summary: "Get the turns of a shared session",
		Description: "No credentials are needed. What the link leaves out, environment values and strings that look like credentials " +
			"are removed.",
		Public:  true,
		Errors:  httpx.Codes{403: "sharing_disabled", 404: "share_not_found", 410: "share_gone", 503: "dependency_unavailable"},
		Replies: []httpx.Reply{httpx.JSONReply[[]domain.Turn](http.StatusOK)},
	}, a.readShared)
	httpx.Register(r, httpx.Operation{
		ID: "read-shared-attachment", Method: fiber.MethodGet, Path: "/api/share/{token}/attachments/{attachment}", Tag: "Sharing",
		Summary:     "Get a picture of a shared session's message or tool result",
		Description: "No credentials are needed.",
		Public:      true,
		Errors: httpx.Codes{
			403: "sharing_disabled",
			404: "share_not_found object_not_found",
			410: "share_gone",
			503: "dependency_unavailable",
		},
		Replies: []httpx.Reply{{Status: http.StatusOK, Types: []string{"image/*", "audio/*"}}},
	}, a.readSharedAttachment)
}

// sharing refuses when this installation shares nothing.
func (a *ShareAPI) sharing() error {
	if !a.Enabled {
		return domain.Newf(domain.Forbidden, "sharing_disabled", "public links are turned off in this installation")
	}

	return nil
}

func shareHash(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

func (a *ShareAPI) createShare(ctx context.Context, in *struct {
	access.SessionRef
	Host  string `header:"Host" hidden:"true"`
	Proto string `header:"X-Forwarded-Proto" hidden:"true"`
	Body  *struct {
		TTLSeconds *int64      `json:"ttl_seconds,omitempty" nullable:"true" minimum:"1" maximum:"7776000" doc:"Life of the link; default seven days, at most ninety." example:"3600"`
		Redact     *redactBody `json:"redact,omitempty" doc:"What a view leaves out besides environment values." example:"{\"tool_results\": true}"`
	}
},
) (*httpx.Body[shareLink], error) {
	if _, err := a.Own(ctx, in.SessionID); err != nil {
		return nil, err
	}

	if err := a.sharing(); err != nil {
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

	made, err := a.Shares.CreateShare(ctx, link, shareHash(token), time.Duration(life)*time.Second)
	if err != nil {
		return nil, err
	}

	scheme := "http"
	if strings.EqualFold(in.Proto, "https") {
		scheme = "https"
	}

	return httpx.Answer(shareLink{
		Token: token, URL: scheme + "://" + in.Host + "/api/share/" + token,
		ExpiresAt: made.ExpiresAt, CreatedAt: made.CreatedAt, Views: made.Views, Redact: made.Redact,
	}, nil)
}

func (a *ShareAPI) revokeShare(ctx context.Context, in *struct {
	access.SessionRef
	ShareRef
},
) (*httpx.Body[revokedBody], error) {
	if _, err := a.Own(ctx, in.SessionID); err != nil {
		return nil, err
	}

	err := a.Shares.RevokeShare(ctx, in.SessionID, shareHash(in.Token))

	return httpx.Answer(revokedBody{err == nil}, err)
}

// opened gives what a link leads to, with headers that keep the answer out of
// caches and the link out of other sites' logs.
func (a *ShareAPI) opened(ctx context.Context, token string, view bool) (domain.SharedSession, error) {
	if err := a.sharing(); err != nil {
		return domain.SharedSession{}, err
	}

	return a.Shares.OpenShare(ctx, shareHash(token), view)
}

func (a *ShareAPI) readShared(ctx context.Context, in *ShareRef) (*httpx.Streamed, error) {
	shared, err := a.opened(ctx, in.Token, true)
	if err != nil {
		return nil, err
	}

	hide, err := a.redactor(ctx, shared, in.Token)
	if err != nil {
		return nil, err
	}

	out, err := a.streamRows(ctx, func(ctx context.Context) iter.Seq2[[]byte, error] {
		return a.turns(ctx, shared.SessionID, nil, 0, hide.turn)
	})
	if err != nil {
		return nil, err
	}

	return private(out), nil
}

// redactor hides the environment of the session, and that of all of its owner's
// buckets: any of them may have reached a tool once.
func (a *ShareAPI) redactor(ctx context.Context, shared domain.SharedSession, token string) (redactor, error) {
	buckets, err := a.EnvBuckets.List(ctx, shared.OwnerID)
	if err != nil {
		return redactor{}, err
	}

	environments := []map[string]string{shared.Env}
	for _, b := range buckets {
		environments = append(environments, b.Env)
	}

	return newRedactor(shared, token, environments...), nil
}

func (a *ShareAPI) readSharedAttachment(ctx context.Context, in *struct {
	ShareRef
	Name string `path:"attachment" maxLength:"64" pattern:"^[0-9a-f]{64}$" doc:"SHA-256 of the picture or recording." example:"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"`
},
) (*httpx.Streamed, error) {
	shared, err := a.opened(ctx, in.Token, false)
	if err != nil {
		return nil, err
	}

	data, mime, err := a.Image(ctx, shared.SessionID, path.Base(in.Name))
	if err != nil {
		return nil, err
	}

	return private(&httpx.Streamed{Body: func(ctx huma.Context) {
		httpx.FiberOf(ctx).Set(fiber.HeaderContentType, mime)
		httpx.FiberOf(ctx).Response().SetBodyRaw(data)
	}}), nil
}

// private keeps an answer out of caches, and its address, which is a secret, out
// of what browsers send to other sites.
func private(out *httpx.Streamed) *httpx.Streamed {
	return &httpx.Streamed{Body: func(ctx huma.Context) {
		c := httpx.FiberOf(ctx)
		c.Set(fiber.HeaderCacheControl, "no-store")
		c.Set(fiber.HeaderReferrerPolicy, "no-referrer")
		c.Set("X-Robots-Tag", "noindex")
		out.Body(ctx)
	}}
}
