// Package api is the REST edge: it parses requests, calls a service, and answers.
// Its types are the contract: validation and the OpenAPI document come from them.
// It depends on no engine but PostgreSQL. An area is a package below it, with one struct of the
// services that its operations call; one file is one resource, an operation is one
// literal in that file. What surrounds every operation is in httpx, the document in
// openapi.
package api

import (
	"github.com/gofiber/fiber/v2"

	"everloop/api/account"
	"everloop/api/files"
	"everloop/api/httpx"
	"everloop/api/library"
	"everloop/api/openapi"
	"everloop/api/production"
	"everloop/api/session"
	"everloop/api/system"
)

// Config is the HTTP server on which the operations are registered.
type Config = httpx.Config

// Areas are the groups of operations, each with the services that it calls. The
// services are required unless their field says otherwise.
type Areas struct {
	System     system.API
	Session    session.API
	Files      files.API
	Account    account.API
	Library    library.API
	Production production.API
}

// New returns the REST interface as a Fiber application, on which the wiring may
// mount further transports before it listens.
func New(cfg Config, areas Areas) *fiber.App { return newServer(cfg, areas).App }

// newServer registers every operation and completes the document of them.
func newServer(cfg Config, areas Areas) *httpx.Server {
	server := httpx.NewServer(cfg, openapi.Frame(cfg.Version))

	areas.System.Register(server)
	areas.Session.Register(server)
	areas.Files.Register(server)
	areas.Account.Register(server)
	areas.Library.Register(server)
	areas.Production.Register(server)
	(&documentAPI{}).Register(server)

	openapi.Complete(server.API.OpenAPI())

	return server
}
