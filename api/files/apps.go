package files

import (
	"context"
	"io"
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
	"everloop/domain/app"
)

// Apps publish directories of workspaces as sites.
type Apps interface {
	Publish(ctx context.Context, session domain.Session, dir string) (app.App, error)
	Unpublish(ctx context.Context, ownerID, appID string) (app.App, error)
	Serve(ctx context.Context, appID, name string) (app.Served, error)
	App(ctx context.Context, ownerID, appID string) (app.App, error)
	Apps(ctx context.Context, ownerID string) ([]app.App, error)
}

// appBody is a published app as clients see it.
type appBody struct {
	AppID       string           `json:"app_id" doc:"The published app." example:"01a1ff63-40a1-7c55-a62e-d84c269739b6"`
	SessionID   domain.SessionID `json:"session_id" doc:"The session." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	Name        string           `json:"name" doc:"Its name." example:"site"`
	URL         string           `json:"url" doc:"Its address." example:"http://127.0.0.1:8020/apps/01a1ff63-40a1-7c55-a62e-d84c269739b6/"`
	Status      app.Status       `json:"status" enum:"building,live,failed,stopped" doc:"Its status."`
	WorkingDir  string           `json:"working_dir" doc:"The directory, relative to the workspace." example:"site"`
	Kind        string           `json:"kind" enum:"static" doc:"The type."`
	Digest      string           `json:"digest" doc:"Of the copy that is served; empty: there is none."`
	PublishedAt *time.Time       `json:"published_at" nullable:"true" doc:"Time of the last publication; null: never."`
	LogsRef     *string          `json:"logs_ref" nullable:"true" doc:"null: what is served as it is writes no log"`
}

type appList struct {
	Items []appBody `json:"items" nullable:"false" doc:"The entries of this page."`
}

type unpublished struct {
	AppID  string     `json:"app_id" doc:"The published app." example:"01a1ff63-40a1-7c55-a62e-d84c269739b6"`
	Status app.Status `json:"status" enum:"stopped" doc:"Its status."`
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

func (h Here) app(a app.App) appBody {
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
	AppID string `path:"app_id" maxLength:"64" doc:"The published app." example:"k3v9q2m7x1c8b5n4"`
}

// AppsAPI publishes directories of workspaces.
type AppsAPI struct {
	access.Sessions
	Apps Apps
}

// Register adds the operations of the area to the interface.
func (a *AppsAPI) Register(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID: "publish-app", Method: fiber.MethodPost, Path: "/api/apps", Tag: "Apps",
		Summary: "Publish a directory of a workspace as a public site",
		Description: "Copies the files in their current state; publishing the same directory again updates the app at the same " +
			"address. The directory must contain an index.html.",
		Scope: auth.Files, Audit: "app.create",
		Errors: httpx.Codes{
			400: httpx.OnPath,
			403: "forbidden file_permission_denied",
			404: "session_not_found file_not_found",
			409: "session_busy",
			413: "app_too_large app_budget no_space",
			422: "no_index_page " + httpx.OnRead,
			503: "disk_full",
		},
		Example: `{"session_id": "01a1ff63-2e0c-7d30-8650-39ac67aaafb7", "working_dir": "site"}`,
	}, a.publishApp)
	httpx.Register(r, httpx.Operation{
		ID: "list-apps", Method: fiber.MethodGet, Path: "/api/apps", Tag: "Apps",
		Summary: "List the caller's published apps, newest first",
		Scope:   auth.SessionsRead,
	},
		func(ctx context.Context, in *Here) (*httpx.Body[appList], error) {
			apps, err := a.Apps.Apps(ctx, httpx.CallerOf(ctx).User.ID)

			list := appList{Items: make([]appBody, len(apps))}
			for i, a := range apps {
				list.Items[i] = in.app(a)
			}

			return httpx.Answer(list, err)
		})
	httpx.Register(r, httpx.Operation{
		ID: "get-app", Method: fiber.MethodGet, Path: "/api/apps/{app_id}", Tag: "Apps",
		Summary: "Get a published app",
		Scope:   auth.SessionsRead,
		Errors:  httpx.Codes{404: "app_not_found"},
	},
		func(ctx context.Context, in *struct {
			AppRef
			Here
		},
		) (*httpx.Body[appBody], error) {
			app, err := a.Apps.App(ctx, httpx.CallerOf(ctx).User.ID, in.AppID)
			return httpx.Answer(in.app(app), err)
		})
	httpx.Register(r, httpx.Operation{
		ID: "unpublish-app", Method: fiber.MethodDelete, Path: "/api/apps/{app_id}", Tag: "Apps",
		Summary:     "Unpublish an app",
		Description: "Requests to its address are rejected with app_not_found at once.",
		Scope:       auth.Files, Audit: "app.delete",
		Errors: httpx.Codes{404: "app_not_found"},
	},
		func(ctx context.Context, in *AppRef) (*httpx.Body[unpublished], error) {
			app, err := a.Apps.Unpublish(ctx, httpx.CallerOf(ctx).User.ID, in.AppID)
			return httpx.Answer(unpublished{app.ID, app.Status}, err)
		})
	httpx.Register(r, httpx.Operation{
		ID: "read-app", Method: fiber.MethodGet, Path: "/apps/{app_id}/{dir_path}", Tag: "Apps",
		Summary: "Get a file of a published app",
		Description: "Public. A directory redirects to its index.html. Pages run in an opaque origin: they have no access to the " +
			"cookies of this service or of other apps.",
		Public: true,
		Errors: httpx.Codes{
			403: "service_worker_refused",
			404: "app_not_found file_not_found",
			416: httpx.CodeRange,
			503: "dependency_unavailable",
		},
		Headers: map[string]string{
			"ETag": "The version of the file.", "Content-Range": "With 206: the bytes that are sent, and the size.",
			"Location": "With 308: the address of the directory.",
		},
		Replies: []httpx.Reply{
			{Status: http.StatusOK, Types: []string{"*/*"}},
			{Status: http.StatusPartialContent, Types: []string{"*/*"}},
			{Status: http.StatusNotModified},
			{Status: http.StatusPermanentRedirect},
		},
	}, a.readApp)
}

func (a *AppsAPI) publishApp(ctx context.Context, in *struct {
	Here
	Body struct {
		SessionID  domain.SessionID `json:"session_id" minLength:"1" maxLength:"128" doc:"The session." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
		WorkingDir string           `json:"working_dir,omitempty" maxLength:"4096" doc:"Relative to the workspace; left out: all of it. It has to hold an index.html." example:"site"`
	}
},
) (*httpx.Body[appBody], error) {
	session, err := a.Own(ctx, in.Body.SessionID)
	if err != nil {
		return nil, err
	}

	app, err := a.Apps.Publish(ctx, session, in.Body.WorkingDir)
	httpx.Concerns(ctx, app.ID, map[string]string{"session_id": string(session.ID)})

	return httpx.Answer(in.app(app), err)
}

