package helm

import (
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const chart = "everloop"

// least returns the values that an operator must give.
func least() map[string]any {
	return map[string]any{
		"secretName": "everloop",
		"engines":    map[string]any{"temporal": map[string]any{"address": "temporal:7233"}, "s3": map[string]any{"endpoint": "s3:443"}},
	}
}

func with(changes map[string]any) map[string]any {
	values := least()
	maps.Copy(values, changes)

	return values
}

// variants are sets of values that change what is rendered.
func variants() map[string]map[string]any {
	off := map[string]any{"enabled": false}

	return map[string]map[string]any{
		"least":         least(),
		"level 1":       with(map[string]any{"sandbox": map[string]any{"level": 1}}),
		"session users": with(map[string]any{"sandbox": map[string]any{"sessionUsers": true}}),
		"everything": with(map[string]any{
			"mock": map[string]any{
				"enabled": true,
			},
			"hosts":            []any{"everloop.example.org"},
			"extraEnv":         map[string]any{"LOG_LEVEL": "debug"},
			"trustedProxies":   []any{"10.0.0.0/8"},
			"identity":         map[string]any{"providersSecret": "providers"},
			"ingress":          map[string]any{"enabled": true, "host": "everloop.example.org", "tlsSecret": "tls", "className": "nginx"},
			"imagePullSecrets": []any{map[string]any{"name": "pull"}},
			"nodeSelector":     map[string]any{"a": "b"},
			"sharedFiles":      map[string]any{"storageClass": "shared"},
			"networkPolicy": map[string]any{
				"clients":     []any{peer("ingress")},
				"monitoring":  []any{peer("prometheus")},
				"models":      []any{peer("vllm")},
				"extraEgress": []any{map[string]any{"to": []any{peer("collector")}}},
				"postgres": map[string]any{
					"port":  6432,
					"peers": []any{peer("postgres")},
				},
				"nats":     map[string]any{"peers": []any{peer("nats")}},
				"temporal": map[string]any{"peers": []any{peer("temporal")}},
				"s3":       map[string]any{"peers": []any{peer("s3")}},
			},
		}),
		"agent alone": with(map[string]any{
			"identity": off, "registry": off, "gateway": off, "git": off, "desktop": off, "llmGatewayURL": "http://model:8000",
			"sharedFiles": map[string]any{"existingClaim": "files"},
		}),
	}
}

func render(t *testing.T, values map[string]any) ([]string, error) {
	t.Helper()

	loaded, err := loader.Load(chart)
	require.NoError(t, err)

	all, err := chartutil.ToRenderValues(
		loaded, values, chartutil.ReleaseOptions{Name: "demo", Namespace: "agents", IsInstall: true}, chartutil.DefaultCapabilities,
	)
	if err != nil {
		return nil, err
	}

	files, err := engine.Render(loaded, all)
	if err != nil {
		return nil, err
	}

	var documents []string

	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}

		for document := range strings.SplitSeq("\n"+files[name], "\n---\n") {
			if strings.TrimSpace(document) != "" {
				documents = append(documents, document)
			}
		}
	}

	return documents, nil
}

// objects are what a variant renders, decoded strictly: an unknown field is an error.
type objects struct {
	deployments []appsv1.Deployment
	services    []corev1.Service
	budgets     []policyv1.PodDisruptionBudget
	jobs        []batchv1.Job
	claims      []corev1.PersistentVolumeClaim
	ingresses   []networkingv1.Ingress
	policies    []networkingv1.NetworkPolicy
}

func decode[T any](t *testing.T, document string, list *[]T) {
	t.Helper()

	var object T
	require.NoError(t, yaml.UnmarshalStrict([]byte(document), &object), document)
	*list = append(*list, object)
}

func decoded(t *testing.T, values map[string]any) (o objects) {
	t.Helper()

	documents, err := render(t, values)
	require.NoError(t, err)

	for _, document := range documents {
		var kind metav1.TypeMeta
		require.NoError(t, yaml.Unmarshal([]byte(document), &kind), document)

		switch kind.APIVersion + " " + kind.Kind {
		case "apps/v1 Deployment":
			decode(t, document, &o.deployments)
		case "v1 Service":
			decode(t, document, &o.services)
		case "policy/v1 PodDisruptionBudget":
			decode(t, document, &o.budgets)
		case "batch/v1 Job":
			decode(t, document, &o.jobs)
		case "v1 PersistentVolumeClaim":
			decode(t, document, &o.claims)
		case "networking.k8s.io/v1 Ingress":
			decode(t, document, &o.ingresses)
		case "networking.k8s.io/v1 NetworkPolicy":
			decode(t, document, &o.policies)
		default:
			require.Fail(t, "unknown kind", "%s %s", kind.APIVersion, kind.Kind)
		}
	}

	return o
}

// The chart has the version of the program.
func TestChart_version(t *testing.T) {
	t.Parallel()

	loaded, err := loader.Load(chart)
	require.NoError(t, err)

	require.Equal(t, version(t), loaded.Metadata.Version)
	require.Equal(t, version(t), loaded.Metadata.AppVersion)
}

