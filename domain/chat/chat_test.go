package chat_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/chat"
)

func TestDeliver(t *testing.T) {
	t.Parallel()

	const (
		enqueue, steer    = domain.DeliverEnqueue, domain.DeliverSteer
		interrupt, reject = domain.DeliverInterrupt, domain.DeliverReject
	)

	run := chat.Delivery{Applied: domain.DeliverRun}
	instead := chat.Delivery{Applied: domain.DeliverRun, Front: true, CancelQuestions: true, CloseWaiting: true}
	join := chat.Delivery{Applied: steer, CancelQuestions: true}
	stop := chat.Delivery{Applied: interrupt, Front: true, StopCurrent: true}
	place := func(n int) chat.Delivery { return chat.Delivery{Applied: enqueue, Position: n} }

	idle, running := chat.Session{}, chat.Session{Active: true}
	behind := chat.Session{Active: true, Queued: 2}    // messages wait behind a running chat
	promised := chat.Session{Queued: 3}                // no run has taken the first yet
	asking := chat.Session{Active: true, Questions: 1} // a running chat, not waiting yet
	askingBehind := chat.Session{Active: true, Questions: 1, Queued: 2}
	waiting := chat.Session{Questions: 2}                  // for input
	waitingBehind := chat.Session{Questions: 1, Queued: 2} // with messages behind
	moving := func(s chat.Session) chat.Session { s.Moving = true; return s }
	replaying := func(s chat.Session) chat.Session { s.Replaying = true; return s }

	for _, c := range []struct {
		name    string
		session chat.Session
		asked   domain.Delivery
		want    chat.Delivery
		err     *domain.Error
	}{
		{name: "idle/enqueue", session: idle, asked: enqueue, want: run},
		{name: "idle/steer", session: idle, asked: steer, want: run},
		{name: "idle/interrupt", session: idle, asked: interrupt, want: run},
		{name: "idle/reject", session: idle, asked: reject, want: run},
		{name: "running/enqueue", session: running, asked: enqueue, want: place(1)},
		{name: "running/steer", session: running, asked: steer, want: join},
		{name: "running/interrupt", session: running, asked: interrupt, want: stop},
		{name: "running/reject", session: running, asked: reject, err: chat.Busy()},
		{name: "behind/enqueue", session: behind, asked: enqueue, want: place(3)},
		{name: "behind/steer", session: behind, asked: steer, want: join},
		{name: "behind/interrupt", session: behind, asked: interrupt, want: stop},
		{name: "behind/reject", session: behind, asked: reject, err: chat.Busy()},
		{name: "promised/enqueue", session: promised, asked: enqueue, want: place(3)},
		{name: "promised/steer", session: promised, asked: steer, want: join},
		{name: "promised/interrupt", session: promised, asked: interrupt, want: stop},
		{name: "promised/reject", session: promised, asked: reject, err: chat.Busy()},
		{name: "asking/enqueue", session: asking, asked: enqueue, want: join},
		{name: "asking/steer", session: asking, asked: steer, want: join},
		{name: "asking/interrupt", session: asking, asked: interrupt, want: stop},
		{name: "asking/reject", session: asking, asked: reject, err: chat.Busy()},
		{name: "asking behind/enqueue", session: askingBehind, asked: enqueue, want: join},
		{name: "asking behind/interrupt", session: askingBehind, asked: interrupt, want: stop},
		{name: "waiting/enqueue", session: waiting, asked: enqueue, want: instead},
		{name: "waiting/steer", session: waiting, asked: steer, want: instead},
		{name: "waiting/interrupt", session: waiting, asked: interrupt, want: instead},
		{name: "waiting/reject", session: waiting, asked: reject, want: instead},
		{name: "waiting behind/enqueue", session: waitingBehind, asked: enqueue, want: instead},
		{name: "waiting behind/reject", session: waitingBehind, asked: reject, want: instead},
		{name: "moving/enqueue", session: moving(idle), asked: enqueue, want: run},
		{name: "moving/steer", session: moving(idle), asked: steer, want: run},
		{name: "moving/interrupt", session: moving(idle), asked: interrupt, want: run},
		{name: "moving/reject", session: moving(idle), asked: reject, err: chat.Moving()},
		{name: "moving, promised/enqueue", session: moving(promised), asked: enqueue, want: place(3)},
		{name: "moving, promised/reject", session: moving(promised), asked: reject, err: chat.Moving()},
		{name: "moving, waiting/enqueue", session: moving(waiting), asked: enqueue, want: instead},
		{name: "replaying/enqueue", session: replaying(idle), asked: enqueue, err: chat.Replaying()},
		{name: "replaying, running/interrupt", session: replaying(running), asked: interrupt, err: chat.Replaying()},
		{name: "replaying, moving/reject", session: replaying(moving(idle)), asked: reject, err: chat.Replaying()},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()

			got, err := chat.Deliver(c.session, c.asked, true)
			if c.err != nil {
				require.Equal(t, c.err, err)
				return
			}

			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

// A message of a scheduled task or an issue neither answers nor cancels a question.
func TestDeliver_unattended(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		session chat.Session
		want    chat.Delivery
	}{
		"idle":           {want: chat.Delivery{Applied: domain.DeliverRun}},
		"running":        {chat.Session{Active: true}, chat.Delivery{Applied: domain.DeliverEnqueue, Position: 1}},
		"asking":         {chat.Session{Active: true, Questions: 1}, chat.Delivery{Applied: domain.DeliverEnqueue, Position: 1}},
		"waiting":        {chat.Session{Questions: 2}, chat.Delivery{Applied: domain.DeliverEnqueue, Position: 1}},
		"waiting behind": {chat.Session{Questions: 1, Queued: 2}, chat.Delivery{Applied: domain.DeliverEnqueue, Position: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			for _, trigger := range []domain.Trigger{domain.TriggerSchedule, domain.TriggerIssue} {
				got, err := chat.Deliver(c.session, domain.DeliverEnqueue, domain.Send{Trigger: trigger}.FromPerson())
				require.NoError(t, err)
				require.Equal(t, c.want, got)
			}
		})
	}

	_, err := chat.Deliver(chat.Session{Questions: 1, Replaying: true}, domain.DeliverEnqueue, false)
	require.Equal(t, chat.Replaying(), err)
}

func TestSession_Current(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		session chat.Session
		want    chat.Current
	}{
		"idle":                     {want: chat.None},
		"running":                  {session: chat.Session{Active: true}, want: chat.Running},
		"running, with a queue":    {session: chat.Session{Active: true, Queued: 1, Questions: 1}, want: chat.Running},
		"promised":                 {session: chat.Session{Queued: 1}, want: chat.Promised},
		"waiting, with a queue":    {session: chat.Session{Queued: 1, Questions: 1}, want: chat.None},
		"waiting, without a queue": {session: chat.Session{Questions: 1}, want: chat.None},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, c.session.Current())
		})
	}
}

