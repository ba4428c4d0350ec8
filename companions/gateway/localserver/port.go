package localserver

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
)

const loopback = "127.0.0.1"

// freePort returns an unused port. If another program takes it before the server does, the
// server ends and is restarted with another port.
func freePort() (int, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()

	return l.Addr().(*net.TCPAddr).Port, nil
}

// checkListener returns an error if another user's program listens on the port, which would
// receive the prompts and the key.
func checkListener(port int) error {
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return fmt.Errorf("find out who listens at the port: %w", err)
	}

	return checkTable(string(table), port)
}

func checkTable(table string, port int) error {
	uid, found := listener(table, port)
	if !found {
		return fmt.Errorf("no program listens at %s port %d", loopback, port)
	}

	if uid != 0 && uid != os.Geteuid() {
		return fmt.Errorf("a program of another user listens at port %d", port)
	}

	return nil
}

// listener returns the user whose program listens on a port of the loopback address, by the
// kernel's table of sockets.
func listener(table string, port int) (uid int, found bool) {
	const listening = "0A"

	for line := range strings.Lines(table) {
		field := strings.Fields(line)
		if len(field) < 8 || field[3] != listening {
			continue
		}

		address, number, _ := strings.Cut(field[1], ":")
		if at, err := strconv.ParseUint(number, 16, 16); err != nil || int(at) != port || address != "0100007F" && address != "00000000" {
			continue
		}

		uid, err := strconv.Atoi(field[7])

		return uid, err == nil
	}

	return 0, false
}
