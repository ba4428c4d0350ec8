package domain

// StoredAnswer is the response to the first request with an Idempotency-Key, which repeats of
// the request receive.
type StoredAnswer struct {
	Status      int
	ContentType string
	Body        []byte
	Form        []byte // identifies the content of a form request; empty: not a form
}