// version is that of the program.
func version(t *testing.T) string {
	t.Helper()

	source, err := os.ReadFile("../../internal/release/release.go")
	require.NoError(t, err)

	match := regexp.MustCompile(`(?m)^var Version = "(.+)"$`).FindSubmatch(source)
	require.NotNil(t, match)

	return string(match[1])
}

func TestChart_lint(t *testing.T) {
	t.Parallel()

	for name, values := range variants() {
		for _, message := range lint.All(chart, values, "agents", true).Messages {
			// A chart without an icon is fine.
			require.LessOrEqual(t, message.Severity, support.InfoSev, "%s: %s", name, message)
		}
	}
}

func TestChart_requiredValues(t *testing.T) {
	t.Parallel()

	_, err := render(t, map[string]any{})
	require.ErrorContains(t, err, "secretName")
	require.ErrorContains(t, err, "address")
	require.ErrorContains(t, err, "endpoint")

	_, err = render(t, with(map[string]any{"ingress": map[string]any{"enabled": true}}))
	require.ErrorContains(t, err, "ingress.host is needed")
	_, err = render(t, with(map[string]any{"sandbox": map[string]any{"level": 3}}))
	require.ErrorContains(t, err, "level")
}

func TestChart_pods(t *testing.T) {
	t.Parallel()

	for name, values := range variants() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			o := decoded(t, values)
			root := name == "session users"

			for _, d := range o.deployments {
				require.Equal(t, d.Spec.Selector.MatchLabels, subset(d.Spec.Template.Labels, d.Spec.Selector.MatchLabels), d.Name)
				checkPod(t, d.Name, d.Spec.Template.Spec, o, root && (d.Name == "demo-api" || d.Name == "demo-worker"))

				container := d.Spec.Template.Spec.Containers[0]
				for kind, probe := range map[string]*corev1.Probe{
					"startup": container.StartupProbe, "liveness": container.LivenessProbe, "readiness": container.ReadinessProbe,
				} {
					require.NotNil(t, probe, "%s has a %s probe", d.Name, kind)
					require.Equal(t, container.Ports[0].Name, probe.HTTPGet.Port.StrVal, d.Name)
				}

				require.NotEmpty(t, container.Resources.Limits, d.Name)
			}

			require.Len(t, o.jobs, 1)
			checkPod(t, "migrate", o.jobs[0].Spec.Template.Spec, o, false)
		})
	}
}

// checkPod holds a pod to the rules for all of them.
func checkPod(t *testing.T, name string, pod corev1.PodSpec, o objects, root bool) {
	t.Helper()

	require.Len(t, pod.Containers, 1, name)
	container := pod.Containers[0]
	require.False(t, *pod.AutomountServiceAccountToken, name)
	require.Equal(t, "everloop:v"+version(t), container.Image, name)
	require.True(t, *container.SecurityContext.ReadOnlyRootFilesystem, name)
	require.False(t, *container.SecurityContext.AllowPrivilegeEscalation, name)
	require.Equal(t, []corev1.Capability{"ALL"}, container.SecurityContext.Capabilities.Drop, name)

	if root {
		require.Zero(t, *container.SecurityContext.RunAsUser, name)
	} else {
		require.True(t, *pod.SecurityContext.RunAsNonRoot, name)
		require.NotZero(t, *pod.SecurityContext.RunAsUser, name)
		require.Empty(t, container.SecurityContext.Capabilities.Add, name)
	}

	seen := map[string]bool{}

	for _, variable := range container.Env {
		require.False(t, seen[variable.Name], "%s has %s twice", name, variable.Name)
		seen[variable.Name] = true

		if variable.ValueFrom == nil {
			require.NotRegexp(t, `KEY$|PASSWORD|DATABASE_URL|NATS_URL`, variable.Name, "%s: a secret is in the chart", name)
		} else {
			require.Equal(t, variable.Name, variable.ValueFrom.SecretKeyRef.Key, name)
			require.Equal(t, "everloop", variable.ValueFrom.SecretKeyRef.Name, name)
		}
	}

	volumes := map[string]bool{}
	for _, volume := range pod.Volumes {
		volumes[volume.Name] = true

		if claim := volume.PersistentVolumeClaim; claim != nil && claim.ClaimName != "files" {
			require.True(t, slices.ContainsFunc(o.claims, func(c corev1.PersistentVolumeClaim) bool { return c.Name == claim.ClaimName }),
				"%s mounts %s", name, claim.ClaimName)
		}
	}

	for _, mount := range container.VolumeMounts {
		require.True(t, volumes[mount.Name], "%s mounts %s", name, mount.Name)
	}
}

func subset(labels, of map[string]string) map[string]string {
	found := map[string]string{}
	for key := range of {
		found[key] = labels[key]
	}

	return found
}

