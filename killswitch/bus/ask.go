package bus

import (
	"crypto/rand"
	"encoding/json"
	random "math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/toolgate/toolgate/killswitch/ledger"
)

// JetStream's direct get (ADR-31): any replica answers from its store, and no consumer is made.
const directGet = "$JS.API.DIRECT.GET."

// What one request for entries may bring.
const (
	batch      = 512
	batchBytes = 8 << 20
)

// answerWithin is how long an answer may take: of a fetch before it is asked for again, and of a nonce before it is no
// longer fresh.
const answerWithin = 5 * time.Second

// compactAt is how many entries the state file holds before it asks for a checkpoint, doubled at most, at random.
const compactAt = 256

// What a request asks for; the first part of its reply subject's last token.
const (
	forTail       = "tail"
	forCheckpoint = "checkpoint"
	forParts      = "parts" // of the checkpoint
	forNonce      = "nonce"
)

// asking is what was asked and not answered.
type asking struct {
	online bool
	id     int // makes reply subjects unique, so that a late answer is not taken for the present one's

	fetching     string    // forTail, forCheckpoint, forParts or ""
	gathered     Gathered  // the parts that have come
	fetchReply   string    // where its answer comes
	fetchTill    time.Time // then it counts as lost
	fetchAfter   time.Time // not before
	failures     int       // fetches without progress
	from         uint64    // the revision before the fetch
	first        bool      // nothing was fetched since we connected
	noCheckpoint bool      // there is none; begin with entry 1

	nonce         string
	nonceAt       time.Time
	nonceRevision uint64    // what we had then
	nonceAfter    time.Time // no other before
	nonces        int       // asked without success
	doubt         bool      // a heartbeat was behind us; whether the log is, an answer must tell
	compactTo     int       // entries kept before the next checkpoint is asked for
}

func (a *asking) calm() { a.nonces, a.failures, a.doubt = 0, 0, false }

// reconnected begins anew with what a new connection needs.
func (s *Source) reconnected(now time.Time) {
	s.online, s.fetching, s.first, s.noCheckpoint, s.failures, s.fetchAfter = true, "", true, false, 0, time.Time{}
	s.askNonce(now)
}

// ask sends the requests that are due.
func (s *Source) ask(now time.Time) {
	if !s.online {
		return
	}
	switch {
	case (s.fetching == forCheckpoint || s.fetching == forParts) && now.After(s.fetchTill):
		s.endCheckpoint(nil, false)
	case s.fetching == forTail && now.After(s.fetchTill):
		s.endTail(now, false, false)
	}
	if s.fetching == "" && !now.Before(s.fetchAfter) && (s.missing() || s.tooLong()) {
		s.fetch(now)
	}
	if (s.quiet(now) || s.doubt) && !now.Before(s.nonceAfter) {
		s.askNonce(now)
	}
}

// quiet reports that nothing counted as hearing for so long that a heartbeat must have been lost.
func (s *Source) quiet(now time.Time) bool {
	return s.heard.IsZero() || now.Sub(s.heard) > min(3*HeartbeatEvery, s.patience())
}

// patience is a third of maxStale: time for two more questions before the switch is stale.
func (s *Source) patience() time.Duration {
	if s.o.MaxStale <= 0 {
		return 3 * HeartbeatEvery
	}
	return s.o.MaxStale / 3
}

// askNonce asks for a heartbeat that must be new.
func (s *Source) askNonce(now time.Time) {
	s.nonce, s.nonceAt, s.nonceRevision, s.doubt = rand.Text(), now, s.state.Revision, false
	wait := min(time.Second<<min(s.nonces, 4), 3*HeartbeatEvery, max(s.patience(), tickEvery))
	s.nonceAfter = now.Add(wait/2 + random.N(wait))
	s.nonces++
	b, _ := json.Marshal(SyncRequest{Nonce: s.nonce})
	s.send(outgoing{subject: SubjectSync, reply: s.reply(forNonce), data: b})
}

// makeSure asks for a heartbeat soon, and not together with the whole fleet.
func (s *Source) makeSure(now time.Time) {
	if s.doubt {
		return
	}
	s.doubt, s.nonceAfter = true, now.Add(random.N(soon))
}

// answersNonce uses the nonce up.
func (s *Source) answersNonce(nonce string, at time.Time) bool {
	if nonce != s.nonce || at.Sub(s.nonceAt) > answerWithin {
		return false
	}
	s.nonce = ""
	return true
}

func (s *Source) reply(what string) string {
	s.id++
	return s.inbox + "." + what + "-" + strconv.Itoa(s.id)
}

// tooLong reports whether the entries kept for the state file call for a checkpoint.
func (s *Source) tooLong() bool {
	if s.compactTo == 0 {
		s.compactTo = compactAt + random.N(compactAt)
	}
	return s.o.StateDir != "" && len(s.kept.entries) > s.compactTo
}

