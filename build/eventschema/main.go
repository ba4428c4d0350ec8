// Command eventschema prints docs/events.json, the JSON Schema of the events.
package main

import (
	"fmt"
	"os"

	"everloop/internal/eventschema"
)

func main() {
	document, err := eventschema.Document()
	if err != nil {
		fmt.Fprintln(os.Stderr, "eventschema:", err)
		os.Exit(1)
	}

	_, _ = os.Stdout.Write(document)
}
