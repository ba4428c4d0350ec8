// Package localserver runs llama.cpp's llama-server for a source of the model gateway: it
// starts the program on a free port of the loopback address with its own key, tracks its
// loading, restarts it when it exits, and terminates its whole process group.
package localserver

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// DefaultProgram is looked up in PATH.
const DefaultProgram = "llama-server"

// Bounds of the settings of a server.
const (
	MaxSlots   = 256
	MaxContext = 1 << 24 // tokens of one request

	maxArgs = 256
	maxArg  = 4096 // bytes of one
)

// Config is the configuration of a server process. Equal configurations run the same process.
type Config struct {
	Name         string // of the source
	Program      string // a name on PATH, or an absolute path; empty: DefaultProgram
	ModelFile    string
	Args         []string      // further arguments, appended to the gateway's
	Context      int           // max tokens of one request; 0: the program's default for the model
	Slots        int           // max concurrent requests
	StartTimeout time.Duration // until the model is loaded
}

// Equal reports whether both configurations run the same process.
func (c Config) Equal(other Config) bool {
	same := slices.Equal(c.Args, other.Args)
	c.Args, other.Args = nil, nil

	return same && fmt.Sprintf("%#v", c) == fmt.Sprintf("%#v", other)
}

// Alias returns the id that the server lists for its model.
func (c Config) Alias() string { return Alias(c.ModelFile) }

// Alias returns the id of the model of a file.
func Alias(file string) string { return strings.TrimSuffix(filepath.Base(file), ".gguf") }

// own are arguments that the gateway sets, or that would hide the server from it. Keys do not
// belong into arguments, which every user of the machine can read.
var own = []string{
	"-m", "--model", "-a", "--alias", "--host", "--port", "--reuse-port", "--api-key", "--api-key-file", "--api-prefix",
	"--ssl-key-file", "--ssl-cert-file", "-c", "--ctx-size", "-np", "--parallel", "-hft", "--hf-token",
}

// Faults returns the faults of the settings themselves; each starts with the name of its field.
func (c Config) Faults() (faults []error) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }

	if !filepath.IsAbs(c.ModelFile) || strings.ContainsRune(c.ModelFile, 0) {
		fault("model_file must be an absolute path")
	}

	if strings.ContainsRune(c.Program, '/') && !filepath.IsAbs(c.Program) || strings.ContainsRune(c.Program, 0) {
		fault("program must be an absolute path, or a name without a slash")
	}

	if len(c.Args) > maxArgs {
		fault("args must have at most %d entries", maxArgs)
	}

	for i, arg := range c.Args {
		name, _, _ := strings.Cut(arg, "=")

		switch {
		case len(arg) > maxArg || strings.ContainsRune(arg, 0):
			fault("args[%d] must have at most %d bytes and no zero byte", i, maxArg)
		case slices.Contains(own, name):
			fault("args[%d] must not be %s: the gateway sets it, or it would keep the gateway from the server", i, name)
		}
	}

	if c.Context < 0 || c.Context > MaxContext {
		fault("context must be between 0 and %d", MaxContext)
	}

	if c.Slots < 0 || c.Slots > MaxSlots {
		fault("slots must be between 0 and %d", MaxSlots)
	}

	return faults
}

// Inspect checks that this machine has the program and the files of the settings.
func (c Config) Inspect() error {
	_, err := c.program()

	return errors.Join(checkModel(c.ModelFile), err)
}

// program returns the path of the program.
func (c Config) program() (string, error) {
	name := c.Program
	if name == "" {
		name = DefaultProgram
	}

	path, err := exec.LookPath(name)

	switch {
	case err == nil:
		return path, nil
	case errors.Is(err, os.ErrPermission):
		return "", fmt.Errorf("program %s is not executable", name)
	case filepath.IsAbs(name):
		return "", fmt.Errorf("program %s does not exist or is not a program", name)
	}

	return "", fmt.Errorf("program %s is not in the directories of PATH: install llama.cpp, or set program to its absolute path", name)
}

// magic is the prefix of files in the format that llama.cpp reads.
const magic = "GGUF"

func checkModel(file string) error {
	info, err := os.Stat(file)

	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("model_file %s does not exist", file)
	case err != nil:
		return fmt.Errorf("model_file: %w", err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("model_file %s is not a regular file", file)
	}

	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("model_file cannot be read: %w", err)
	}
	defer f.Close()

	begin := make([]byte, len(magic))
	if _, err := io.ReadFull(f, begin); err != nil || string(begin) != magic {
		return fmt.Errorf("model_file %s is not a GGUF file", file)
	}

	return nil
}

// arguments of the program for a port.
func (c Config) arguments(port int) []string {
	slots := max(c.Slots, 1)

	args := []string{
		"--model", c.ModelFile, "--alias", c.Alias(), "--host", loopback, "--port", strconv.Itoa(port),
		"--parallel", strconv.Itoa(slots),
	}
	if c.Context > 0 { // the program divides it between the slots
		args = append(args, "--ctx-size", strconv.Itoa(c.Context*slots))
	}

	return append(args, c.Args...)
}

// passed are variables of the gateway's environment that the program receives: paths of
// programs, libraries and caches, and the processors and devices to use. All others, including
// keys, are removed.
var (
	passed   = []string{"PATH", "HOME", "LANG", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "XDG_CACHE_HOME"}
	prefixes = []string{"CUDA_", "GGML_", "GPU_", "HIP_", "HSA_", "NVIDIA_", "OMP_", "ONEAPI_", "ROCM_", "ROCR_", "SYCL_", "VK_", "ZE_"}
)

// environment returns the environment of the program. It contains the key, which must not be an
// argument, because every user of the machine can read arguments.
func environment(all []string, key string) []string {
	var env []string

	for _, one := range all {
		name, _, _ := strings.Cut(one, "=")
		if slices.Contains(passed, name) || slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			env = append(env, one)
		}
	}

	return append(env, "LLAMA_API_KEY="+key)
}

// discard returns the log of a server that has none.
func discard(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.New(slog.DiscardHandler)
	}

	return log
}
