package engine

import (
	"context"
	"errors"
	"net/http"

	"everloop/infra/embedded"
	"everloop/infra/external"
	"everloop/infra/objects"
	"everloop/internal/app/flags"
	"everloop/terminal/doctor"
)

// ObjectsSettings say where the objects are.
type ObjectsSettings struct {
	S3Endpoint  string `name:"s3-endpoint" env:"S3_ENDPOINT" help:"host:port of an S3 server; embedded when unset."`
	S3Bucket    string `name:"s3-bucket" default:"everloop" env:"S3_BUCKET" help:"Bucket of the objects."`
	S3AccessKey string `name:"s3-access-key" env:"S3_ACCESS_KEY" help:"Access key of the S3 server."`
	S3SecretKey string `name:"s3-secret-key" env:"S3_SECRET_KEY" help:"Secret key of the S3 server."`
	S3UseTLS    bool   `name:"s3-use-tls" env:"S3_USE_TLS" help:"Speak HTTPS with the S3 server."`
	S3CA        string `name:"s3-ca-file" env:"S3_CA_FILE" help:"CA of the S3 server's certificate, as PEM; needs S3_USE_TLS."`

	transport http.RoundTripper // made of S3CA
}

// objectsClients are this process's clients of the objects.
type objectsClients struct {
	Objects *objects.Store
}

// Engine returns the object store with these settings.
func (s *ObjectsSettings) Engine() Engine {
	return Engine{
		Name: "objects", Label: "object store", Title: "Objects (S3)", Variable: "S3_ENDPOINT",
		Hint:    "Check that the S3 server runs and that S3_ENDPOINT, S3_BUCKET and the keys are right.",
		Address: func() string { return s.S3Endpoint },
		options: func(flags.Keys, string) error { return s.Check() },
		Embed:   func(Embedding) []embedded.Engine { return []embedded.Engine{embedded.ObjectsConfig{}} },
		Adopt: func(engines *embedded.Engines) {
			if server := embedded.Of[*embedded.Objects](engines); server != nil {
				s.S3Endpoint, s.S3Bucket = server.Endpoint(), embedded.Bucket
				s.S3AccessKey, s.S3SecretKey = server.AccessKey(), server.SecretKey()
			}
		},
		reach: func(engines *embedded.Engines, _ Embedding) map[string]string {
			server := embedded.Of[*embedded.Objects](engines)
			if server == nil {
				return nil
			}

			return map[string]string{
				"s3_endpoint": server.Endpoint(), "s3_bucket": embedded.Bucket,
				"s3_access_key": server.AccessKey(), "s3_secret_key": server.SecretKey(),
			}
		},
		open: func(ctx context.Context, c *Clients, p Process) (err error) {
			c.Objects, err = objects.Open(ctx, objects.Config{
				Endpoint: s.S3Endpoint, Bucket: s.S3Bucket, AccessKey: s.S3AccessKey, SecretKey: s.S3SecretKey, UseTLS: s.S3UseTLS,
				Transport: s.transport, Room: p.Room,
			})

			return err
		},
		check: func(ctx context.Context, c *Clients) (string, error) {
			return "the bucket can be reached", c.Objects.Ping(ctx)
		},
		needs: func(_ context.Context, dataDir string, _ Embedding) []doctor.Check {
			store := doctor.Check{Name: "object store", State: doctor.OK, Detail: "embedded"}
			return append([]doctor.Check{store}, doctor.ExtendedAttributes(dataDir)...)
		},
		probe: func(ctx context.Context) []doctor.Check {
			return []doctor.Check{doctor.CheckOf("object store", external.S3{
				Endpoint: s.S3Endpoint, Bucket: s.S3Bucket, AccessKey: s.S3AccessKey, SecretKey: s.S3SecretKey, UseTLS: s.S3UseTLS,
				Transport: s.transport,
			}.Probe(ctx))}
		},
	}
}

// Check finds the faults of the settings, and keeps the transport of clients of an
// external server.
func (s *ObjectsSettings) Check() (err error) {
	if s.S3Endpoint == "" {
		return nil
	}

	if s.S3AccessKey == "" || s.S3SecretKey == "" {
		err = errors.New("S3_ENDPOINT needs S3_ACCESS_KEY and S3_SECRET_KEY")
	}

	faults := []error{err, absolutePaths(map[string]*string{"S3_CA_FILE": &s.S3CA})}
	s.transport, err = external.Objects(s.S3UseTLS, s.S3CA)

	return errors.Join(append(faults, err)...)
}

// Transport is that of clients of an external server, which was checked; nil: the usual one.
func (s *ObjectsSettings) Transport() http.RoundTripper { return s.transport }
