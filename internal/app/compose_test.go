package app

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// composeFile is what these tests read of a Compose file.
type composeFile struct {
	Services map[string]composeService `yaml:"services"`
	Volumes  map[string]any            `yaml:"volumes"`
}

type composeService struct {
	Image       string             `yaml:"image"`
	Command     []string           `yaml:"command"`
	User        string             `yaml:"user"`
	ReadOnly    bool               `yaml:"read_only"`
	CapDrop     []string           `yaml:"cap_drop"`
	SecurityOpt []string           `yaml:"security_opt"`
	Networks    []string           `yaml:"networks"`
	Profiles    []string           `yaml:"profiles"`
	Environment map[string]*string `yaml:"environment"`
	Ports       []string           `yaml:"ports"`
	Volumes     []string           `yaml:"volumes"`
	DependsOn   map[string]struct {
		Condition string `yaml:"condition"`
	} `yaml:"depends_on"`
	Healthcheck struct {
		Disable bool     `yaml:"disable"`
		Test    []string `yaml:"test"`
	} `yaml:"healthcheck"`
}

func readCompose(t *testing.T, name string) (composeFile, string) {
	t.Helper()

	text, err := os.ReadFile(filepath.Join("..", "..", name))
	require.NoError(t, err)

	var file composeFile

	plain := regexp.MustCompile(`!(reset|override) `).ReplaceAll(text, nil) // tags of Compose
	require.NoError(t, yaml.Unmarshal(plain, &file))

	return file, string(text)
}

// engineServices are the services that external.yml leaves out.
var engineServices = []string{"postgres", "database-roles", "temporal", "nats", "s3"}

// The Compose file has every component of the code's list, at its port, which leads to the
// one at which the image's program listens, with its health check, each after the one before.
func TestCompose_components(t *testing.T) {
	t.Parallel()

	file, _ := readCompose(t, "docker-compose.yml")

	check := Check{
		IdentityAddr: "127.0.0.1:19000", RegistryAddr: "127.0.0.1:8010", AgentAddr: "127.0.0.1:8020", DesktopAddr: "127.0.0.1:80",
		GatewayAddr: "127.0.0.1:30000", GitAddr: "127.0.0.1:30030", MockAddr: "127.0.0.1:30023",
	}
	image, err := os.ReadFile(filepath.Join("..", "..", "build", "Dockerfile"))
	require.NoError(t, err)

	port := regexp.MustCompile(`^\$\{\w+:-(127\.0\.0\.1:\d+)\}:(\d+)$`)
	before := ""

	for _, component := range check.components() {
		service, found := file.Services[component.Container]
		require.True(t, found, component.Container)
		require.Len(t, service.Ports, 1, component.Container)

		published := port.FindStringSubmatch(service.Ports[0])
		require.NotNil(t, published, "%s publishes %s", component.Container, service.Ports[0])
		require.Equal(t, component.URL, "http://"+published[1], component.Container)
		require.Contains(t, string(image), " "+component.Variable+"=0.0.0.0:"+published[2]+" ", component.Container)
		require.NotContains(t, service.Environment, component.Variable, component.Container)

		if path := component.Path; component.Key != "agent" {
			url := service.Environment["HEALTHCHECK_URL"]
			require.NotNil(t, url, component.Container)
			require.Equal(t, "http://127.0.0.1:"+published[2]+path, *url, component.Container)
		}

		if before != "" {
			require.Equal(t, "service_healthy", service.DependsOn[before].Condition, "%s starts after %s", component.Container, before)
		}

		before = component.Container
	}

	for _, needed := range []string{"identity", "registry", "temporal", "nats", "s3"} {
		for _, role := range []string{"api", "worker"} {
			require.Equal(t, "service_healthy", file.Services[role].DependsOn[needed].Condition, "%s needs %s", role, needed)
		}
	}
}

