package broker

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
)

// lease is a secret that Vault made and ends. It is renewed at two thirds of its time if it was used since the last time.
type lease struct {
	id    string
	token *vaultToken
	life  time.Duration // that it was given, and is renewed for
	of    *leases

	mu      sync.Mutex
	until   time.Time
	used    bool
	dropped bool
	timer   *time.Timer
}

// leases are those of one binding that have not ended.
type leases struct {
	after func(time.Duration, func()) *time.Timer // time.AfterFunc

	mu  sync.Mutex
	all map[*lease]bool
}

// add begins a lease that Vault gave for a life, and that ends with the token at the latest.
func (ls *leases) add(is *vault, id string, token *vaultToken, life time.Duration, until time.Time, renewable bool) *lease {
	l := &lease{id: id, token: token, life: life, of: ls, until: until}
	ls.mu.Lock()
	if ls.all == nil {
		ls.all = map[*lease]bool{}
	}
	ls.all[l] = true
	ls.mu.Unlock()
	l.wait(is, renewable)
	return l
}

// wait looks at the lease again when two thirds of what is left have passed; one that is not renewed, at its end.
func (l *lease) wait(is *vault, renewable bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dropped {
		return
	}
	left := l.until.Sub(is.now())
	if renewable {
		l.timer = l.of.after(max(left*2/3, time.Second/4), func() { is.renew(l) })
	} else {
		l.timer = l.of.after(max(left, 0), l.drop)
	}
}

// use notes that the secret goes out.
func (l *lease) use() {
	l.mu.Lock()
	l.used = true
	l.mu.Unlock()
}

// alive reports whether the secret may still be sent.
func (l *lease) alive(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.dropped && now.Before(l.until)
}

// end returns when it ends if nobody renews it.
func (l *lease) end() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until
}

// drop makes it end: it is not given out and not renewed any more.
func (l *lease) drop() {
	l.mu.Lock()
	l.dropped = true
	if l.timer != nil {
		l.timer.Stop()
	}
	l.mu.Unlock()
	l.of.mu.Lock()
	delete(l.of.all, l)
	l.of.mu.Unlock()
}

// renew keeps a lease that was used, and with it the token, by whose end it would end too.
func (is *vault) renew(l *lease) {
	l.mu.Lock()
	wanted := l.used && !l.dropped
	l.used = false
	l.mu.Unlock()
	start := is.now()
	if !wanted || !l.alive(start) {
		l.wait(is, false) // it may be used until it ends
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), is.conf.Timeout)
	defer cancel()
	is.renewSelf(ctx, l.token, start.Add(l.life))
	r, reason := is.call(ctx, http.MethodPut, is.conf.Address+"/v1/sys/leases/renew", l.token.value, map[string]string{"lease_id": l.id})
	var ans vaultAnswer
	temporary := reason != "" && phases[reason].temporary || r.status == http.StatusTooManyRequests || r.status >= 500
	switch {
	case temporary:
		l.mu.Lock()
		l.used = true // as it was
		l.mu.Unlock()
		l.wait(is, true)
	case reason != "" || r.status != http.StatusOK || json.Unmarshal(r.body, &ans) != nil || ans.LeaseID != l.id || ans.LeaseDuration <= 0:
		l.drop() // Vault has ended it, or says so
	default:
		until := l.token.before(start.Add(seconds(ans.LeaseDuration)))
		l.mu.Lock()
		longer := until.After(l.until)
		l.until = until
		l.mu.Unlock()
		l.wait(is, ans.Renewable && longer) // at its longest time it is not renewed for more
	}
}

// revoke ends a lease at Vault. With a token that has ended it has ended already.
func (is *vault) revoke(ctx context.Context, v revocation) (Reason, time.Duration) {
	r, reason := is.call(ctx, http.MethodPut, is.conf.Address+"/v1/sys/leases/revoke", v.lease.token.value, map[string]string{"lease_id": v.lease.id})
	if reason != "" {
		return reason, 0
	}
	return ended(r)
}

// close ends the sessions, and with each of them its leases. A token that cannot be revoked (batch tokens) leaves them to be revoked
// one by one.
func (is *vault) close(ctx context.Context) {
	is.leases.mu.Lock()
	open := map[*vaultToken][]*lease{}
	for l := range is.leases.all {
		open[l.token] = append(open[l.token], l)
	}
	is.leases.mu.Unlock()
	for _, v := range is.sessions.kept.Values() {
		open[v] = append(open[v], nil...)
	}
	is.sessions.kept.Purge()
	var wg sync.WaitGroup
	slots := make(chan struct{}, maxInFlight)
	for token, list := range open {
		for _, l := range list {
			l.drop()
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			r, reason := is.call(ctx, http.MethodPost, is.conf.Address+"/v1/auth/token/revoke-self", token.value, map[string]string{})
			if reason == "" && r.status < 300 {
				return
			}
			for _, l := range list {
				_, _ = is.revoke(ctx, revocation{lease: l})
			}
		})
	}
	wg.Wait()
}
