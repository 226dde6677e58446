package webhook

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// held is a body of a review that comes only once it may.
type held struct {
	may  chan struct{}
	text *bytes.Reader
	read chan struct{}
}

func (h *held) Read(p []byte) (int, error) {
	select {
	case h.read <- struct{}{}:
	default:
	}
	<-h.may
	return h.text.Read(p)
}

// TestManyLargeReviews: large reviews take the memory of two at a time, and keep no small one waiting.
func TestManyLargeReviews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		large := review(strings.Replace(podText, `"resources":{}`, `"resources":{},"command":["`+strings.Repeat("x", smallReview)+`"]`, 1))
		may, read := make(chan struct{}), make(chan struct{}, 64)
		codes := make(chan int, 64)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		for range 10 {
			go func() {
				req := httptest.NewRequestWithContext(ctx, http.MethodPost, "/mutate", &held{may, bytes.NewReader(large), read})
				req.ContentLength = int64(len(large))
				req.Header.Set("Content-Type", "application/json")
				w := httptest.NewRecorder()
				l.ServeHTTP(w, req)
				codes <- w.Code
			}()
		}
		synctest.Wait()
		if got := len(read); got != largeReviews {
			t.Errorf("%d large reviews are read at once, expected %d", got, largeReviews)
		}
		if r, w := l.post("/mutate", review(podText)); r == nil || !r.Allowed {
			t.Errorf("a small one is not let through: %d %s", w.Code, w.Body)
		}
		time.Sleep(6 * time.Second) // by the bubble's clock: nobody waits any longer
		synctest.Wait()
		if got := len(codes); got != 10-largeReviews {
			t.Errorf("%d have an answer, expected %d", got, 10-largeReviews)
		}
		for range 10 - largeReviews {
			if code := <-codes; code != http.StatusServiceUnavailable {
				t.Errorf("found %d, expected 503", code)
			}
		}
		close(may)
		for range largeReviews {
			if code := <-codes; code != http.StatusOK {
				t.Errorf("found %d, expected 200", code)
			}
		}
		if r, _ := l.post("/mutate", large); r == nil || !r.Allowed {
			t.Error("there is no room any more")
		}
	})
}
