// Package flags has the settings that several roles of the program embed, with the
// names of flags and environment variables as tags, and the checks of their values. It
// opens nothing but listeners and files with keys, and knows no engine and no role.
package flags