func TestConflict(t *testing.T) {
	t.Parallel()

	planning := chat.Settings{Mode: "planning"}

	schema := []byte(`{"type":"object"}`)
	for name, c := range map[string]struct {
		chat chat.Settings
		send domain.Send
		want string
	}{
		"nothing asked":   {chat: planning},
		"the same mode":   {chat: planning, send: domain.Send{Mode: "planning"}},
		"another mode":    {chat: planning, send: domain.Send{Mode: "executing"}, want: "mode"},
		"the same schema": {chat: planning, send: domain.Send{OutputSchema: schema}},
		"another schema": {
			chat: chat.Settings{OtherSchema: true},
			send: domain.Send{OutputSchema: schema}, want: "output_schema",
		},
		"no schema in the message": {chat: chat.Settings{OtherSchema: true}},
		"headless":                 {chat: planning, send: domain.Send{Headless: true}, want: "headless"},
		"headless both":            {chat: chat.Settings{Headless: true}, send: domain.Send{Headless: true}},
		"headless chat only":       {chat: chat.Settings{Headless: true}},
		"mode comes first": {
			chat: chat.Settings{Mode: "planning", OtherSchema: true},
			send: domain.Send{Mode: "executing", OutputSchema: schema, Headless: true}, want: "mode",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, chat.Conflict(c.chat, c.send))
		})
	}
}

func TestJoin(t *testing.T) {
	t.Parallel()

	for _, asked := range []domain.Delivery{domain.DeliverSteer, domain.DeliverEnqueue} {
		got, err := chat.Join(asked, "")
		require.NoError(t, err)
		require.Equal(t, chat.Delivery{Applied: domain.DeliverSteer, CancelQuestions: true}, got)
	}

	_, err := chat.Join(domain.DeliverSteer, "mode")
	require.Equal(t, domain.Invalid, domain.AsError(err).Kind)
	got, err := chat.Join(domain.DeliverEnqueue, "mode")
	require.NoError(t, err)
	require.Equal(t, chat.Delivery{Applied: domain.DeliverEnqueue, Position: 1, Front: true, CancelQuestions: true}, got)
}

