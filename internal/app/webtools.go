package app

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"

	"everloop/activities/modelcall"
	"everloop/activities/tools"
	"everloop/activities/tools/builtin"
	"everloop/infra/langchain"
	"everloop/infra/search"
	"everloop/infra/web"
)

// webSettings say what the tools that reach the web may do.
type webSettings struct {
	SearchURL string   `name:"search-url" env:"SEARCH_URL" help:"A search engine with SearXNG's JSON interface for WebSearch; made-up results of the mock service when unset."`
	WebAllow  []string `env:"WEB_ALLOW" help:"What WebFetch may reach besides the public Internet: host, host:port, host:port/path/, *.domain, a network."`
	Langchain []string `name:"langchain-tools" default:"calculator" env:"LANGCHAIN_TOOLS" help:"Tools of the langchaingo framework to offer: calculator, wikipedia or, for another MediaWiki, wikipedia=URL of its api.php."`

	demoSearch bool     // SearchURL is the mock service's
	listening  []string // further addresses that this service listens on
}

// useDemoWeb has the tools search the mock service's small web, of which they
// may read the pages and nothing else.
func (s *webSettings) useDemoWeb(mockAddr string) {
	s.SearchURL, s.demoSearch = "http://"+mockAddr, true
	s.WebAllow = append(slices.Clone(s.WebAllow), mockAddr+"/pages/")
}

// check finds all faults of the settings at once.
func (s *webSettings) check() error {
	var faults []error
	if _, err := web.New(web.Config{Allow: s.WebAllow}); err != nil {
		faults = append(faults, fmt.Errorf("WEB_ALLOW: %w", err))
	}

	if s.SearchURL != "" {
		if _, err := search.New(search.Config{BaseURL: s.SearchURL}); err != nil {
			faults = append(faults, fmt.Errorf("SEARCH_URL: %w", err))
		}
	}

	_, err := langchain.Tools(langchain.Config{Names: s.Langchain, HTTP: http.DefaultClient})

	return errors.Join(append(faults, err)...)
}

// newTools returns a new registry of tools: the built-in ones with what this role
// has for them, those for the web, and those of the framework.
func (b *backend) newTools(d tools.Deps) (*tools.Registry, error) {
	s := b.settings

	client, err := web.New(web.Config{Allow: s.WebAllow, Own: s.ownAddresses()})
	if err != nil {
		return nil, fmt.Errorf("WEB_ALLOW: %w", err)
	}

	d.Web, d.Asker = client, &modelcall.Asker{
		Models:   b.models,
		Accounts: b.DB.Conversation(),
		Logger:   b.logger,
	}

	d.Outbound, d.Policies = s.SandboxNetwork, b

	d.Limits = s.toolLimits()
	if s.SearchURL != "" {
		if d.Search, err = search.New(search.Config{BaseURL: s.SearchURL, Demo: s.demoSearch}); err != nil {
			return nil, fmt.Errorf("SEARCH_URL: %w", err)
		}
	}

	registry, err := builtin.New(d)
	if err != nil {
		return nil, err
	}

	adapted, err := langchain.Tools(langchain.Config{Names: s.Langchain, HTTP: client.HTTP()})
	if err != nil {
		return nil, err
	}

	for _, tool := range adapted {
		if tool.Name == langchain.Wikipedia {
			tool = builtin.OfNetwork(tool, d)
		}

		if err := registry.Add(tool); err != nil {
			return nil, err
		}
	}

	return registry, nil
}

// ownAddresses lists where this service listens and where its engines are, as
// host:port, leaving out what is not of that form.
func (s *settings) ownAddresses() []string {
	addresses := append([]string{s.AgentAddr, s.S3Endpoint, s.TemporalAddress}, s.listening...)

	return slices.DeleteFunc(addresses, func(address string) bool {
		_, port, err := net.SplitHostPort(address)
		return err != nil || port == ""
	})
}
