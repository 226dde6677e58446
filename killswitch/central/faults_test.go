package central_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolgate/toolgate/killswitch/bus"
	"github.com/toolgate/toolgate/killswitch/central"
	"github.com/toolgate/toolgate/killswitch/central/natsd"
	"github.com/toolgate/toolgate/killswitch/ledger"
)

func export(t testing.TB, r *replica) []byte {
	t.Helper()
	entries, err := r.Export(root)
	check(t, err)
	var b bytes.Buffer
	for _, e := range entries {
		b.Write(append(e.Encode(), '\n'))
	}
	return b.Bytes()
}

func alarmed(r *replica, k central.AlarmKind) bool {
	return slices.ContainsFunc(r.Alarms(), func(a central.Alarm) bool { return a.Kind == k })
}

// A store that was restored from an old backup is noticed by what a sidecar can prove, and takes nothing until it has
// its entries back.
func TestAnOldBackup(t *testing.T) {
	l := newLab(t)
	s := l.ready(l.service(nil))
	revoke(t, s, "early")
	s.stop()
	restore := l.backup()
	s = l.ready(l.service(nil))
	p := l.pod("p", "x")
	revoke(t, s, "lost")
	eventually(t, "it is in force", func() bool { return p.revision() == 2 })
	saved := export(t, s)
	s.stop()
	restore()
	s = l.service(nil)
	eventually(t, "the loss is noticed", func() bool { return alarmed(s, central.AlarmLost) })
	if alarmed(s, central.AlarmClaim) {
		t.Error("what was proven counts as unproven")
	}
	_, err := s.Revoke(t.Context(), alice, central.Request{Selector: tool("x"), Reason: "r"})
	wantCode(t, err, central.LogLost)
	wantCode(t, s.Ready(), central.LogLost)
	if !slices.Equal(p.revoked(), []string{"early", "lost"}) {
		t.Fatal(p.revoked())
	}

	if _, err := s.Import(t.Context(), root, bytes.NewReader(bytes.Replace(saved, []byte("lost"), []byte("last"), 1))); err == nil {
		t.Fatal("a changed export was taken")
	}
	_, err = s.Import(t.Context(), alice, bytes.NewReader(saved))
	wantCode(t, err, central.Forbidden)
	n, err := s.Import(t.Context(), root, bytes.NewReader(saved))
	check(t, err)
	if n != 1 || s.Ready() != nil {
		t.Fatal(n, s.Ready())
	}
	if e := revoke(t, s, "after"); e.Revision != 3 {
		t.Fatalf("%+v", e)
	}
	eventually(t, "the sidecar follows", func() bool { return p.revision() == 3 })
}

// backup copies the store, and returns what puts the copy in its place. The server runs on after each.
func (l *lab) backup() (restore func()) {
	l.Helper()
	store, copied := filepath.Join(l.dir, "jetstream"), filepath.Join(l.TempDir(), "jetstream")
	l.server.Stop()
	check(l, os.CopyFS(copied, os.DirFS(store)))
	l.start()
	return func() {
		l.Helper()
		l.server.Stop()
		check(l, os.RemoveAll(store))
		check(l, os.Rename(copied, store))
		l.start()
	}
}

// A store that was restored from an old backup and written to before anybody noticed has two histories. A sidecar of the
// first one proves it by an entry that is no further than the second has got.
func TestTwoHistories(t *testing.T) {
	l := newLab(t)
	s := l.ready(l.service(nil))
	revoke(t, s, "early")
	s.stop()
	restore := l.backup()
	s = l.ready(l.service(nil))
	first := revoke(t, s, "first")
	s.stop()
	restore()
	s = l.ready(l.service(nil))
	other := l.pod("other", "x")
	revoke(t, s, "second")
	revoke(t, s, "third")
	st := other.statusNow()
	st.Refused, st.Revision, st.Head, st.Proof = ledger.Fork, 2, first.Hash(), first.Encode()
	other.say(bus.SubjectStatus("sidecar", "other"), st)
	eventually(t, "it is noticed", func() bool { return alarmed(s, central.AlarmLost) })
	_, err := s.Revoke(t.Context(), alice, central.Request{Selector: tool("x"), Reason: "r"})
	wantCode(t, err, central.LogLost)
}

