// Package app wires the roles of the program: it opens the engines' clients, builds
// the services and the edges on them, and runs them until its context ends. Each role
// is a struct whose exported fields are its settings, with the names of flags and
// environment variables as tags. It decides nothing else, and knows no command line.
package app
