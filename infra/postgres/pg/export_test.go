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
