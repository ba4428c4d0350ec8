// Package registry is the skill registry: skills as versioned ZIP packages below an
// organisation and a name, with one released version. A version is immutable. Records are in
// PostgreSQL, packages in an S3 bucket; an upload is acknowledged when both are stored.
//
// It is a separate service, reached only over HTTP. It does not depend on sessions,
// installations or the agent's records; it authenticates callers through the agent
// (companions/credentials).
package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"everloop/internal/limit"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/minio/minio-go/v7"

	"everloop/companions/credentials"
	"everloop/companions/edge"
	"everloop/internal/clients"
	"everloop/internal/hosts"
)

// Config configures the service.
type Config struct {
	DatabaseURL string
	Packages    Bucket
	Credentials *credentials.Checker
	Hosts       hosts.List
	Proxies     clients.Proxies // whose X-Forwarded-For names the client
	Log         *slog.Logger    // nil: no logs
	// UploadAge is the age at which an incomplete upload is removed; 0: DefaultUploadAge. It
	// must be longer than the maximum duration of an upload.
	UploadAge time.Duration
	// OrganizationBytes bounds the packages of an organisation; 0: DefaultOrganizationBytes. It
	// does not apply to administrators.
	OrganizationBytes int64
	// Room returns an error while there is not enough space for a package; nil: unlimited.
	Room func() error
}

// DefaultOrganizationBytes is the size of some hundred maximum packages.
const DefaultOrganizationBytes = 10 << 30

// DefaultUploadAge is longer than any upload can take.
const DefaultUploadAge = 15 * time.Minute

// Bounds of concurrent work.
const (
	databaseConns        = 8
	maxConcurrentUploads = 4
	ownUploads           = 2               // of one caller
	uploadTime           = 5 * time.Minute // of one upload, with the slowest client
	downloadTime         = 10 * time.Minute
	requestTime          = 30 * time.Second // of any other request
	cleanEvery           = 5 * time.Minute
)

// Service is the registry.
type Service struct {
	cfg      Config
	log      *slog.Logger
	db       *pgxpool.Pool
	packages *packages
	uploads  limit.Keyed[string] // under way: all, and of each caller
	mux      *http.ServeMux
}

// Open connects to the engines and migrates the database to the newest schema. The caller must
// close the service.
func Open(ctx context.Context, cfg Config) (*Service, error) {
	s := &Service{cfg: cfg, log: cfg.Log, mux: http.NewServeMux()}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}

	if s.cfg.UploadAge == 0 {
		s.cfg.UploadAge = DefaultUploadAge
	}

	if s.cfg.OrganizationBytes == 0 {
		s.cfg.OrganizationBytes = DefaultOrganizationBytes
	}

	if err := records.Migrate(ctx, cfg.DatabaseURL); err != nil {
		return nil, err
	}

	settings, err := pgxpool.ParseConfig(cfg.DatabaseURL)
	if err != nil {
		return nil, errors.New("the registry's database address is not valid") // without the address: it contains a password
	}

	settings.MaxConns = databaseConns
	settings.ConnConfig.RuntimeParams["application_name"] = "everloop registry"

	settings.ConnConfig.RuntimeParams["statement_timeout"] = "30s"
	if s.db, err = pgxpool.NewWithConfig(ctx, settings); err != nil {
		return nil, fmt.Errorf("connect to the registry's database: %w", err)
	}

	if s.packages, err = openPackages(ctx, cfg.Packages); err != nil {
		s.db.Close()
		return nil, err
	}

	s.routes()

	return s, nil
}

// Close releases the connections.
func (s *Service) Close() { s.db.Close() }

// Handler returns the handler of the whole service, without the guard of its listener.
func (s *Service) Handler() http.Handler { return s.mux }

// Serve handles requests, and removes leftovers of interrupted uploads, until ctx ends. It
// closes the listener and the service.
func (s *Service) Serve(ctx context.Context, listener net.Listener) error {
	defer s.Close()

	cleaning, stop := context.WithCancel(ctx)

	cleaned := make(chan struct{})
	go func() {
		defer close(cleaned)

		s.cleanRegularly(cleaning)
	}()

	defer func() { stop(); <-cleaned }()

	return edge.Service{Name: "registry", Handler: s.mux, Hosts: s.cfg.Hosts, Proxies: s.cfg.Proxies, Log: s.log}.Serve(ctx, listener)
}

