package commands

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"

	"everloop/activities/tools"
	"everloop/domain"
)

// A task can replace its own log by any file, as large as it likes. These bounds
// hold for the reader whatever it finds; bytes.
const (
	// MaxTaskLog is how large a log becomes, and how much of one is read.
	MaxTaskLog = 256 << 20
	// maxTaskTail is how much of the end of a log is returned.
	maxTaskTail = 8 << 20
	// logBlock is how much is read at once.
	logBlock = 64 << 10
)

// ReadTaskLog returns the last whole lines of a log, at most tail and at most 8 MiB
// of them, with the stream that each came from, and counts all lines. It reads the
// first 256 MiB of a file, which is all that a log can have.
func ReadTaskLog(ctx context.Context, log io.ReadSeeker, tail int) (domain.TaskOutput, error) {
	out := domain.TaskOutput{Lines: []string{}, Markers: []string{}, Tail: tail}
	if err := countLog(ctx, log, &out); err != nil {
		return out, err
	}

	start, err := tailStart(ctx, log, out.NextOffset, tail)
	if err != nil {
		return out, err
	}

	text := make([]byte, out.NextOffset-start)
	if _, err := log.Seek(start, io.SeekStart); err != nil {
		return out, err
	}

	n, err := io.ReadFull(log, text)
	if err != nil && !shortened(err) {
		return out, err
	}

	for line := range bytes.Lines(text[:n]) {
		out.Lines, out.Markers = appendLine(out.Lines, out.Markers, line)
	}

	out.Truncated = out.TotalLines > int64(len(out.Lines))

	return out, nil
}

// shortened reports that a file ended before the place where it ended a moment ago.
func shortened(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

func appendLine(lines, markers []string, line []byte) (moreLines, moreMarkers []string) {
	text, marker := string(bytes.TrimSuffix(line, []byte("\n"))), ""
	if rest, ok := strings.CutPrefix(text, outMark); ok {
		text, marker = rest, "stdout"
	} else if rest, ok := strings.CutPrefix(text, errMark); ok {
		text, marker = rest, "stderr"
	}

	return append(lines, tools.Clean(text)), append(markers, marker)
}

// countLog sets how many whole lines there are, and where the last one ends.
func countLog(ctx context.Context, log io.ReadSeeker, out *domain.TaskOutput) error {
	if _, err := log.Seek(0, io.SeekStart); err != nil {
		return err
	}

	block := make([]byte, logBlock)

	for at := int64(0); at < MaxTaskLog; {
		if err := ctx.Err(); err != nil {
			return err
		}

		n, err := log.Read(block[:min(logBlock, MaxTaskLog-at)])
		if last := bytes.LastIndexByte(block[:n], '\n'); last >= 0 {
			out.TotalLines += int64(bytes.Count(block[:n], []byte("\n")))
			out.NextOffset = at + int64(last) + 1
		}

		at += int64(n)

		if errors.Is(err, io.EOF) {
			return nil
		}

		if err != nil {
			return err
		}
	}

	return nil
}

// tailStart finds where the last lines of a log start, which ends at end: at most
// tail lines, and at most maxTaskTail bytes.
func tailStart(ctx context.Context, log io.ReadSeeker, end int64, tail int) (int64, error) {
	floor := max(0, end-maxTaskTail)
	start := end // of the first line that was found whole
	block := make([]byte, logBlock)

	for at, ends := end, 0; at > floor; {
		if err := ctx.Err(); err != nil {
			return 0, err
		}

		part := block[:min(logBlock, at-floor)]

		at -= int64(len(part))
		if _, err := log.Seek(at, io.SeekStart); err != nil {
			return 0, err
		}

		if _, err := io.ReadFull(log, part); err != nil {
			if shortened(err) {
				return end, nil
			}

			return 0, err
		}

		for i := bytes.LastIndexByte(part, '\n'); i >= 0; i = bytes.LastIndexByte(part[:i], '\n') {
			start = at + int64(i) + 1
			if ends++; ends > tail {
				return start, nil
			}
		}
	}

	if floor == 0 && tail > 0 {
		return 0, nil
	}

	return start, nil
}
