package replay

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"everloop/domain"
	"everloop/domain/replay"
)

// Prefix returns where the scripts of a replay session lie; who deletes the
// session deletes them.
func Prefix(sessionID domain.SessionID) string {
	return "replays/" + string(sessionID) + "/"
}

// maxStep bounds one step that is read back, in bytes.
const maxStep = 64 << 20

// Encode makes an object of a script.
func Encode(steps []replay.Step) ([]byte, error) {
	var out bytes.Buffer

	zip, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}

	lines := json.NewEncoder(zip)
	lines.SetEscapeHTML(false)

	for _, step := range steps {
		if err := lines.Encode(step); err != nil {
			return nil, err
		}
	}

	if err := zip.Close(); err != nil {
		return nil, err
	}

	return out.Bytes(), nil
}

// Decode reads a script.
func Decode(data []byte) ([]replay.Step, error) {
	unzip, err := zstd.NewReader(bytes.NewReader(data), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer unzip.Close()

	lines := bufio.NewScanner(unzip)
	lines.Buffer(nil, maxStep)

	var steps []replay.Step

	for lines.Scan() {
		var step replay.Step
		if err := json.Unmarshal(lines.Bytes(), &step); err != nil {
			return nil, fmt.Errorf("step %d of the script: %w", len(steps), err)
		}

		steps = append(steps, step)
	}

	return steps, lines.Err()
}
