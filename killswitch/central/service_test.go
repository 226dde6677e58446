package central_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/killswitch/bus"
	"github.com/toolgate/toolgate/killswitch/central"
	"github.com/toolgate/toolgate/killswitch/ledger"
)

func TestARevocationReachesEverySidecarAndIsAcknowledged(t *testing.T) {
	l := newLab(t)
	s := l.ready(l.service(nil))
	a, b := l.pod("a", "refunds"), l.pod("b", "mail")
	eventually(t, "both are known", func() bool { o, _ := s.Overview(alice); return o.Sidecars.Live == 2 })
	e := revoke(t, s, "refunds")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for acks := 0; ; {
		p, err := s.Wait(ctx, alice, e.Revision, acks)
		check(t, err)
		if p.Done() {
			if p.Expected != 2 || p.Acked != 2 || len(p.Silent) != 0 || p.Slowest <= 0 {
				t.Fatalf("%+v", p)
			}
			break
		}
		acks = p.Acked
	}
	if !slices.Equal(a.revoked(), []string{"refunds"}) || !slices.Equal(b.revoked(), []string{"refunds"}) {
		t.Fatal(a.revoked(), b.revoked())
	}
	list, err := s.List(alice)
	check(t, err)
	if len(list) != 1 || list[0].ID != "refunds" || list[0].By != alice.Name {
		t.Fatalf("%+v", list)
	}
	if _, err := s.Restore(ctx, bob, "refunds", central.Reason{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is restored", func() bool { return len(a.revoked())+len(b.revoked()) == 0 })
}

// A sidecar that does not acknowledge is named.
func TestTheSilentOneIsNamed(t *testing.T) {
	l := newLab(t)
	s := l.ready(l.service(nil))
	l.pod("a", "x")
	deaf := l.pod("deaf", "x")
	deaf.mu.Lock()
	deaf.deaf = true
	deaf.mu.Unlock()
	eventually(t, "both are known", func() bool { o, _ := s.Overview(alice); return o.Sidecars.Live == 2 })
	e := revoke(t, s, "x")
	eventually(t, "one acknowledges", func() bool { p, _ := s.Progress(alice, e.Revision); return p.Acked == 1 })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	p, err := s.Wait(ctx, alice, e.Revision, 1)
	check(t, err)
	if p.Done() || p.Expected != 2 || len(p.Silent) != 1 || p.Silent[0].Pod != "deaf" {
		t.Fatalf("%+v", p)
	}
}

// What has not been read yet does not look like nothing.
func TestNothingIsSaidBeforeTheLogIsRead(t *testing.T) {
	l := newLab(t)
	conn, err := l.server.Connect()
	check(t, err)
	defer conn.Close()
	s, err := central.New(central.Options{Conn: conn, Signer: l.signer, Log: l.log})
	check(t, err)
	_, err = s.List(root)
	wantCode(t, err, central.Unavailable)
	_, err = s.History(root, 0, 0, "")
	wantCode(t, err, central.Unavailable)
	_, err = s.Proposals(root)
	wantCode(t, err, central.Unavailable)
	_, err = s.Export(root)
	wantCode(t, err, central.Unavailable)
	_, _, _, err = s.Watch(root, 0)
	wantCode(t, err, central.Unavailable)
	_, err = s.Revoke(t.Context(), root, central.Request{Selector: tool("x"), Reason: "r"})
	wantCode(t, err, central.Unavailable)
	if o, err := s.Overview(root); err != nil || o.Unready == "" {
		t.Errorf("%+v, %v", o, err)
	}
}

// A sidecar hears of an entry before the replica that stored it is told so. Its acknowledgement, and its status, count.
func TestAnEarlyAcknowledgement(t *testing.T) {
	l := newLab(t)
	s := l.ready(l.service(nil))
	a, b := l.pod("a"), l.pod("b")
	for _, p := range []*pod{a, b} {
		p.mu.Lock()
		p.deaf = true
		p.mu.Unlock()
	}
	eventually(t, "both are known", func() bool { o, _ := s.Overview(alice); return o.Sidecars.Live == 2 })
	a.say(bus.SubjectAck("sidecar", "a"), bus.Ack{Sidecar: a.Sidecar, Revision: 1, Cut: 3})
	st := b.statusNow()
	st.Revision = 1
	b.say(bus.SubjectStatus("sidecar", "b"), st)
	eventually(t, "both have spoken", func() bool { return alarmed(s, central.AlarmClaim) })
	check(t, a.conn.Flush())
	e := revoke(t, s, "x")
	eventually(t, "both count", func() bool {
		p, err := s.Progress(alice, e.Revision)
		check(t, err)
		return p.Acked == 2 && p.Cut == 3
	})
}

// Two replicas, several responders at once: each entry has its place, and one id is taken once.
func TestRespondersAtOnce(t *testing.T) {
	l := newLab(t)
	replicas := []*replica{l.ready(l.service(nil)), l.ready(l.service(nil))}
	p := l.pod("p", "x")
	const each = 20
	var all sync.WaitGroup
	outcomes := make([]central.Outcome, 2)
	for i, r := range replicas {
		who := []central.Principal{alice, alice}[i]
		all.Go(func() {
			for n := range each {
				if _, err := r.Revoke(t.Context(), who, central.Request{ID: fmt.Sprint(i, "-", n), Selector: tool("x"), Reason: "r"}); err != nil {
					t.Error(err)
				}
			}
			out, err := r.Revoke(t.Context(), who, central.Request{ID: "same", Selector: tool("x"), Reason: "r"})
			if err != nil {
				t.Error(err)
			}
			outcomes[i] = out
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	if outcomes[0].Entry.Revision != outcomes[1].Entry.Revision || outcomes[0].Repeat == outcomes[1].Repeat {
		t.Fatalf("one id was taken twice: %+v %+v", outcomes[0], outcomes[1])
	}
	eventually(t, "all are in force", func() bool { return p.revision() == 2*each+1 && len(p.revoked()) == 2*each+1 })
	_, err := replicas[1].Revoke(t.Context(), bob, central.Request{ID: "same", Selector: tool("y"), Reason: "r"})
	wantCode(t, err, central.Conflict)
}

// What came twice is done once, and a late copy of a request brings nothing back that was restored.
func TestARequestThatComesTwice(t *testing.T) {
	l := newLab(t)
	s := l.ready(l.service(nil))
	first := revoke(t, s, "x")
	out, err := s.Revoke(t.Context(), alice, central.Request{ID: "x", Selector: tool("x"), Reason: "test"})
	check(t, err)
	if !out.Repeat || out.Entry.Revision != first.Revision {
		t.Fatalf("%+v", out)
	}
	for range 2 {
		out, err = s.Restore(t.Context(), bob, "x", central.Reason{})
		check(t, err)
	}
	if !out.Repeat || out.Entry.Revision != 2 {
		t.Fatalf("%+v", out)
	}
	out, err = s.Revoke(t.Context(), alice, central.Request{ID: "x", Selector: tool("x"), Reason: "test"})
	check(t, err)
	if list, _ := s.List(alice); !out.Repeat || len(list) != 0 {
		t.Fatal("a late copy of the request revoked again")
	}
}

func TestASecondPerson(t *testing.T) {
	l := newLab(t)
	s := l.ready(l.service(func(o *central.Options) { o.SecondPerson.Restore, o.SecondPerson.All = true, true }))
	revoke(t, s, "x") // stopping one tool needs nobody else
	out, err := s.Restore(t.Context(), alice, "x", central.Reason{Reason: "fixed"})
	check(t, err)
	if !out.NeedsApproval() {
		t.Fatalf("%+v", out.Entry)
	}
	if list, _ := s.List(alice); len(list) != 1 {
		t.Fatal("a proposal restored")
	}
	_, err = s.Approve(t.Context(), alice, out.Entry.Revision, "")
	wantCode(t, err, central.Forbidden)
	done, err := s.Approve(t.Context(), bob, out.Entry.Revision, "seen the new key")
	check(t, err)
	if e := done.Entry; e.Op != ledger.Restore || e.By != alice.Name || e.ApprovedBy != bob.Name || e.Reason != "fixed" || e.ApprovalReason != "seen the new key" || e.Proposal != out.Entry.Revision {
		t.Fatalf("%+v", e)
	}
	_, err = s.Approve(t.Context(), root, out.Entry.Revision, "")
	wantCode(t, err, central.NotFound)

	out, err = s.Revoke(t.Context(), alice, central.Request{ID: "all", Selector: ledger.Selector{All: true}, Reason: "worm"})
	check(t, err)
	if list, _ := s.List(alice); len(list) != 0 || !out.NeedsApproval() {
		t.Fatal("everything was stopped by one person")
	}
	if _, err := s.Decline(t.Context(), bob, out.Entry.Revision, central.Reason{Reason: "no worm"}); err != nil {
		t.Fatal(err)
	}
	if open, _ := s.Proposals(alice); len(open) != 0 {
		t.Fatalf("%+v", open)
	}
}

// A principal of one tenant can neither stop nor restore another's, nor learn that there is something to restore.
func TestTenantsAreKeptApart(t *testing.T) {
	l := newLab(t)
	s := l.ready(l.service(nil))
	acme := central.Principal{Name: "acme", Roles: []central.Role{central.Admin}, Tenants: []string{"acme"}}
	of := func(tenants ...string) ledger.Selector { return ledger.Selector{Tool: []string{"x"}, Tenant: tenants} }
	for _, bad := range []ledger.Selector{of(), of("globex"), of("acme", "globex"), {All: true}, {Tenant: []string{"ACME"}}} {
		_, err := s.Revoke(t.Context(), acme, central.Request{Selector: bad, Reason: "r"})
		wantCode(t, err, central.Forbidden)
		_, err = s.Preview(t.Context(), acme, bad)
		wantCode(t, err, central.Forbidden)
	}
	for id, tenant := range map[string]string{"hers": "acme", "theirs": "globex"} {
		_, err := s.Revoke(t.Context(), alice, central.Request{ID: id, Selector: of(tenant), Reason: "r"})
		check(t, err)
	}
	_, foreign := s.Restore(t.Context(), acme, "theirs", central.Reason{})
	_, unknown := s.Restore(t.Context(), acme, "nobodys", central.Reason{})
	wantCode(t, foreign, central.Forbidden)
	if foreign.Error() != unknown.Error() {
		t.Errorf("the answers tell them apart: %v; %v", foreign, unknown)
	}
	if list, _ := s.List(acme); len(list) != 1 || list[0].ID != "hers" {
		t.Errorf("%+v", list)
	}
	if page, _ := s.History(acme, 0, 0, ""); len(page) != 1 {
		t.Errorf("%+v", page)
	}
	_, err := s.Export(acme)
	wantCode(t, err, central.Forbidden)
	_, err = s.Roster(acme)
	wantCode(t, err, central.Forbidden)
	_, err = s.Drill(t.Context(), acme, "", central.Reason{})
	wantCode(t, err, central.Forbidden)
	if _, err := s.Restore(t.Context(), acme, "hers", central.Reason{}); err != nil {
		t.Error(err)
	}
	if list, _ := s.List(alice); len(list) != 1 || list[0].ID != "theirs" {
		t.Errorf("%+v", list)
	}
}

func TestNobodyMayDoNothing(t *testing.T) {
	l := newLab(t)
	s := l.ready(l.service(nil))
	viewer := central.Principal{Name: "v", Roles: []central.Role{central.Viewer}}
	for _, p := range []central.Principal{{}, {Name: "n"}, {Roles: []central.Role{central.Admin}}, {Name: "n", Roles: []central.Role{"root"}}, viewer} {
		_, err := s.Revoke(t.Context(), p, central.Request{Selector: tool("x"), Reason: "r"})
		wantCode(t, err, central.Forbidden)
		_, err = s.Restore(t.Context(), p, "x", central.Reason{})
		wantCode(t, err, central.Forbidden)
		if _, err := s.List(p); p.Name == "v" && err != nil || p.Name != "v" && err == nil {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

func TestPreviewAsksTheFleet(t *testing.T) {
	l := newLab(t)
	s := l.ready(l.service(nil))
	busy := l.pod("busy", "refunds", "mail")
	busy.runs(7)
	l.pod("idle", "mail")
	eventually(t, "both are known", func() bool { o, _ := s.Overview(alice); return o.Sidecars.Live == 2 })
	p, err := s.Preview(t.Context(), alice, tool("refunds"))
	check(t, err)
	if p.Live != 2 || p.Answered != 2 || p.Calls != 7 || len(p.Covered) != 1 || p.Covered[0].Pod != "busy" || !slices.Equal(p.Covered[0].Tools, []string{"refunds"}) {
		t.Fatalf("%+v", p)
	}
	_, err = s.Preview(t.Context(), alice, ledger.Selector{})
	wantCode(t, err, central.Invalid)
}

// Who is limited to a tenant sees sidecars where its calls run, and no other's tools.
func TestPreviewOfOneTenant(t *testing.T) {
	l := newLab(t)
	s := l.ready(l.service(nil))
	busy := l.pod("busy", "refunds", "secret-tool")
	busy.runs(7)
	l.pod("another-tenants", "refunds")
	eventually(t, "both are known", func() bool { o, _ := s.Overview(alice); return o.Sidecars.Live == 2 })
	acme := central.Principal{Name: "acme", Roles: []central.Role{central.Viewer}, Tenants: []string{"acme"}}
	for _, c := range []struct {
		sel   ledger.Selector
		tools []string
	}{
		{ledger.Selector{Tool: []string{"refunds"}, Tenant: []string{"acme"}}, []string{"refunds"}},
		{ledger.Selector{Tenant: []string{"acme"}}, []string{}},
	} {
		if p, err := s.Preview(t.Context(), alice, c.sel); err != nil || len(p.Covered) != 2 {
			t.Fatalf("to who may see all: %+v, %v", p, err)
		}
		p, err := s.Preview(t.Context(), acme, c.sel)
		check(t, err)
		if p.Calls != 7 || p.More != 0 || len(p.Covered) != 1 || p.Covered[0].Pod != "busy" || !slices.Equal(p.Covered[0].Tools, c.tools) {
			t.Errorf("%+v", p)
		}
	}
}

func TestWatchersHearEveryEntry(t *testing.T) {
	l := newLab(t)
	s := l.ready(l.service(nil))
	revoke(t, s, "before")
	missed, events, stop, err := s.Watch(alice, 0)
	check(t, err)
	defer stop()
	if len(missed) != 1 || missed[0].ID != "before" {
		t.Fatalf("%+v", missed)
	}
	revoke(t, s, "x")
	select {
	case ev := <-events:
		if ev.Entry == nil || ev.Entry.ID != "x" {
			t.Fatalf("%+v", ev)
		}
	case <-time.After(patience):
		t.Fatal("nothing was heard")
	}
}
