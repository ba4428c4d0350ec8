package recordings

import (
	"bytes"
	"encoding/json"
	"strings"
)

// verbatim names the fields of events that hold text of people, models and
// tools: whatever it looks like, it is never an id.
var verbatim = map[string]bool{
	"text_delta": true, "result": true, "arguments": true, "summary_full": true, "summary_preview": true, "label": true,
	"failure_reason": true, "message": true, "question": true, "intent": true,
}

// Names give the ids of one session as those of another.
type Names struct {
	IDs map[string]string
	// From and To are the sessions, for the paths of attachments.
	From, To string
}

// Path gives the path of an attachment in the other session; any other text
// stays as it is.
func (n Names) Path(content string) string {
	rest, ours := strings.CutPrefix(content, "/api/sessions/"+n.From+"/attachments/")
	if !ours {
		return content
	}

	return "/api/sessions/" + n.To + "/attachments/" + rest
}

// Data rewrites the payload of an event: every field that is exactly a known id
// gets its new name. Text stays as it is.
func (n Names) Data(data json.RawMessage) (json.RawMessage, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()

	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}

	var out bytes.Buffer

	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)

	if err := encoder.Encode(n.value("", value)); err != nil {
		return nil, err
	}

	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

func (n Names) value(field string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		attached := v["type"] == "image" || v["type"] == "audio"
		for name, inner := range v {
			switch text, isText := inner.(string); {
			case name == "content" && isText:
				if attached {
					v[name] = n.Path(text)
				}
			case verbatim[name] && isText:
			default:
				v[name] = n.value(name, inner)
			}
		}

		return v
	case []any:
		for i, inner := range v {
			v[i] = n.value(field, inner)
		}

		return v
	case string:
		if to, known := n.IDs[v]; known {
			return to
		}

		if v == n.From && n.From != "" {
			return n.To
		}
	}

	return v
}
