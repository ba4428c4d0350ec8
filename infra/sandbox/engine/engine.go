// Package engine runs confined containers through the API of Docker's engine. It
// defines what every container of a sandbox is refused; it must not depend on what runs
// in one, or for which user.
package engine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
)

// Engine is the interface of a container engine on this machine.
type Engine struct{ client *client.Client }

// Image is an image for containers.
type Image struct {
	ID   string // of its content
	Path string // the variable PATH that it declares; "" when it declares none
}

// Mount shows a file or directory of the host.
type Mount struct {
	Source, Target string
	Writable       bool
}

// Container is a container to run. In addition to its image and mounts it has small memory file
// systems, and a network with only a loopback interface.
type Container struct {
	Image   string // Image.ID
	Program string // process 1, started without arguments
	User    string // "uid:gid" on the host
	Labels  map[string]string
	Mounts  []Mount
	Tmpfs   map[string]string // options by directory
	Masked  []string          // files that read as empty, and directories
	Sysctls map[string]string

	Memory    int64 // bytes, temporary files included
	Processes int64 // and threads
	Shm       int64 // bytes of /dev/shm
	CPU       float64
	CPUShares int64
}

// Open connects to the engine at a socket of this machine.
func Open(socket string) (*Engine, error) {
	if !filepath.IsAbs(socket) {
		return nil, fmt.Errorf("engine: %q is not the absolute path of a socket", socket)
	}

	c, err := client.New(client.WithHost("unix://" + socket))
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}

	return &Engine{c}, nil
}

// Close ends the connections.
func (e *Engine) Close() { _ = e.client.Close() }

// Version is the version of the engine.
func (e *Engine) Version(ctx context.Context) (string, error) {
	v, err := e.client.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return "", fmt.Errorf("engine: %w", err)
	}

	return v.Version, nil
}

// Image finds an image that the engine has. One that declares volumes is refused:
// each would be writable storage outside the limits of the sandbox.
func (e *Engine) Image(ctx context.Context, name string) (Image, error) {
	found, err := e.client.ImageInspect(ctx, name)
	if errdefs.IsNotFound(err) {
		return Image{}, fmt.Errorf("engine: there is no image %q here: pull or build it", name)
	}

	if err != nil {
		return Image{}, fmt.Errorf("engine: %w", err)
	}

	image := Image{ID: found.ID}
	if found.Config == nil {
		return image, nil
	}

	if len(found.Config.Volumes) > 0 {
		return image, fmt.Errorf("engine: the image %q declares volumes, which no limit would hold: use one that declares none", name)
	}

	for _, variable := range found.Config.Env {
		if path, ok := strings.CutPrefix(variable, "PATH="); ok {
			image.Path = path
		}
	}

	return image, nil
}

// Run creates and starts a container and returns its id. The engine removes it when its
// process 1 has ended.
func (e *Engine) Run(ctx context.Context, c Container) (id string, err error) {
	made, err := e.client.ContainerCreate(ctx, client.ContainerCreateOptions{
		Config: &container.Config{
			Hostname: "sandbox", User: c.User, Entrypoint: []string{c.Program}, Image: c.Image, Labels: c.Labels, WorkingDir: "/",
			Env: []string{"GOMAXPROCS=1", "GOTRACEBACK=none"}, Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
		},
		HostConfig: c.host(),
	})
	if err != nil {
		return "", fmt.Errorf("engine: make a container: %w", err)
	}

	if _, err := e.client.ContainerStart(ctx, made.ID, client.ContainerStartOptions{}); err != nil {
		return "", fmt.Errorf("engine: start a container: %w", errors.Join(err, e.Remove(context.WithoutCancel(ctx), made.ID)))
	}

	return made.ID, nil
}

// host returns how the engine confines a container.
func (c Container) host() *container.HostConfig {
	never := false
	host := &container.HostConfig{
		AutoRemove: true, Init: &never, NetworkMode: "none", IpcMode: "private", CgroupnsMode: "private", UsernsMode: "host",
		LogConfig: container.LogConfig{Type: "none"}, ReadonlyRootfs: true, CapDrop: []string{"ALL"},
		SecurityOpt: []string{"no-new-privileges"}, OomScoreAdj: 500, ShmSize: c.Shm, Tmpfs: c.Tmpfs,
		Sysctls: c.Sysctls, MaskedPaths: c.Masked,
		ReadonlyPaths: []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
		Resources: container.Resources{
			Memory: c.Memory, MemorySwap: c.Memory, PidsLimit: &c.Processes, NanoCPUs: int64(c.CPU * 1e9), CPUShares: c.CPUShares,
		},
	}

	for _, m := range c.Mounts {
		host.Mounts = append(host.Mounts, mount.Mount{
			Type: mount.TypeBind, Source: m.Source, Target: m.Target, ReadOnly: !m.Writable,
			BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate, NonRecursive: true},
		})
	}

	return host
}

// Running reports whether a container is there and runs.
func (e *Engine) Running(ctx context.Context, id string) (bool, error) {
	found, err := e.client.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if errdefs.IsNotFound(err) {
		return false, nil
	}

	if err != nil {
		return false, fmt.Errorf("engine: %w", err)
	}

	return found.Container.State != nil && found.Container.State.Running, nil
}

// Labels returns the labels of the containers that have a label, running or not, by id.
func (e *Engine) Labels(ctx context.Context, name, value string) (map[string]map[string]string, error) {
	found, err := e.client.ContainerList(ctx, client.ContainerListOptions{
		All: true, Filters: client.Filters{}.Add("label", name+"="+value),
	})
	if err != nil {
		return nil, fmt.Errorf("engine: list containers: %w", err)
	}

	labels := map[string]map[string]string{}
	for _, c := range found.Items {
		labels[c.ID] = c.Labels
	}

	return labels, nil
}

// Remove ends a container, if it is there, and removes it.
func (e *Engine) Remove(ctx context.Context, id string) error {
	_, err := e.client.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if err == nil || errdefs.IsNotFound(err) || errdefs.IsConflict(err) { // a conflict: it is being removed
		return nil
	}

	return fmt.Errorf("engine: remove a container: %w", err)
}
