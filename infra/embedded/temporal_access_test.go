package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/server/api/adminservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"everloop/internal/clients"
	"everloop/internal/hosts"
)

// knownKeys are administrators by their keys.
type knownKeys struct {
	mu    sync.Mutex
	names map[string]string
	err   error
}

func (k *knownKeys) Administrator(_ context.Context, key string) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()

	if name := k.names[key]; name != "" || k.err != nil {
		return name, k.err
	}

	return "", ErrNoAdministrator
}

func (k *knownKeys) set(names map[string]string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()

	k.names, k.err = names, err
}

const annsKey = "el_annsadministratorkey"

func TestTemporal_access(t *testing.T) {
	keys := &knownKeys{names: map[string]string{annsKey: "ann"}}
	engines, err := Start(t.Context(), Config{
		Dir: t.TempDir(), Engines: []Engine{
			PostgresConfig{},
			TemporalConfig{
				Frontend: Listen{Addr: "127.0.0.1:0", Variable: "TEMPORAL_ADDR"}, Administrators: keys, ServiceKey: testServiceKey,
				Connections: maxConnections,
			},
			TemporalUIConfig{
				Listen: Listen{Addr: "127.0.0.1:0", Variable: "TEMPORAL_UI_ADDR"}, Hosts: hosts.List{"temporal.example.org"},
				Connections: maxConnections,
			},
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, engines.Stop(context.Background())) })

	address := Of[*Temporal](engines).Address()
	options := Of[*Temporal](engines).ClientOptions()
	options.Namespace, options.Logger = Namespace, sdkLogger{}
	inside, err := client.Dial(options)
	require.NoError(t, err)
	t.Cleanup(inside.Close)
	run, err := inside.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "victim", TaskQueue: "without-worker"}, "Never")
	require.NoError(t, err)

	t.Run("port refuses everything without an administrator's key", func(t *testing.T) {
		for _, key := range []string{"", "el_bensuserkey", testServiceKey + "x", " "} {
			_, err := client.Dial(keyed(address, key))
			require.ErrorContains(t, err, "unauthorized", "key %q", key)
			require.NotContains(t, err.Error(), "el_bensuserkey")
		}

		conn := dialPlain(t, address)

		for name, call := range map[string]func(context.Context) error{
			"terminate": func(ctx context.Context) error {
				_, err := workflowservice.NewWorkflowServiceClient(conn).TerminateWorkflowExecution(ctx,
					&workflowservice.TerminateWorkflowExecutionRequest{Namespace: Namespace})

				return err
			},
			"admin service": func(ctx context.Context) error {
				_, err := adminservice.NewAdminServiceClient(conn).DescribeCluster(ctx, &adminservice.DescribeClusterRequest{})
				return err
			},
			"stream": func(ctx context.Context) error {
				stream, err := adminservice.NewAdminServiceClient(conn).StreamWorkflowReplicationMessages(ctx)
				if err == nil {
					_, err = stream.Recv()
				}

				return err
			},
		} {
			for _, header := range []string{"", "Basic " + annsKey, "Bearer", "Bearer wrong", annsKey} {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()

				if header != "" {
					ctx = metadata.AppendToOutgoingContext(ctx, "authorization", header)
				}

				err := call(ctx)
				require.ErrorContains(t, err, "Request unauthorized", "%s with %q", name, header)

				if name != "stream" { // whose errors the server does not translate
					require.Equal(t, codes.PermissionDenied, status.Code(err), "%s with %q", name, header)
				}
			}
		}
	})

	t.Run("port takes administrators' keys and the service key", func(t *testing.T) {
		for _, key := range []string{annsKey, testServiceKey} {
			c, err := client.Dial(keyed(address, key))
			require.NoError(t, err)
			_, err = c.DescribeWorkflowExecution(t.Context(), "victim", "")
			require.NoError(t, err)
			c.Close()
		}
	})

	t.Run("revoked key, and keys that cannot be checked", func(t *testing.T) {
		defer keys.set(map[string]string{annsKey: "ann"}, nil)

		keys.set(nil, nil)

		_, err := client.Dial(keyed(address, annsKey))
		require.ErrorContains(t, err, "unauthorized")
		keys.set(nil, errors.New("the database of hunter2 is down"))

		_, err = client.Dial(keyed(address, annsKey))
		require.ErrorContains(t, err, "unauthorized")
		require.NotContains(t, err.Error(), "hunter2")
		denied, ok := errors.AsType[*serviceerror.PermissionDenied](err)
		require.True(t, ok)
		require.Contains(t, denied.Reason, "cannot be checked now")
	})

	t.Run("no other service of Temporal has a port", func(t *testing.T) {
		want := []string{strings.TrimPrefix(address, "127.0.0.1:"), strings.TrimPrefix(Of[*TemporalUI](engines).URL(), "http://127.0.0.1:")}
		require.ElementsMatch(t, want, listeningPorts(t))
	})

	t.Run("UI needs a sign-in", func(t *testing.T) {
		ui := newBrowser(Of[*TemporalUI](engines).URL())
		terminate := "/api/v1/namespaces/" + Namespace + "/workflows/victim/terminate"

		require.Equal(t, http.StatusForbidden, ui.do(t, "GET", "/", "", "Host", "evil.example"))
		require.Equal(t, http.StatusForbidden, ui.do(t, "GET", "/healthz", "", "Host", "evil.example"))
		require.Equal(t, http.StatusOK, ui.do(t, "GET", "/healthz", "", "Host", "temporal.example.org"))
		require.Equal(t, http.StatusOK, ui.do(t, "GET", "/healthz", ""))
		require.Equal(t, http.StatusUnauthorized, ui.do(t, "POST", terminate, "{}"))
		require.Equal(t, http.StatusUnauthorized, ui.do(t, "GET", "/api/v1/namespaces", ""))
		require.Equal(t, http.StatusUnauthorized, ui.do(t, "GET", "/api/v1/namespaces", "", "Authorization", "Bearer "+testServiceKey+"x"))
		require.Equal(t, http.StatusSeeOther, ui.do(t, "GET", "/namespaces/everloop", ""))
		require.Equal(t, http.StatusUnauthorized, ui.do(t, "POST", signInPath, "key=el_bensuserkey"))
		require.Empty(t, ui.cookie)

		require.Equal(t, http.StatusSeeOther, ui.do(t, "POST", signInPath, "key="+annsKey))
		require.Equal(t, http.StatusOK, ui.do(t, "GET", "/", ""))
		require.Equal(t, http.StatusOK, ui.do(t, "GET", "/api/v1/namespaces/"+Namespace+"/workflows", ""))
		require.Equal(t, http.StatusForbidden, ui.do(t, "POST", terminate, "{}", "Origin", "http://evil.example"))
		require.Equal(t, http.StatusForbidden, ui.do(t, "POST", terminate, "{}", "Sec-Fetch-Site", "cross-site"))
		require.Equal(t, http.StatusForbidden, ui.do(t, "POST", terminate, "{}", "Sec-Fetch-Site", "same-site"))
		requireStatus(t, inside, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING)
		require.Equal(t, http.StatusOK, ui.do(t, "POST", terminate, "{}", "Sec-Fetch-Site", "same-origin"))
		requireStatus(t, inside, enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED)
	})
	require.Equal(t, "victim", run.GetID())

	for name, at := range map[string]string{"port": address, "UI": strings.TrimPrefix(Of[*TemporalUI](engines).URL(), "http://")} {
		t.Run(name+" bounds the connections of an address", func(t *testing.T) {
			requireBound(t, at)
		})
	}
}

