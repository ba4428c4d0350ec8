// Package library is the area of the interface for what agents work with: skills, tool
// servers, solutions, memories, the registry. It must not know how a tool is run.
package library
