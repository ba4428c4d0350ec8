package api

import (
	"context"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"everloop/auth"
	"everloop/domain"
)

// Apps publish directories of workspaces as sites.
type Apps interface {
	Publish(ctx context.Context, session domain.Session, dir string) (domain.App, error)
	Unpublish(ctx context.Context, ownerID, appID string) (domain.App, error)
	Serve(ctx context.Context, appID, name string) (domain.ServedApp, error)
}

// AppRecords tell of what a user has published.
type AppRecords interface {
	App(ctx context.Context, ownerID, appID string) (domain.App, error)
	Apps(ctx context.Context, ownerID string) ([]domain.App, error)
}

// appBody is a published app as clients see it.
type appBody struct {
	AppID       string           `json:"app_id"`
	SessionID   string           `json:"session_id"`
	Name        string           `json:"name"`
	URL         string           `json:"url"`
	Status      domain.AppStatus `json:"status" enum:"building,live,failed,stopped"`
	WorkingDir  string           `json:"working_dir"`
	Kind        string           `json:"kind" enum:"static"`
	Digest      string           `json:"digest" doc:"Of the copy that is served; empty: there is none."`
	PublishedAt *time.Time       `json:"published_at" nullable:"true"`
	LogsRef     *string          `json:"logs_ref" nullable:"true" doc:"null: what is served as it is writes no log"`
}

type appList struct {
	Items []appBody `json:"items" nullable:"false"`
}

type unpublished struct {
	AppID  string           `json:"app_id"`
	Status domain.AppStatus `json:"status" enum:"stopped"`
}

// Here says by which address the service was reached.
type Here struct {
	Host  string `header:"Host" hidden:"true"`
	Proto string `header:"X-Forwarded-Proto" hidden:"true"`
}

func (h Here) base() string {
	if strings.EqualFold(h.Proto, "https") {
		return "https://" + h.Host
	}
	return "http://" + h.Host
}

func (h Here) app(a domain.App) appBody {
	_, digest, _ := strings.Cut(a.CopyID, ".")
	if digest != "" {
		digest = "sha256:" + digest
	}
	return appBody{
		AppID: a.ID, SessionID: a.SessionID, Name: a.Name, URL: h.base() + "/apps/" + a.ID + "/", Status: a.Status,
		WorkingDir: a.WorkingDir, Kind: "static", Digest: digest, PublishedAt: a.PublishedAt,
	}
}

// AppRef names an app.
type AppRef struct {
	AppID string `path:"app_id" maxLength:"64"`
}

func (s *server) appRoutes() {
	const all, one, tag = "/api/apps", "/api/apps/{app_id}", "Apps"
	op := func(id, method, path, summary string, scope auth.Scope) operation {
		return operation{id: id, method: method, path: path, tag: tag, summary: summary, scope: scope}
	}
	add(s, op("publish-app", fiber.MethodPost, all, "Publish a directory of a workspace as a site that everybody can see", auth.Files), s.publishApp)
	add(s, op("list-apps", fiber.MethodGet, all, "The caller's published apps, newest first", auth.SessionsRead),
		func(ctx context.Context, in *Here) (*body[appList], error) {
			apps, err := s.AppRecords.Apps(ctx, callerOf(ctx).User.ID)
			list := appList{Items: make([]appBody, len(apps))}
			for i, a := range apps {
				list.Items[i] = in.app(a)
			}
			return answer(list, err)
		})
	add(s, op("get-app", fiber.MethodGet, one, "One published app", auth.SessionsRead),
		func(ctx context.Context, in *struct {
			AppRef
			Here
		},
		) (*body[appBody], error) {
			app, err := s.AppRecords.App(ctx, callerOf(ctx).User.ID, in.AppID)
			return answer(in.app(app), err)
		})
	add(s, op("unpublish-app", fiber.MethodDelete, one, "Take a published app away", auth.Files),
		func(ctx context.Context, in *AppRef) (*body[unpublished], error) {
			app, err := s.Apps.Unpublish(ctx, callerOf(ctx).User.ID, in.AppID)
			return answer(unpublished{app.ID, app.Status}, err)
		})
	add(s, operation{
		id: "read-app", method: fiber.MethodGet, path: "/apps/{app_id}/{dir_path}", tag: tag, public: true,
		summary: "A file of a published app, for browsers",
		changes: func(op *huma.Operation) {
			describeAs(http.StatusOK, "*/*")(op)
			describeAs(http.StatusPartialContent, "*/*")(op)
			putResponse(op, http.StatusNotModified, nil)
			putResponse(op, http.StatusPermanentRedirect, nil)
		},
	}, s.readApp)
}

