package broker

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestRedirectIsNotFollowed(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		thief := newTokenServer(t, nil)
		s := newTokenServer(t, func(w http.ResponseWriter, r *http.Request, _ int) {
			http.Redirect(w, r, thief.URL, status)
		})
		_, err := mustExchanger(t, exchangeBinding(s.URL)).Issue(t.Context(), alice())
		wantReason(t, err, BadAnswer)
		if n := len(thief.seen()); n != 0 {
			t.Errorf("%d: the form went on to another host", status)
		}
		if n := len(s.seen()); n != 1 {
			t.Errorf("%d: %d requests", status, n)
		}
	}
}

func TestNoAmbientProxy(t *testing.T) {
	ep, err := make(endpoints).get(place{url: "https://idp.test/token"}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if tr := ep.client.Transport.(*http.Transport); tr.Proxy != nil || tr.TLSClientConfig.InsecureSkipVerify || ep.client.Jar != nil {
		t.Error("the client takes something from its environment")
	}
}

func TestHugeAnswer(t *testing.T) {
	written := new(atomic.Int64)
	ended := make(chan struct{})
	s := newTokenServer(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		defer close(ended)
		chunk := make([]byte, 64<<10)
		for range 16 << 10 { // 1 GiB
			n, err := w.Write(chunk)
			written.Add(int64(n))
			if err != nil {
				return
			}
		}
	})
	_, err := mustExchanger(t, exchangeBinding(s.URL)).Issue(t.Context(), alice())
	wantReason(t, err, BadAnswer)
	<-ended
	if n := written.Load(); n > 64<<20 { // the limit and what sockets buffer
		t.Errorf("%d bytes were taken", n)
	}
}

// A body that would be good if only its beginning counted.
func TestPaddedAnswer(t *testing.T) {
	s := newTokenServer(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		write(w, 200, goodBody()+strings.Repeat(" ", maxAnswer))
	})
	_, err := mustExchanger(t, exchangeBinding(s.URL)).Issue(t.Context(), alice())
	wantReason(t, err, BadAnswer)
}

func TestHang(t *testing.T) {
	for name, hang := range map[string]func(http.ResponseWriter, *http.Request){
		"before the header": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"in the body": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, `{"access_token":`)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTokenServer(t, func(w http.ResponseWriter, r *http.Request, _ int) { hang(w, r) })
			bd := exchangeBinding(s.URL)
			bd.TokenExchange.Timeout = 300 * time.Millisecond
			b, found := mustNew(t, bd, Options{})
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
					defer cancel()
					if _, err := b.Credential(ctx, found, alice()); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("a caller with less time got %v", err)
					}
				})
			}
			_, err := b.Credential(t.Context(), found, alice())
			wantReason(t, err, Timeout)
			wg.Wait()
			if n := len(s.seen()); n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

func TestRetry(t *testing.T) {
	status := func(codes ...int) func(http.ResponseWriter, *http.Request, int) {
		return func(w http.ResponseWriter, _ *http.Request, n int) {
			switch code := codes[min(n, len(codes))-1]; code {
			case 0:
				panic(http.ErrAbortHandler) // cuts the connection
			case 200:
				writeGood(w)
			default:
				write(w, code, `{"error":"invalid_scope"}`)
			}
		}
	}
	for name, c := range map[string]struct {
		answer   func(http.ResponseWriter, *http.Request, int)
		requests int
		want     Reason
	}{
		"500, then well":        {status(500, 200), 2, ""},
		"503, then well":        {status(503, 200), 2, ""},
		"429":                   {status(429, 200), 1, RateLimited},
		"cut, then well":        {status(0, 200), 2, ""},
		"500 for ever":          {status(500), 2, ServerError},
		"cut for ever":          {status(0), 2, Unreachable},
		"400":                   {status(400, 200), 1, InvalidScope},
		"401":                   {status(401, 200), 1, InvalidScope},
		"a bad answer":          {status(204, 200), 1, BadAnswer},
		"500, then 400":         {status(500, 400, 200), 2, InvalidScope},
		"told to wait too long": {retryHeader("2", 503), 1, ServerError},
		"told to wait a second": {retryHeader("1", 503), 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTokenServer(t, c.answer)
			s.Config.ErrorLog = log.New(io.Discard, "", 0)
			_, err := mustExchanger(t, exchangeBinding(s.URL)).Issue(t.Context(), alice())
			if c.want != "" {
				wantReason(t, err, c.want)
			} else if err != nil {
				t.Error(err)
			}
			if n := len(s.seen()); n != c.requests {
				t.Errorf("%d requests, want %d", n, c.requests)
			}
		})
	}
}

// retryHeader answers with status and a Retry-After at first, and is well then.
func retryHeader(v string, status int) func(http.ResponseWriter, *http.Request, int) {
	return func(w http.ResponseWriter, _ *http.Request, n int) {
		if n > 1 {
			writeGood(w)
			return
		}
		w.Header().Set("Retry-After", v)
		w.WriteHeader(status)
	}
}

