package app

import (
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"everloop/activities/tools"
	"everloop/domain"
	"everloop/infra/solutions"
	"everloop/internal/app/engine"
)

// configured reads the settings as a role does, from variables.
func configured(t *testing.T, variables map[string]string) *settings {
	t.Helper()

	for name, value := range variables {
		t.Setenv(name, value)
	}

	var s settings

	parser, err := kong.New(&s)
	require.NoError(t, err)
	_, err = parser.Parse(nil)
	require.NoError(t, err)

	return &s
}

// Each field of GET /api/config follows a variable.
func TestClientConfig_eachFieldHasAVariable(t *testing.T) {
	plain := configured(t, nil).clientConfig()
	require.True(t, plain.MemoryEnabled)
	require.True(t, plain.PublicSharingEnabled)
	require.Empty(t, plain.ASRProvider, "no provider recognises speech")

	fields := map[string]map[string]string{
		"ErrorTrackingDSN": {"ERROR_TRACKING_DSN": "https://key@errors.example/1"}, "AnalyticsKey": {"ANALYTICS_KEY": "k"},
		"AnalyticsHost": {"ANALYTICS_HOST": "https://numbers.example"}, "ASREnabled": {"ASR_MODEL": "whisper"},
		"ASRProvider": {"ASR_MODEL": "whisper", "ASR_PROVIDER": "elsewhere"}, "GISMapURL": {"GIS_MAP_URL": "https://maps.example"},
		"ServiceOSPath": {"SERVICE_OS_PATH": "/desktop"}, "PublicSharingEnabled": {"PUBLIC_SHARING": "false"},
		"MemoryEnabled": {"MEMORY_ENABLED": "false"},
	}
	kind := reflect.TypeOf(plain)
	require.Len(t, fields, kind.NumField())

	for i := range kind.NumField() {
		name := kind.Field(i).Name
		t.Run(name, func(t *testing.T) {
			require.Contains(t, fields, name)
			s := configured(t, fields[name])
			require.NoError(t, s.frontendSettings.check())
			changed := s.clientConfig()
			require.NotEqual(t, reflect.ValueOf(plain).Field(i).Interface(), reflect.ValueOf(changed).Field(i).Interface())
		})
	}
}

func TestSettings_limits(t *testing.T) {
	s := configured(t, nil)
	require.NoError(t, s.limitSettings.check())
	require.Equal(t, 200, s.MaxSteps)
	require.Equal(t, 32, s.ParallelTools)

	for variable, values := range map[string][]string{
		"MAX_STEPS": {"0", "10001"}, "PARALLEL_TOOLS": {"0", "1001"}, "BASH_TIMEOUT": {"0s", "11m"},
		"TOOL_RESULT_CHARACTERS": {"999", "10000001"},
	} {
		for _, value := range values {
			t.Run(variable+" "+value, func(t *testing.T) {
				require.ErrorContains(t, configured(t, map[string]string{variable: value}).limitSettings.check(), variable)
			})
		}
	}
}

// MAX_STEPS bounds the chats of sessions that say nothing themselves.
func TestBackend_Profile_maxSteps(t *testing.T) {
	b := &backend{settings: *configured(t, map[string]string{"MAX_STEPS": "7"})}

	var err error

	b.solutions, err = solutions.Load("")
	require.NoError(t, err)

	require.Equal(t, 7, b.Profile(domain.Session{}).MaxSteps)
	require.Equal(t, 3, b.Profile(domain.Session{Setup: domain.SessionSetup{MaxSteps: 3}}).MaxSteps)
}

// Without MEMORY_ENABLED no session is offered the tool, and nothing is recalled for its
// chats, whatever it says itself.
func TestBackend_memoryEnabled(t *testing.T) {
	for _, enabled := range []bool{true, false} {
		t.Run(strconv.FormatBool(enabled), func(t *testing.T) {
			b := &backend{
				settings: *configured(t, map[string]string{"MEMORY_ENABLED": strconv.FormatBool(enabled)}), Clients: &engine.Clients{},
			}
			registry := tools.NewRegistry(nil, 0)
			b.provideMemory(registry)

			offered := registry.Names(t.Context(), tools.Scope{Mode: domain.ModeExecuting, Session: domain.Session{MemoryEnabled: true}})
			require.Equal(t, enabled, slices.Contains(offered, "Memory"))
			require.Equal(t, enabled, b.recall() != nil)
		})
	}
}
