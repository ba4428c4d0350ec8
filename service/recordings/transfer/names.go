package transfer

import (
	"encoding/json"
	"time"

	"everloop/domain"
	"everloop/domain/transfer"
	"everloop/service/recordings"
	"everloop/service/recordings/replay"
)

// names returns everything in the archive an id of the new session. Nothing else
// is ever named: an id that the archive does not have was refused before.
func (p *pack) names(sessionID domain.SessionID) recordings.Names {
	names := recordings.Names{IDs: map[string]string{}, From: string(p.session.ID), To: string(sessionID)}
	for _, b := range p.tree.Branches {
		names.IDs[string(b.ID)] = domain.NewID()
	}

	for _, c := range p.tree.Chats {
		names.IDs[string(c.ID)] = domain.NewID()
	}

	_ = p.entries(func(e transfer.EntryRecord) error { // read before without an error
		names.IDs[string(e.ID)] = domain.NewID()
		for _, call := range e.Calls {
			names.IDs[call.ID] = domain.NewToolCallID()
			if call.Question != nil {
				names.IDs[call.Question.ID] = domain.NewID()
			}
		}

		return nil
	})
	for _, k := range p.points.Checkpoints {
		names.IDs[string(k.ID)] = domain.NewID()
	}

	return names
}

func (p *pack) newSession(id domain.SessionID, ownerID string, uid int, o transfer.ImportOptions) domain.Session {
	s := p.session

	out := domain.Session{
		ID:              id,
		OwnerID:         ownerID,
		Intent:          s.Intent,
		Status:          s.Status,
		SolutionID:      s.SolutionID,
		BizRoleID:       s.BizRoleID,
		TemplateID:      s.TemplateID,
		PrimarySkillID:  s.PrimarySkillID,
		Model:           s.Model,
		SoftwareFactory: s.SoftwareFactory,
		Mode:            s.Mode,
		MemoryEnabled:   s.MemoryEnabled,
		Persistent:      s.Persistent,
		DisableTools:    s.DisableTools,
		Setup:           carried(s.Setup),
		SandboxUID:      uid,
	}
	if o.Name != "" {
		out.Intent = o.Name
	}

	if o.SolutionID != nil && *o.SolutionID != "" {
		if s.SolutionID == nil || *s.SolutionID != *o.SolutionID {
			out.BizRoleID = nil // it is a role of the other solution
		}

		out.SolutionID = o.SolutionID
	}

	parked := false
	for _, c := range p.tree.Chats {
		parked = parked || p.parked(c)
	}

	if out.Status == domain.SessionRunning || out.Status == domain.SessionWaitingForInput && !parked {
		out.Status = domain.SessionInterrupted
	}

	return out
}

// renamed returns the id by which the imported session has what had an id in the archive.
func renamed[T ~string](im *importing, old T) T { return T(im.names.IDs[string(old)]) }

func renamedRef[T ~string](im *importing, old *T) *T {
	if old == nil {
		return nil
	}

	if to, known := im.names.IDs[string(*old)]; known {
		made := T(to)
		return &made
	}

	return nil
}