func TestNoRetryBeyondTheDeadline(t *testing.T) {
	s := newTokenServer(t, retryHeader("1", 503))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	begin := time.Now()
	_, err := mustExchanger(t, exchangeBinding(s.URL)).Issue(ctx, alice())
	wantReason(t, err, ServerError)
	if d := time.Since(begin); d > 900*time.Millisecond {
		t.Errorf("waited %v", d)
	}
	if n := len(s.seen()); n != 1 {
		t.Errorf("%d requests", n)
	}
}

func TestRetryAfterIsPassedOnAndKept(t *testing.T) {
	clk := newClock()
	s := newTokenServer(t, retryHeader("20", 429))
	b, bd := mustNew(t, exchangeBinding(s.URL), Options{Now: clk.now})
	for _, left := range []time.Duration{20 * time.Second, 5 * time.Second} {
		_, err := b.Credential(t.Context(), bd, alice())
		if e := wantReason(t, err, RateLimited); e.RetryAfter != left {
			t.Errorf("retry after %v, want %v", e.RetryAfter, left)
		}
		clk.advance(15 * time.Second)
	}
	mustGet(t, b, bd, alice())
	if n := len(s.seen()); n != 2 {
		t.Errorf("%d requests", n)
	}
}

func TestParseRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for v, want := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, " 7 ": 7 * time.Second, "31": maxRetryHint, "99999999999999999999999": maxRetryHint,
		"-1": 0, "1.5": 0, "soon": 0, "0x10": 0,
		"Sun, 29 Nov 2026 12:00:09 GMT": 9 * time.Second, "Sun, 29 Nov 2026 11:00:00 GMT": 0, "Mon, 29 Nov 2027 12:00:00 GMT": maxRetryHint,
	} {
		if got := retryAfter(v, now); got != want {
			t.Errorf("%q: %v, want %v", v, got, want)
		}
	}
}

func TestUnreachable(t *testing.T) {
	s := newTokenServer(t, nil)
	url := s.URL
	s.Close()
	_, err := mustExchanger(t, exchangeBinding(url)).Issue(t.Context(), alice())
	wantError(t, wantReason(t, err, Unreachable), []string{strings.TrimPrefix(url, "http://")})
}

func TestTLS(t *testing.T) {
	serve := func(c *tls.Config) *httptest.Server {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { writeGood(w) }))
		s.TLS, s.Config.ErrorLog = c, log.New(io.Discard, "", 0)
		s.StartTLS()
		t.Cleanup(s.Close)
		return s
	}
	good, old := serve(nil), serve(&tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11})
	plain := newTokenServer(t, nil)
	roots := writeFile(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: good.Certificate().Raw})))
	for name, c := range map[string]struct {
		url, caFile string
		want        Reason
	}{
		"its root is ours":    {good.URL, roots, ""},
		"its root is unknown": {good.URL, "", TLS},
		"another name":        {strings.Replace(good.URL, "127.0.0.1", "localhost", 1), roots, TLS},
		"TLS 1.1":             {old.URL, roots, TLS},
		"no TLS at all":       {strings.Replace(plain.URL, "http:", "https:", 1), roots, TLS},
	} {
		t.Run(name, func(t *testing.T) {
			bd := exchangeBinding(c.url)
			bd.TokenExchange.CAFile = c.caFile
			_, err := mustExchanger(t, bd).Issue(t.Context(), alice())
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantReason(t, err, c.want)
		})
	}
}

// Two bindings of one endpoint share its slots; who finds none in time is told to come again.
func TestSlots(t *testing.T) {
	arrived, leave := make(chan struct{}, 64), make(chan struct{})
	s := newTokenServer(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		arrived <- struct{}{}
		<-leave
		writeGood(w)
	})
	first, second := exchangeBinding(s.URL), exchangeBinding(s.URL)
	second.Name, second.Targets = "second", []string{"other.test:443"}
	b, err := New([]Binding{first, second}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	is := b.bound[b.Find("orders_tool", "api.orders.test", 443)].issuer
	other := b.bound[b.Find("orders_tool", "other.test", 443)].issuer
	var wg sync.WaitGroup
	for i := range maxInFlight {
		wg.Go(func() { // of one tenant half of them would wait
			if _, err := is.Issue(forTenant(t.Context(), fmt.Sprint(i)), alice()); err != nil {
				t.Error(err)
			}
		})
	}
	for range maxInFlight {
		<-arrived
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = other.Issue(ctx, alice())
	wantReason(t, err, Overloaded)
	close(leave)
	wg.Wait()
	if _, err := other.Issue(t.Context(), alice()); err != nil {
		t.Errorf("after the others had left: %v", err)
	}
	if n := len(s.seen()); n != maxInFlight+1 {
		t.Errorf("%d requests", n)
	}
}

func TestOtherTokenURLHasItsOwnSlots(t *testing.T) {
	eps := make(endpoints)
	seen := map[*endpoint]bool{}
	for i := range 2 {
		ep, err := eps.get(place{url: fmt.Sprintf("https://idp-%d.test/token", i)}, time.Now)
		if err != nil || seen[ep] {
			t.Errorf("shared: %v, %v", seen[ep], err)
		}
		seen[ep] = true
	}
}
