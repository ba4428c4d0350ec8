# Everloop. `make help` lists what there is to do.

GO       ?= go
BIN      := bin/everloop
VERSION  ?= $(shell git describe --tags --exact-match 2>/dev/null | sed 's/^v//')
TOOL     := $(GO) tool -modfile=build/tools/go.mod
DESKTOP  := web/desktop
DESKTOP_SOURCES := $(shell find $(DESKTOP)/src $(DESKTOP)/public $(DESKTOP)/build sdk/js/src docs -type f) \
	$(addprefix $(DESKTOP)/,index.html vite.config.ts tsconfig.json package.json) \
	README.md CONTRIBUTING.md CHANGELOG.md $(wildcard sdk/*/README.md)
# Without the folder of the checkout in what is built, another checkout finds it in the build cache.
export GOFLAGS := $(strip $(shell $(GO) env GOFLAGS) -trimpath)
LDFLAGS  := -s -w $(if $(VERSION),-X everloop/internal/release.Version=$(VERSION))

.DEFAULT_GOAL := help
.PHONY: help setup browser run build test test-desktop test-quick test-compose test-helm test-alerts bench lint format audit events sdk replay clean FORCE

help: ## Show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Install what is missing beside Go, Node.js and make (PostgreSQL, ripgrep, git)
	@build/setup.sh

browser: ## Install the tool server of the browser tools into BROWSER_TOOLS_DIR
	@build/browser/install.sh

run: setup build ## Build and start everything on this machine (Ctrl-C ends it)
	./$(BIN) up

build: $(BIN) ## Build bin/everloop, with the desktop in it

$(BIN): $(DESKTOP)/dist/app/index.html FORCE
	$(GO) build -ldflags '$(LDFLAGS)' -o $@ ./cmd/everloop

# The front end, when a source of it or of the SDK has changed. Brotli and gzip forms are made
# here, so that the service only reads them.
$(DESKTOP)/dist/app/index.html: $(DESKTOP)/node_modules/.package-lock.json $(DESKTOP_SOURCES)
	cd $(DESKTOP) && npm run --silent build

$(DESKTOP)/node_modules/.package-lock.json: $(DESKTOP)/package-lock.json
	cd $(DESKTOP) && npm ci --silent
	touch $@

test-desktop: $(DESKTOP)/node_modules/.package-lock.json ## Run the tests of the desktop's components
	cd $(DESKTOP) && npm test --silent

test: setup build test-desktop ## Run every test with the race detector
	build/test.sh

test-compose: ## Start the docker-compose stack, kill its worker, and run the end-to-end suites against it
	build/test-compose.sh

test-helm: ## Lint the chart for Kubernetes, and check what it renders
	cd build/helm && $(GO) test -count=1 ./...

test-alerts: ## Load the rules for Prometheus and the dashboard with Prometheus' own parser
	cd build/observability && $(GO) test -count=1 ./...

test-quick: setup build test-desktop lint ## Run every package's tests and the end-to-end suites without faults
	build/test.sh --quick

bench: setup build ## Measure, beside a bare baseline; prints ratios
	@[ -d e2e/node_modules ] || (cd e2e && npm ci --silent)
	cd bench && $(GO) run . -bin ../$(BIN) $(if $(PARTS),-run $(PARTS))

lint: ## Check code, workflows, imports between packages, pages and words
	$(TOOL) golangci-lint run
	cd bench && $(GO) tool -modfile=../build/tools/go.mod golangci-lint run
	$(TOOL) workflowcheck -config build/tools/workflowcheck.yaml ./workflows/...
	$(GO) test -count=1 ./internal/arrows ./internal/doccheck ./internal/wordlist

format: ## Format all Go files as `make lint` wants them
	$(TOOL) golangci-lint fmt

audit: ## Look up known vulnerabilities of the dependencies (needs the network)
	@build/audit.sh

events: ## Generate docs/events.json, the JSON Schema of the events
	$(GO) run ./build/eventschema > docs/events.json.new
	mv docs/events.json.new docs/events.json

sdk: build ## Generate the types and operations of the SDKs
	cd sdk/js && npm ci --silent && node scripts/generate.mjs
	python3 sdk/python/scripts/generate.py

replay: build ## Record the workflow histories that the replay tests run
	EVERLOOP_RECORD=1 $(GO) test -count=1 -run 'TestScenarios|TestCompactions|TestManualCompaction|TestTheRunOfAReplay|TestSessionDeleter|TestHistoryOperation|TestImport|TestArchive|TestScheduledTask|TestInitScript|TestDAGRun|TestIssueRun|TestTrigger_startsOnce|TestModelOutage_summary|TestChat_isOneTrace' ./internal/systemtest

clean: ## Remove what was built (data stays)
	rm -rf bin $(DESKTOP)/dist/app