// appPolicy lets a published page do what a page may, but as one from nowhere: it
// has neither this service's cookies and storage nor those of other apps.
const appPolicy = httpx.ActiveContent + " allow-downloads allow-pointer-lock"

// readApp serves a file of a published app. Its content was not checked
// it, so each answer is sandboxed to no origin, and other sites may load it. A
// service worker would outlive its page and answer for the address, which is of no
// use to a page without an origin: its script is refused.
func (a *AppsAPI) readApp(ctx context.Context, in *struct {
	AppRef
	Path        string `path:"dir_path" doc:"Slashes are part of it; a directory leads to its index.html." example:"css/style.css"`
	Range       string `header:"Range" doc:"One range of bytes." example:"bytes=0-1023"`
	IfRange     string `header:"If-Range" doc:"The Range applies only while the file has this ETag." example:"\"5d41402abc4b2a76\""`
	IfNoneMatch string `header:"If-None-Match" doc:"The ETag of the client's copy: if it is current, the response is 304." example:"\"5d41402abc4b2a76\""`
	Worker      string `header:"Service-Worker" hidden:"true"`
},
) (*httpx.Streamed, error) {
	if in.Worker != "" {
		return nil, domain.Newf(domain.Forbidden, app.CodeServiceWorker, "a published app cannot have a service worker")
	}

	served, err := a.openApp(ctx, in.AppID, in.Path)
	if err != nil {
		return nil, err
	}

	return &httpx.Streamed{Body: func(hctx huma.Context) {
		c := httpx.FiberOf(hctx)

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
		c.Set(fiber.HeaderAccessControlAllowOrigin, "*") // a page without an origin is of another origin than its own files
		c.Set(fiber.HeaderCacheControl, "public, no-cache")
		c.Set(fiber.HeaderETag, served.File.ETag)
		c.Set(fiber.HeaderAcceptRanges, "bytes")

		if none := c.Get(fiber.HeaderIfNoneMatch); none != "" && httpx.MatchesETag(none, served.File.ETag) {
			_ = served.File.Content.Close()

			c.Status(http.StatusNotModified)

			return
		}

		c.Set(fiber.HeaderContentType, siteType(served.Path))

		if err := httpx.SendRange(c, served.File.Content, served.File.Size, served.File.ETag); err != nil {
			_ = served.File.Content.Close()

			httpx.Reject(hctx, err)
		}
	}}, nil
}

// openApp finds a file of an app.
func (a *AppsAPI) openApp(ctx context.Context, appID, name string) (served app.Served, err error) {
	served.File.Content, err = httpx.Outliving(ctx, func(ctx context.Context) (io.ReadSeekCloser, error) {
		var err error

		served, err = a.Apps.Serve(ctx, appID, name)

		return served.File.Content, err
	})

	return served, err
}

// siteType returns the type of a site's file by its name alone: its bytes are not
// looked at, so that none passes for something else.
func siteType(name string) string {
	kind := httpx.FileKinds[strings.ToLower(path.Ext(name))]
	switch {
	case kind == "":
		return fiber.MIMEOctetStream
	case strings.HasPrefix(kind, "text/"), kind == "application/json":
		return kind + "; charset=utf-8"
	default:
		return kind
	}
}
