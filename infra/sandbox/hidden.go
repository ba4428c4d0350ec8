//go:build linux

package sandbox

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"everloop/internal/diskspace"
)

// maxDescriptors bounds how many open files of one command are looked at.
const maxDescriptors = 100_000

// deletedFiles adds up the sizes of unlinked files on a device that the
// processes below pid have open or mapped. Unreadable entries are skipped.
func deletedFiles(pid int, device uint64) diskspace.Usage {
	var used diskspace.Usage

	seen := map[uint64]bool{}
	left := maxDescriptors

	for _, pid := range append(descendants(pid), pid) {
		for _, list := range []string{"fd", "map_files"} {
			dir := "/proc/" + strconv.Itoa(pid) + "/" + list

			names, err := readNames(dir, left)
			if err != nil {
				continue
			}

			left -= len(names)
			for _, name := range names {
				var st unix.Stat_t
				if unix.Stat(dir+"/"+name, &st) != nil || st.Nlink > 0 || st.Mode&unix.S_IFMT != unix.S_IFREG ||
					uint64(st.Dev) != device || seen[st.Ino] {
					continue
				}

				seen[st.Ino] = true
				used = used.Plus(diskspace.Usage{Bytes: st.Blocks*512 + diskspace.PerInode, Inodes: 1})
			}
		}
	}

	return used
}

func readNames(dir string, most int) ([]string, error) {
	if most <= 0 {
		return nil, os.ErrNotExist
	}

	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}

	defer func() { _ = f.Close() }()

	names, _ := f.Readdirnames(most) // a process may end while it is looked at

	return names, nil
}
