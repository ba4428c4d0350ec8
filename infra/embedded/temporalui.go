package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	uiapi "github.com/temporalio/ui-server/v2/server/api"
	uiconfig "github.com/temporalio/ui-server/v2/server/config"
	"github.com/temporalio/ui-server/v2/server/route"
	uiassets "github.com/temporalio/ui-server/v2/ui"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/server/common/primitives"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"everloop/internal/clients"
	"everloop/internal/hosts"
)

// TemporalUIConfig configures Temporal's web UI.
type TemporalUIConfig struct {
	// Listen is the address for browsers.
	Listen Listen
	// Hosts are the allowed host names in addition to localhost and IP addresses.
	Hosts hosts.List
	// Connections is the maximum number of open connections per client address; 0: 4000.
	Connections int
}

func (c TemporalUIConfig) name() string      { return "temporal-ui" }
func (c TemporalUIConfig) title() string     { return "the Temporal UI" }
func (c TemporalUIConfig) after() []string   { return []string{TemporalConfig{}.name()} }
func (c TemporalUIConfig) listens() []Listen { return []Listen{c.Listen} }

func (c TemporalUIConfig) start(_ context.Context, _ string, others *Engines, logger *slog.Logger) (Running, error) {
	temporal := Of[*Temporal](others)
	if temporal == nil {
		return nil, errors.New("it needs the embedded Temporal server")
	}

	return StartTemporalUI(c, temporal, logger)
}

// maxUIMessage is the maximum size of a response of Temporal to the UI, which can contain a whole
// history.
const maxUIMessage = 64 << 20

// TemporalUI is Temporal's web UI, served by this process to signed-in administrators.
type TemporalUI struct {
	server *http.Server
	conn   *grpc.ClientConn
	config *uiconfig.ConfigProviderWithRefresh
	url    string
}

// uiSettings returns a fixed configuration to the UI.
type uiSettings struct{ cfg *uiconfig.Config }

// GetConfig implements the UI's config.ConfigProvider.
func (s uiSettings) GetConfig() (*uiconfig.Config, error) { return s.cfg, nil }

// StartTemporalUI serves the UI of a Temporal server of this process.
func StartTemporalUI(cfg TemporalUIConfig, temporal *Temporal, logger *slog.Logger) (*TemporalUI, error) {
	ip, port, err := cfg.Listen.split()
	if err != nil {
		return nil, err
	}

	if port == 0 {
		if port, err = freePort(); err != nil {
			return nil, err
		}
	}

	ui := &TemporalUI{url: "http://" + joinHostPort(dialHost(ip), port)}

	pages, err := ui.pages(temporal)
	if err != nil {
		return nil, errors.Join(err, ui.close())
	}

	listener, err := net.Listen("tcp", joinHostPort(ip.String(), port))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot listen on %s (%s): %w", cfg.Listen.Addr, cfg.Listen.Variable, err), ui.close())
	}

	ui.server = &http.Server{
		Handler:           newSignIn(temporal.access, cfg.Hosts, pages),
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
	bound := clients.NewConnections(cmp.Or(cfg.Connections, connectionsOfAddress), nil).Listen(listener, clients.Refusal)

	go func() { _ = ui.server.Serve(bound) }() // ends after Stop

	return ui, nil
}

// pages returns the UI's own routes. Its package has no handler to mount: its server opens a
// port, and calls Temporal over another.
func (u *TemporalUI) pages(temporal *Temporal) (http.Handler, error) {
	var err error

	u.config, err = uiconfig.NewConfigProviderWithRefresh(uiSettings{&uiconfig.Config{
		DefaultNamespace: Namespace, EnableUI: true, HideLogs: true, DisableNewsFetch: true,
	}})
	if err != nil {
		return nil, err
	}

	u.conn, err = grpc.NewClient(temporalTarget, temporal.transport.dialTo(primitives.FrontendService),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxUIMessage)))
	if err != nil {
		return nil, err
	}

	all, err := uiassets.Assets()
	if err != nil {
		return nil, err
	}

	assets, err := fs.Sub(all, "local")
	if err != nil {
		return nil, err
	}

	e := echo.New()
	e.Use(middleware.Recover(), middleware.Gzip(), middleware.Secure())
	api := e.Group("/api/v1")
	api.GET("/settings", uiapi.GetSettings(u.config))
	api.GET("/ui-extensions", uiapi.GetUIExtensions(u.config, uiapi.TemporalAccessCheck(u.conn, nil)))
	api.GET(uiapi.WorkflowRawHistoryUrl, uiapi.WorkflowRawHistoryHandler(workflowservice.NewWorkflowServiceClient(u.conn)))
	api.Any("/*", uiapi.TemporalAPIHandler(u.config, nil, u.conn))
	route.SetHealthRoute(e)
	route.SetRenderRoute(e, "/")

	return e, route.SetUIRoutes(e, "", assets, u.config)
}

// URL returns the URL of the UI for a browser on this machine.
func (u *TemporalUI) URL() string { return u.url }

// uiStopTime is the maximum wait for requests in flight during Stop.
const uiStopTime = time.Second

// Done returns nil: the UI does not end unexpectedly.
func (u *TemporalUI) Done() <-chan struct{} { return nil }

// Err returns nil: see Done.
func (u *TemporalUI) Err() error { return nil }

// Stop stops the UI. It must be called before the Temporal server is stopped.
func (u *TemporalUI) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, uiStopTime)
	defer cancel()

	if err := u.server.Shutdown(ctx); err != nil {
		_ = u.server.Close()
	}

	_ = u.close()

	return nil
}

// close closes the resources of pages.
func (u *TemporalUI) close() error {
	if u.config != nil {
		u.config.Close()
	}

	if u.conn != nil {
		return u.conn.Close()
	}

	return nil
}
