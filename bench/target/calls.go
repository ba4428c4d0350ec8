package target

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"time"
)

// ImportSession uploads an archive and gives the new session.
func (c *Client) ImportSession(ctx context.Context, archive []byte) (string, error) {
	var form bytes.Buffer

	writer := multipart.NewWriter(&form)

	file, err := writer.CreateFormFile("file", "session.zip")
	if err != nil {
		return "", err
	}

	if _, err := file.Write(archive); err != nil {
		return "", err
	}

	if err := writer.Close(); err != nil {
		return "", err
	}

	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Base+"/api/sessions/import", &form)
	if err != nil {
		return "", err
	}

	req.Header.Set("Authorization", "Bearer "+c.Key)
	req.Header.Set("Content-Type", writer.FormDataContentType())

	response, err := c.HTTP.Do(req)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()

	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return "", err
	}

	var made struct {
		SessionID string `json:"session_id"`
		ID        string `json:"id"`
	}
	if response.StatusCode >= 300 || json.Unmarshal(text, &made) != nil {
		return "", fmt.Errorf("import: %s: %s", response.Status, text[:min(len(text), 2000)])
	}

	if made.SessionID == "" {
		made.SessionID = made.ID
	}

	return made.SessionID, nil
}

// Read gives when the first and the last byte of an answer came, and how many.
func (c *Client) Read(ctx context.Context, path string) (first, last time.Duration, bytes int64, err error) {
	sent := time.Now()

	response, err := c.Request(ctx, http.MethodGet, path, "application/json", nil)
	if err != nil {
		return 0, 0, 0, err
	}
	defer response.Body.Close()

	var one [1]byte
	if _, err := io.ReadFull(response.Body, one[:]); err != nil {
		return 0, 0, 0, err
	}

	first = time.Since(sent)
	bytes, err = io.Copy(io.Discard, response.Body)

	return first, time.Since(sent), bytes + 1, err
}
