package permission

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
)

// arguments are the arguments of a call.
type arguments struct {
	members   map[string]any // the last member of a name, like the tools read them
	texts     []string       // every string and scalar, including nested ones and repeated members
	canonical string
	repeated  bool // a member is repeated: readers may differ about its value
}

// parseArguments reads the arguments of a call. Arguments that are not a JSON object have
// no members; their only text is the input.
func parseArguments(raw json.RawMessage) arguments {
	canonical := Canonical(raw)
	out := arguments{members: map[string]any{}, canonical: string(canonical)}

	if json.Unmarshal(raw, &out.members) != nil || out.members == nil {
		return arguments{members: map[string]any{}, texts: []string{string(raw)}, canonical: string(canonical)}
	}

	out.repeated = countTokens(raw) != countTokens(encode(out.members))

	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()

	for {
		token, err := decoder.Token()
		if err != nil {
			return out
		}

		switch value := token.(type) {
		case string:
			out.texts = append(out.texts, value)
		case json.Number:
			out.texts = append(out.texts, value.String())
		case bool:
			out.texts = append(out.texts, map[bool]string{true: "true", false: "false"}[value])
		}
	}
}

// text returns a string argument.
func (a arguments) text(name string) (string, bool) {
	value, ok := a.members[name].(string)
	return value, ok
}

// script returns the command of Bash; all arguments, if they do not match Bash's schema.
func (a arguments) script() string {
	if command, ok := a.text("command"); ok {
		return command
	}

	return a.canonical
}

// byName returns the arguments as texts: strings unchanged, other values as JSON.
func (a arguments) byName() map[string]string {
	out := make(map[string]string, len(a.members))

	for name, value := range a.members {
		if text, ok := value.(string); ok {
			out[name] = text
			continue
		}

		out[name] = string(encode(value))
	}

	return out
}

// Canonical returns JSON with sorted members, without blanks and with numbers as they were
// written. Input that is not exactly one JSON value, or that repeats a member, is returned
// unchanged: its readers may differ about it.
func Canonical(raw json.RawMessage) json.RawMessage {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()

	var value any
	if decoder.Decode(&value) != nil || decoder.More() {
		return raw
	}

	if canonical := encode(value); countTokens(raw) == countTokens(canonical) {
		return canonical
	}

	return raw
}

func countTokens(raw []byte) (n int) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	for {
		if _, err := decoder.Token(); err != nil {
			return n
		}

		n++
	}
}

func encode(value any) []byte {
	var out bytes.Buffer

	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)

	if encoder.Encode(value) != nil {
		return nil
	}

	return bytes.TrimRight(out.Bytes(), "\n")
}

// Digest identifies a call by its tool and its canonical arguments.
func Digest(tool string, raw json.RawMessage) string {
	hash := sha256.New()
	hash.Write([]byte(tool))
	hash.Write([]byte{0})
	hash.Write(Canonical(raw))

	return "sha256:" + hex.EncodeToString(hash.Sum(nil))
}

// mainArgument names the argument that an allow rule with a pattern is about, for tools
// whose schema takes no further members. Other tools have none: their allow rules name
// the argument, or match the only text of the call.
var mainArgument = map[string]string{
	"WebFetch": "url", "WebSearch": "query", "Agent": "subagent_type", "Skill": "name",
}

// defaultAgent is the type of a sub-agent whose call specifies none.
const defaultAgent = "general-purpose"

// argumentSubject judges all arguments, so that no argument hides another.
func argumentSubject(call Call, args arguments) subject {
	s := subject{members: args.byName(), texts: append([]string{args.canonical}, args.texts...)}

	for _, text := range args.texts {
		if trimmed := strings.TrimSpace(text); trimmed != text {
			s.texts = append(s.texts, trimmed)
		}
	}

	if args.repeated {
		return subject{texts: s.texts, possible: []string{string(unknown)}}
	}

	main, ok := args.text(mainArgument[call.Tool])
	if !ok && call.Tool == "Agent" {
		main, ok = defaultAgent, true
		s.texts = append(s.texts, main)
	}

	if ok {
		s.allowed = [][]string{{strings.TrimSpace(main)}}
		return s
	}

	whole := []string{args.canonical}

	if len(args.members) == 1 {
		for _, value := range args.members {
			if text, ok := value.(string); ok {
				whole = append(whole, strings.TrimSpace(text))
			}
		}
	}

	s.allowed = [][]string{whole}

	return s
}
