package main

import (
	"context"
	"time"
)

const (
	firstTokenRounds = 60
	firstTokenGoal   = 15 // ms
)

// measureFirstToken takes the time from sending a message to its first text at
// the client, less the model's own.
func measureFirstToken(ctx context.Context, b *bench) error {
	socket, err := b.client.connect(ctx)
	if err != nil {
		return err
	}
	defer socket.close()

	later, err := b.client.createSession(ctx)
	if err != nil {
		return err
	}

	onSocket, err := b.client.createSession(ctx)
	if err != nil {
		return err
	}

	if err := socket.subscribe(onSocket); err != nil {
		return err
	}

	bareLater := b.bare.conversation()

	var (
		create, first, again, live, ack, bareFirst, bareAgain sample
		parts                                                 stages
	)

	rounds := time.Now()
	meter := startMeter(b.server.cmd.Process.Pid)

	for range firstTokenRounds {
		began := time.Now()

		session, err := b.client.createSession(ctx)
		if err != nil {
			return err
		}

		create.add(time.Since(began))

		seen, err := b.client.completed(ctx, session, helloScript)
		if err != nil {
			return err
		}

		if err := b.firstToken(&first, seen, &parts); err != nil {
			return err
		}

		if seen, err = b.bare.conversation().chat(ctx, helloScript, nil); err != nil {
			return err
		}

		if err := b.firstToken(&bareFirst, seen, nil); err != nil {
			return err
		}

		if seen, err = b.client.completed(ctx, later, helloScript); err != nil {
			return err
		}

		if err := b.firstToken(&again, seen, nil); err != nil {
			return err
		}

		if seen, err = bareLater.chat(ctx, helloScript, nil); err != nil {
			return err
		}

		if err := b.firstToken(&bareAgain, seen, nil); err != nil {
			return err
		}

		seen, acked, err := socket.chat(onSocket, helloScript)
		if err != nil {
			return err
		}

		ack.add(acked.Sub(seen.sent))

		if err := b.firstToken(&live, seen, nil); err != nil {
			return err
		}
	}

	used := meter.read()

	b.samples("first text, new session", "ms", first, bareFirst, atMost(firstTokenGoal))
	b.samples("first text, later message", "ms", again, bareAgain, atMost(firstTokenGoal))
	b.samples("first text over Socket.IO, later message", "ms", live, bareAgain, atMost(firstTokenGoal))
	b.samples("ack of chat:send over Socket.IO", "ms", ack, nil, nil)
	b.samples("POST /api/sessions", "ms", create, nil, nil)
	parts.report(b)
	b.cost("short chat", used, 3*firstTokenRounds)
	b.value("rounds took", "s", time.Since(rounds).Seconds(), nil)

	return nil
}

func (b *bench) firstToken(to *sample, seen *chat, parts *stages) error {
	call, err := b.model.one()
	if err != nil {
		return err
	}

	to.add(seen.firstText.Sub(seen.sent) - call.thinking())

	if parts != nil {
		parts.add(seen, call)
	}

	return nil
}

// stages are the times at which the client saw a short chat move on, in ms
// since it was sent.
type stages struct {
	start, userTurn, asked, turn, relayed, closed, ended sample
}

func (s *stages) add(seen *chat, call modelCall) {
	users := 0

	for i := range seen.events {
		e := &seen.events[i]

		since := e.at.Sub(seen.sent)
		switch {
		case e.name == "chat:start":
			s.start.add(since)
		case e.name == "turn:start" && e.body.Role == "user":
			s.userTurn.add(since)
		case e.name == "turn:start":
			s.turn.add(since)
		case e.name == "turn:end":
			if users++; users == 2 { // the first is the user's own turn
				s.closed.add(e.at.Sub(call.last))
			}
		}
	}

	s.asked.add(call.arrived.Sub(seen.sent))
	s.relayed.add(seen.firstText.Sub(call.first))
	s.ended.add(seen.ended.Sub(call.last))
}

func (s *stages) report(b *bench) {
	b.samples("  sent to chat:start", "ms", s.start, nil, nil)
	b.samples("  sent to the user's turn", "ms", s.userTurn, nil, nil)
	b.samples("  sent to the assistant's turn:start", "ms", s.turn, nil, nil)
	b.samples("  sent to the request at the model", "ms", s.asked, nil, nil)
	b.samples("  model's first piece to the client", "ms", s.relayed, nil, nil)
	b.samples("  model's last byte to turn:end", "ms", s.closed, nil, nil)
	b.samples("  model's last byte to chat:end", "ms", s.ended, nil, nil)
}