// Every variable is a setting of its role: docs/configuration.md lists them, which a test
// of the program holds to its flags.
func TestChart_settings(t *testing.T) {
	t.Parallel()

	page, err := os.ReadFile("../../docs/configuration.md")
	require.NoError(t, err)

	sections := map[string]string{}
	for section := range strings.SplitSeq(string(page), "\n## ") {
		title, text, _ := strings.Cut(section, "\n")
		sections[title] = text
	}

	for _, d := range decoded(t, variants()["everything"]).deployments {
		role := strings.TrimPrefix(d.Name, "demo-")

		text := sections["For all commands"] + sections[role]
		if role == "api" || role == "worker" {
			text += sections["up, api and worker"]
		}

		for _, variable := range d.Spec.Template.Spec.Containers[0].Env {
			listed := strings.Contains(text, "`"+variable.Name+"`") ||
				strings.HasPrefix(variable.Name, "S3_") && strings.Contains(text, "`S3_…`")
			require.True(t, listed, "%s has no setting %s", role, variable.Name)
		}
	}
}

// The identity service, and no other pod, has the Secret with the other providers where its
// variable says.
func TestChart_providers(t *testing.T) {
	t.Parallel()

	for _, d := range decoded(t, variants()["everything"]).deployments {
		pod := d.Spec.Template.Spec
		container := pod.Containers[0]
		at := slices.IndexFunc(container.Env, func(e corev1.EnvVar) bool { return e.Name == "OAUTH_CONFIG_YAML_PATH" })
		secret := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Secret != nil })

		if d.Name != "demo-identity" {
			require.Negative(t, at, d.Name)
			require.Negative(t, secret, d.Name)

			continue
		}

		require.GreaterOrEqual(t, at, 0, d.Name)
		require.GreaterOrEqual(t, secret, 0, d.Name)
		require.Equal(t, "providers", pod.Volumes[secret].Secret.SecretName)
		require.Contains(t, container.VolumeMounts, corev1.VolumeMount{
			Name: pod.Volumes[secret].Name, ReadOnly: true, MountPath: path.Dir(container.Env[at].Value),
		})
		require.Equal(t, "providers.yaml", path.Base(container.Env[at].Value))
	}

	for _, d := range decoded(t, least()).deployments {
		for _, variable := range d.Spec.Template.Spec.Containers[0].Env {
			require.NotEqual(t, "OAUTH_CONFIG_YAML_PATH", variable.Name, d.Name)
		}
	}
}

func TestChart_sandbox(t *testing.T) {
	t.Parallel()

	worker := func(values map[string]any) corev1.PodSpec {
		for _, d := range decoded(t, values).deployments {
			if d.Name == "demo-worker" {
				return d.Spec.Template.Spec
			}
		}

		require.Fail(t, "no worker")

		return corev1.PodSpec{}
	}

	full := worker(least())
	require.False(t, *full.HostUsers)
	require.Equal(t, corev1.UnmaskedProcMount, *full.Containers[0].SecurityContext.ProcMount)
	require.Equal(t, corev1.SeccompProfileTypeUnconfined, full.Containers[0].SecurityContext.SeccompProfile.Type)

	plain := worker(variants()["level 1"])
	require.Nil(t, plain.HostUsers)
	require.Nil(t, plain.Containers[0].SecurityContext.ProcMount)
	require.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, plain.Containers[0].SecurityContext.SeccompProfile.Type)
}

// Services, budgets and the ingress lead to pods that exist, at the ports of the
// components.
func TestChart_services(t *testing.T) {
	t.Parallel()

	o := decoded(t, variants()["everything"])
	ports := map[string]int32{
		"api": 8020, "identity": 19000, "registry": 8010, "desktop": 80, "gateway": 30000, "git": 30030, "mock": 30023,
	}
	require.Len(t, o.services, len(ports))
	require.Len(t, o.deployments, len(ports)+1) // and the worker

	for _, service := range o.services {
		role := strings.TrimPrefix(service.Name, "demo-")
		require.Equal(t, ports[role], service.Spec.Ports[0].Port, service.Name)
		require.True(t, slices.ContainsFunc(o.deployments, func(d appsv1.Deployment) bool {
			return maps.Equal(service.Spec.Selector, subset(d.Spec.Template.Labels, service.Spec.Selector)) &&
				d.Spec.Template.Spec.Containers[0].Ports[0].Name == service.Spec.Ports[0].TargetPort.StrVal
		}), service.Name)
	}

	require.Len(t, o.budgets, 2)

	for _, budget := range o.budgets {
		require.True(t, slices.ContainsFunc(o.deployments, func(d appsv1.Deployment) bool {
			return maps.Equal(budget.Spec.Selector.MatchLabels, d.Spec.Selector.MatchLabels)
		}), budget.Name)
	}

	require.Len(t, o.ingresses, 1)
	require.Equal(t, "demo-desktop", o.ingresses[0].Spec.Rules[0].HTTP.Paths[0].Backend.Service.Name)

	alone := decoded(t, variants()["agent alone"])
	require.Len(t, alone.deployments, 2)
	require.Empty(t, alone.claims)
}
