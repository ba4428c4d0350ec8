package main

import (
	"context"
	"time"

	"everloop/bench/proc"
	"everloop/bench/result"
	"everloop/bench/target"
)

const (
	firstTokenRounds = 60
	firstTokenGoal   = 15 // ms
)

// measureFirstToken takes the time from sending a message to its first text at
// the client, less the model's own.
func measureFirstToken(ctx context.Context, b *bench) error {
	socket, err := b.client.Connect(ctx)
	if err != nil {
		return err
	}
	defer socket.Close()

	later, err := b.client.CreateSession(ctx)
	if err != nil {
		return err
	}

	onSocket, err := b.client.CreateSession(ctx)
	if err != nil {
		return err
	}

	if err := socket.Subscribe(onSocket); err != nil {
		return err
	}

	bareLater := b.bare.conversation()

	var (
		create, first, again, live, ack, bareFirst, bareAgain result.Sample
		parts                                                 stages
	)

	rounds := time.Now()
	meter := proc.StartMeter(b.server.Cmd.Process.Pid)

	for range firstTokenRounds {
		began := time.Now()

		session, err := b.client.CreateSession(ctx)
		if err != nil {
			return err
		}

		create.Add(time.Since(began))

		seen, err := b.client.Completed(ctx, session, target.HelloScript)
		if err != nil {
			return err
		}

		if err := b.firstToken(&first, seen, &parts); err != nil {
			return err
		}

		if seen, err = b.bare.conversation().chat(ctx, target.HelloScript, nil); err != nil {
			return err
		}

		if err := b.firstToken(&bareFirst, seen, nil); err != nil {
			return err
		}

		if seen, err = b.client.Completed(ctx, later, target.HelloScript); err != nil {
			return err
		}

		if err := b.firstToken(&again, seen, nil); err != nil {
			return err
		}

		if seen, err = bareLater.chat(ctx, target.HelloScript, nil); err != nil {
			return err
		}

		if err := b.firstToken(&bareAgain, seen, nil); err != nil {
			return err
		}

		seen, acked, err := socket.Chat(onSocket, target.HelloScript)
		if err != nil {
			return err
		}

		ack.Add(acked.Sub(seen.Sent))

		if err := b.firstToken(&live, seen, nil); err != nil {
			return err
		}
	}

	used := meter.Read()

	b.samples("first text, new session", "ms", first, bareFirst, result.AtMost(firstTokenGoal))
	b.samples("first text, later message", "ms", again, bareAgain, result.AtMost(firstTokenGoal))
	b.samples("first text over Socket.IO, later message", "ms", live, bareAgain, result.AtMost(firstTokenGoal))
	b.samples("ack of chat:send over Socket.IO", "ms", ack, nil, nil)
	b.samples("POST /api/sessions", "ms", create, nil, nil)
	parts.report(b)
	b.cost("short chat", used, 3*firstTokenRounds)
	b.value("rounds took", "s", time.Since(rounds).Seconds(), nil)

	return nil
}

func (b *bench) firstToken(to *result.Sample, seen *target.Chat, parts *stages) error {
	call, err := b.model.One()
	if err != nil {
		return err
	}

	to.Add(seen.FirstText.Sub(seen.Sent) - call.Thinking())

	if parts != nil {
		parts.add(seen, call)
	}

	return nil
}

// stages are the times at which the client saw a short chat move on, in ms
// since it was sent.
type stages struct {
	start, userTurn, asked, turn, relayed, closed, ended result.Sample
}

func (s *stages) add(seen *target.Chat, call target.ModelCall) {
	users := 0

	for i := range seen.Events {
		e := &seen.Events[i]

		since := e.At.Sub(seen.Sent)
		switch {
		case e.Name == "chat:start":
			s.start.Add(since)
		case e.Name == "turn:start" && e.Body.Role == "user":
			s.userTurn.Add(since)
		case e.Name == "turn:start":
			s.turn.Add(since)
		case e.Name == "turn:end":
			if users++; users == 2 { // the first is the user's own turn
				s.closed.Add(e.At.Sub(call.Last))
			}
		}
	}

	s.asked.Add(call.Arrived.Sub(seen.Sent))
	s.relayed.Add(seen.FirstText.Sub(call.First))
	s.ended.Add(seen.Ended.Sub(call.Last))
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