func TestClaim(t *testing.T) {
	t.Parallel()
	require.Equal(t, chat.ClaimAny, chat.Claim(chat.Session{}))
	require.Equal(t, chat.ClaimAny, chat.Claim(chat.Session{Active: true, Queued: 1, Questions: 1}))
	require.Equal(t, chat.ClaimOpen, chat.Claim(chat.Session{Moving: true, Queued: 1}))
	require.Equal(t, chat.ClaimNothing, chat.Claim(chat.Session{Replaying: true}))
	require.Equal(t, chat.ClaimNothing, chat.Claim(chat.Session{Replaying: true, Moving: true}))
}

func TestStop(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		session chat.Session
		want    chat.Stops
	}{
		"idle":               {want: chat.StopNext},
		"queued":             {session: chat.Session{Queued: 1}, want: chat.StopNext},
		"running":            {session: chat.Session{Active: true}, want: chat.StopActive},
		"running and asking": {session: chat.Session{Active: true, Questions: 1}, want: chat.StopActive},
		"waiting":            {session: chat.Session{Questions: 1, Queued: 1}, want: chat.StopWaiting},
		"moving":             {session: chat.Session{Moving: true, Queued: 1}, want: chat.StopNext},
		"replaying":          {session: chat.Session{Replaying: true, Active: true, Questions: 1}, want: chat.StopReplay},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, chat.Stop(c.session))
		})
	}
}

func TestWait(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		name      string
		state     domain.ChatState
		questions int
		stop      bool
		want      domain.ChatState
	}{
		{"running with a question", domain.ChatStateRunning, 1, false, domain.ChatStateWaiting},
		{"running, stopped", domain.ChatStateRunning, 1, true, domain.ChatStateRunning},
		{"running, all answered", domain.ChatStateRunning, 0, false, domain.ChatStateRunning},
		{"waiting", domain.ChatStateWaiting, 1, false, domain.ChatStateWaiting},
		{"waiting, stopped", domain.ChatStateWaiting, 1, true, domain.ChatStateWaiting},
		{"ended", domain.ChatStateEnded, 1, false, domain.ChatStateEnded},
		{"queued", domain.ChatStateQueued, 1, false, domain.ChatStateQueued},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, chat.Wait(c.state, c.questions, c.stop))
		})
	}
}

func TestResumes(t *testing.T) {
	t.Parallel()

	for _, state := range []domain.ChatState{
		domain.ChatStateQueued, domain.ChatStateRunning, domain.ChatStateWaiting,
		domain.ChatStateEnded,
	} {
		require.Equal(t, state == domain.ChatStateWaiting, chat.Resumes(state, 0, false), state)
		require.False(t, chat.Resumes(state, 1, false), state)
		require.Equal(t, state == domain.ChatStateWaiting, chat.Resumes(state, 1, true), state)
	}
}

func TestFinish(t *testing.T) {
	t.Parallel()

	const completed, interrupted, failed = domain.FinishCompleted, domain.FinishInterrupted, domain.FinishFailed
	for _, c := range []struct {
		name   string
		state  domain.ChatState
		stop   bool
		reason domain.FinishReason
		want   chat.Ending
	}{
		{"completes", domain.ChatStateRunning, false, completed, chat.Ending{Ends: true, Reason: completed, UnlessSteered: true}},
		{"completes while it waits", domain.ChatStateWaiting, false, completed, chat.Ending{}},
		{"stopped before it completes", domain.ChatStateRunning, true, completed, chat.Ending{Ends: true, Reason: interrupted}},
		{"interrupted", domain.ChatStateRunning, true, interrupted, chat.Ending{Ends: true, Reason: interrupted}},
		{"fails", domain.ChatStateRunning, false, failed, chat.Ending{Ends: true, Reason: failed}},
		{"fails, stopped", domain.ChatStateRunning, true, failed, chat.Ending{Ends: true, Reason: failed}},
		{"fails while it waits", domain.ChatStateWaiting, false, failed, chat.Ending{}},
		{"ended already", domain.ChatStateEnded, false, completed, chat.Ending{}},
		{"not begun", domain.ChatStateQueued, false, failed, chat.Ending{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, chat.Finish(c.state, c.stop, c.reason))
		})
	}
}

