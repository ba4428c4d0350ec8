package mock

// sink takes the pieces of an answer, for a stream or for a whole completion.
type sink interface {
	begin() error
	thinking(piece string) error
	text(piece string) error
	prepare(word string) func() error // a text piece that costs little to send again
	call(index int, id, name, arguments string) error
	end(finish string, usage Usage, step *Step) error
	flush()
	fail(fault *apiError) // an error after the answer began
	garble()              // something that is not JSON
}
