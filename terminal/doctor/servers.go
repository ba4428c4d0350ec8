package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"everloop/domain"
	modelserver "everloop/infra/model"
)

func temporalServer(ctx context.Context, s Settings) []Check {
	const name = "Temporal"
	if s.TemporalAddress == "" {
		return one(name, OK, "embedded", "")
	}
	silent := sdklog.NewStructuredLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c, err := client.DialContext(ctx, client.Options{HostPort: s.TemporalAddress, Namespace: s.TemporalNamespace, Logger: silent})
	if err != nil {
		return one(name, Fail, s.TemporalAddress+" cannot be reached ("+cause(err)+")", "start the server, or correct TEMPORAL_ADDRESS")
	}
	defer c.Close()
	_, err = c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: s.TemporalNamespace})
	detail := fmt.Sprintf("%s, namespace %s", s.TemporalAddress, s.TemporalNamespace)
	if _, missing := errors.AsType[*serviceerror.NamespaceNotFound](err); missing {
		return one(name, Fail, detail+" does not exist", "temporal operator namespace create "+s.TemporalNamespace+", or set TEMPORAL_NAMESPACE")
	}
	if err != nil {
		return one(name, Fail, detail+" cannot be used ("+cause(err)+")", "see the server's log")
	}
	return one(name, OK, detail, "")
}

func natsServer(_ context.Context, s Settings) []Check {
	const name = "NATS"
	if s.NATSURL == "" {
		return one(name, OK, "embedded", "")
	}
	connection, err := nats.Connect(s.NATSURL, nats.Timeout(5*time.Second), nats.NoReconnect())
	if err != nil {
		return one(name, Fail, "the server of NATS_URL cannot be reached ("+cause(err)+")", "start it, or correct NATS_URL")
	}
	defer connection.Close()
	place := connection.ConnectedAddr()
	stream, err := jetstream.New(connection)
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, err = stream.AccountInfo(ctx)
	}
	if err != nil {
		return one(name, Fail, place+" has no JetStream ("+cause(err)+")", "start nats-server with -js")
	}
	return one(name, OK, place+", JetStream works", "")
}

func objectStore(ctx context.Context, s Settings) []Check {
	const name = "object store"
	if s.S3.Endpoint == "" {
		return one(name, OK, "embedded", "")
	}
	c, err := minio.New(s.S3.Endpoint, &minio.Options{
		Creds: credentials.NewStaticV4(s.S3.AccessKey, s.S3.SecretKey, ""), Secure: s.S3.TLS, MaxRetries: 1,
	})
	if err != nil {
		return one(name, Fail, "S3_ENDPOINT cannot be used", "it is host:port, without http://")
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	found, err := c.BucketExists(ctx, s.S3.Bucket)
	place := fmt.Sprintf("%s, bucket %s", s.S3.Endpoint, s.S3.Bucket)
	switch {
	case err != nil && minio.ToErrorResponse(err).Code != "":
		return one(name, Fail, place+" refuses ("+minio.ToErrorResponse(err).Code+")", "correct S3_ACCESS_KEY, S3_SECRET_KEY or S3_BUCKET")
	case err != nil:
		return one(name, Fail, place+" cannot be reached ("+cause(err)+")", "start the server, or correct S3_ENDPOINT and S3_USE_TLS")
	case !found:
		return one(name, OK, place+" (will be made)", "")
	}
	return one(name, OK, place, "")
}

// model asks the model server for its models.
func model(ctx context.Context, s Settings) []Check {
	const name = "model"
	if s.ModelURL == "" {
		return one(name, Warn, "demo model, scripted by the mock service", "set LLM_GATEWAY_URL for a real one")
	}
	place := s.ModelURL
	if u, err := url.Parse(place); err == nil {
		place = u.Redacted()
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	server := modelserver.New(modelserver.Config{BaseURL: s.ModelURL, Key: s.ModelKey, DefaultModel: s.Model})
	models, err := server.Models(ctx)
	if err != nil {
		why := cause(err)
		if e, ok := errors.AsType[*domain.Error](err); ok {
			why = e.Message
		}
		return one(name, Fail, place+": "+why, "start the model server, or correct LLM_GATEWAY_URL and LLM_GATEWAY_KEY")
	}
	var names []string
	for _, m := range models {
		names = append(names, m.ID)
	}
	if len(names) == 0 {
		return one(name, Fail, place+" has no model", "load one")
	}
	if s.Model != "" {
		if _, err := server.Resolve(ctx, s.Model); err != nil {
			return one(name, Fail, fmt.Sprintf("%s does not know %s", place, s.Model), "set LLM_MODEL to one of "+some(names))
		}
	}
	return one(name, OK, place+": "+some(names), "")
}

// some names the first few.
func some(names []string) string {
	const shown = 5
	if len(names) > shown {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
	}
	return strings.Join(names, ", ")
}
