package events

import "github.com/nats-io/nats.go"

// readQueue is the capacity of a read's message queue. A response has at most batchMessages, or
// one for each requested subject.
const readQueue = 4096

// ConnectOptions returns the options that [Open] recommends for its connection. Each read
// allocates a queue; the library's default capacity of 65,536 would use half a megabyte each
// time.
func ConnectOptions() []nats.Option { return []nats.Option{nats.SyncQueueLen(readQueue)} }
