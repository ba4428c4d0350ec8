// Package main writes docs/api.md, the REST reference, from the OpenAPI document
// that the handlers make: go run ./build/apidoc > docs/api.md, which is what
// `make generate` does. It must know nothing of single operations.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"

	"everloop/api"
)

func main() {
	page, err := reference()
	if err == nil {
		_, err = os.Stdout.Write(page)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// reference renders the page of the interface as it is now.
func reference() ([]byte, error) {
	app := api.New(api.Config{Logger: slog.New(slog.DiscardHandler)})
	answer, err := app.Test(httptest.NewRequest("GET", "/api/openapi.json", nil), -1)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	var doc document
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("read the document: %w", err)
	}
	return doc.page()
}
