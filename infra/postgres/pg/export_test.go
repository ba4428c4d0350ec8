package pg

// QueuedBytes is the memory that an outbox's copies of events take.
func QueuedBytes(o *Outbox) int {
	o.queue.mu.Lock()
	defer o.queue.mu.Unlock()

	return o.queue.bytes
}

// QueuedSessions counts the sessions in an outbox's publish queue.
func QueuedSessions(o *Outbox) int { return len(o.queue.active()) }

// CloseQueue stops an outbox's publishing, as the death of its process does.
func CloseQueue(o *Outbox) { o.queue.close() }

// FailOver has a DB see a failover, as by a connection to a server that was promoted.
func FailOver(db *DB) error { return db.timeline.reached(db.timeline.system, db.timeline.number+1) }

// Reach has a DB see a connection to a server on a timeline.
func Reach(db *DB, timeline int64) error { return db.timeline.reached(db.timeline.system, timeline) }
