package files

import (
	"context"
	"encoding/json"
	"io"
	"mime/multipart"

	"github.com/danielgtaylor/huma/v2"

	"everloop/api/httpx"
	"everloop/domain"
)

// Limits of one upload in addition to maxUpload, which is one file's.
const (
	maxUploadFiles = 10_000
	maxUploadPaths = 4 << 20 // bytes of the field paths
	maxFileEvents  = 100     // changes with an event each
)

// uploadInput reads its form while the files go to the disk.
type uploadInput struct {
	DirRef
	open func() (*multipart.Reader, error)
}

// Resolve implements huma.Resolver: it only remembers the request.
func (u *uploadInput) Resolve(ctx huma.Context) []error {
	u.open = func() (*multipart.Reader, error) { return httpx.OpenForm(httpx.FiberOf(ctx)) }
	return nil
}

var _ huma.Resolver = (*uploadInput)(nil)

// uploadBody is what became of each file.
type uploadBody struct {
	Uploaded []string       `json:"uploaded" doc:"Paths relative to the workspace." example:"[\"data/table.csv\"]"`
	Failed   []failedUpload `json:"failed" doc:"The entries that failed, with the reason."`
}

type failedUpload struct {
	Path    string `json:"path" doc:"As the request named it." example:"../x"`
	Code    string `json:"code" doc:"The error code." example:"path_outside_workspace"`
	Message string `json:"message" doc:"The message in plain text." example:"the path leaves the upload's directory"`
}

func (a *WorkspaceAPI) uploadFiles(ctx context.Context, in *uploadInput) (*httpx.Body[uploadBody], error) {
	ctx, cancel := context.WithTimeout(ctx, httpx.TransferTime)
	defer cancel()

	session, err := a.Own(ctx, in.SessionID)
	if err != nil {
		return nil, err
	}

	form, err := in.open()
	if err != nil {
		return nil, err
	}

	outcomes, err := a.Workspaces.Upload(ctx, session, in.DirPath, httpx.MaxUpload, func(add func(io.Reader) error) ([]string, error) {
		return receiveFiles(form, add)
	})
	if err != nil {
		return nil, httpx.At("path.dir_path", err)
	}

	out := uploadBody{Uploaded: []string{}, Failed: []failedUpload{}}

	var changes []domain.FileChange

	for _, o := range outcomes {
		if o.Err == nil {
			out.Uploaded = append(out.Uploaded, o.Path)
			changes = append(changes, o.Change)

			continue
		}

		e := domain.AsError(o.Err)
		if e.Kind == domain.Internal {
			a.Logger.Error("a file was not uploaded", "request_id", httpx.RequestOf(ctx).ID, "session_id", session.ID, "error", o.Err)
		}

		out.Failed = append(out.Failed, failedUpload{o.Path, e.Code, e.Message})
	}

	if len(changes) > maxFileEvents {
		changes = []domain.FileChange{{Path: in.DirPath, Change: "modified"}}
	}

	a.EmitFileChange(ctx, session.ID, changes...)

	return httpx.Answer(out, nil)
}

// receiveFiles reads a form to its end: the files go to add as they come, and
// the names are returned when all is there, wherever in the form paths stands.
func receiveFiles(form *multipart.Reader, add func(io.Reader) error) ([]string, error) {
	const maxParts = maxUploadFiles + 100

	var names, paths []string

	for n := 0; ; n++ {
		part, err := form.NextRawPart()
		if err == io.EOF { // itself: a form that was cut off gives one that wraps it
			break
		}

		if err != nil || n == maxParts {
			return nil, httpx.Malformed("the form could not be read")
		}

		switch part.FormName() {
		case "files":
			if len(names) == maxUploadFiles {
				return nil, domain.Invalidf("body.files", "has more than %d files", maxUploadFiles)
			}

			if err := add(part); err != nil {
				return nil, unreadable(err)
			}

			names = append(names, part.FileName())
		case "paths":
			if paths, err = readPaths(part); err != nil {
				return nil, err
			}
		default:
			if _, err := io.Copy(io.Discard, part); err != nil {
				return nil, unreadable(err)
			}
		}
	}

	switch {
	case len(names) == 0:
		return nil, domain.Invalidf("body.files", "is required")
	case paths == nil:
		return names, nil
	case len(paths) != len(names):
		return nil, domain.Invalidf("body.paths", "names %d files, but there are %d", len(paths), len(names))
	}

	return paths, nil
}

// unreadable keeps a fault that is ours, and says of any other that the client
// did not send what it announced.
func unreadable(err error) error {
	if domain.AsError(err).Kind != domain.Internal {
		return err
	}

	return httpx.Malformed("the form could not be read")
}

// readPaths reads the field paths; empty is none.
func readPaths(part io.Reader) ([]string, error) {
	raw, err := io.ReadAll(io.LimitReader(part, maxUploadPaths+1))
	switch {
	case err != nil:
		return nil, unreadable(err)
	case len(raw) > maxUploadPaths:
		return nil, domain.Newf(domain.TooLarge, "body_too_large", "the field paths is larger than %d bytes", maxUploadPaths)
	case len(raw) == 0:
		return nil, nil
	}

	paths := []string{}
	if json.Unmarshal(raw, &paths) != nil || paths == nil {
		return nil, domain.Invalidf("body.paths", "must be a JSON array of strings")
	}

	return paths, nil
}
