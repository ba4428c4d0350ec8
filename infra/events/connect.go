package events

import "github.com/nats-io/nats.go"

// readQueue is how many messages wait for the reader of one answer. An answer has at
// most batchMessages, or one for each subject that was asked for.
const readQueue = 4096

// ConnectOptions returns what a connection for [Open] should have in addition to its address.
// A read takes its own queue for the time of one answer; the library's own
// size of 65,536 would take half a megabyte each time.
func ConnectOptions() []nats.Option { return []nats.Option{nats.SyncQueueLen(readQueue)} }