// tree gives the frame of the conversation its new names. A chat that was under
// way has ended: nothing carries it any more.
func (im *importing) tree(snapshots map[string]string) transfer.SessionTree {
	p := im.pack
	out := transfer.SessionTree{ActiveBranchID: renamed(im, p.tree.ActiveBranchID)}

	var last time.Time
	for _, b := range p.tree.Branches { // each comes after its parent, also by its time
		if b.CreatedAt = later(b.CreatedAt); b.CreatedAt.Before(last) {
			b.CreatedAt = last
		}

		last = b.CreatedAt
		b.ID, b.ParentBranchID, b.ForkedFromID = renamed(im, b.ID), renamedRef(im, b.ParentBranchID), renamedRef(im, b.ForkedFromID)

		lineage := make([]transfer.BranchAncestor, len(b.Lineage))
		for i, a := range b.Lineage {
			lineage[i] = transfer.BranchAncestor{BranchID: renamed(im, a.BranchID), UpTo: a.UpTo}
		}

		b.Lineage = lineage
		out.Branches = append(out.Branches, b)
	}

	for _, c := range p.tree.Chats {
		waits := p.parked(c)
		c.ID, c.BranchID, c.CreatedAt = renamed(im, c.ID), renamed(im, c.BranchID), later(c.CreatedAt)

		c.OutputSchema = rawOrNil(c.OutputSchema)
		if c.State != "ended" && !waits {
			interrupted := domain.FinishInterrupted
			c.State, c.FinishReason = "ended", &interrupted
		}

		out.Chats = append(out.Chats, c)
	}

	for _, k := range p.points.Checkpoints {
		k.ID, k.BranchID, k.ChatID, k.CreatedAt = renamed(im, k.ID), renamed(im, k.BranchID), renamedRef(im, k.ChatID), later(k.CreatedAt)
		if to, known := im.names.IDs[string(k.TurnID)]; known {
			k.TurnID = domain.TurnID(to)
		} else {
			k.TurnID = ""
		}

		if k.SnapshotID != nil {
			made := snapshots[*k.SnapshotID]
			k.SnapshotID = &made
		}

		out.Checkpoints = append(out.Checkpoints, k)
	}

	return out
}

// entries yields the turns with their new names.
func (im *importing) entries(yield func(transfer.EntryRecord) error) error {
	open := map[domain.ChatID]bool{} // chats that still wait for an answer
	for _, c := range im.pack.tree.Chats {
		open[c.ID] = im.pack.parked(c)
	}

	return im.pack.entries(func(e transfer.EntryRecord) error {
		waits := open[e.ChatID]
		e.ID, e.BranchID, e.ChatID, e.ParentID = renamed(
			im,
			e.ID,
		), renamed(
			im,
			e.BranchID,
		), renamed(
			im,
			e.ChatID,
		), renamedRef(
			im,
			e.ParentID,
		)

		e.ParentForkToolCallID, e.StartedAt = renamedRef(im, e.ParentForkToolCallID), later(e.StartedAt)
		if e.LoopID != domain.RootLoop {
			e.LoopID = renamed(im, e.LoopID)
		}

		for i, branch := range e.DeprecatedOn {
			e.DeprecatedOn[i] = renamed(im, branch)
		}

		if e.Status == domain.TurnStreaming || e.Status == domain.TurnPaused && !waits {
			e.Status = domain.TurnInterrupted
		}

		for i, b := range e.Blocks {
			if b.Type == domain.BlockImage || b.Type == domain.BlockAudio {
				e.Blocks[i].Content = im.names.Path(b.Content)
			}
		}

		if e.Blocks == nil {
			e.Blocks = []domain.Block{}
		}

		e.Parts = replay.RenamedParts(e.Parts, im.names)
		if e.Compaction = rawOrNil(e.Compaction); e.Compaction != nil {
			data, err := im.names.Data(e.Compaction)
			if err != nil {
				return badf("compaction %q cannot be read", shorten(e.ID))
			}

			e.Compaction = data
		}

		for i := range e.Calls {
			im.call(&e.Calls[i], waits)
		}

		return yield(e)
	})
}

func (im *importing) call(c *transfer.CallRecord, waits bool) {
	c.ID, c.CreatedAt = renamed(im, c.ID), later(c.CreatedAt)
	if c.Status == domain.CallPending || c.Status == domain.CallAwaitingAnswer && !waits {
		c.Status, c.Phase = domain.CallCancelled, domain.PhaseFinished
		if c.Result == "" {
			c.Result = "Cancelled before it finished."
		}
	}

	q := c.Question
	if q == nil {
		return
	}

	q.ID, q.AskedAt = renamed(im, q.ID), later(q.AskedAt)
	if q.State == "open" && !waits {
		q.State = "cancelled"
	}

	if q.Answer = rawOrNil(q.Answer); q.Answer != nil && !json.Valid(q.Answer) {
		q.Answer = nil
	}

	if q.SourceLoop = rawOrNil(q.SourceLoop); q.SourceLoop != nil {
		if data, err := im.names.Data(q.SourceLoop); err == nil {
			q.SourceLoop = data
		}
	}
}
