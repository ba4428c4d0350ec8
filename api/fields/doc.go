// Package fields holds the shapes that the bodies of many operations share, and cleans
// what clients put in them. It must not know what a field is for.
package fields
