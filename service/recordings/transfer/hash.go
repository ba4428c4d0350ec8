package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
)

// hashOf returns the SHA-256 of a content.
func hashOf(ctx context.Context, content io.Reader) (string, error) {
	h := sha256.New()
	_, err := io.Copy(h, &untilDone{ctx, content})

	return hex.EncodeToString(h.Sum(nil)), err
}