// The whole store is gone: the new one begins another log, which the same key may not continue beside the first.
func TestALostStoreComesBackWhole(t *testing.T) {
	l := newLab(t)
	s := l.ready(l.service(nil))
	p := l.pod("p", "x")
	revoke(t, s, "a")
	revoke(t, s, "b")
	eventually(t, "both are in force", func() bool { return p.revision() == 2 })
	saved := export(t, s)
	s.stop()
	l.server.Stop()
	check(t, os.RemoveAll(filepath.Join(l.dir, "jetstream")))
	l.start()
	s = l.service(nil)
	eventually(t, "the loss is noticed", func() bool { return alarmed(s, central.AlarmLost) })
	n, err := s.Import(t.Context(), root, bytes.NewReader(saved))
	check(t, err)
	if n != 2 || s.Ready() != nil {
		t.Fatal(n, s.Ready())
	}
	revoke(t, s, "c")
	eventually(t, "the sidecar follows", func() bool { return p.revision() == 3 })
}

// A sidecar's word alone stops nobody from revoking.
func TestAClaimWithoutProofOnlyAlarms(t *testing.T) {
	l := newLab(t)
	s := l.ready(l.service(nil))
	liar := l.pod("liar", "x")
	st := liar.statusNow()
	st.Revision, st.Head, st.Proof = 999, "sha256:00", []byte(`{"revision":999}`)
	liar.say(bus.SubjectStatus("sidecar", "liar"), st)
	eventually(t, "it is an alarm", func() bool { return alarmed(s, central.AlarmClaim) })
	revoke(t, s, "x")
}

// What expires while the control plane is down is ended when it comes back.
func TestExpiryWhileDown(t *testing.T) {
	l := newLab(t)
	s := l.ready(l.service(nil))
	expires := time.Now().Add(time.Hour)
	_, err := s.Revoke(t.Context(), alice, central.Request{ID: "x", Selector: tool("x"), Reason: "r", Expires: expires})
	check(t, err)
	s.stop()
	later := func(o *central.Options) { o.Now = func() time.Time { return time.Now().Add(2 * time.Hour) } }
	two := []*replica{l.service(later), l.service(later)}
	eventually(t, "it has ended", func() bool {
		list, err := two[0].List(alice)
		return two[0].Ready() == nil && err == nil && len(list) == 0
	})
	page, err := two[0].History(alice, 0, 0, "x")
	check(t, err)
	if len(page) != 2 || page[0].Op != ledger.Expire {
		t.Fatalf("%d entries, the last is %+v", len(page), page[0])
	}
}

// A stored entry that comes again changes nothing, whether it is published to the fleet or to the stream.
func TestADuplicatedPublish(t *testing.T) {
	l := newLab(t)
	s := l.ready(l.service(nil))
	p := l.pod("p", "x")
	b := revoke(t, s, "x").Encode()
	_, err := s.Restore(t.Context(), bob, "x", central.Reason{})
	check(t, err)
	eventually(t, "it is restored", func() bool { return p.revision() == 2 })
	check(t, s.conn.Publish(bus.SubjectLive, b))
	js, err := jetstream.New(s.conn)
	check(t, err)
	if _, err := js.Publish(t.Context(), bus.SubjectLog, b, jetstream.WithExpectLastSequence(0)); err == nil {
		t.Fatal("the stream took it twice")
	}
	revoke(t, s, "y")
	eventually(t, "the sidecar goes on", func() bool { return slices.Equal(p.revoked(), []string{"y"}) })
	check(t, s.Ready())
}

