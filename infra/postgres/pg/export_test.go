package pg

// QueuedBytes returns the memory that an outbox's copies of events take.
func QueuedBytes(o *Outbox) int {
	o.queue.mu.Lock()
	defer o.queue.mu.Unlock()

	return o.queue.bytes
}

// QueuedSessions counts the sessions in an outbox's publish queue.
func QueuedSessions(o *Outbox) int { return len(o.queue.active()) }

// CloseQueue stops an outbox's publishing, as the death of its process does.
func CloseQueue(o *Outbox) { o.queue.close() }

// FailOver has a DB see a failover to the server that it is connected to, so that new
// connections are accepted after it.
func FailOver(db *DB) error {
	db.timeline.mu.Lock()
	system, number := db.timeline.system, db.timeline.number
	db.timeline.system = "the former primary"
	db.timeline.mu.Unlock()

	return db.timeline.reached(system, number)
}

// Reach has a DB see a connection to a server on a timeline.
func Reach(db *DB, timeline int64) error { return db.timeline.reached(db.timeline.system, timeline) }
