package contract

import (
	"everloop/domain"
	"everloop/internal/durable"
)

// WorkflowReplay is the workflow type of replays, as operators see it.
const WorkflowReplay = "Replay"

// ReplayInput starts the run that plays a replay session.
type ReplayInput struct {
	SessionID domain.SessionID `json:"session_id"`
}

// PlayReplay plays a replay from where its records say that it stands, up to its
// end or to where it is paused or handed over, and brings the files then.
var PlayReplay = durable.Activity[PlayReplayIn, PlayReplayOut]{Name: "replay.play", Preset: durable.Background}

// PlayReplayIn names the replay to play.
type PlayReplayIn struct {
	SessionID domain.SessionID `json:"session_id"`
}

// PlayReplayOut says how far it was played. Again: it was resumed while this run
// was about to close.
type PlayReplayOut struct {
	Position int    `json:"position"`
	Total    int    `json:"total"`
	Status   string `json:"status"`
	Again    bool   `json:"again,omitempty"`
}