// fetch asks for what is missing: where nothing is known the newest checkpoint, and then the entries that follow. Where
// nothing is missing it asks for a checkpoint that shortens the state file.
func (s *Source) fetch(now time.Time) {
	stream, request := Stream, map[string]any{"seq": s.state.Revision + 1, "batch": batch, "max_bytes": batchBytes}
	s.fetching = forTail
	if s.missing() == (s.state.Revision == 0 && !s.noCheckpoint) {
		stream, request = CheckpointStream, map[string]any{"last_by_subj": SubjectCheckpoint}
		s.fetching = forCheckpoint
	}
	s.from = s.state.Revision
	s.request(now, stream, request)
}

func (s *Source) request(now time.Time, stream string, request map[string]any) {
	s.fetchTill, s.fetchReply = now.Add(answerWithin), s.reply(s.fetching)
	b, _ := json.Marshal(request)
	s.send(outgoing{subject: directGet + stream, reply: s.fetchReply, data: b})
}

// missing reports whether entries are, as far as one can know.
func (s *Source) missing() bool { return s.first || s.state.Revision < s.target }

// answer takes what came to our inbox. A late answer is heard as well, but ends no fetch.
func (s *Source) answer(m received) {
	token := m.msg.Subject[strings.LastIndexByte(m.msg.Subject, '.')+1:]
	what, _, _ := strings.Cut(token, "-")
	status := m.msg.Header.Get("Status")
	current := s.fetching != "" && m.msg.Subject == s.fetchReply
	switch {
	case what == forNonce && status == "":
		s.heartbeat(m)
	case what == forTail && status == "":
		s.entry(m, true)
		if current {
			s.fetchTill = m.at.Add(answerWithin)
		}
	case what == forCheckpoint && current && status == "" && m.msg.Header.Get(headerPart) != "":
		s.fetchParts(m)
	case what == forCheckpoint && current:
		s.endCheckpoint(m.msg.Data, status == "")
	case what == forParts && current:
		s.part(m, status)
	case what == forTail && current:
		pending, _ := strconv.Atoi(m.msg.Header.Get("Nats-Num-Pending"))
		s.endTail(m.at, status == "204" || status == "404", pending > 0)
	}
}

// fetchParts asks for all parts of the checkpoint whose last one is here.
func (s *Source) fetchParts(last received) {
	number, count, ok := PartOf(last.msg.Header)
	seq, err := strconv.ParseUint(last.msg.Header.Get("Nats-Sequence"), 10, 64)
	if !ok || err != nil || number != count || seq < uint64(count) { // it is being written
		s.endCheckpoint(nil, false)
		return
	}
	s.fetching, s.gathered = forParts, Gathered{}
	s.request(last.at, CheckpointStream, map[string]any{"seq": seq - uint64(count) + 1, "batch": count, "max_bytes": batchBytes})
}

// part takes one part, or what ends an answer without the last one.
func (s *Source) part(m received, status string) {
	if status != "" {
		s.endCheckpoint(nil, false)
		return
	}
	whole, err := s.gathered.Add(m.msg.Header, m.msg.Data)
	switch {
	case err != nil:
		s.endCheckpoint(nil, false)
	case whole != nil:
		s.endCheckpoint(whole, true)
	default:
		s.fetchTill = m.at.Add(answerWithin)
	}
}

// endCheckpoint ends a fetch of the checkpoint. Without a good one the log is read from its beginning.
func (s *Source) endCheckpoint(raw []byte, found bool) {
	s.fetching, s.gathered = "", Gathered{}
	s.compactTo = len(s.kept.entries) + compactAt + random.N(compactAt)
	if s.state.Revision == 0 {
		s.noCheckpoint = true
	}
	if !found {
		return
	}
	c, err := s.keys.Load().DecodeCheckpoint(raw)
	if err != nil {
		s.refuse(err)
		return
	}
	s.checkpoint(c, raw)
}

// checkpoint takes one as the beginning where nothing is known, else only to shorten the state file.
func (s *Source) checkpoint(c *ledger.Checkpoint, raw []byte) {
	if s.state.Revision > 0 {
		s.unsaved = s.kept.compact(c, raw, s.state.Log) || s.unsaved
		return
	}
	if err := s.state.Begin(c); err != nil {
		s.refuse(err)
		return
	}
	s.kept.begin(c, raw)
	s.agreed = nil
	s.dirty, s.whole, s.unsaved = true, true, true
}

// endTail ends a fetch of entries: answered and with more to come, answered whole, or not answered.
func (s *Source) endTail(now time.Time, answered, more bool) {
	progress := s.state.Revision > s.from
	s.fetching = ""
	if answered && !(more && progress) {
		s.first = false
	}
	if answered && (progress || !s.missing()) {
		s.failures = 0
		return
	}
	wait := min(30*time.Second, 500*time.Millisecond<<min(s.failures, 6))
	s.fetchAfter = now.Add(wait/2 + random.N(wait))
	s.failures++
}
