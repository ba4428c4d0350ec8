package embedded

import (
	"context"
	"fmt"
	"net/http"
	"time"

	uiserver "github.com/temporalio/ui-server/v2/server"
	uiconfig "github.com/temporalio/ui-server/v2/server/config"
	"github.com/temporalio/ui-server/v2/server/server_options"
)

// TemporalUIConfig configures Temporal's web UI.
type TemporalUIConfig struct {
	// Listen is where browsers connect. The UI knows no authentication.
	Listen Listen
}

// TemporalUI is Temporal's web UI, served by this process.
type TemporalUI struct {
	server *uiserver.Server
	url    string
}

// uiSettings hands a fixed configuration to the UI.
type uiSettings struct{ cfg *uiconfig.Config }

// GetConfig implements the UI's config.ConfigProvider.
func (s uiSettings) GetConfig() (*uiconfig.Config, error) { return s.cfg, nil }

// StartTemporalUI serves the UI for the Temporal server at temporalAddress and
// returns once it answers.
func StartTemporalUI(ctx context.Context, cfg TemporalUIConfig, temporalAddress string) (*TemporalUI, error) {
	// The UI ends the whole process when it cannot bind its port, so look first.
	if err := cfg.Listen.probe(); err != nil {
		return nil, err
	}
	ip, port, err := cfg.Listen.split()
	if err != nil {
		return nil, err
	}
	if port == 0 {
		if port, err = freePort(); err != nil {
			return nil, err
		}
	}
	host := ip.String()
	if ip.Is6() {
		host = "[" + host + "]" // the UI joins host and port itself
	}
	server := uiserver.NewServer(server_options.WithConfigProvider(uiSettings{&uiconfig.Config{
		Host:                host,
		Port:                port,
		TemporalGRPCAddress: temporalAddress,
		DefaultNamespace:    Namespace,
		EnableUI:            true,
		HideLogs:            true,
		DisableNewsFetch:    true,
		CORS:                uiconfig.CORS{CookieInsecure: true}, // plain HTTP on loopback
	}}))
	ui := &TemporalUI{server: server, url: "http://" + joinHostPort(dialHost(ip), port)}
	go func() { _ = server.Start() }() // returns nil after Stop

	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := poll(ctx, func() error { return answers(ctx, ui.url+"/healthz") }); err != nil {
		ui.Stop()
		return nil, err
	}
	return ui, nil
}

// URL is where a browser on this machine finds the UI.
func (u *TemporalUI) URL() string { return u.url }

// Stop ends the UI. Stop it before the Temporal server that it calls.
func (u *TemporalUI) Stop() { u.server.Stop() }

// answers reports whether url gives an ordinary answer.
func answers(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	return nil
}
