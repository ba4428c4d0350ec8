package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"everloop/bench/archive"
	"everloop/bench/result"
)

// aged gives a session that says what another says, over and over, until it has so
// many turns: an export of it is written longer and imported.
func (b *bench) aged(ctx context.Context, session string, turns int) (string, error) {
	response, err := b.client.Request(ctx, http.MethodGet, "/api/sessions/"+session+"/export", "application/zip", nil)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()

	exported, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}

	longer, err := archive.Lengthen(exported, turns)
	if err != nil {
		return "", err
	}

	began := time.Now()

	imported, err := b.client.ImportSession(ctx, longer)
	if err == nil {
		b.value(fmt.Sprintf("importing %d turns", turns), "ms", result.Milliseconds(time.Since(began)), nil)
	}

	return imported, err
}
