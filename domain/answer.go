package domain

// StoredAnswer is the first answer to a request that carried an
// Idempotency-Key, as its repeats get it.
type StoredAnswer struct {
	Status      int
	ContentType string
	Body        []byte
	Form        []byte // names the content of a request that was a form; empty: it was none
}
