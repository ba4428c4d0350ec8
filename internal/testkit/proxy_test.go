package testkit

import (
	"bufio"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// echo returns a server that answers each line with itself.
func echo(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })

	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}

			go func() {
				defer conn.Close()

				_, _ = io.Copy(conn, conn)
			}()
		}
	}()

	return listener.Addr().String()
}

func dial(t *testing.T, p *FaultProxy) (net.Conn, *bufio.Reader) {
	conn, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })

	return conn, bufio.NewReader(conn)
}

func say(t *testing.T, conn net.Conn, line string) {
	_, err := io.WriteString(conn, line+"\n")
	require.NoError(t, err)
}

func TestFaultProxy_passesBytesAndEnds(t *testing.T) {
	p := Proxy(t, echo(t))
	conn, in := dial(t, p)
	say(t, conn, "one")

	line, err := in.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "one\n", line)
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())

	_, err = in.ReadString('\n')
	require.ErrorIs(t, err, io.EOF)
}

func TestFaultProxy_Pause_holdsBytesBackInOrder(t *testing.T) {
	p := Proxy(t, echo(t))
	conn, in := dial(t, p)
	p.Pause()
	say(t, conn, "one")
	say(t, conn, "two")
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(50*time.Millisecond)))

	_, err := in.ReadString('\n')
	require.ErrorContains(t, err, "timeout")
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
	p.Resume()

	for _, want := range []string{"one\n", "two\n"} {
		line, err := in.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, want, line)
	}
}

func TestFaultProxy_Down_resetsOldAndNewConnections(t *testing.T) {
	p := Proxy(t, "nats://token@"+echo(t))
	conn, in := dial(t, p)
	say(t, conn, "one")

	_, err := in.ReadString('\n')
	require.NoError(t, err)
	p.Down()

	_, err = in.ReadString('\n')
	require.Error(t, err)

	refused, err := net.Dial("tcp", p.Addr())
	if err == nil { // the kernel accepts before the proxy resets
		_, err = refused.Read(make([]byte, 1))
	}

	require.Error(t, err)
	p.Up()
	conn, in = dial(t, p)
	say(t, conn, "again")

	line, err := in.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "again\n", line)
}

func TestFaultProxy_URL_keepsTheRest(t *testing.T) {
	p := Proxy(t, "nats://token@127.0.0.1:4222")
	require.Equal(t, "nats://token@"+p.Addr(), p.URL(t, "nats://token@127.0.0.1:4222"))
	require.Equal(t, "postgres://u:p@"+p.Addr()+"/db?x=1", p.URL(t, "postgres://u:p@10.0.0.1:5432/db?x=1"))
}
