package tools

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Length counts characters.
func Length(s string) int { return utf8.RuneCountInString(s) }

// Clean makes text fit for the database, events and models: valid UTF-8 without
// NUL, which PostgreSQL cannot store.
func Clean(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	return strings.ReplaceAll(s, "\x00", "\uFFFD")
}

// Cut shortens text to n characters, the last of them an ellipsis.
func Cut(s string, n int) string {
	if Length(s) <= n {
		return s
	}

	return First(s, n-1) + "…"
}

// First returns the first n characters.
func First(s string, n int) string {
	if len(s) <= n {
		return s
	}

	for i := range s {
		if n == 0 {
			return s[:i]
		}

		n--
	}

	return s
}

// last returns the last n characters.
func last(s string, n int) string {
	i := len(s)
	for ; n > 0 && i > 0; n-- {
		_, size := utf8.DecodeLastRuneInString(s[:i])
		i -= size
	}

	return s[i:]
}

// HeadAndTail keeps the beginning and the end of a text that is too long, with
// the note between them, in at most limit characters.
func HeadAndTail(head, tail, note string, limit int) string {
	room := max(limit-Length(note), 0)
	return First(head, room/2) + note + last(tail, room-room/2)
}

// OutputPath returns where the whole of a shortened result is kept (docs/tools.md#for-all-tools).
func OutputPath(callID string) string { return OutputDir + "/" + fileName(callID) + ".txt" }

// TaskLogPath returns where the output of a background task grows.
func TaskLogPath(taskID string) string { return TaskLogDir + "/" + fileName(taskID) + ".log" }

// fileName makes any id fit for a file name.
func fileName(id string) string {
	safe := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		default:
			return '_'
		}
	}, id)
	if safe == "" {
		safe = "_"
	}

	return safe[:min(len(safe), 120)]
}

// ShortenedNote stands where characters were left out of a result.
func ShortenedNote(total int, path string) string {
	return fmt.Sprintf(
		"\n\n[… %d characters in all; the middle is left out here. All of it: %s, which Read can page with offset "+
			"and limit …]\n\n",
		total,
		path,
	)
}

// shorten keeps the whole of an output in a file and gives its head and tail.
func (r *Registry) shorten(ctx context.Context, c *Call, output string) string {
	path := OutputPath(c.ID)

	note := ShortenedNote(Length(output), path)
	if err := r.save(ctx, c.Session, path, output); err != nil {
		note = fmt.Sprintf("\n\n[… %d characters in all; the middle is left out here and could not be kept …]\n\n", Length(output))
	}

	return HeadAndTail(output, output, note, r.maxResult)
}

func (r *Registry) save(ctx context.Context, s SessionView, path, output string) error {
	files, err := r.workspaces.Open(ctx, s)
	if err != nil {
		return err
	}
	defer files.Close()

	_, err = files.Write(ctx, path, strings.NewReader(output), "")

	return err
}

// BackgroundTaskID returns the background task that a call starts: the same call again
// starts no second one.
func BackgroundTaskID(callID string) string { return "bg_" + strings.TrimPrefix(callID, "call_") }

// Shorten keeps the whole of a result that is too long for a model in a file of
// the workspace and gives its head and tail; a shorter one stays as it is.
func (r *Registry) Shorten(ctx context.Context, c *Call, output string) string {
	output = Clean(output)
	if Length(output) <= r.maxResult {
		return output
	}

	if r.workspaces == nil {
		return Cut(output, r.maxResult)
	}

	return r.shorten(ctx, c, output)
}
