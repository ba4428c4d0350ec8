package replay

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"go.temporal.io/sdk/worker"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/domain/replay"
	"everloop/internal/durable"
)

const (
	// replayPause is the longest pause between two events, in recorded time.
	replayPause = 3 * time.Second
	// replayLook is how often a player that waits looks for a change of its speed or
	// status.
	replayLook = 250 * time.Millisecond
	// Steps that are due within replayJoin of each other are played in one
	// transaction, at most replayBatch of them. Long texts, which are written again
	// each time, are joined for longer.
	replayJoin     = 20 * time.Millisecond
	replayJoinLong = 150 * time.Millisecond
	replayLong     = 32 << 10 // bytes
	replayBatch    = 200
)

// Register binds the activity that plays replays to the service.
func (d *Service) Register(w worker.ActivityRegistry) {
	contract.PlayReplay.Handle(w, func(ctx context.Context, in contract.PlayReplayIn) (contract.PlayReplayOut, error) {
		return d.playing.Run(ctx, in, durable.AbandonAfter, func(ctx context.Context) (contract.PlayReplayOut, error) {
			return d.playReplay(ctx, in)
		})
	})
}

// playReplay plays a replay to its end, or until it is paused or handed over. The position is
// committed with the steps, so that the next attempt repeats nothing.
func (d *Service) playReplay(ctx context.Context, in contract.PlayReplayIn) (contract.PlayReplayOut, error) {
	claim, err := d.ClaimReplay(ctx, in.SessionID)
	if err != nil {
		return contract.PlayReplayOut{}, replayFault(err)
	}

	if claim.Status == domain.ReplayPlaying {
		if err := d.play(ctx, claim); err != nil && !errors.Is(err, domain.ErrFenced) {
			return contract.PlayReplayOut{}, d.stuck(ctx, claim, err)
		}
	}

	if err := d.Settle(ctx, in.SessionID); err != nil {
		return contract.PlayReplayOut{}, replayFault(err)
	}

	now, err := d.Replay(ctx, in.SessionID)
	out := contract.PlayReplayOut{Position: now.Position, Total: now.Total, Status: string(now.Status)}
	out.Again = now.Status == domain.ReplayPlaying // paused and resumed at once

	return out, replayFault(err)
}

// stuck pauses a replay whose script is gone or cannot be played: its owner can
// hand it over where it is. Any other trouble passes with the next attempt.
func (d *Service) stuck(ctx context.Context, claim replay.Claim, err error) error {
	kind := domain.AsError(err).Kind
	if kind != domain.NotFound && kind != domain.Invalid {
		return err
	}

	d.deps.Logger.Error("a replay cannot go on, and is paused", "session_id", claim.SessionID, "position", claim.Position, "error", err)

	if err := d.PauseReplay(ctx, claim.SessionID, claim.Attempt); err != nil {
		return replayFault(err)
	}

	return durable.Final("replay_stuck", "the replay cannot go on and was paused")
}

// replayFault ends a run for good when its session is gone.
func replayFault(err error) error {
	if err != nil && domain.AsError(err).Kind == domain.NotFound {
		return durable.Final("replay_gone", "the replay or its script no longer exists")
	}

	return err
}

func (d *Service) play(ctx context.Context, claim replay.Claim) error {
	steps, err := d.Script(ctx, claim.Script)
	if err != nil {
		return err
	}

	player := &replayPlayer{store: d.Store, claim: claim, steps: steps, text: map[domain.TurnID]*replayText{}}
	if err := player.catchUp(); err != nil {
		return err
	}

	for player.claim.Position < len(steps) {
		if err := player.wait(ctx); err != nil {
			return err
		}

		if err := player.next(ctx); err != nil {
			return err
		}
	}

	return d.FinishReplay(ctx, claim.SessionID, claim.Attempt)
}

// replayPlayer plays one script from one position on.
type replayPlayer struct {
	store *Store
	claim replay.Claim
	steps []replay.Step
	text  map[domain.TurnID]*replayText // of the open turns
	last  time.Time                     // when the step before was due
}

// catchUp puts together the text of turns that were started before.
func (p *replayPlayer) catchUp() error {
	for _, step := range p.steps[:min(p.claim.Position, len(p.steps))] {
		if _, err := p.fold(step); err != nil {
			return err
		}
	}

	p.last = time.Now()

	return nil
}