// A log that does not verify is not added to, and no heartbeat vouches for it.
func TestABrokenLog(t *testing.T) {
	l := newLab(t)
	s := l.ready(l.service(nil))
	revoke(t, s, "x")
	_, err := s.conn.Request(bus.SubjectLog, []byte("junk"), patience)
	check(t, err)
	s.stop()
	s = l.service(nil)
	heard := make(chan *nats.Msg, 1)
	_, err = s.conn.ChanSubscribe(bus.SubjectHeartbeat, heard)
	check(t, err)
	eventually(t, "it is noticed", func() bool { return alarmed(s, central.AlarmBroken) })
	_, err = s.Revoke(t.Context(), alice, central.Request{Selector: tool("y"), Reason: "r"})
	wantCode(t, err, central.LogBroken)
	wantCode(t, s.Ready(), central.LogBroken)
	if list, err := s.List(alice); err != nil || len(list) != 1 {
		t.Errorf("what verifies is not shown: %v, %v", list, err)
	}
	if m, err := s.conn.Request(bus.SubjectSync, []byte(`{"nonce":"n"}`), 300*time.Millisecond); err == nil {
		t.Errorf("it vouches for the log: %s", m.Data)
	}
	if len(heard) > 0 {
		t.Error("it vouches for the log")
	}
}

// A signing key that did not sign the log so far does not go on with it, unless the earlier key is trusted.
func TestKeysAreRotated(t *testing.T) {
	l := newLab(t)
	s := l.ready(l.service(nil))
	revoke(t, s, "x")
	s.stop()
	old := l.signer.PublicKey()
	next := newLab(t).signer
	s = l.service(func(o *central.Options) { o.Signer = next })
	eventually(t, "it is refused", func() bool { return alarmed(s, central.AlarmBroken) })
	s.stop()
	s = l.ready(l.service(func(o *central.Options) { o.Signer, o.Trusted = next, []string{old} }))
	if e := revoke(t, s, "y"); e.Revision != 2 || e.Key != next.KeyID() {
		t.Fatalf("%+v", e)
	}
}

// denied tells what the server has refused a connection.
func (p *pod) refusal(t *testing.T, what string, try func() error) {
	t.Helper()
	p.mu.Lock()
	p.denied = nil
	p.mu.Unlock()
	check(t, try())
	check(t, p.conn.Flush())
	eventually(t, what+" is refused", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return slices.ContainsFunc(p.denied, func(text string) bool { return strings.Contains(strings.ToLower(text), "permissions violation") })
	})
}

// TestAStolenCredential: who has a sidecar's credentials can say what a sidecar of that name could, and nothing else.
func TestAStolenCredential(t *testing.T) {
	l := newLab(t)
	s := l.ready(l.service(nil))
	e := revoke(t, s, "x")
	thief := l.pod("thief", "x")
	other, err := natsd.Credentials(l.dir, "team-b")
	check(t, err)
	creds := filepath.Join(t.TempDir(), "b.creds")
	check(t, os.WriteFile(creds, other, 0o600))
	honest := l.podAs("team-b", creds, "b", "x")
	eventually(t, "both are known", func() bool { o, _ := s.Overview(alice); return o.Sidecars.Live == 2 })
	_ = honest

	restore := s.nextForged(t, l, e)
	for _, subject := range []string{
		bus.SubjectLog, bus.SubjectLive, bus.SubjectHeartbeat, bus.SubjectCheckpoint, bus.SubjectProbe,
		bus.SubjectAck("team-b", "b"), bus.SubjectStatus("team-b", "b"), bus.SubjectAnswer("team-b", "b"),
		"$JS.API.STREAM.DELETE." + bus.Stream, "$JS.API.STREAM.PURGE." + bus.Stream, "$JS.API.STREAM.UPDATE." + bus.Stream,
		"$JS.API.STREAM.INFO." + bus.Stream, "$JS.API.CONSUMER.CREATE." + bus.Stream, "$SYS.REQ.SERVER.PING", "_INBOX.x", "_R_.x",
	} {
		thief.refusal(t, "publishing to "+subject, func() error { return thief.conn.Publish(subject, restore) })
	}
	for _, subject := range []string{bus.SubjectLog, bus.AllAcks, bus.AllStatuses, bus.AllAnswers, bus.SubjectSync, bus.SubjectCheckpoint, ">", "_R_.>", "$JS.>"} {
		thief.refusal(t, "hearing "+subject, func() error { _, err := thief.conn.SubscribeSync(subject); return err })
	}
	// A queue group would take what the control plane is to hear.
	thief.refusal(t, "a queue of the control plane", func() error {
		_, err := thief.conn.QueueSubscribeSync(bus.SubjectSync, bus.QueueCentral)
		return err
	})
	if got := revoke(t, s, "y"); got.Revision != e.Revision+1 {
		t.Fatalf("the log has grown to %d", got.Revision)
	}
	if _, err := nats.Connect(l.server.URL()); err == nil {
		t.Error("a connection without credentials")
	}
}

