package api

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/adaptor"

	"everloop/api/httpx"
	"everloop/api/openapi"
)

const (
	documentPath = "/api/openapi.json"
	docsPath     = "/api/docs"
)

// documentAPI serves the OpenAPI document and the page that shows it.
type documentAPI struct{}

// Register adds the operations of the area to the interface.
func (a *documentAPI) Register(r *httpx.Server) {
	document := sync.OnceValues(func() ([]byte, error) { return json.Marshal(r.API.OpenAPI()) })

	httpx.Register(r, httpx.Operation{
		ID: "get-openapi", Method: fiber.MethodGet, Path: documentPath, Tag: "Service",
		Summary: "Get the OpenAPI 3.1 document",
		Public:  true,
		Replies: []httpx.Reply{{
			Status: http.StatusOK, Types: []string{fiber.MIMEApplicationJSON},
			Example: `{"openapi": "3.1.0", "info": {"title": "Everloop"}, "paths": {}}`,
		}},
	}, func(context.Context, *struct{}) (*httpx.Streamed, error) {
		content, err := document()

		return &httpx.Streamed{Body: func(ctx huma.Context) {
			ctx.SetHeader(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
			_, _ = ctx.BodyWriter().Write(content)
		}}, err
	})
	serve := adaptor.HTTPHandler(openapi.Page(documentPath, docsPath))
	httpx.Register(r, httpx.Operation{
		ID: "get-docs", Method: fiber.MethodGet, Path: docsPath, Tag: "Service",
		Summary: "Show the API reference (HTML)",
		Public:  true,
		Replies: []httpx.Reply{{Status: http.StatusOK, Types: []string{fiber.MIMETextHTML}}},
	}, func(context.Context, *struct{}) (*httpx.Streamed, error) {
		return &httpx.Streamed{Body: func(ctx huma.Context) {
			c := httpx.FiberOf(ctx)
			_ = serve(c)
			c.Set(fiber.HeaderContentType, fiber.MIMETextHTMLCharsetUTF8)
			c.Set(fiber.HeaderContentSecurityPolicy, openapi.PagePolicy(c.Response().Body()))
		}}, nil
	})
	httpx.Register(r, httpx.Operation{
		ID: "get-docs-asset", Method: fiber.MethodGet, Path: docsPath + "/{file}", Tag: "Service", Hidden: true, Public: true,
	}, func(context.Context, *struct {
		File string `path:"file"`
	},
	) (*httpx.Streamed, error) {
		return &httpx.Streamed{Body: func(ctx huma.Context) { _ = serve(httpx.FiberOf(ctx)) }}, nil
	})
}

// Document returns the OpenAPI document of a version, without a service: the operations
// are registered with no services behind them.
func Document(version string) ([]byte, error) {
	server := newServer(Config{Version: version, Logger: slog.New(slog.DiscardHandler)}, Areas{})

	return json.Marshal(server.API.OpenAPI())
}
