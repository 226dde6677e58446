package central

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolgate/toolgate/killswitch/bus"
)

// metaLog is the stream's metadata key with the log's id. It counts only while the log is empty: replicas that start at
// once must agree on an id. From the first entry on, the signed one rules.
const metaLog = "toolgate-log"

// maxMessage bounds a stored entry. A selector may have 64 KiB, and an entry little besides.
const maxMessage = 256 << 10

// store is the stream. It moves bytes and verifies nothing.
type store struct {
	nc       *nats.Conn
	js       jetstream.JetStream
	replicas int
}

func streamConfig(replicas int, log string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: bus.Stream, Description: "Toolgate kill switch: the signed log",
		Subjects: []string{bus.SubjectLog}, Storage: jetstream.FileStorage, Replicas: replicas,
		Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew, MaxMsgSize: maxMessage,
		AllowDirect: true, DenyDelete: true, DenyPurge: true,
		RePublish: &jetstream.RePublish{Source: bus.SubjectLog, Destination: bus.SubjectLive},
		Metadata:  map[string]string{metaLog: log},
	}
}

// open finds the streams or makes them, and returns the id that an empty log begins with.
func (s *store) open(ctx context.Context) (string, error) {
	stream, err := s.js.Stream(ctx, bus.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = s.js.CreateStream(ctx, streamConfig(s.replicas, rand.Text()))
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another replica was first
			stream, err = s.js.Stream(ctx, bus.Stream)
		}
	}
	if err != nil {
		return "", err
	}
	c := stream.CachedInfo().Config
	r := c.RePublish
	if len(c.Subjects) != 1 || c.Subjects[0] != bus.SubjectLog || c.Storage != jetstream.FileStorage || !c.DenyDelete ||
		!c.DenyPurge || !c.AllowDirect || r == nil || r.Source != bus.SubjectLog || r.Destination != bus.SubjectLive ||
		c.MaxAge != 0 || c.MaxMsgs > 0 || c.MaxBytes > 0 {
		return "", &settingsError{bus.Stream}
	}
	_, err = s.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: bus.CheckpointStream, Description: "Toolgate kill switch: the newest checkpoint",
		Subjects: []string{bus.SubjectCheckpoint}, Storage: jetstream.FileStorage, Replicas: s.replicas,
		MaxMsgsPerSubject: bus.KeptCheckpoints, AllowDirect: true,
	})
	return c.Metadata[metaLog], err
}

// settingsError is a stream that exists with settings under which the log would not be safe.
type settingsError struct{ stream string }

func (e *settingsError) Error() string {
	return fmt.Sprintf("the stream %s exists with other settings than the control plane's; it was not made by it", e.stream)
}

// rename gives an empty log another id.
func (s *store) rename(ctx context.Context, log string) error {
	_, err := s.js.UpdateStream(ctx, streamConfig(s.replicas, log))
	return err
}

// last returns the last sequence by the word of the stream's leader.
func (s *store) last(ctx context.Context) (uint64, error) {
	stream, err := s.js.Stream(ctx, bus.Stream)
	if err != nil {
		return 0, err
	}
	st := stream.CachedInfo().State
	if st.FirstSeq > 1 || st.NumDeleted > 0 {
		return 0, refuse(LogBroken, "the stream begins at %d and lacks %d messages", st.FirstSeq, st.NumDeleted)
	}
	return st.LastSeq, nil
}

// errConflict is an append at a sequence that is taken.
var errConflict = errors.New("another entry was stored first")

// append stores b as sequence seq. errConflict means that it was not stored; of other errors, definite tells.
func (s *store) append(ctx context.Context, seq uint64, b []byte) error {
	_, err := s.js.Publish(ctx, bus.SubjectLog, b, jetstream.WithExpectStream(bus.Stream),
		jetstream.WithExpectLastSequence(seq-1), jetstream.WithRetryAttempts(0))
	return conflict(err)
}

// conflict makes errConflict of the store's word for it.
func conflict(err error) error {
	if api := (*jetstream.APIError)(nil); errors.As(err, &api) &&
		(api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant) {
		return errConflict
	}
	return err
}

// definite reports whether a failed append has certainly stored nothing: the server refused it, or no stream heard it.
func definite(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) || errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders) ||
		errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrMaxPayload)
}

// batchSize is how many entries one request asks for.
const batchSize = 512

// read calls f with the messages from first to last, in order. A replica that lags behind has less, so it asks again
// until all have come or ctx ends.
func (s *store) read(ctx context.Context, first, last uint64, f func(seq uint64, b []byte) error) error {
	for first <= last {
		next, err := s.readBatch(ctx, first, last, f)
		if err != nil {
			return err
		}
		if next == first {
			select {
			case <-ctx.Done():
				return fmt.Errorf("the stream has %d messages, and message %d cannot be read: %w", last, first, ctx.Err())
			case <-time.After(20 * time.Millisecond):
			}
		}
		first = next
	}
	return nil
}

func (s *store) readBatch(ctx context.Context, first, last uint64, f func(uint64, []byte) error) (uint64, error) {
	inbox := s.nc.NewRespInbox()
	sub, err := s.nc.SubscribeSync(inbox)
	if err != nil {
		return first, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	q, err := json.Marshal(map[string]uint64{"seq": first, "batch": min(batchSize, last-first+1)})
	if err != nil {
		return first, err
	}
	if err := s.nc.PublishRequest("$JS.API.DIRECT.GET."+bus.Stream, inbox, q); err != nil {
		return first, err
	}
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return first, err
		}
		switch m.Header.Get("Status") {
		case "":
		case "204", "404":
			return first, nil
		default:
			return first, fmt.Errorf("reading the stream: %s %s", m.Header.Get("Status"), m.Header.Get("Description"))
		}
		seq, err := strconv.ParseUint(m.Header.Get(jetstream.SequenceHeader), 10, 64)
		if err != nil || seq != first {
			return first, refuse(LogBroken, "the stream has no message %d", first)
		}
		if err := f(seq, m.Data); err != nil {
			return first, err
		}
		first++
	}
}

// publishCheckpoint stores a checkpoint. errConflict: another replica writes one at the same time.
func (s *store) publishCheckpoint(ctx context.Context, checkpoint []byte) error {
	parts, err := bus.Parts(checkpoint, int(s.nc.MaxPayload())/2)
	if err != nil {
		return err
	}
	var last uint64
	for i, p := range parts {
		var follows []jetstream.PublishOpt
		if i > 0 {
			follows = append(follows, jetstream.WithExpectLastSequence(last))
		}
		ack, err := s.js.PublishMsg(ctx, &nats.Msg{Subject: bus.SubjectCheckpoint, Header: p.Header, Data: p.Data}, follows...)
		if err != nil {
			return conflict(err)
		}
		last = ack.Sequence
	}
	return nil
}

// checkpoint returns the newest checkpoint's bytes, or nil.
func (s *store) checkpoint(ctx context.Context) ([]byte, error) {
	stream, err := s.js.Stream(ctx, bus.CheckpointStream)
	if err != nil {
		return nil, err
	}
	m, err := stream.GetLastMsgForSubject(ctx, bus.SubjectCheckpoint)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	_, count, ok := bus.PartOf(m.Header)
	if !ok {
		return m.Data, nil
	}
	var g bus.Gathered
	for seq := m.Sequence - min(m.Sequence, uint64(count)) + 1; ; seq++ {
		if m, err = stream.GetMsg(ctx, seq); err != nil {
			return nil, err
		}
		if whole, err := g.Add(m.Header, m.Data); whole != nil || err != nil {
			return whole, err
		}
	}
}
