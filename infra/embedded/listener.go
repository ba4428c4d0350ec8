package embedded

import (
	"net"
	"sync"
)

// joinedListener accepts the connections of several listeners. Its address is the first
// listener's.
type joinedListener struct {
	listeners []net.Listener
	accepted  chan acceptedConn
	closed    chan struct{}
	closeOnce sync.Once
}

type acceptedConn struct {
	conn net.Conn
	err  error
}

// newJoinedListener returns a joinedListener, which closes the listeners.
func newJoinedListener(listeners ...net.Listener) *joinedListener {
	j := &joinedListener{listeners: listeners, accepted: make(chan acceptedConn), closed: make(chan struct{})}
	for _, listener := range listeners {
		go j.accept(listener)
	}

	return j
}

// accept accepts connections until its listener is closed.
func (j *joinedListener) accept(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		select {
		case j.accepted <- acceptedConn{conn, err}:
		case <-j.closed:
			if err == nil {
				_ = conn.Close()
			}

			return
		}

		if err != nil && !temporary(err) {
			return
		}
	}
}

// temporary reports whether the next Accept can succeed, for example after running out of file
// descriptors.
func temporary(err error) bool {
	fault, ok := err.(interface{ Temporary() bool })
	return ok && fault.Temporary()
}

// Accept implements net.Listener.
func (j *joinedListener) Accept() (net.Conn, error) {
	select {
	case next := <-j.accepted:
		return next.conn, next.err
	case <-j.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (j *joinedListener) Close() (err error) {
	j.closeOnce.Do(func() {
		close(j.closed)

		for _, listener := range j.listeners {
			if fault := listener.Close(); fault != nil && err == nil {
				err = fault
			}
		}
	})

	return err
}

// Addr implements net.Listener.
func (j *joinedListener) Addr() net.Addr { return j.listeners[0].Addr() }