func TestCompose_services(t *testing.T) {
	t.Parallel()

	file, text := readCompose(t, "docker-compose.yml")

	for name, service := range file.Services {
		for needed, how := range service.DependsOn {
			other, found := file.Services[needed]
			require.True(t, found, "%s depends on %s", name, needed)

			if how.Condition == "service_healthy" {
				require.NotEmpty(t, other.Healthcheck.Test, "%s waits for the health of %s", name, needed)
			}
		}

		for _, port := range service.Ports {
			require.Contains(t, port, ":-127.0.0.1:", "%s is reachable from this machine only", name)
		}

		require.True(t, service.ReadOnly, name)
		require.Equal(t, []string{"ALL"}, service.CapDrop, name)
		require.Contains(t, service.SecurityOpt, "no-new-privileges:true", name)

		if strings.Contains(service.Image, "EVERLOOP_IMAGE") && service.User != "" {
			require.Contains(t, []string{"api", "worker", "backup"}, name, "all other roles run as the user of the image")
		}
	}

	// No secret has a default, and none is shown where it is used.
	for _, name := range []string{
		"POSTGRES_PASSWORD", "POSTGRES_APP_PASSWORD", "POSTGRES_IDENTITY_PASSWORD", "POSTGRES_REGISTRY_PASSWORD",
		"POSTGRES_TEMPORAL_PASSWORD",
		"POSTGRES_BACKUP_PASSWORD", "TEMPORAL_KEY", "NATS_PASSWORD", "S3_ACCESS_KEY", "S3_SECRET_KEY", "GATEWAY_KEY",
	} {
		uses := regexp.MustCompile(`\$\{`+name+`[^}]*\}`).FindAllString(text, -1)
		require.NotEmpty(t, uses, name)

		for _, use := range uses {
			require.Equal(t, "${"+name+":?run build/secrets.sh}", use)
		}
	}

	for _, name := range []string{"ENCRYPTION_KEY", "BOOTSTRAP_API_KEY", "REGISTRY_KEY", "IDENTITY_ADMIN_PASSWORD"} {
		for _, use := range regexp.MustCompile(`\$\{`+name+`[^}]*\}`).FindAllString(text, -1) {
			require.Equal(t, "${"+name+":-}", use)
		}
	}
}

// A service connects to PostgreSQL by its own role, and only database-roles as the superuser.
func TestCompose_separatesRoles(t *testing.T) {
	t.Parallel()

	file, text := readCompose(t, "docker-compose.yml")

	for name, role := range map[string]string{
		"api": "app", "worker": "app", "migrate": "app", "identity": "identity", "registry": "registry", "temporal": "temporal",
		"backup": "backup",
	} {
		environment := file.Services[name].Environment
		require.Contains(t, *environment["DATABASE_URL"], "postgres://everloop_"+role+"@", name)
		require.Contains(t, *environment["PGPASSWORD"], "POSTGRES_"+strings.ToUpper(role)+"_PASSWORD", name)
	}

	require.Len(t, regexp.MustCompile(`\$\{POSTGRES_PASSWORD:`).FindAllString(text, -1), 2, "of postgres and database-roles alone")

	for name, service := range file.Services {
		for _, volume := range service.Volumes {
			if strings.HasPrefix(volume, "keys:") {
				require.Contains(t, []string{"api", "worker", "identity", "backup"}, name, "the volume holds the encryption key")
			}
		}

		require.NotEmpty(t, service.Networks, name)
		require.Equal(t, slices.Contains([]string{
			"postgres", "database-roles", "temporal", "nats", "s3", "migrate", "api", "worker", "identity", "registry", "backup",
		}, name), slices.Contains(service.Networks, "data"), "%s in the network of the engines", name)
	}

	require.Contains(t, text, "  data: {internal: true}\n")

	for _, name := range []string{"api", "worker"} {
		require.Equal(t, "false", *file.Services[name].Environment["TEMPORAL_TLS"], "a client with a key uses TLS otherwise")
	}
}

