package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/versity/versitygw/auth"
	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
	"golang.org/x/sys/unix"
)

// Bucket is the bucket of the embedded object store.
const Bucket = "everloop"

// maxCopySize is the maximum size of a server-side copy (the S3 limit).
const maxCopySize = 5 << 30

// ObjectsConfig configures the S3 server.
type ObjectsConfig struct {
	// Listen is a loopback address; empty: a random port.
	Listen Listen
}

func (c ObjectsConfig) name() string  { return "objects" }
func (c ObjectsConfig) title() string { return "the object store" }

// after returns PostgreSQL: its programs, which run as another user, must not be started in the
// working directory of the object store.
func (c ObjectsConfig) after() []string { return []string{PostgresConfig{}.name()} }

func (c ObjectsConfig) listens() []Listen {
	if c.Listen.Addr == "" {
		return nil
	}

	return []Listen{c.Listen}
}

func (c ObjectsConfig) start(ctx context.Context, dir string, _ *Engines, logger *slog.Logger) (Running, error) {
	return StartObjects(ctx, filepath.Join(dir, "objects"), c, logger)
}

// Objects is an S3 server in this process that stores objects as files and flushes each object
// before the acknowledgement.
//
// A key must not be a directory of another key (a and a/b), and each part of it can have at most
// 255 bytes. A process can run only one server.
type Objects struct {
	endpoint string
	keys     objectKeys
	cancel   context.CancelFunc
	done     chan struct{}
	err      error // valid once done is closed
}

// objectKeys are the credentials, stored in DIR/credentials.json.
type objectKeys struct {
	AccessKey string `json:"access_key"`
	SecretKey string `json:"secret_key"`
}

// StartObjects serves dir and returns when the bucket is usable. It changes the working directory
// of the process.
func StartObjects(ctx context.Context, dir string, cfg ObjectsConfig, logger *slog.Logger) (*Objects, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}

	if cfg.Listen.Addr == "" {
		cfg.Listen = Listen{Addr: "127.0.0.1:0", Variable: "S3_ENDPOINT"}
	}

	ip, port, err := cfg.Listen.split()
	if err != nil {
		return nil, err
	}

	if !ip.IsLoopback() {
		return nil, fmt.Errorf(
			"%s: the embedded object store listens on this machine only, not on %s: run an S3 server and set S3_ENDPOINT",
			cfg.Listen.Variable,
			cfg.Listen.Addr,
		)
	}

	if port == 0 {
		if port, err = freePort(); err != nil {
			return nil, err
		}
	}

	store, err := openObjectFiles(dir, logger)
	if err != nil {
		return nil, err
	}

	keys, err := loadObjectKeys(filepath.Join(dir, "credentials.json"))
	if err != nil {
		return nil, err
	}

	o := &Objects{endpoint: joinHostPort(ip.String(), port), keys: keys, done: make(chan struct{})}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))

	o.cancel = cancel
	go func() {
		defer close(o.done)

		o.err = embedgw.RunVersityGW(run, store, &embedgw.Config{
			RootUserAccess:    keys.AccessKey,
			RootUserSecret:    keys.SecretKey,
			IAMService:        auth.NewIAMServiceSingle(auth.Account{Access: keys.AccessKey, Secret: keys.SecretKey, Role: auth.RoleAdmin}),
			Ports:             []string{o.endpoint},
			MaxConnections:    1024,
			MaxRequests:       512,
			MultipartMaxParts: 10000,
			HealthPath:        "/healthz",
			KeepAlive:         true,
			Quiet:             true,
		})
	}()

	if err := o.awaitReady(ctx); err != nil {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()

		return nil, errors.Join(err, o.Stop(stop))
	}

	return o, nil
}

