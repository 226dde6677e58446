package identity

import (
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// used is a caller whose token is limited.
func used(mode ReplayMode, id string, end time.Time) *Caller {
	return &Caller{Issuer: "https://idp.example", TokenID: id, replay: mode, end: end}
}

func TestReplayModes(t *testing.T) {
	c := newClock()
	r := Replays{now: c.Now}
	end := c.Now().Add(time.Minute)
	for _, tt := range []struct {
		mode           ReplayMode
		id, call, work string
		refused        bool
	}{
		{ReplayOff, "a", "1", "w1", false}, {ReplayOff, "a", "2", "w2", false},
		{ReplayOnce, "b", "1", "w1", false}, {ReplayOnce, "b", "1", "w1", false}, {ReplayOnce, "b", "2", "w1", true},
		{ReplayBind, "c", "1", "w1", false}, {ReplayBind, "c", "2", "w1", false}, {ReplayBind, "c", "2", "w2", true},
		{ReplayBind, "c", "w1", "", true}, {ReplayBind, "d", "1", "", true}, {ReplayOnce, "d", "", "w1", true}, {ReplayBind, "", "1", "w1", true},
		{ReplayOnce, "c", "w1", "w1", true}, // a call that is called as the workload is
		{"other", "e", "1", "w1", false}, {"other", "e", "2", "w1", true},
	} {
		err := r.Use(used(tt.mode, tt.id, end), tt.call, tt.work)
		if !tt.refused && err != nil {
			t.Errorf("%+v: %v", tt, err)
		}
		if tt.refused {
			wantReason(t, err, "replayed", "")
		}
	}
	other := used(ReplayBind, "c", end)
	other.Issuer = "https://other.example"
	if err := r.Use(other, "1", "w2"); err != nil {
		t.Errorf("the same id of another issuer: %v", err)
	}
}

// TestReplaysKeepLiveEntries: a full store takes no new token and forgets no old one; both are as before once tokens have ended.
func TestReplaysKeepLiveEntries(t *testing.T) {
	c := newClock()
	r := Replays{now: c.Now, max: 6} // of which one tenant has three
	for i := range 3 {
		if err := r.Use(used(ReplayOnce, strconv.Itoa(i), c.Now().Add(time.Duration(3-i)*time.Minute)), "1", ""); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 100 {
		if err := r.Use(used(ReplayOnce, "new"+strconv.Itoa(i), c.Now().Add(time.Hour)), "1", ""); !errors.Is(err, ErrReplayFull) {
			t.Fatalf("a full store: %v", err)
		}
	}
	for i := range 3 {
		wantReason(t, r.Use(used(ReplayOnce, strconv.Itoa(i), c.Now().Add(time.Minute)), "2", ""), "replayed", "")
	}
	c.advance(time.Minute)
	if err := r.Use(used(ReplayOnce, "new", c.Now().Add(time.Hour)), "1", ""); err != nil {
		t.Errorf("after one has ended: %v", err)
	}
	wantReason(t, r.Use(used(ReplayOnce, "0", c.Now().Add(time.Minute)), "2", ""), "replayed", "")
	wantReason(t, r.Use(used(ReplayOnce, "2", c.Now()), "2", ""), "expired", "")
	if len(r.uses) != 3 || len(r.ends) != 3 {
		t.Errorf("%d entries, %d ends", len(r.uses), len(r.ends))
	}
}

// TestReplayShares: a tenant that has taken what it may leaves room for every other, of this issuer and of others, and gets what is
// free again.
func TestReplayShares(t *testing.T) {
	c := newClock()
	r := Replays{now: c.Now, max: 64}
	take := func(issuer, tenant string) (n int) {
		for ; n < 1000; n++ {
			who := used(ReplayOnce, tenant+strconv.Itoa(n), c.Now().Add(time.Minute))
			who.Issuer, who.Tenant = issuer, tenant
			if err := r.Use(who, "1", ""); errors.Is(err, ErrReplayFull) {
				return n
			} else if err != nil {
				t.Fatal(err)
			}
		}
		return n
	}
	for i, want := range []int{32, 16, 8} {
		if got := take("https://idp.example", "tenant-"+strconv.Itoa(i)); got != want {
			t.Errorf("tenant %d has %d, want %d", i, got, want)
		}
	}
	if got := take("https://other.example", "tenant-0"); got != 4 {
		t.Errorf("the same name at another issuer has %d", got)
	}
	c.advance(time.Minute)
	if got := take("https://idp.example", "tenant-9"); got != 32 || len(r.held) != 1 {
		t.Errorf("after all have ended a tenant has %d, and %d are counted", got, len(r.held))
	}
}

// TestReplayOfALongerToken: an issuer that gives an id to a second token, which lives longer, keeps the entry alive.
func TestReplayOfALongerToken(t *testing.T) {
	c := newClock()
	r := Replays{now: c.Now}
	for _, d := range []time.Duration{time.Minute, time.Hour} {
		if err := r.Use(used(ReplayBind, "a", c.Now().Add(d)), "", "w1"); err != nil {
			t.Fatal(err)
		}
	}
	c.advance(30 * time.Minute)
	wantReason(t, r.Use(used(ReplayBind, "a", c.Now().Add(30*time.Minute)), "", "w2"), "replayed", "")
}

func TestOneOfManyUsesWins(t *testing.T) {
	var r Replays
	var won atomic.Int32
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			if r.Use(used(ReplayOnce, "a", time.Now().Add(time.Hour)), strconv.Itoa(i), "") == nil {
				won.Add(1)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Errorf("%d calls used one token", won.Load())
	}
}

// TestReplayNeedsAnID and an end: else there is nothing to know a token by, or no time to forget it.
func TestReplayNeedsAnID(t *testing.T) {
	w := newWorld(t, func(i *Issuer) { i.Replay, i.MaxLifetime, i.Claims.TokenID = ReplayBind, time.Hour, []string{"uti"} })
	iat := w.Now().Unix()
	token := w.mint(t, map[string]any{"uti": "x1", "iat": iat})
	who, err := w.v.Verify(ctx, token)
	if err != nil || who.TokenID != "x1" || who.replay != ReplayBind || !who.end.Equal(who.Expiry.Add(30*time.Second)) {
		t.Fatalf("%+v %v", who, err)
	}
	for _, over := range []map[string]any{{"uti": nil}, {"uti": ""}, {"uti": 5}} {
		over["iat"] = iat
		token := w.mint(t, over)
		wantReason(t, w.verify(token), "claim", token)
	}
	for _, bad := range []Issuer{{Replay: ReplayOnce}, {Replay: "twice", MaxLifetime: time.Hour}, {Require: []string{""}}} {
		bad.URL, bad.Audiences = w.idp.URL(), []string{"toolgate"}
		if _, err := New([]Issuer{bad}); err == nil {
			t.Errorf("accepted %+v", bad)
		}
	}
}

func TestRequiredClaims(t *testing.T) {
	w := newWorld(t, func(i *Issuer) { i.Require = []string{"jti", "kubernetes.io.pod.uid"} })
	pod := map[string]any{"pod": map[string]any{"uid": "u-1"}}
	if err := w.verify(w.mint(t, map[string]any{"jti": "1", "kubernetes.io": pod})); err != nil {
		t.Fatal(err)
	}
	for _, over := range []map[string]any{
		{"jti": "1"}, {"jti": nil, "kubernetes.io": pod}, {"jti": "1", "kubernetes.io": map[string]any{"pod": map[string]any{"uid": nil}}},
		{"jti": "1", "kubernetes.io": map[string]any{"pod": map[string]any{"uid": ""}}}, {"jti": "1", "kubernetes.io": map[string]any{"pod": "u-1"}},
		{"jti": "1", "kubernetes.io": pod, "Kubernetes.io": pod}, {"jti": "1", "kubernetes.io": map[string]any{"pod": map[string]any{"uid": []string{}}}},
	} {
		token := w.mint(t, over)
		wantReason(t, w.verify(token), "claim", token)
	}
}