func (s *server) publishApp(ctx context.Context, in *struct {
	Here
	Body struct {
		SessionID  string `json:"session_id" minLength:"1" maxLength:"128"`
		WorkingDir string `json:"working_dir,omitempty" maxLength:"4096" doc:"Relative to the workspace; left out: all of it. It has to hold an index.html."`
	}
},
) (*body[appBody], error) {
	session, err := s.Store.OwnSession(ctx, callerOf(ctx).User, in.Body.SessionID)
	if err != nil {
		return nil, err
	}
	app, err := s.Apps.Publish(ctx, session, in.Body.WorkingDir)
	return answer(in.app(app), err)
}

// appPolicy lets a published page do what a page may, but as one from nowhere: it
// has neither this service's cookies and storage nor those of other apps.
const appPolicy = activeContent + " allow-downloads allow-pointer-lock"

// readApp serves a file of a published app. Whoever wrote it, nobody has checked
// it, so each answer is told to be of no origin, and other sites may load it.
func (s *server) readApp(ctx context.Context, in *struct {
	AppRef
	Path string `path:"dir_path" doc:"Slashes are part of it; a directory leads to its index.html."`
},
) (*streamed, error) {
	served, err := s.Apps.Serve(ctx, in.AppID, in.Path)
	if err != nil {
		return nil, err
	}
	return &streamed{func(hctx huma.Context) {
		c := fiberOf(hctx)
		if served.Directory {
			here := served.Path
			if here == "" {
				here = in.AppID
			}
			c.Set(fiber.HeaderLocation, path.Base(here)+"/")
			c.Status(http.StatusPermanentRedirect)
			return
		}
		c.Set(fiber.HeaderContentSecurityPolicy, appPolicy)
		c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
		c.Set(fiber.HeaderReferrerPolicy, "no-referrer")
		c.Set("Cross-Origin-Opener-Policy", "same-origin")
		c.Set("Cross-Origin-Resource-Policy", "cross-origin")
		c.Set(fiber.HeaderAccessControlAllowOrigin, "*") // a page from nowhere is a stranger to its own files
		c.Set(fiber.HeaderCacheControl, "public, no-cache")
		c.Set(fiber.HeaderETag, served.File.ETag)
		c.Set(fiber.HeaderAcceptRanges, "bytes")
		if none := c.Get(fiber.HeaderIfNoneMatch); none != "" && matches(none, served.File.ETag) {
			_ = served.File.Content.Close()
			c.Status(http.StatusNotModified)
			return
		}
		c.Set(fiber.HeaderContentType, siteType(served.Path))
		if err := sendRange(c, served.File.Content, served.File.Size, served.File.ETag); err != nil {
			_ = served.File.Content.Close()
			s.refuse(hctx, err)
		}
	}}, nil
}

// siteType tells what a file of a site is by its name alone: its bytes are not
// looked at, so that none passes for something else.
func siteType(name string) string {
	kind := kinds[strings.ToLower(path.Ext(name))]
	switch {
	case kind == "":
		return fiber.MIMEOctetStream
	case strings.HasPrefix(kind, "text/"), kind == "application/json":
		return kind + "; charset=utf-8"
	default:
		return kind
	}
}
