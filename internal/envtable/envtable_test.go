package envtable_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/internal/envtable"
)

type inner struct {
	Allow  []string      `env:"ALLOW"  help:"Hosts."`
	Shared bool          `env:"SHARED" help:"Switch." default:"true"`
	Wait   time.Duration `env:"WAIT"   help:"Time."   default:"1h"`

	seen []string
}

type outer struct {
	inner `embed:""`

	Addr   string `env:"ADDR"    default:"127.0.0.1:1" help:"Where."`
	APIKey string `env:"API_KEY"                       help:"Secret."`
	Limit  int    `env:"LIMIT"                         help:"Count."`
	Keys   int    `env:"KEYS"                          help:"No secret, but its name looks as one."`
	Other  string `                                    help:"A flag without a variable."`
}

func TestEveryVariableIsListed(t *testing.T) {
	t.Parallel()

	flags := outer{
		Addr:   "127.0.0.1:2",
		APIKey: "hunter2",
		Keys:   3,
		inner:  inner{Allow: []string{"a", "b"}, Wait: 2 * time.Hour, seen: []string{"x"}},
	}
	require.Equal(t, []envtable.Row{
		{Variable: "ALLOW", Value: "a,b", Help: "Hosts."},
		{Variable: "SHARED", Value: "false", Default: "true", Help: "Switch."},
		{Variable: "WAIT", Value: "2h", Default: "1h", Help: "Time."},
		{Variable: "ADDR", Value: "127.0.0.1:2", Default: "127.0.0.1:1", Help: "Where."},
		{Variable: "API_KEY", Value: "***", Help: "Secret."},
		{Variable: "LIMIT", Value: "0", Default: "0", Help: "Count."},
		{Variable: "KEYS", Value: "3", Default: "0", Help: "No secret, but its name looks as one."},
	}, envtable.Of(flags))
}

func TestMasked(t *testing.T) {
	t.Parallel()

	for value, masked := range map[string]string{
		"": "", "plain": "plain", "http://127.0.0.1:8010/path": "http://127.0.0.1:8010/path",
		"postgres://ann:s3cret@db:5432/everloop?sslmode=disable": "postgres://ann:***@db:5432/everloop?sslmode=disable",
		"postgres://ann:p@ss@db/everloop":                        "postgres://ann:***@db/everloop",
		"nats://s3cret@queue:4222":                               "nats://***@queue:4222",
		"nats://a:s3cret@one:4222,nats://b:s3cret@two:4222":      "nats://a:***@one:4222,nats://b:***@two:4222",
		"https://maps.example/tiles?layer=1&key=s3cret":          "https://maps.example/tiles?layer=1&key=***",
		"https://maps.example/?access_token=s3cret#x":            "https://maps.example/?access_token=***#x",
		"https://maps.example/?%6Bey=s3cret":                     "https://maps.example/?%6Bey=***",
		"host=db user=ann password=s3cret":                       "***",
		"postgres://db/everloop?user=ann&password=s3cret":        "postgres://db/everloop?user=ann&password=***",
	} {
		require.Equal(t, masked, envtable.Masked("ADDRESS", value))
	}

	require.Equal(t, "***", envtable.Masked("S3_SECRET_KEY", "anything"))
	require.Empty(t, envtable.Masked("S3_SECRET_KEY", ""))
	require.Equal(t, "/etc/keys", envtable.Masked("KEY_DIR", "/etc/keys"))
	require.Equal(t, "/seed.nk", envtable.Masked("NATS_NKEY_FILE", "/seed.nk"))
}
