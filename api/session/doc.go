// Package session is the area of the interface for sessions and what happens in them:
// chats, messages, events, history, replays, shares, transfers. It must not know the
// loop that answers.
package session