// maxConnections is more than what the test itself has open.
const maxConnections = 40

// requireBound opens connections until one is refused.
func requireBound(t *testing.T, address string) {
	t.Helper()

	for range maxConnections + 10 { // some that the test had open may end only now
		conn, err := net.Dial("tcp", address)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
	}

	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))

	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Equal(t, string(clients.Refusal()), string(answer))
}

func requireStatus(t *testing.T, c client.Client, want enumspb.WorkflowExecutionStatus) {
	t.Helper()
	found, err := c.DescribeWorkflowExecution(t.Context(), "victim", "")
	require.NoError(t, err)
	require.Equal(t, want, found.GetWorkflowExecutionInfo().GetStatus())
}

func dialPlain(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()

	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })

	return conn
}

// listeningPorts returns the TCP ports on which this process accepts connections.
func listeningPorts(t *testing.T) (ports []string) {
	t.Helper()

	open := map[string]bool{} // inodes of the process's sockets
	descriptors, err := filepath.Glob("/proc/self/fd/*")
	require.NoError(t, err)

	for _, descriptor := range descriptors {
		target, _ := os.Readlink(descriptor)
		open[strings.TrimSuffix(strings.TrimPrefix(target, "socket:["), "]")] = true
	}

	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		content, err := os.ReadFile(table)
		require.NoError(t, err)

		for line := range strings.Lines(string(content)) {
			const listening = "0A"
			if fields := strings.Fields(line); len(fields) > 9 && fields[3] == listening && open[fields[9]] {
				var port int

				_, err := fmt.Sscanf(fields[1][strings.LastIndex(fields[1], ":")+1:], "%X", &port)
				require.NoError(t, err)

				ports = append(ports, fmt.Sprint(port))
			}
		}
	}

	return ports
}

// browser keeps the cookie of its sign-in.
type browser struct {
	base   string
	client http.Client
	cookie string
	answer *http.Response
}

func newBrowser(base string) *browser {
	return &browser{
		base:   base,
		client: http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
}

func (b *browser) do(t *testing.T, method, path, body string, headers ...string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, b.base+path, strings.NewReader(body))
	require.NoError(t, err)

	if _, err := url.ParseQuery(body); err == nil && strings.Contains(body, "=") {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}

	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}

	if host := request.Header.Get("Host"); host != "" {
		request.Host = host
	}

	over := request.Header.Get("X-Forwarded-Proto") == "https"
	name := map[bool]string{true: "__Host-everloop_temporal", false: "everloop_temporal"}[over]

	if b.cookie != "" {
		request.AddCookie(&http.Cookie{Name: name, Value: b.cookie})
	}

	b.answer, err = b.client.Do(request)
	require.NoError(t, err)
	require.NoError(t, b.answer.Body.Close())

	for _, cookie := range b.answer.Cookies() {
		require.Equal(t, name, cookie.Name)
		require.Equal(t, over, cookie.Secure)
		require.True(t, cookie.HttpOnly)
		require.Equal(t, http.SameSiteStrictMode, cookie.SameSite)
		b.cookie = cookie.Value
	}

	return b.answer.StatusCode
}