// A tag that moves would change an engine without a change of this repository.
func TestCompose_imagesAreExact(t *testing.T) {
	t.Parallel()

	for _, name := range []string{"docker-compose.yml", "build/compose/https.yml"} {
		_, text := readCompose(t, name)

		for _, image := range regexp.MustCompile(`_IMAGE:-([^}]*)\}`).FindAllStringSubmatch(text, -1) {
			if image[1] != "everloop:latest" { // built here
				require.Regexp(t, `:v?\d+\.\d+(\.\d+)?(-\w+)*$`, image[1])
			}
		}
	}
}

// Each volume is kept by a backup, or is known to hold nothing that must be.
func TestCompose_backupHasEveryVolume(t *testing.T) {
	t.Parallel()

	file, _ := readCompose(t, "docker-compose.yml")
	inArchive := strings.Join(file.Services["backup"].Volumes, "\n")

	// The first two are read through their servers, the others are made again.
	elsewhere := []string{"postgres", "objects", "nats", "identity"}
	for name := range file.Volumes {
		if !slices.Contains(elsewhere, name) {
			require.Regexp(t, `(?m)(^|})`+name+`:/data`, inArchive)
		}
	}
}

// Without the engines of the file, nothing waits for them.
func TestCompose_external(t *testing.T) {
	t.Parallel()

	file, _ := readCompose(t, "docker-compose.yml")
	over, text := readCompose(t, "build/compose/external.yml")

	for _, engine := range engineServices {
		require.Contains(t, text, "  "+engine+": !reset null\n")
	}

	for name, service := range file.Services {
		if slices.Contains(engineServices, name) {
			continue
		}

		for _, engine := range engineServices {
			if _, waits := service.DependsOn[engine]; waits {
				laid, found := over.Services[name]
				require.True(t, found, "external.yml has to change what %s waits for", name)
				require.NotContains(t, laid.DependsOn, engine, name)
			}
		}
	}

	require.Equal(t, len(regexp.MustCompile(`depends_on: `).FindAllString(text, -1)),
		len(regexp.MustCompile(`depends_on: !(reset|override)`).FindAllString(text, -1)), "what is not reset is added")
}

// byDefault returns texts with the defaults of the variables in them.
func byDefault(texts []string) []string {
	variable := regexp.MustCompile(`\$\{\w+:-([^}]*)\}`)
	out := make([]string, len(texts))

	for i, text := range texts {
		out[i] = variable.ReplaceAllString(text, "$1")
	}

	return out
}

// With several processes of the API, none has a fixed port, and only the proxy is
// reachable from outside.
func TestCompose_https(t *testing.T) {
	t.Parallel()

	over, text := readCompose(t, "build/compose/https.yml")
	file, _ := readCompose(t, "docker-compose.yml")

	for name, service := range over.Services {
		if name == "proxy" {
			require.Equal(t, []string{"80:80", "443:443", "443:443/udp"}, byDefault(service.Ports))
			continue
		}

		require.Contains(t, file.Services, name)

		for _, port := range byDefault(service.Ports) {
			require.True(t, strings.HasPrefix(port, "127.0.0.1:"), port)
		}
	}

	require.Regexp(t, `(?s)  api:\n    ports: !reset null\n    deploy: \{replicas: 2\}`, text)

	caddy, err := os.ReadFile("../../build/compose/Caddyfile")
	require.NoError(t, err)

	sites := regexp.MustCompile(`(?m)^\S*\{\$SITE\} \{\n\t(.*)$`).FindAllStringSubmatch(string(caddy), -1)
	require.Len(t, sites, 4)

	for _, site := range sites {
		require.Equal(t, "import public", site[1], "HTTPS alone, without metrics")
	}

	require.Contains(t, string(caddy), "handle /metrics* {\n\t\trespond 404\n", "respond alone comes after other handles")
	require.Contains(t, string(caddy), "header Strict-Transport-Security")

	for _, upstream := range regexp.MustCompile(`(?m)(?:reverse_proxy|dynamic a) (\w+)[: ](\d+)`).FindAllStringSubmatch(string(caddy), -1) {
		service, found := file.Services[upstream[1]]
		require.True(t, found, upstream[1])
		require.True(t, strings.HasSuffix(service.Ports[0], ":"+upstream[2]), "%s listens at %s", upstream[1], service.Ports[0])
	}
}
