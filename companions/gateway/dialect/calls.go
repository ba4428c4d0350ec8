package dialect

import (
	"strings"

	"github.com/tidwall/gjson"
)

const (
	badArguments = "the source called a tool with arguments that are not a JSON object"
	noName       = "the source called a tool without a name"
)

// callPiece is a piece of a tool call. According to the interface it continues the call with
// its index, whose id and name are in the first piece only. Sources differ: some omit the
// index, some send whole calls with index 0 each, some repeat the name or generate an id for
// each piece.
type callPiece struct {
	place               int64
	id, name, arguments string
	of                  gjson.Result
}

// pieceOf parses a piece, which is at an index of its list.
func pieceOf(place int64, piece gjson.Result) callPiece {
	if index := piece.Get("index"); index.Exists() {
		place = index.Int()
	}

	return callPiece{
		place: place, id: piece.Get("id").String(), name: piece.Get("function.name").String(),
		arguments: piece.Get("function.arguments").String(), of: piece,
	}
}

// begins reports whether a piece starts a new call instead of continuing the last one at its
// index: it has a name, and another id, or arguments from their start while the arguments of
// the last call are complete.
func (p callPiece) begins(id string, arguments []byte) bool {
	switch {
	case p.name == "":
		return false
	case p.id != "" && id != "" && p.id != id:
		return true
	}

	return len(arguments) > 0 && strings.HasPrefix(p.arguments, "{") && isObject(string(arguments))
}
