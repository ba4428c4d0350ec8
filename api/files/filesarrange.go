package files

import (
	"context"
	"slices"
	"strings"

	"everloop/api/access"
	"everloop/api/fields"
	"everloop/api/httpx"
	"everloop/domain"
)

type pathBody struct {
	Path string `json:"path" doc:"Relative to the workspace." example:"notes/tomorrow.md"`
}

func (a *WorkspaceAPI) renameFile(ctx context.Context, in *struct {
	FileRef
	Body struct {
		NewName string `json:"new_name" minLength:"1" maxLength:"255" doc:"A bare name, without slashes." example:"later.md"`
	}
},
) (*httpx.Body[pathBody], error) {
	session, err := a.Own(ctx, in.SessionID)
	if err == nil {
		err = bareName("body.new_name", in.Body.NewName)
	}

	if err != nil {
		return nil, err
	}

	to, changes, err := a.Workspaces.Rename(ctx, session, in.FilePath, in.Body.NewName)
	if err == nil {
		a.EmitFileChange(ctx, session.ID, changes...)
	}

	return httpx.Answer(pathBody{to}, httpx.At("path.file_path", err))
}

func (a *WorkspaceAPI) copyFile(ctx context.Context, in *struct {
	FileRef
	Body *struct {
		TargetPath *string `json:"target_path,omitempty" nullable:"true" maxLength:"4096" doc:"Where the copy goes; its directories are made. Left out: \"name copy.ext\" beside the original." example:"notes/tomorrow.md"`
		Overwrite  *bool   `json:"overwrite,omitempty" nullable:"true" doc:"Replace what has the name: a file by a file, a directory by a directory."`
	}
},
) (*httpx.Body[pathBody], error) {
	ctx, cancel := context.WithTimeout(ctx, httpx.TransferTime)
	defer cancel()

	session, err := a.Own(ctx, in.SessionID)
	if err != nil {
		return nil, err
	}

	target, overwrite := "", false
	if in.Body != nil {
		target, overwrite = fields.Value(in.Body.TargetPath), fields.Value(in.Body.Overwrite)
	}

	change, err := a.Workspaces.Copy(ctx, session, in.FilePath, target, overwrite)
	if err == nil {
		a.EmitFileChange(ctx, session.ID, change)
	}

	return httpx.Answer(pathBody{change.Path}, httpx.At("path.file_path", err))
}

func (a *WorkspaceAPI) shareFile(ctx context.Context, in *struct {
	access.SessionRef
	Body struct {
		SourcePath  string  `json:"source_path" minLength:"1" maxLength:"4096" doc:"What the link leads to." example:"notes/today.md"`
		LinkName    *string `json:"link_name,omitempty" nullable:"true" maxLength:"255" doc:"A bare name; empty: the name of the source."`
		ShareFolder *string `json:"share_folder,omitempty" nullable:"true" maxLength:"4096" doc:"Directory below .share; empty: .share itself." example:"team"`
	}
},
) (*httpx.Body[domain.FileLink], error) {
	session, err := a.Own(ctx, in.SessionID)

	name := fields.Value(in.Body.LinkName)
	if err == nil && name != "" {
		err = bareName("body.link_name", name)
	}

	if err != nil {
		return nil, err
	}

	link, change, err := a.Workspaces.Share(ctx, session, in.Body.SourcePath, name, fields.Value(in.Body.ShareFolder))
	if err == nil {
		a.EmitFileChange(ctx, session.ID, change)
	}

	return httpx.Answer(link, httpx.At("body.source_path", err))
}

// bareName refuses a name that is a path.
func bareName(field, name string) error {
	switch {
	case strings.HasPrefix(name, "/") || slices.Contains(strings.Split(name, "/"), ".."):
		return domain.Newf(domain.Malformed, domain.CodePathOutside, "%s: must be a bare name, not a path", field)
	case strings.ContainsRune(name, 0):
		return domain.Newf(domain.Malformed, "invalid_path", "%s: holds a zero byte", field)
	case name == "." || strings.Contains(name, "/"):
		return domain.Invalidf(field, "must be a bare name, not a path")
	}

	return nil
}
