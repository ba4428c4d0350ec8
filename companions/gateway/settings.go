package gateway

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Kinds of sources.
const (
	KindOpenAI = "openai"       // any chat-completions server
	KindLlama  = "llama_server" // a llama-server process, external or run by the gateway
	KindDemo   = "demo"         // the scripted model of the mock service
)

// DefaultModel as the target of an alias is the model of default_model.
const DefaultModel = "default_model"

// Settings are the content of config.yaml.
type Settings struct {
	Keys         []Key             `yaml:"keys" json:"keys"`
	Sources      []Source          `yaml:"sources" json:"sources"`
	Aliases      map[string]string `yaml:"aliases,omitempty" json:"aliases,omitempty"`
	DefaultModel string            `yaml:"default_model,omitempty" json:"default_model,omitempty"`
	ASRModel     string            `yaml:"asr_model,omitempty" json:"asr_model,omitempty"`
}

// Key opens the gateway to one client.
type Key struct {
	Name           string   `yaml:"name" json:"name"`
	Key            string   `yaml:"key" json:"key"`
	Models         []string `yaml:"models,omitempty" json:"models,omitempty"`                   // empty: all
	MaxConcurrency int      `yaml:"max_concurrency,omitempty" json:"max_concurrency,omitempty"` // 0: no limit
}

// Source is a server that runs models.
type Source struct {
	Name           string  `yaml:"name" json:"name"`
	Kind           string  `yaml:"kind" json:"kind"`
	BaseURL        string  `yaml:"base_url,omitempty" json:"base_url,omitempty"` // with or without /v1
	APIKey         string  `yaml:"api_key,omitempty" json:"api_key,omitempty"`
	MaxConcurrency int     `yaml:"max_concurrency,omitempty" json:"max_concurrency,omitempty"`
	MaxQueue       int     `yaml:"max_queue,omitempty" json:"max_queue,omitempty"`
	MaxWaitS       float64 `yaml:"max_wait_s,omitempty" json:"max_wait_s,omitempty"`         // in the queue
	TimeoutS       float64 `yaml:"timeout_s,omitempty" json:"timeout_s,omitempty"`           // until the first data of an answer
	IdleTimeoutS   float64 `yaml:"idle_timeout_s,omitempty" json:"idle_timeout_s,omitempty"` // of silence in a stream
	WarmUp         bool    `yaml:"warm_up,omitempty" json:"warm_up,omitempty"`
	Models         []Model `yaml:"models,omitempty" json:"models,omitempty"` // empty: all models of the server's list

	// For a server that the gateway runs. The first three can be changed only in the file.
	ModelFile     string   `yaml:"model_file,omitempty" json:"model_file,omitempty"`
	Program       string   `yaml:"program,omitempty" json:"program,omitempty"` // empty: llama-server, on PATH
	Args          []string `yaml:"args,omitempty" json:"args,omitempty"`
	Context       int      `yaml:"context,omitempty" json:"context,omitempty"`                 // tokens of one request
	Slots         int      `yaml:"slots,omitempty" json:"slots,omitempty"`                     // max concurrent requests; 0: 1
	StartTimeoutS float64  `yaml:"start_timeout_s,omitempty" json:"start_timeout_s,omitempty"` // until the model is loaded
}

// Model is a model of a source.
type Model struct {
	ID            string   `yaml:"id" json:"id"`
	UpstreamID    string   `yaml:"upstream_id,omitempty" json:"upstream_id,omitempty"`
	ContextWindow int64    `yaml:"context_window,omitempty" json:"context_window,omitempty"`
	Modalities    []string `yaml:"modalities,omitempty" json:"modalities,omitempty"`
}

// Values of a source that names none.
const (
	defaultConcurrency = 4
	defaultQueue       = 64
	defaultWait        = time.Minute
	defaultTimeout     = 10 * time.Minute
	defaultIdle        = 2 * time.Minute

	maxConcurrency = 4096
	maxQueue       = 65536
	maxSeconds     = 86400
	maxSettings    = 4 << 20 // bytes of the file
)

//go:embed default.yaml
var defaultFile []byte

// Load reads the settings of a file. A file that does not exist is made, with the demo
// source and the aliases of known models.
func Load(file string) (Settings, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		if err := writeFile(file, defaultFile); err != nil {
			return Settings{}, fmt.Errorf("make the configuration of the gateway: %w", err)
		}

		return Parse(defaultFile)
	}

	if err != nil {
		return Settings{}, fmt.Errorf("configuration of the gateway: %w", err)
	}

	defer f.Close()

	text, err := io.ReadAll(io.LimitReader(f, maxSettings+1))
	if err != nil {
		return Settings{}, fmt.Errorf("configuration of the gateway: %w", err)
	}

	if len(text) > maxSettings {
		return Settings{}, fmt.Errorf("%s exceeds %d bytes", file, maxSettings)
	}

	set, err := Parse(text)
	if err != nil {
		return Settings{}, fmt.Errorf("%s: %w", file, err)
	}

	return set, nil
}

