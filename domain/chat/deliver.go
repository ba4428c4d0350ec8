package chat

import "everloop/domain"

// Delivery is the decision about a message.
type Delivery struct {
	Applied  domain.Delivery // steer: it joins the current chat; else it gets its own chat
	Position int             // in the queue; 0: it is the next
	Front    bool            // before all queued messages

	StopCurrent     bool // the current chat is stopped
	CancelQuestions bool // open questions are cancelled: the message replaces an answer
	CloseWaiting    bool // chats that wait for an answer are closed
}

// Deliver decides whether a message starts a chat, waits in the queue, joins the current chat
// (see Join, which decides the rest), interrupts it, or is rejected. While a question is open,
// a message of a user replaces its answer; a message of a scheduled task, an issue or a trigger
// waits, because the question is not addressed to it.
func Deliver(s Session, asked domain.Delivery, fromPerson bool) (Delivery, error) {
	current := s.Current()

	waiting := s.Queued
	if current == Promised {
		waiting-- // the promised chat itself
	}

	switch {
	case s.Replaying:
		return Delivery{}, Replaying()
	case s.Moving && asked == domain.DeliverReject:
		return Delivery{}, Moving()
	case current != None && asked == domain.DeliverReject:
		return Delivery{}, Busy()
	case s.Questions > 0 && !fromPerson:
		return Delivery{Applied: domain.DeliverEnqueue, Position: waiting + 1}, nil
	case current != None && asked == domain.DeliverInterrupt:
		return Delivery{Applied: domain.DeliverInterrupt, Front: true, StopCurrent: true}, nil
	case current != None && (asked == domain.DeliverSteer || s.Questions > 0):
		return Delivery{Applied: domain.DeliverSteer, CancelQuestions: true}, nil
	case current != None:
		return Delivery{Applied: domain.DeliverEnqueue, Position: waiting + 1}, nil
	case s.Questions > 0:
		// The chat with the question has ended for clients: its run closes and takes the
		// message as the next chat, before any queued one.
		return Delivery{Applied: domain.DeliverRun, Front: true, CancelQuestions: true, CloseWaiting: true}, nil
	default:
		return Delivery{Applied: domain.DeliverRun}, nil
	}
}

// Settings are the settings of a chat.
type Settings struct {
	Mode        domain.Mode
	Headless    bool
	OtherSchema bool // its output schema differs from the message's
}

// Conflict returns the first field of a message that differs from the chat's settings; empty:
// it can join the chat.
func Conflict(chat Settings, send domain.Send) string {
	switch {
	case send.Mode != "" && send.Mode != chat.Mode:
		return "mode"
	case len(send.OutputSchema) > 0 && chat.OtherSchema:
		return "output_schema"
	case send.Headless && !chat.Headless:
		return "headless"
	default:
		return ""
	}
}

// Join decides about a message that Deliver allows to join the current chat, by its conflict. A
// message that replaces an answer, without a request to steer, becomes the next chat on a
// conflict, so that its settings apply.
func Join(asked domain.Delivery, conflict string) (Delivery, error) {
	switch {
	case conflict == "":
		return Delivery{Applied: domain.DeliverSteer, CancelQuestions: true}, nil
	case asked == domain.DeliverSteer:
		return Delivery{}, domain.Invalidf("body."+conflict, "cannot be changed by a message that joins a running chat")
	default:
		return Delivery{Applied: domain.DeliverEnqueue, Position: 1, Front: true, CancelQuestions: true}, nil
	}
}