// TestStolenCredentialsAreWithdrawn as the page says: with another issuer, those that the first one issued are refused.
func TestStolenCredentialsAreWithdrawn(t *testing.T) {
	l := newLab(t)
	l.connect(natsd.SidecarCredentials(l.dir))
	stolen := filepath.Join(t.TempDir(), "stolen.creds")
	check(t, os.Rename(natsd.SidecarCredentials(l.dir), stolen))
	l.server.Stop()
	check(t, os.Remove(filepath.Join(l.dir, "keys", "sidecar-issuer.nk")))
	l.start()
	l.connect(natsd.SidecarCredentials(l.dir))
	if _, err := nats.Connect(l.server.URL(), nats.UserCredentials(stolen)); err == nil {
		t.Fatal("they are still good")
	}
}

// nextForged is an entry that a thief might make: well formed, and signed with a key of his own.
func (r *replica) nextForged(t *testing.T, l *lab, after *ledger.Entry) []byte {
	t.Helper()
	e := &ledger.Entry{
		Version: 1, Log: after.Log, Revision: after.Revision + 1, Prev: after.Hash(), At: time.Now().UTC(), Op: ledger.Restore, ID: after.ID, By: "thief",
	}
	check(t, newLab(t).signer.Sign(e))
	return e.Encode()
}

// TestAnswersDoNotBecomeEntries: who asks chooses where the answer goes. In the control plane's own account, that puts a
// message into the log; from the sidecars' it must not.
func TestAnswersDoNotBecomeEntries(t *testing.T) {
	l := newLab(t)
	s := l.ready(l.service(func(o *central.Options) { o.Instance = "c-1" }))
	revoke(t, s, "x")
	get, q := "$JS.API.DIRECT.GET."+bus.Stream, []byte(`{"seq":1,"no_hdr":true}`) // with its headers, the expected sequence would stop it
	thief := l.connect(natsd.SidecarCredentials(l.dir))
	for _, into := range []string{bus.SubjectLog, bus.SubjectLive, bus.SubjectHeartbeat, bus.SubjectCheckpoint, bus.SubjectAck("team-b", "c-1")} {
		check(t, thief.PublishRequest(get, into, q))
		check(t, thief.PublishRequest(bus.SubjectSync, into, []byte(`{"nonce":"n"}`)))
	}
	check(t, s.conn.PublishRequest(bus.SubjectSync, bus.SubjectLog, []byte(`{"nonce":"n"}`)))
	// An answer that does come shows that those before it were worked on.
	_, err := thief.Request(bus.SubjectSync, []byte(`{"nonce":"n"}`), patience)
	check(t, err)
	_, err = thief.Request(get, q, patience)
	check(t, err)
	if e := revoke(t, s, "y"); e.Revision != 2 {
		t.Fatalf("answers were stored: the next entry is %d", e.Revision)
	}
	// Should one reach the control plane all the same, it is known by its signature.
	m, err := thief.Request(bus.SubjectSync, []byte(`{"nonce":"n"}`), patience)
	check(t, err)
	check(t, s.conn.Publish(bus.SubjectAck("team-b", "c-1"), m.Data))
	check(t, s.conn.Publish(bus.SubjectAck("team-b", "real"), []byte(`{"instance":"real","revision":1}`)))
	eventually(t, "only what a sidecar says counts", func() bool { list, _ := s.Roster(alice); return len(list) > 0 })
	if list, _ := s.Roster(alice); len(list) != 1 || list[0].Instance != "real" {
		t.Errorf("an answer counts as a sidecar: %+v", list)
	}
	// The hazard is real: it works where both are in one account.
	check(t, s.conn.PublishRequest(get, bus.SubjectLog, q))
	eventually(t, "the control plane's own account has the hazard", func() bool { return s.Ready() != nil || streamLength(t, s) == 3 })
}

