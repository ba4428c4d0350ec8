//go:build linux

// Package toolbox gives the agent's tools and the REST interface what they ask
// for on this machine: a session's files and the sandbox for its commands. It
// translates between ports and engines and decides nothing.
package toolbox

import (
	"context"
	"io"

	"everloop/activities/tools"
	"everloop/domain"
	"everloop/infra/workspace"
	"everloop/internal/diskspace"
)

// Files opens sessions' workspaces for the tools.
type Files struct {
	Store *workspace.Store
	// OneUser reports that sessions have no users of their own on this machine:
	// everything belongs to the service's.
	OneUser bool
}

func (f Files) owner(uid int) int {
	if f.OneUser {
		return 0
	}

	return uid
}

// Root gives the directory of a session's files, made on first use.
func (f Files) Root(ctx context.Context, sessionID domain.SessionID, uid int) (string, error) {
	w, err := f.Store.Open(ctx, sessionID, f.owner(uid))
	if err != nil {
		return "", err
	}
	defer w.Close()

	return w.HostPath(), nil
}

// Fits fails when the files of a session may not grow by so much.
func (f Files) Fits(ctx context.Context, sessionID domain.SessionID, uid int, grows diskspace.Usage) error {
	w, err := f.Store.Open(ctx, sessionID, f.owner(uid))
	if err != nil {
		return err
	}
	defer w.Close()

	return w.Fits(ctx, grows)
}

// AwaitWrites waits for writes of clients that were admitted before.
func (f Files) AwaitWrites(ctx context.Context, sessionID domain.SessionID, uid int) error {
	w, err := f.Store.Open(ctx, sessionID, f.owner(uid))
	if err != nil {
		return err
	}
	defer w.Close()

	return w.AwaitWrites(ctx)
}

// Open implements tools.Workspaces.
func (f Files) Open(ctx context.Context, s tools.SessionView) (tools.Files, error) {
	w, err := f.Store.Open(ctx, s.ID, f.owner(s.SandboxUID))
	if err != nil {
		return nil, err
	}

	return toolFiles{w}, nil
}

type toolFiles struct{ *workspace.Workspace }

func (f toolFiles) Read(path string) (io.ReadSeekCloser, tools.FileInfo, error) {
	file, info, err := f.Workspace.Open(path)
	if err != nil {
		return nil, tools.FileInfo{}, err
	}

	return file, toolInfo(info), nil
}

func (f toolFiles) Stat(path string) (tools.FileInfo, error) {
	info, err := f.Workspace.Stat(path)
	return toolInfo(info), err
}

func (f toolFiles) Write(ctx context.Context, path string, content io.Reader, ifMatch string) (tools.FileInfo, error) {
	options := workspace.WriteOptions{IfMatch: ifMatch, Parents: true}
	if ifMatch == tools.Absent {
		options.IfMatch, options.CreateOnly = "", true
	}

	info, err := f.WriteFile(ctx, path, content, options)

	return toolInfo(info), err
}

func (f toolFiles) Append(ctx context.Context, path string) (io.WriteCloser, error) {
	return f.Workspace.Append(ctx, path)
}

func (f toolFiles) Walk(ctx context.Context, dir string, visit func(tools.FileInfo) error) error {
	return f.Workspace.Walk(ctx, dir, func(info workspace.Info) error { return visit(toolInfo(info)) })
}

func toolInfo(i workspace.Info) tools.FileInfo {
	return tools.FileInfo{
		Path: i.Path, ETag: i.ETag(), Size: i.Size, ModTime: i.ModTime,
		IsDir: i.Type == workspace.Directory, Regular: i.Type == workspace.File,
	}
}