// fold adds a step to the text of its turn, and says which turn's text it is.
func (p *replayPlayer) fold(step replay.Step) (turnID domain.TurnID, err error) {
	switch step.Name {
	case replay.Cut:
		p.text = map[domain.TurnID]*replayText{}
		return "", nil
	case domain.EventTurnStart, domain.EventTurnPatch, domain.EventTurnEnd:
	default:
		return "", nil
	}

	var e domain.AddContentPatch
	if err := json.Unmarshal(step.Data, &e); err != nil {
		return "", err
	}

	if step.Name == domain.EventTurnStart {
		p.text[e.TurnID] = &replayText{}
	}

	text := p.text[e.TurnID]
	if text == nil || e.PatchType != domain.PatchAddContent {
		return "", nil
	}

	text.add(e)

	return e.TurnID, nil
}

// replayText is the text of a turn that grows.
type replayText struct {
	blocks []*replayBlock
	length int // bytes
}

// replayBlock is text of one kind, as long as nothing of another kind comes.
type replayBlock struct {
	kind domain.BlockType
	text strings.Builder
}

func (t *replayText) add(e domain.AddContentPatch) {
	if n := len(t.blocks); n == 0 || t.blocks[n-1].kind != e.BlockType {
		t.blocks = append(t.blocks, &replayBlock{kind: e.BlockType})
	}

	t.blocks[len(t.blocks)-1].text.WriteString(e.TextDelta)
	t.length += len(e.TextDelta)
}

func (t *replayText) snapshot() []domain.Block {
	blocks := make([]domain.Block, len(t.blocks))
	for i, b := range t.blocks {
		blocks[i] = domain.Block{Type: b.kind, Content: b.text.String()}
	}

	return blocks
}

// wait waits for the pause before the next step. A change of the speed counts at once,
// and a player that was paused plays nothing more.
func (p *replayPlayer) wait(ctx context.Context) error {
	left := p.gap(p.claim.Position)
	behind := time.Since(p.last) // the step before took its own time

	left -= behind * time.Duration(p.claim.Speed)
	for left > 0 {
		sleep := min(left/time.Duration(p.claim.Speed), replayLook)
		began := time.Now()

		timer := time.NewTimer(sleep)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}

		left -= time.Since(began) * time.Duration(p.claim.Speed)
		if left <= 0 {
			break
		}

		now, err := p.store.Replay(ctx, p.claim.SessionID)
		if err != nil {
			return err
		}

		if now.Status != domain.ReplayPlaying || now.Attempt != p.claim.Attempt {
			return domain.ErrFenced
		}

		p.claim.Speed = now.Speed
	}

	p.last = time.Now()

	return nil
}

// gap returns the recorded pause before a step.
func (p *replayPlayer) gap(position int) time.Duration {
	return min(time.Duration(p.steps[position].Gap)*time.Millisecond, replayPause)
}

// next plays the step that is due, and with it those that are as good as due.
func (p *replayPlayer) next(ctx context.Context) error {
	in := replay.PlayedSteps{
		SessionID: p.claim.SessionID, Attempt: p.claim.Attempt, From: p.claim.Position, Text: map[domain.TurnID][]domain.Block{},
	}
	touched := map[domain.TurnID]bool{}
	long, ahead := 0, time.Duration(0)

	for at := in.From; at < len(p.steps) && len(in.Steps) < replayBatch; at++ {
		if len(in.Steps) > 0 {
			join := replayJoin
			if long > replayLong {
				join = replayJoinLong
			}

			if ahead += p.gap(at) / time.Duration(p.claim.Speed); ahead > join {
				break
			}
		}

		turn, err := p.fold(p.steps[at])
		if err != nil {
			return err
		}

		if turn != "" {
			touched[turn] = true
			long = max(long, p.text[turn].length)
		}

		in.Steps = append(in.Steps, p.steps[at])
	}

	for turn := range touched {
		in.Text[turn] = p.text[turn].snapshot()
	}

	now, err := p.store.PlaySteps(ctx, in)
	if err != nil {
		return err
	}

	p.claim.Position, p.claim.Speed = now.Position, now.Speed

	return nil
}