// openObjectFiles opens the files below dir:
//
//	DIR/data      the buckets
//	DIR/sidecar   metadata, where the file system has no extended attributes
func openObjectFiles(dir string, logger *slog.Logger) (*durableFiles, error) {
	root, sidecar := filepath.Join(dir, "data"), filepath.Join(dir, "sidecar")
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.MkdirAll(root, 0o700)); err != nil {
		return nil, err
	}

	options := posix.PosixOpts{
		NewDirPerm:          0o700,
		NewFilePerm:         0o600,
		Concurrency:         64,
		CopyObjectThreshold: maxCopySize,
	}

	var metadata meta.MetadataStorer = meta.XattrMeta{}
	// Metadata stays in sidecar files if the store started with them.
	_, began := os.Stat(sidecar)
	if began == nil || !hasExtendedAttributes(root) {
		if err := os.MkdirAll(sidecar, 0o700); err != nil {
			return nil, err
		}

		files, err := meta.NewSideCar(sidecar)
		if err != nil {
			return nil, err
		}

		metadata, options.SideCarDir = files, sidecar

		if began != nil {
			logger.Warn(
				"no extended attributes on the file system: object metadata goes to files, small writes take twice as long",
				"dir",
				root,
			)
		}
	}

	backend, err := posix.New(root, metadata, options)
	if err != nil {
		return nil, err
	}

	return &durableFiles{Posix: backend, root: root, sidecar: options.SideCarDir}, nil
}

// hasExtendedAttributes tests extended attributes on a temporary file.
func hasExtendedAttributes(dir string) bool {
	scratch, err := os.CreateTemp(dir, ".xattr-*")
	if err != nil {
		return false
	}
	defer os.Remove(scratch.Name())
	defer scratch.Close()

	return unix.Fsetxattr(int(scratch.Fd()), "user.everloop", []byte("1"), 0) == nil
}

func loadObjectKeys(path string) (objectKeys, error) {
	var keys objectKeys

	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		keys = objectKeys{AccessKey: "everloop-" + randomSecret()[:12], SecretKey: randomSecret()}

		content, err = json.MarshalIndent(keys, "", "  ")
		if err != nil {
			return keys, err
		}

		return keys, writeFileAtomic(path, append(content, '\n'), 0o600)
	}

	if err != nil {
		return keys, err
	}

	if json.Unmarshal(content, &keys) != nil || keys.AccessKey == "" || keys.SecretKey == "" {
		return keys, fmt.Errorf("%s contains no credentials: remove it to have new ones made", path)
	}

	return keys, nil
}

// awaitReady returns when the bucket exists, and creates it at the first start.
func (o *Objects) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()

	err := poll(ctx, func() error {
		select {
		case <-o.done:
			cancel() // retries are futile
			return o.Err()
		default:
			return answers(ctx, "http://"+o.endpoint+"/healthz")
		}
	})
	if err != nil {
		return err
	}

	c, err := minio.New(o.endpoint, &minio.Options{Creds: credentials.NewStaticV4(o.keys.AccessKey, o.keys.SecretKey, "")})
	if err != nil {
		return err
	}

	exists, err := c.BucketExists(ctx, Bucket)
	if err == nil && !exists {
		err = c.MakeBucket(ctx, Bucket, minio.MakeBucketOptions{})
	}

	if err != nil {
		return fmt.Errorf("make bucket %s: %w", Bucket, err)
	}

	return nil
}

// Endpoint returns the host:port of the server, which uses plain HTTP.
func (o *Objects) Endpoint() string { return o.endpoint }

// AccessKey returns the access key of the only account.
func (o *Objects) AccessKey() string { return o.keys.AccessKey }

// SecretKey returns the secret of the only account.
func (o *Objects) SecretKey() string { return o.keys.SecretKey }

// Done is closed when the server has ended.
func (o *Objects) Done() <-chan struct{} { return o.done }

// Err returns how the server ended; valid once Done is closed, and never nil then.
func (o *Objects) Err() error {
	if o.err == nil {
		return errors.New("the S3 server ended")
	}

	return o.err
}

// Stop stops the server after the requests in flight.
func (o *Objects) Stop(ctx context.Context) error {
	o.cancel()

	select {
	case <-o.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// answers reports whether a GET of url returns a regular response.
func answers(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}

	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()

	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}

	return nil
}