// Parse reads settings and reports all their faults.
func Parse(text []byte) (Settings, error) {
	var set Settings

	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)

	if err := decoder.Decode(&set); err != nil && !errors.Is(err, io.EOF) {
		return Settings{}, err
	}

	return set, set.check()
}

// DemoOnly reports whether no source is a real model server.
func (s Settings) DemoOnly() bool {
	return !slices.ContainsFunc(s.Sources, func(one Source) bool { return one.Kind != KindDemo })
}

func (s Settings) check() error {
	var faults []error

	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }

	names, keys := map[string]bool{}, map[string]bool{}
	for i, k := range s.Keys {
		if k.Name == "" || k.Name == operator || names[k.Name] {
			fault("keys[%d].name must be set, differ from the others, and not be "+operator, i)
		}

		if len(k.Key) < 16 || strings.ContainsAny(k.Key, " \t\r\n") || keys[k.Key] {
			fault("keys[%d].key must have at least 16 characters, no spaces, and differ from the others", i)
		}

		if k.MaxConcurrency < 0 {
			fault("keys[%d].max_concurrency must not be negative", i)
		}

		names[k.Name], keys[k.Key] = true, true
	}

	if len(s.Sources) == 0 {
		fault("sources must have at least one entry")
	}

	names = map[string]bool{}
	for i, one := range s.Sources {
		if one.Name == "" || names[one.Name] {
			fault("sources[%d].name must be set and differ from the others", i)
		}

		names[one.Name] = true
		for _, err := range one.faults() {
			fault("sources[%d].%w", i, err)
		}
	}

	for name, target := range s.Aliases {
		if name == "" || target == "" {
			fault("aliases: names and models must not be empty")
		}

		if target == DefaultModel && s.DefaultModel == "" {
			fault("aliases.%s names default_model, which is not set", name)
		}
	}

	return errors.Join(faults...)
}

func (s Source) faults() (faults []error) {
	fault := func(text string) { faults = append(faults, errors.New(text)) }

	switch s.Kind {
	case KindDemo, KindOpenAI, KindLlama:
	default:
		fault("kind must be openai, llama_server or demo")
	}

	if s.Kind != KindDemo && !s.runs() || s.BaseURL != "" {
		u, err := url.Parse(s.BaseURL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" {
			fault("base_url must be an address with http:// or https://, without credentials and parameters")
		}
	}

	faults = append(faults, s.serverFaults()...)

	if s.MaxConcurrency < 0 || s.MaxConcurrency > maxConcurrency {
		fault(fmt.Sprintf("max_concurrency must be between 0 and %d", maxConcurrency))
	}

	if s.MaxQueue < 0 || s.MaxQueue > maxQueue {
		fault(fmt.Sprintf("max_queue must be between 0 and %d", maxQueue))
	}

	for name, value := range map[string]float64{
		"max_wait_s": s.MaxWaitS, "timeout_s": s.TimeoutS, "idle_timeout_s": s.IdleTimeoutS, "start_timeout_s": s.StartTimeoutS,
	} {
		if !(value >= 0 && value <= maxSeconds) {
			fault(fmt.Sprintf("%s must be between 0 and %d", name, maxSeconds))
		}
	}

	ids := map[string]bool{}
	for i, m := range s.Models {
		if m.ID == "" || ids[m.ID] {
			fault(fmt.Sprintf("models[%d].id must be set and differ from the others", i))
		}

		if m.ContextWindow < 0 {
			fault(fmt.Sprintf("models[%d].context_window must not be negative", i))
		}

		ids[m.ID] = true
	}

	return faults
}

func (s Source) wait() time.Duration    { return seconds(s.MaxWaitS, defaultWait) }
func (s Source) timeout() time.Duration { return seconds(s.TimeoutS, defaultTimeout) }
func (s Source) idle() time.Duration    { return seconds(s.IdleTimeoutS, defaultIdle) }

func seconds(value float64, otherwise time.Duration) time.Duration {
	if value == 0 {
		return otherwise
	}

	return time.Duration(value * float64(time.Second))
}

// writeFile replaces a file atomically, readable only by its owner: it contains keys.
func writeFile(file string, text []byte) error {
	dir := filepath.Dir(file)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}

	f, err := os.CreateTemp(dir, partOf(file)+"*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())

	_, err = f.Write(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}

	if err := os.Rename(f.Name(), file); err != nil {
		return err
	}

	parent, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer parent.Close()

	return parent.Sync()
}

// partOf returns the prefix of the names of temporary files for a file.
func partOf(file string) string { return "." + filepath.Base(file) + "." }

// removeParts removes temporary files that a killed process left. Their names end in a number,
// so that an editor's files with the same prefix stay.
func removeParts(file string) error {
	dir := filepath.Dir(file)

	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		number, is := strings.CutPrefix(entry.Name(), partOf(file))
		if _, not := strconv.ParseUint(number, 10, 64); is && not == nil && entry.Type().IsRegular() {
			err = errors.Join(err, os.Remove(filepath.Join(dir, entry.Name())))
		}
	}

	return err
}
