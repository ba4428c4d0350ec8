package mcp

import (
	"context"
	"encoding/json"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/activities/tools"
	"everloop/domain"
	"everloop/domain/toolserver"
)

// What is read while something is forgotten is the old state: it is neither kept nor
// connected.
func TestManager_forgetDuringRead(t *testing.T) {
	t.Parallel()

	for name, forget := range map[string]func(*Manager){
		"server":  func(m *Manager) { m.ForgetServer("id-every") },
		"session": func(m *Manager) { m.ForgetSession(session.ID) },
		"user":    func(m *Manager) { m.ForgetUser("ann") },
		"notice":  func(m *Manager) { m.forget(notice{ServerID: "id-every"}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			w.stdio("every", serving(everything()))

			w.store.onRead = func() {
				w.store.mu.Lock()
				w.store.servers = nil
				w.store.mu.Unlock()
				forget(w.manager)
			}

			require.Empty(t, w.offered())
			require.Empty(t, w.offered(), "the old list was kept")

			started, _ := w.launcher.running()
			require.Zero(t, started)
		})
	}
}

// The servers of a profile are not read from the store: the session's end is.
func TestManager_sessionDeletedDuringRead(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.launcher.programs["every"] = serving(everything())
	scope := tools.Scope{Session: session, Profile: domain.Profile{MCPServers: []domain.MCPServer{
		{Name: "every", Transport: toolserver.Stdio, Command: "every", Enabled: true},
	}}}

	w.store.onRead = func() {
		w.store.mu.Lock()
		w.store.deleted = true
		w.store.mu.Unlock()
		w.manager.ForgetSession(session.ID)
	}

	require.Empty(t, w.manager.Tools(t.Context(), scope))

	started, _ := w.launcher.running()
	require.Zero(t, started)
}

// A change that is reported while every read is under way ends the use, not the process.
func TestManager_forgetDuringEveryRead(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.stdio("every", serving(everything()))

	reads := 0

	var change func()

	change = func() {
		reads++

		w.store.mu.Lock()
		w.store.onRead = change
		w.store.mu.Unlock()
		w.manager.ForgetServer("another")
	}
	w.store.onRead = change

	require.Empty(t, w.offered())
	require.Equal(t, maxReads, reads)

	w.store.mu.Lock()
	w.store.onRead = nil
	w.store.mu.Unlock()
	w.tool("mcp__every__echo")
}

// Sessions are deleted often: one that is does not have the servers of others read again.
func TestManager_otherSessionDeletedDuringRead(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.stdio("every", serving(everything()))

	reads := 0

	var remove func()

	remove = func() {
		reads++

		w.store.mu.Lock()
		w.store.onRead = remove
		w.store.mu.Unlock()
		w.manager.ForgetSession("s-2")
	}
	w.store.onRead = remove

	_, _, err := w.manager.linksOf(t.Context(), session, nil)
	require.NoError(t, err)
	require.Equal(t, 1, reads)
}

// only gives the list of one tool.
func only(name string) string {
	return `{"tools":[{"name":"` + name + `","inputSchema":{"type":"object"}}]}`
}

// pause lets the time pass after which a changed list is read again.
func pause() {
	time.Sleep(2 * relistPause) //nolint:forbidigo // in a synctest bubble
}

// linkOf returns the session's link with a server.
func (w *env) linkOf(server string) *link {
	w.manager.mu.Lock()
	defer w.manager.mu.Unlock()

	return w.manager.links[linkKey{session.ID, server}]
}

// A list that changes between its answer and the link being up is read again.
func TestLink_changeWhileConnecting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t)
		lists := 0

		w.stdio("moving", polite(func(method string, id, _ json.RawMessage) []byte {
			if method != "tools/list" {
				return nil
			}

			if lists++; lists > 1 {
				return reply(id, only("new"))
			}

			w.linkOf("moving").changed()

			return reply(id, only("old"))
		}))

		require.Contains(t, w.offered(), "mcp__moving__old")
		pause()
		synctest.Wait()
		require.Contains(t, w.offered(), "mcp__moving__new")
		require.Equal(t, 2, lists, "it was read once more")
	})
}

// A list that is answered late does not replace one that was asked for after it.
func TestLink_oneReadingAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t)
		lists, late := 0, make(chan struct{})

		w.stdio("moving", func(ctx context.Context, in io.Reader, out, errs io.Writer) error {
			return polite(func(method string, id, _ json.RawMessage) []byte {
				if method != "tools/list" {
					return nil
				}

				switch lists++; lists {
				case 1:
					return reply(id, only("first"))
				case 2:
					go func() {
						<-late

						_, _ = out.Write(append(reply(id, only("old")), '\n'))
					}()

					return silence
				default:
					return reply(id, only("new"))
				}
			})(ctx, in, out, errs)
		})

		require.Contains(t, w.offered(), "mcp__moving__first")
		w.linkOf("moving").changed()
		pause() // the second list was asked for
		w.linkOf("moving").changed()
		pause()
		close(late)
		pause()
		synctest.Wait()
		require.Contains(t, w.offered(), "mcp__moving__new")
		require.Equal(t, 3, lists)
	})
}

// A connection that rested while its list was to be read again is notified of later changes.
func TestLink_changeAfterRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t)
		list := "first"

		w.stdio("moving", polite(func(method string, id, _ json.RawMessage) []byte {
			if method != "tools/list" {
				return nil
			}

			return reply(id, only(list))
		}))

		require.Contains(t, w.offered(), "mcp__moving__first")

		l := w.linkOf("moving")
		l.changed()
		l.rest(linkIdle)

		synctest.Wait()
		w.offered()
		synctest.Wait()

		list = "new"

		l.changed()
		pause()
		synctest.Wait()
		require.Contains(t, w.offered(), "mcp__moving__new")
	})
}