func streamLength(t *testing.T, s *replica) uint64 {
	t.Helper()
	js, err := jetstream.New(s.conn)
	check(t, err)
	stream, err := js.Stream(t.Context(), bus.Stream)
	check(t, err)
	return stream.CachedInfo().State.LastSeq
}

// TestSyncIsAnsweredFresh: the answer has the nonce and the log's end.
func TestSyncIsAnsweredFresh(t *testing.T) {
	l := newLab(t)
	s := l.ready(l.service(nil))
	e := revoke(t, s, "x")
	p := l.pod("p", "x")
	q, err := json.Marshal(bus.SyncRequest{Nonce: "n-1"})
	check(t, err)
	m, err := p.conn.Request(bus.SubjectSync, q, patience)
	check(t, err)
	h, err := p.keys.DecodeHeartbeat(m.Data)
	check(t, err)
	if h.Nonce != "n-1" || h.Revision != e.Revision || h.Head != e.Hash() {
		t.Fatalf("%+v", h)
	}
}

// TestManySyncsAtOnce: after a restart a whole fleet asks. Each is answered by its nonce, and they share looks at the store: a look for
// each would be two more messages for each.
func TestManySyncsAtOnce(t *testing.T) {
	l := newLab(t)
	s := l.ready(l.service(nil))
	revoke(t, s, "x")
	p := l.pod("p", "x")
	const fleet = 500
	inbox := p.conn.NewRespInbox()
	sub, err := p.conn.SubscribeSync(inbox)
	check(t, err)
	check(t, p.conn.Flush())
	before := s.conn.Stats().OutMsgs
	for i := range fleet {
		check(t, p.conn.PublishRequest(bus.SubjectSync, inbox, fmt.Appendf(nil, `{"nonce":"n-%d"}`, i)))
	}
	answered := map[string]bool{}
	for range fleet {
		m, err := sub.NextMsg(patience)
		check(t, err)
		h, err := p.keys.DecodeHeartbeat(m.Data)
		check(t, err)
		answered[h.Nonce] = true
	}
	if n := s.conn.Stats().OutMsgs - before; len(answered) != fleet || n > 2*fleet {
		t.Fatalf("%d of %d were answered, with %d messages", len(answered), fleet, n)
	}
}

// TestCheckpoints: a sidecar that starts finds the fold, and only the newest.
func TestCheckpoints(t *testing.T) {
	l := newLab(t)
	s := l.ready(l.service(nil))
	for _, id := range []string{"a", "b"} {
		revoke(t, s, id)
	}
	s.stop()
	s = l.ready(l.service(nil)) // one is written at the start
	p := l.pod("p", "x")
	eventually(t, "there is one", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		m, err := p.conn.RequestWithContext(ctx, "$JS.API.DIRECT.GET."+bus.CheckpointStream, []byte(`{"last_by_subj":"`+bus.SubjectCheckpoint+`"}`))
		if err != nil {
			return false
		}
		c, err := p.keys.DecodeCheckpoint(m.Data)
		return err == nil && c.Revision == 2 && len(c.Revocations) == 2
	})
	check(t, s.Ready())
}
