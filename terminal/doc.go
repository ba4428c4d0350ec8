// Package terminal is Everloop's client for a terminal: it sends messages, shows
// chats as they stream, asks the agent's questions and goes on after a lost
// connection. It speaks the public interface only, REST and server-sent events
// and imports nothing of the
// service: what it can do, every other client can.
package terminal
