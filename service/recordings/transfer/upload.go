package transfer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"time"

	"everloop/domain"
	"everloop/domain/transfer"
)

const (
	// partBytes and partTime bound a part of an archive on its way. A client that is
	// slow sends small parts, so that an upload of which no part comes is abandoned.
	partBytes = 8 << 20
	partTime  = 30 * time.Second
	// abandonedAfter is well above partTime and the minute for which a client may
	// send nothing.
	abandonedAfter = 5 * time.Minute
	// undoTimeout bounds the removal of an upload that is discarded. What it does not
	// remove is removed by Repair.
	undoTimeout = 10 * time.Second
)

// uploadPrefix returns where the archive of an import lies until the import has ended.
func uploadPrefix(sessionID domain.SessionID) string {
	return "imports/" + string(sessionID) + "/"
}

func uploadPart(sessionID domain.SessionID, n int) string {
	return fmt.Sprintf("%s%d", uploadPrefix(sessionID), n)
}

// Upload stores an archive part by part, of which one is in memory. The caller
// imports or discards it.
func (d *Service) Upload(ctx context.Context, ownerID string, content io.Reader) (transfer.ArchiveUpload, error) {
	up := transfer.ArchiveUpload{SessionID: domain.SessionID(domain.NewID())}

	leave, ok := d.uploads.enter(ownerID, maxUploads, maxOwnUploads)
	if !ok {
		return up, tooManyImports()
	}
	defer leave()

	if err := domain.DiskFull(d.cfg.Room); err != nil {
		return up, err
	}

	begun, err := d.BeginUpload(ctx, up.SessionID, ownerID, maxOpen)
	if err != nil {
		return up, err
	}

	if !begun {
		return up, tooManyImports()
	}

	if err := d.store(ctx, &up, content); err != nil {
		_, left := d.Discard(ctx, up)
		return up, errors.Join(err, left)
	}

	return up, nil
}

func (d *Service) store(ctx context.Context, up *transfer.ArchiveUpload, content io.Reader) error {
	sum := sha256.New()

	buffer := make([]byte, partBytes)

	for n, last := 0, false; !last; n++ {
		if err := domain.DiskFull(d.cfg.Room); err != nil {
			return err
		}

		part, end, err := readPart(content, buffer)
		if err != nil {
			return err
		}

		if last = end; len(part) == 0 {
			break
		}

		if err := d.AddUploadPart(ctx, up.SessionID, int64(len(part))); err != nil {
			return err
		}

		if err := d.cfg.Objects.Put(ctx, uploadPart(up.SessionID, n), part); err != nil {
			return err
		}

		up.Size += int64(len(part))
		sum.Write(part)
	}

	up.SHA256 = sum.Sum(nil)

	return nil
}

// readPart reads until the buffer is full, the part is old enough or the content ends.
func readPart(content io.Reader, buffer []byte) (part []byte, last bool, err error) {
	n := 0
	for began := time.Now(); n < len(buffer) && (n == 0 || time.Since(began) < partTime); {
		more, err := content.Read(buffer[n:])

		n += more
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return buffer[:n], true, nil
		}

		if err != nil {
			return nil, false, err
		}
	}

	return buffer[:n], false, nil
}

// Discard removes an upload that is not imported, also when the caller has left. It reports
// false, and removes nothing, when an import of it has started.
func (d *Service) Discard(ctx context.Context, up transfer.ArchiveUpload) (discarded bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()

	// First, so that no import starts whose archive is being deleted.
	discarded, err = d.DropUpload(ctx, up.SessionID)
	if err != nil || !discarded {
		return discarded, err
	}

	if err := d.cfg.Objects.DeletePrefix(ctx, uploadPrefix(up.SessionID)); err != nil {
		return true, err
	}

	return true, d.ForgetImport(ctx, up.SessionID)
}
