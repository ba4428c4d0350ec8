// Package external configures the clients of external engines. It builds their options (TLS,
// client certificates and credentials) and reads the files that settings name, so that every
// invalid setting is reported before a connection; PostgreSQL's URL contains all of this itself.
// It also probes the engines for `everloop doctor`: a probe changes nothing and prints no secret.
package external

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	sdklog "go.temporal.io/sdk/log"

	"everloop/domain"
)

// Temporal returns the options of a client, from the TEMPORAL_… variables of Temporal's own
// tools. A configuration file is read only when TEMPORAL_CONFIG_FILE or TEMPORAL_PROFILE is set.
// The caller sets the address and the namespace.
func Temporal(env envconfig.EnvLookup) (client.Options, error) {
	set := nonEmpty{env}

	var faults []error

	for _, variable := range []string{"TEMPORAL_TLS", "TEMPORAL_TLS_DISABLE_HOST_VERIFICATION"} {
		if value, found := set.LookupEnv(variable); found && !slices.Contains([]string{"true", "false", "1", "0"}, strings.ToLower(value)) {
			faults = append(faults, fmt.Errorf("%s must be true or false", variable))
		}
	}

	_, file := set.LookupEnv("TEMPORAL_CONFIG_FILE")
	_, profile := set.LookupEnv("TEMPORAL_PROFILE")

	options, err := envconfig.LoadClientOptions(envconfig.LoadClientOptionsRequest{DisableFile: !file && !profile, EnvLookup: set})
	if err != nil {
		faults = append(faults, fmt.Errorf("TEMPORAL_TLS_… and the other settings of Temporal's client: %w", err))
	}

	options.HostPort, options.Namespace = "", ""

	return options, errors.Join(faults...)
}

// nonEmpty hides variables with empty values, which container managers set: the library would
// enable TLS for an empty certificate path.
type nonEmpty struct{ env envconfig.EnvLookup }

// LookupEnv implements envconfig.EnvLookup.
func (n nonEmpty) LookupEnv(variable string) (string, bool) {
	value, found := n.env.LookupEnv(variable)
	return value, found && value != ""
}

// Environ implements envconfig.EnvLookup.
func (n nonEmpty) Environ() []string {
	return slices.DeleteFunc(n.env.Environ(), func(entry string) bool { return strings.HasSuffix(entry, "=") })
}

// readFile adds the name of the setting to read errors.
func readFile(variable, path string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", variable, err)
	}

	return content, nil
}

// ProbeTemporal connects to the server and requests the namespace of the options. On success,
// further runs additional checks with the same connection.
func ProbeTemporal(ctx context.Context, options client.Options, further func(context.Context, client.Client)) domain.CheckResult {
	ctx, cancel := context.WithTimeout(ctx, 2*probeTime)
	defer cancel()

	options.Logger = sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))

	c, err := client.DialContext(ctx, options)
	if err != nil {
		return failed(options.HostPort+" cannot be reached ("+Cause(err)+")",
			"start the server, or correct TEMPORAL_ADDRESS, TEMPORAL_API_KEY and TEMPORAL_TLS_…")
	}
	defer c.Close()

	_, err = c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: options.Namespace})

	detail := fmt.Sprintf("%s, namespace %s", options.HostPort, options.Namespace)
	if _, missing := errors.AsType[*serviceerror.NamespaceNotFound](err); missing {
		return failed(detail+" does not exist", "temporal operator namespace create "+options.Namespace+", or set TEMPORAL_NAMESPACE")
	}

	if err != nil {
		return failed(detail+" cannot be used ("+Cause(err)+")", "see the server's log")
	}

	if further != nil {
		further(ctx, c)
	}

	return passed(detail)
}
