package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"time"

	"everloop/infra/external"
)

// Addresses returns the listen addresses in a command's settings: its string fields whose
// variable ends in _ADDR, including fields of embedded structs.
func Addresses(settings any) []Address {
	var (
		found []Address
		walk  func(v reflect.Value)
	)

	walk = func(v reflect.Value) {
		for i := range v.NumField() {
			field := v.Type().Field(i)
			switch variable := field.Tag.Get("env"); {
			case field.Type.Kind() == reflect.Struct:
				walk(v.Field(i))
			case field.Type.Kind() == reflect.String && strings.HasSuffix(variable, "_ADDR"):
				found = append(found, Address{Variable: variable, Addr: v.Field(i).String()})
			}
		}
	}
	walk(reflect.Indirect(reflect.ValueOf(settings)))

	return found
}

// ports checks each address. A port that a running Everloop uses is fine; its health is then
// checked.
func ports(ctx context.Context, s Settings) []Check {
	ours := map[string]bool{}
	if pid := holder(s.DataDir); pid != "" {
		ours[pid] = true
	}

	var checks []Check

	for _, a := range s.Addresses {
		switch {
		case a.Addr == "": // not served
		default:
			checks = append(checks, port(ctx, a, ours))
		}
	}

	return checks
}

// port checks one address. ours are the processes of Everloop.
func port(ctx context.Context, a Address, ours map[string]bool) Check {
	check := Check{Name: a.Variable, State: Fail, Detail: a.Addr, Hint: "set " + a.Variable + " to host:port, as 127.0.0.1:8020"}
	if _, _, err := net.SplitHostPort(a.Addr); err != nil {
		return check
	}

	listener, err := net.Listen("tcp", a.Addr)
	switch {
	case err == nil:
		_ = listener.Close()
		return Check{Name: a.Variable, State: OK, Detail: a.Addr + " is free"}
	case errors.Is(err, syscall.EACCES):
		check.Detail += " may not be bound by this user"
		check.Hint = "set " + a.Variable + " to a port above 1023"

		return check
	case !errors.Is(err, syscall.EADDRINUSE):
		check.Detail += ": " + external.Cause(err)
		return check
	}

	owner := ownerOf(a.Addr)
	if state, detail := askReady(ctx, a.Addr); state != Info {
		ours[owner.pid] = owner.pid != ""
		return Check{Name: a.Variable, State: state, Detail: a.Addr + " " + detail}
	}

	if ours[owner.pid] {
		return Check{Name: a.Variable, State: OK, Detail: a.Addr + " is the running Everloop's (process " + owner.pid + ")"}
	}

	check.Detail += " is taken by " + owner.String()
	check.Hint = "stop it, or set " + a.Variable + " to another address"

	return check
}

// askReady checks whether the listener is an Everloop, and whether it is healthy; Info means
// that it is not one.
func askReady(ctx context.Context, addr string) (State, string) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()

	version, status, err := get(ctx, "http://"+reachable(addr)+"/api/version")
	if err != nil || status != http.StatusOK || version.MinSDK == "" {
		return Info, ""
	}

	ready, status, err := get(ctx, "http://"+reachable(addr)+"/readyz")
	name := "is a running Everloop " + version.Version

	switch {
	case err != nil:
		return Warn, name + ", which does not say whether it is ready (" + external.Cause(err) + ")"
	case status != http.StatusOK:
		return Fail, name + ", which is not ready: " + ready.Detail
	}

	return OK, name + ", ready (" + strings.Join(ready.Checks, ", ") + ")"
}

type readyReply struct {
	Version string   `json:"version"`
	MinSDK  string   `json:"min_sdk"`
	Checks  []string `json:"checks"`
	Detail  string   `json:"detail"`
}

func get(ctx context.Context, url string) (out readyReply, status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return out, 0, err
	}

	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return out, 0, err
	}
	defer res.Body.Close()

	_ = json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&out) // invalid JSON means that it is not an Everloop

	return out, res.StatusCode, nil
}

// reachable returns the address at which this machine reaches a listener.
func reachable(addr string) string {
	host, port, _ := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}

	return net.JoinHostPort(host, port)
}

// process is the process that listens on a port, if this user can see it.
type process struct{ pid, name string }

func (p process) String() string {
	if p.pid == "" {
		return "another program"
	}

	return fmt.Sprintf("%s (process %s)", p.name, p.pid)
}

// ownerOf returns the process that listens on a port, by the kernel's tables.
func ownerOf(addr string) process {
	_, port, _ := net.SplitHostPort(addr)

	n, err := strconv.Atoi(port)
	if err != nil {
		return process{}
	}

	sockets := map[string]bool{}

	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		content, _ := os.ReadFile(table)
		for line := range strings.Lines(string(content)) {
			const listening = "0A"

			f := strings.Fields(line)
			if len(f) > 9 && f[3] == listening && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", n)) {
				sockets["socket:["+f[9]+"]"] = true
			}
		}
	}

	open, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, fd := range open {
		if target, err := os.Readlink(fd); err == nil && sockets[target] {
			pid := strings.Split(fd, "/")[2]
			name, _ := os.ReadFile("/proc/" + pid + "/comm")

			return process{pid: pid, name: strings.TrimSpace(string(name))}
		}
	}

	return process{}
}