// routes registers the operations. Write operations check the credentials themselves.
func (s *Service) routes() {
	s.handle("POST /skills/{org}/{name}/versions/{version}", uploadTime, s.upload)
	s.handle("PUT /skills/{org}/{name}/release", requestTime, s.release)
	s.handle("GET /skills/{org}/{name}/versions", requestTime, s.listVersions)
	s.handle("GET /skills/{org}/{name}/versions/{version}", requestTime, s.getVersion)
	s.handle("PUT /skills/{org}/{name}/versions/{version}/yank", requestTime, s.yank)
	s.handle("DELETE /skills/{org}/{name}/versions/{version}/yank", requestTime, s.yank)
	s.handle("GET /skills/{org}/{name}/download", downloadTime, s.download)
	s.handle("GET /skills/{org}/{name}", requestTime, s.getSkill)
	s.handle("GET /skills", requestTime, s.search)

	s.handle("GET /registry/organizations", requestTime, s.listOrganizations)
	s.handle("PUT /registry/organizations/{org}", requestTime, s.putOrganization)
	s.handle("GET /registry/organizations/{org}/members", requestTime, s.listMembers)
	s.handle("PUT /registry/organizations/{org}/members/{user}", requestTime, s.addMember)
	s.handle("DELETE /registry/organizations/{org}/members/{user}", requestTime, s.removeMember)

	s.handle("GET /registry/resources", requestTime, s.listResources)
	s.handle("GET /registry/resources/{id}", requestTime, s.getResource)
	s.handle("GET /registry/templates", requestTime, s.listTemplates)
	s.handle("GET /registry/templates/{type}/{subtype}", requestTime, s.getTemplate)
	s.handle("PUT /registry/templates/{type}/{subtype}", requestTime, s.putTemplate)
	s.handle("DELETE /registry/templates/{type}/{subtype}", requestTime, s.deleteTemplate)
	s.handle("GET /registry/scenarios", requestTime, s.listScenarios)
	s.handle("PUT /registry/scenarios/{id}", requestTime, s.putScenario)
	s.handle("DELETE /registry/scenarios/{id}", requestTime, s.deleteScenario)
	s.handle("GET /registry/skill-store/stats", requestTime, s.stats)

	s.handle("GET /api/health", requestTime, s.health)
	s.handle("GET /{$}", requestTime, s.indexPage)
	s.handle("GET /browse/{org}/{name}", requestTime, s.skillPage)
	s.mux.HandleFunc("/", edge.NoRoute(s.mux, "the registry has no such operation"))
}

func (s *Service) handle(route string, within time.Duration, serve func(w http.ResponseWriter, r *http.Request) error) {
	s.mux.HandleFunc(route, edge.Handle(s.log, func(w http.ResponseWriter, r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), within)
		defer cancel()

		edge.Extend(w, within)

		return serve(w, r.WithContext(ctx))
	}))
}

// health reports whether the engines are available.
func (s *Service) health(w http.ResponseWriter, r *http.Request) error {
	const within = 5 * time.Second

	ctx, cancel := context.WithTimeout(r.Context(), within)
	defer cancel()

	var state struct {
		Status    string `json:"status"`
		Skills    int    `json:"skills"`
		StorageOK bool   `json:"storage_ok"`
	}

	err := s.db.QueryRow(ctx, `SELECT count(*) FROM registry.skills`).Scan(&state.Skills)
	state.StorageOK = s.packages.ping(ctx) == nil
	state.Status = "ok"

	status := http.StatusOK
	if err != nil || !state.StorageOK {
		state.Status, status = "unavailable", http.StatusServiceUnavailable
	}

	edge.WriteJSON(w, status, state)

	return nil
}

// Bucket is the location of the packages.
type Bucket struct {
	Endpoint  string // host:port
	Name      string
	AccessKey string
	SecretKey string
	UseTLS    bool
	Transport http.RoundTripper // nil: the library's default
}

// packageOptions are the options of every stored package.
var packageOptions = minio.PutObjectOptions{ContentType: "application/zip", DisableMultipart: true}
