//go:build linux

package sharedfs

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mount is the kernel's entry of a directory's mount.
type mount struct {
	kind    string   // "ext4", "nfs4", "fuse.juicefs"; empty: unknown
	options []string // of the mount and of its file system
}

// mountOf returns the mount of an open directory. An unknown mount has an empty kind.
func mountOf(fd int) (mount, error) {
	if as := simulated(); as.Mount != "" {
		return parseMount(as.Mount), nil
	}

	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &st); err != nil {
		return mount{}, err
	}

	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return mount{}, err
	}

	id := strconv.FormatUint(st.Mnt_id, 10) + " "
	for line := range strings.Lines(string(table)) {
		if strings.HasPrefix(line, id) {
			return parseMount(line), nil
		}
	}

	return mount{}, nil
}

// parseMount reads a line of /proc/self/mountinfo:
// id parent major:minor root at options [tag…] - kind source options.
func parseMount(line string) mount {
	before, after, _ := strings.Cut(line, " - ")
	first, last := strings.Fields(before), strings.Fields(after)

	var m mount
	if len(last) > 0 {
		m.kind = last[0]
	}

	if len(first) > 5 {
		m.options = strings.Split(first[5], ",")
	}

	if len(last) > 2 {
		m.options = append(m.options, strings.Split(last[2], ",")...)
	}

	return m
}

func (m mount) has(option string) bool {
	for _, o := range m.options {
		if o == option {
			return true
		}
	}

	return false
}

// value returns the value of an option, or otherwise if it is not listed.
func (m mount) value(option, otherwise string) string {
	for _, o := range m.options {
		if name, value, set := strings.Cut(o, "="); set && name == option {
			return value
		}
	}

	return otherwise
}

func (m mount) nfs() bool { return m.kind == "nfs" || m.kind == "nfs4" }

func (m mount) fuse() bool { return m.kind == "fuse" || strings.HasPrefix(m.kind, "fuse.") }

// longestCache is the maximum time of cached attributes in seconds: captures of snapshots
// consider a file unchanged after two seconds without a change.
const longestCache = 1

// caching reports how long the clients of a file system can cache attributes.
func (m mount) caching() Finding {
	f := Finding{About: "fs", Level: Info, Detail: m.kind + ", clients cache attributes", Hint: m.advice()}
	if !m.nfs() {
		return f
	}

	if m.has("noac") {
		return Finding{About: f.About, Level: OK, Detail: m.kind + ", attributes are not cached"}
	}

	longest := 0

	for option, otherwise := range map[string]string{"acregmax": "60", "acdirmax": "60"} { // nfs(5)
		seconds, err := strconv.Atoi(m.value(option, otherwise))
		if err != nil {
			return f
		}

		longest = max(longest, seconds)
	}

	f.Detail = fmt.Sprintf("%s, attributes are cached for up to %d s", m.kind, longest)
	if longest > longestCache {
		f.Level = Warn
		return f
	}

	if names := m.value("lookupcache", "all"); names != "pos" && names != "positive" && names != "none" {
		f.Level, f.Detail = Warn, f.Detail+", and that a name is free"
		return f
	}

	f.Level, f.Hint = OK, ""

	return f
}

// advice returns the mount options for short caching.
func (m mount) advice() string {
	const why = "where other machines use this directory too, "

	switch {
	case m.nfs():
		return why + "mount it with actimeo=1,lookupcache=positive: else a snapshot can miss what a command on another machine wrote"
	case strings.Contains(m.kind, "juicefs"):
		return why + "mount it with --attr-cache=1 --entry-cache=1 --dir-entry-cache=1"
	case strings.Contains(m.kind, "glusterfs"):
		return why + "mount it with attribute-timeout=1,entry-timeout=1 (the default)"
	case m.fuse():
		return why + "mount it with attr_timeout=1,entry_timeout=1, or what these are called there"
	case m.kind == "cifs" || m.kind == "smb3":
		return why + "mount it with actimeo=1"
	case m.kind == "9p":
		return why + "mount it with cache=none"
	}

	return why + "let its clients cache attributes for one second at most"
}
