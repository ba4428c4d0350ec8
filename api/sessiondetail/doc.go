// Package sessiondetail makes the detail of a session as clients see it: its row together
// with its setup, tools, skills and tool servers. It must not change a session.
package sessiondetail
