# Everloop. `make help` lists what there is to do.

GO       ?= go
BIN      := bin/everloop
VERSION  ?= $(shell git describe --tags --exact-match 2>/dev/null | sed 's/^v//')
LDFLAGS  := -s -w $(if $(VERSION),-X main.version=$(VERSION))

.DEFAULT_GOAL := help
.PHONY: help run build test test-compose bench lint generate clean FORCE

help: ## Show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: build ## Build and start everything on this machine (Ctrl-C ends it)
	./$(BIN) up

build: $(BIN) ## Build bin/everloop

$(BIN): FORCE
	$(GO) build -ldflags '$(LDFLAGS)' -o $@ ./cmd/everloop

test: build ## Run every test with the race detector
	build/test.sh

test-compose: ## Start the docker-compose stack, kill its worker and see the chat go on
	build/test-compose.sh

bench: build ## Measure, beside a bare baseline; prints ratios
	$(GO) run ./bench

lint: ## Check style and the arrows between packages
	$(GO) vet ./...
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$unformatted" ]; then echo "not formatted: $$unformatted"; exit 1; fi
	$(GO) test -count=1 ./internal/arrows

generate: ## Write docs/api.md anew from the handlers
	$(GO) run ./build/apidoc > docs/api.md.new
	mv docs/api.md.new docs/api.md

replay: build ## Record the workflow histories that the replay tests run
	EVERLOOP_RECORD=1 $(GO) test -count=1 -run 'TestScenarios|TestCompactions|TestManualCompaction|TestTheRunOfAReplay' ./worker

clean: ## Remove what was built (data stays)
	rm -rf bin
