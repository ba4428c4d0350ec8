package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"everloop/domain"
)

const (
	batchMessages = 256
	batchBytes    = 1 << 20
	// directTimeout is the timeout of one direct get.
	directTimeout = 5 * time.Second
)

// directRequest is the body of `$JS.API.DIRECT.GET.<stream>`. A batch of 1
// loses its end marker in some cases, so batches have at least 2.
type directRequest struct {
	Seq       uint64   `json:"seq,omitempty"`
	NextFor   string   `json:"next_by_subj,omitempty"`
	Batch     int      `json:"batch,omitempty"`
	MaxBytes  int      `json:"max_bytes,omitempty"`
	MultiLast []string `json:"multi_last,omitempty"`
	UpToSeq   uint64   `json:"up_to_seq,omitempty"`
}

// message is one entry of the stream.
type message struct {
	seq     uint64
	at      time.Time // time of storage; zero: not in the response
	subject string
	body    []byte
}

// directAnswer is the response to a direct get. pending is the number of matching entries after
// the last one returned.
type directAnswer struct {
	messages []message
	pending  uint64
}

// errBroken reports that a message of a response is missing. The library jetstreamext cannot
// detect this: it hides the end of a batch, which names the last message.
var errBroken = errors.New("answer of the event log is incomplete")

// direct reads from the storage of a generation, without a consumer. A closed generation that
// another process has deleted is empty.
func (l *Log) direct(ctx context.Context, g generation, request directRequest) (directAnswer, error) {
	for try := 0; ; try++ {
		answer, err := l.directOnce(ctx, g.name, request)
		if err == nil {
			return answer, nil
		}

		if !g.open() && errors.Is(err, nats.ErrNoResponders) {
			if _, err := l.js.Stream(ctx, g.name); errors.Is(err, jetstream.ErrStreamNotFound) {
				return directAnswer{}, nil
			}
		}

		if try >= 2 || ctx.Err() != nil || !(errors.Is(err, errBroken) || errors.Is(err, context.DeadlineExceeded)) {
			return directAnswer{}, domain.Unavailablef("event log", err)
		}
	}
}

// directOnce sends one request and collects its response. It returns errBroken when a message of
// the response is missing.
func (l *Log) directOnce(ctx context.Context, stream string, request directRequest) (answer directAnswer, err error) {
	ctx, cancel := context.WithTimeout(ctx, directTimeout)
	defer cancel()

	body, err := json.Marshal(request)
	if err != nil {
		return answer, err
	}

	inbox := l.nc.NewInbox()

	sub, err := l.nc.SubscribeSync(inbox)
	if err != nil {
		return answer, err
	}

	defer func() { _ = sub.Unsubscribe() }()

	if err := l.nc.PublishRequest("$JS.API.DIRECT.GET."+stream, inbox, body); err != nil {
		return answer, err
	}

	many := request.Batch > 0 || len(request.MultiLast) > 0

	var last uint64

	for {
		msg, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return answer, err
		}

		switch status := msg.Header.Get("Status"); status {
		case "":
			seq, err := strconv.ParseUint(msg.Header.Get("Nats-Sequence"), 10, 64)
			if err != nil {
				return answer, fmt.Errorf("direct get: %w", err)
			}

			at, _ := time.Parse(time.RFC3339Nano, msg.Header.Get("Nats-Time-Stamp"))

			answer.messages = append(answer.messages, message{seq: seq, at: at, subject: msg.Header.Get("Nats-Subject"), body: msg.Data})
			if !many {
				return answer, nil
			}

			if !follows(msg, last) {
				return answer, errBroken
			}

			answer.pending, _ = strconv.ParseUint(msg.Header.Get("Nats-Num-Pending"), 10, 64)
			last = seq
		case "204": // end of batch
			if !follows(msg, last) {
				return answer, errBroken
			}

			answer.pending, _ = strconv.ParseUint(msg.Header.Get("Nats-Num-Pending"), 10, 64)

			return answer, nil
		case "404":
			return answer, nil
		default:
			if status == "503" {
				return answer, nats.ErrNoResponders
			}

			return answer, fmt.Errorf("direct get: status %s %s", status, msg.Header.Get("Description"))
		}
	}
}

// follows reports whether a message names the previous one as its predecessor: responses are not
// acknowledged, so one could be missing.
func follows(msg *nats.Msg, last uint64) bool {
	before, err := strconv.ParseUint(msg.Header.Get("Nats-Last-Sequence"), 10, 64)
	return err == nil && before == last
}

// leaderRequest is the body of `$JS.API.STREAM.MSG.GET.<stream>`.
type leaderRequest struct {
	Seq     uint64 `json:"seq,omitempty"`
	LastFor string `json:"last_by_subj,omitempty"`
	NextFor string `json:"next_by_subj,omitempty"`
}

// leader requests one message of a generation from the leader of its stream, which has all
// acknowledged messages. Any replica can serve a direct get, and a lagging one reports that there
// is no message. leader returns nil when there is no such message.
func (l *Log) leader(ctx context.Context, g generation, request leaderRequest) (*message, error) {
	ctx, cancel := context.WithTimeout(ctx, directTimeout)
	defer cancel()

	body, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}

	reply, err := l.nc.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+g.name, body)
	if err != nil {
		return nil, domain.Unavailablef("event log", err)
	}

	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
	}
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		return nil, fmt.Errorf("message of the event log: %w", err)
	}

	if fault := answer.Error; fault != nil {
		gone := fault.ErrorCode == jetstream.JSErrCodeStreamNotFound && !g.open() // its events have expired
		if gone || fault.ErrorCode == jetstream.JSErrCodeMessageNotFound {
			return nil, nil
		}

		return nil, domain.Unavailablef("event log", fault)
	}

	m := answer.Message

	return &message{seq: m.Seq, at: m.Time, subject: m.Subject, body: m.Data}, nil
}
