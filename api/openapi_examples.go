package api

import (
	_ "embed"
	"encoding/json"
	"strings"
)

// examplesFile has the examples of the document, by operation: answers of a real
// service, shortened. A test holds each to its schema.
//
//go:embed examples.json
var examplesFile []byte

// operationExamples are the examples of one operation.
type operationExamples struct {
	Request json.RawMessage            `json:"request,omitempty"`
	Answers map[string]json.RawMessage `json:"answers,omitempty"` // by status, or status and content type
}

// answer gives the example of a status. One that is text is for the content types
// of text, anything else for JSON.
func (e operationExamples) answer(status, contentType string) (json.RawMessage, bool) {
	if example, ok := e.Answers[status+" "+contentType]; ok {
		return example, true
	}
	example, ok := e.Answers[status]
	isText := strings.HasPrefix(string(example), `"`)
	return example, ok && isText == strings.HasPrefix(contentType, "text/")
}

var examples = mustReadExamples()

func mustReadExamples() map[string]operationExamples {
	var all map[string]operationExamples
	if err := json.Unmarshal(examplesFile, &all); err != nil {
		panic("examples.json: " + err.Error()) // it is part of the program
	}
	return all
}