func TestWork_Alive(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		work chat.Work
		want bool
	}{
		"main loop of a running chat": {work: chat.Work{Chat: domain.ChatStateRunning}, want: true},
		"main loop of a stopped chat": {work: chat.Work{Chat: domain.ChatStateRunning, StopRequested: true}},
		"main loop of a waiting chat": {work: chat.Work{Chat: domain.ChatStateWaiting}},
		"main loop of an ended chat":  {work: chat.Work{Chat: domain.ChatStateEnded}},
		"main loop of a queued chat":  {work: chat.Work{Chat: domain.ChatStateQueued}},
		"sub-agent":                   {work: chat.Work{Chat: domain.ChatStateRunning, Loop: domain.LoopRunning}, want: true},
		"sub-agent that waits":        {work: chat.Work{Chat: domain.ChatStateRunning, Loop: domain.LoopWaiting}, want: true},
		"sub-agent that has ended":    {work: chat.Work{Chat: domain.ChatStateRunning, Loop: domain.LoopEnded}},
		"sub-agent of a stopped chat": {work: chat.Work{Chat: domain.ChatStateRunning, StopRequested: true, Loop: domain.LoopRunning}},
		"background task of an ended chat": {
			work: chat.Work{Chat: domain.ChatStateEnded, Loop: domain.LoopRunning, Background: true, TaskRunning: true}, want: true,
		},
		"background task of a stopped chat": {
			work: chat.Work{
				Chat: domain.ChatStateRunning, StopRequested: true, Loop: domain.LoopRunning,
				Background: true, TaskRunning: true,
			}, want: true,
		},
		"stopped background task": {work: chat.Work{Chat: domain.ChatStateRunning, Loop: domain.LoopRunning, Background: true}},
		"background loop that has ended": {
			work: chat.Work{Chat: domain.ChatStateRunning, Loop: domain.LoopEnded, Background: true, TaskRunning: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, c.work.Alive())
		})
	}
}

func TestClaimCall(t *testing.T) {
	t.Parallel()

	ready := chat.Call{Phase: domain.PhaseQueued, Alive: true, Permitted: true}

	with := func(change func(*chat.Call)) chat.Call { c := ready; change(&c); return c }
	for name, c := range map[string]struct {
		call chat.Call
		want domain.LedgerState
	}{
		"reserved":               {ready, domain.CallClaimed},
		"reserved, chat stopped": {with(func(c *chat.Call) { c.Alive = false }), domain.CallStopped},
		"reserved, not allowed":  {with(func(c *chat.Call) { c.Permitted = false }), domain.CallStopped},
		"running, held":          {with(func(c *chat.Call) { c.Phase, c.Held = domain.PhaseRunning, true }), domain.CallHeld},
		"running, held, chat stopped": {
			with(func(c *chat.Call) { c.Phase, c.Held, c.Alive = domain.PhaseRunning, true, false }), domain.CallHeld,
		},
		"running, own":     {with(func(c *chat.Call) { c.Phase, c.Held, c.Own = domain.PhaseRunning, true, true }), domain.CallClaimed},
		"running, expired": {with(func(c *chat.Call) { c.Phase = domain.PhaseRunning }), domain.CallHeld},
		"running, lost":    {with(func(c *chat.Call) { c.Phase, c.Announced = domain.PhaseRunning, true }), domain.CallAbandoned},
		"own, lost":        {with(func(c *chat.Call) { c.Phase, c.Own = domain.PhaseRunning, true }), domain.CallClaimed},
		"lost, stopped":    {with(func(c *chat.Call) { c.Phase, c.Alive = domain.PhaseRunning, false }), domain.CallStopped},
		"own, stopped":     {with(func(c *chat.Call) { c.Phase, c.Own, c.Alive = domain.PhaseRunning, true, false }), domain.CallStopped},
		"recorded":         {with(func(c *chat.Call) { c.Phase, c.Alive = domain.PhaseFinished, false }), domain.CallRecorded},
		"unknown outcome":  {with(func(c *chat.Call) { c.Phase, c.Held = domain.PhaseUnknownOutcome, true }), domain.CallRecorded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, chat.ClaimCall(c.call))
		})
	}
}
