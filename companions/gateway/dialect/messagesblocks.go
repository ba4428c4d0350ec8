package dialect

import (
	"strings"

	"github.com/tidwall/gjson"
)

// blockNote translates a user's block that is neither text nor an image: to its text if it has
// one, else to a note. Model servers that cannot read a file reject the whole conversation.
func blockNote(at string, block gjson.Result) (string, *Invalid) {
	switch kind := block.Get("type").String(); kind {
	case "document":
		return documentText(at, block)
	case "search_result":
		text := titled(block.Get("title").String(), textsOf(block.Get("content")))
		if source := block.Get("source").String(); source != "" {
			text += "\n" + source
		}

		return text, nil
	case "tool_reference":
		return "Tool: " + block.Get("tool_name").String(), nil
	case "container_upload", "file":
		return "[file omitted: the model server cannot read it]", nil
	}

	return "", wrong(at+".type", "is unknown or cannot be translated to chat completions")
}

func documentText(at string, block gjson.Result) (string, *Invalid) {
	source, title := block.Get("source"), block.Get("title").String()

	switch source.Get("type").String() {
	case "text":
		var text string
		if fault := stringOf(at+".source.data", source.Get("data"), &text); fault != nil {
			return "", fault
		}

		return titled(title, text), nil
	case "content":
		return titled(title, textsOf(source.Get("content"))), nil
	case "base64", "url", "file":
		note := "[document"

		for _, word := range []string{title, source.Get("media_type").String(), source.Get("url").String()} {
			if word != "" {
				note += " " + word
			}
		}

		return note + " omitted: the model server cannot read it]", nil
	}

	return "", wrong(at+".source.type", "must be text, content, base64, url or file")
}

func titled(title, text string) string {
	if title == "" {
		return text
	}

	return title + "\n\n" + text
}

// textsOf joins the texts of a content.
func textsOf(content gjson.Result) string {
	if content.Type == gjson.String {
		return content.String()
	}

	var texts []string

	for _, one := range content.Array() {
		switch one.Get("type").String() {
		case "text":
			texts = append(texts, one.Get("text").String())
		case "image":
			texts = append(texts, "[image omitted]")
		}
	}

	return strings.Join(texts, "\n")
}

// foreignBlocks are block types that only other services write: encrypted thinking, and tools
// that they run. The assistant's text contains the relevant results.
var foreignBlocks = []string{"redacted_thinking", "server_tool_use", "mcp_tool_use", "mcp_tool_result", "container_upload", "fallback"}

// foreignBlock omits a block of the assistant.
func foreignBlock(at string, block gjson.Result) *Invalid {
	kind := block.Get("type").String()
	for _, one := range foreignBlocks {
		if kind == one {
			return nil
		}
	}

	if strings.HasSuffix(kind, "_tool_result") {
		return nil
	}

	return wrong(at+".type", "is unknown or cannot be translated to chat completions")
}
