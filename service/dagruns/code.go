package dagruns

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"everloop/domain"
	"everloop/domain/dagrun"
)

// maxCommand bounds the bytes of the code of a node with what it is given: Linux takes no
// longer argument of a program than 128 KiB, and Bash no command of over 100,000 characters.
const maxCommand = 100_000

// scriptOf returns the call of Bash that runs the code of a node, with the JSON of what it is
// given in the variable INPUTS.
func scriptOf(work dagrun.Work, limit time.Duration) (*domain.ScriptedCall, error) {
	n := work.Node

	inputs, err := json.Marshal(inputsOf(work.Request))
	if err != nil {
		return nil, fmt.Errorf("encode the inputs of a code node: %w", err)
	}

	command := "export INPUTS=" + quote(string(inputs)) + "\n" + configOf(n).Code
	if len(command) > maxCommand {
		return nil, domain.Newf(domain.Invalid, dagrun.CodeInvalidInputs,
			"the code of the node and what it is given have %d bytes; at most %d are possible", len(command), maxCommand)
	}

	if n.TimeoutS != nil {
		limit = min(limit, time.Duration(*n.TimeoutS)*time.Second)
	}

	return call("Bash", map[string]any{"command": command, "timeout": limit.Milliseconds()})
}

// inputsOf returns what a code node is given: its inputs, else the outputs of the nodes before it.
func inputsOf(request *dagrun.Request) map[string]any {
	if len(request.Inputs) > 0 {
		return request.Inputs
	}

	outputs := map[string]any{}
	for _, b := range request.Before {
		outputs[b.NodeID] = b.Output
	}

	return outputs
}

// quote makes one word of Bash of a text.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
