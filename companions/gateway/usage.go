package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"github.com/tidwall/gjson"
)

// tally is the usage of one key's requests for one model.
type tally struct {
	Requests   int64 `json:"requests"`
	Estimated  int64 `json:"estimated_requests"` // requests without a usage report of the source
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`

	AudioBytes   int64   `json:"audio_bytes,omitzero"`   // of the recordings that were sent
	AudioSeconds float64 `json:"audio_seconds,omitzero"` // of recordings, as the source reported them
}

// bytesPerToken estimates the tokens of a text.
const bytesPerToken = 4

// maxTallies bounds the ledger; above it requests are counted under the model "other".
const maxTallies = 10_000

// ledger counts usage by key and model. It is stored in a file next to the settings.
type ledger struct {
	file string

	mu      sync.Mutex
	byKey   map[string]map[string]*tally
	count   int
	changed bool
}

func openLedger(settings string) (*ledger, error) {
	l := &ledger{file: filepath.Join(filepath.Dir(settings), "usage.json"), byKey: map[string]map[string]*tally{}}

	text, err := os.ReadFile(l.file)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}

	if err != nil {
		return nil, fmt.Errorf("usage of the gateway: %w", err)
	}

	if err := json.Unmarshal(text, &l.byKey); err != nil {
		return nil, fmt.Errorf("usage of the gateway: %s: %w", l.file, err)
	}

	for _, models := range l.byKey {
		l.count += len(models)
	}

	return l, nil
}

func (l *ledger) add(key, model string, one tally) {
	l.mu.Lock()
	defer l.mu.Unlock()

	if l.byKey[key] == nil {
		l.byKey[key] = map[string]*tally{}
	}

	sum := l.byKey[key][model]
	if sum == nil {
		if l.count >= maxTallies {
			model = "other"
		}

		if sum = l.byKey[key][model]; sum == nil {
			sum = &tally{}
			l.byKey[key][model] = sum
			l.count++
		}
	}

	sum.Requests += one.Requests
	sum.Estimated += one.Estimated
	sum.Prompt += one.Prompt
	sum.Completion += one.Completion
	sum.AudioBytes += one.AudioBytes
	sum.AudioSeconds += one.AudioSeconds
	l.changed = true
}

// text returns the ledger as JSON.
func (l *ledger) text() []byte {
	text, _ := json.MarshalIndent(l.byKey, "", "  ") // maps of numbers always encode
	return text
}

// save writes the ledger where it has changed.
func (l *ledger) save() error {
	l.mu.Lock()

	changed, text := l.changed, []byte(nil)
	if changed {
		text, l.changed = l.text(), false
	}
	l.mu.Unlock()

	if !changed {
		return nil
	}

	err := writeFile(l.file, text)
	if err != nil {
		l.mu.Lock()
		l.changed = true
		l.mu.Unlock()
	}

	return err
}

// showUsage returns the usage of all keys for the operator's key, else the key's own.
func (s *Service) showUsage(w http.ResponseWriter, _ *http.Request, by *caller) {
	s.usage.mu.Lock()
	defer s.usage.mu.Unlock()

	if by == s.table().callers[0] {
		writeJSON(w, http.StatusOK, map[string]any{"usage": s.usage.byKey})
		return
	}

	own := map[string]map[string]*tally{}
	if used := s.usage.byKey[by.name]; used != nil {
		own[by.name] = used
	}

	writeJSON(w, http.StatusOK, map[string]any{"usage": own})
}

// meter measures one answer.
type meter struct {
	prompt        int // bytes of the request
	transcription bool
	audio         int64 // bytes of the recording of a transcription
	pieces        int64
	reported      *tally
}

// read stores the usage that an object of the source reports. For a transcription it is tokens
// or seconds; the detailed format has the seconds as `duration`.
func (m *meter) read(object []byte) {
	usage := gjson.GetBytes(object, "usage")

	var seconds float64
	if m.transcription {
		seconds = max(usage.Get("seconds").Float(), gjson.GetBytes(object, "duration").Float(), 0)
	}

	if !usage.IsObject() && seconds == 0 {
		return
	}

	m.reported = &tally{
		Requests: 1, Prompt: max(usage.Get("prompt_tokens").Int(), usage.Get("input_tokens").Int(), 0),
		Completion: max(usage.Get("completion_tokens").Int(), usage.Get("output_tokens").Int(), 0),
		AudioBytes: m.audio, AudioSeconds: seconds,
	}
}

// tally returns the usage that the source reported, else an estimate: about a token for each
// piece of a streamed answer. The tokens of a recording are not estimated, because its size in
// bytes is a poor estimate.
func (m *meter) tally() tally {
	if m.reported != nil {
		return *m.reported
	}

	if m.transcription {
		return tally{Requests: 1, Estimated: 1, AudioBytes: m.audio}
	}

	return tally{Requests: 1, Estimated: 1, Prompt: int64(m.prompt / bytesPerToken), Completion: m.pieces}
}
