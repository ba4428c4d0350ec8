// Package buildid identifies the build of the running program, so that workers of different
// builds are distinguished. It must not depend on the use of the id.
package buildid

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io"
	"os"
)

// hashLength is the number of hexadecimal digits of the hash in the name.
const hashLength = 12

// Of returns the version and a hash of the running program, such as 2611.0.0-b92b24adeb9c. Equal
// sources, flags and toolchains result in equal ids on all machines.
func Of(version string) (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the running program: %w", err)
	}

	hash, err := ofFile(path)
	if err != nil {
		return "", fmt.Errorf("hash the running program: %w", err)
	}

	return version + "-" + hash, nil
}

// ofFile returns the hash of a program's build id, which the linker derives from all its inputs;
// without a build id, the hash of the file.
func ofFile(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()

	hash := sha256.New()
	if id := linkedID(file); id != nil {
		hash.Write(id)
	} else if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}

	return hex.EncodeToString(hash.Sum(nil))[:hashLength], nil
}

// linkedID returns the build id in the note of Go's linker; nil: none.
func linkedID(file io.ReaderAt) []byte {
	program, err := elf.NewFile(file)
	if err != nil {
		return nil // another format, such as on macOS
	}

	section := program.Section(".note.go.buildid")
	if section == nil {
		return nil
	}

	note, err := section.Data()
	if err != nil || len(note) == 0 {
		return nil
	}

	return note
}
