package app

import (
	"fmt"
	"log/slog"

	"everloop/infra/tracing"
	"everloop/internal/release"
)

// tracingSettings say where traces go. OpenTelemetry's other variables, as
// OTEL_EXPORTER_OTLP_HEADERS, are read by its library.
type tracingSettings struct {
	OTLPEndpoint string `name:"otel-exporter-otlp-endpoint" env:"OTEL_EXPORTER_OTLP_ENDPOINT" help:"Address of an OpenTelemetry collector for traces, such as http://127.0.0.1:4318; no traces when unset."`
	OTLPProtocol string `name:"otel-exporter-otlp-protocol" default:"http/protobuf" enum:"http/protobuf,grpc" env:"OTEL_EXPORTER_OTLP_PROTOCOL" help:"Protocol of the collector: ${enum}."`
}

func (s tracingSettings) check() error {
	if err := tracing.Check(s.OTLPEndpoint); err != nil {
		return fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT %w", err)
	}

	return nil
}

func (s tracingSettings) tracing(logger *slog.Logger) tracing.Config {
	return tracing.Config{Endpoint: s.OTLPEndpoint, Protocol: s.OTLPProtocol, Version: release.Version, Logger: logger}
}
