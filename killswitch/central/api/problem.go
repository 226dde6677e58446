package api

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/toolgate/toolgate/killswitch/central"
	"github.com/toolgate/toolgate/killswitch/ledger"
)

// Problem is every refusal's body (RFC 9457).
type Problem struct {
	Type   string        `json:"type"`
	Title  string        `json:"title"`
	Status int           `json:"status"`
	Detail string        `json:"detail"`
	Code   central.Code  `json:"code"`
	Entry  *ledger.Entry `json:"entry,omitempty"` // what somebody else did first
}

// Codes that only HTTP knows.
const (
	Unauthenticated central.Code = "unauthenticated"
	MediaType       central.Code = "media_type"
	TooLarge        central.Code = "too_large"
	Internal        central.Code = "internal"
)

var statuses = map[central.Code]int{
	central.Invalid:        http.StatusBadRequest,
	central.Forbidden:      http.StatusForbidden,
	central.NotFound:       http.StatusNotFound,
	central.Conflict:       http.StatusConflict,
	central.Unavailable:    http.StatusServiceUnavailable,
	central.UnknownOutcome: http.StatusGatewayTimeout,
	central.LogBroken:      http.StatusServiceUnavailable,
	central.LogLost:        http.StatusServiceUnavailable,
	Unauthenticated:        http.StatusUnauthorized,
	MediaType:              http.StatusUnsupportedMediaType,
	TooLarge:               http.StatusRequestEntityTooLarge,
	TooManyRequests:        http.StatusTooManyRequests,
	Internal:               http.StatusInternalServerError,
}

// ProblemOf returns what a person may read of err, of which only an *central.Error shows its text.
func ProblemOf(err error) Problem {
	p := Problem{Type: "about:blank", Code: Internal, Detail: "the log of the control plane says more"}
	var mine *central.Error
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &mine):
		p.Code, p.Detail, p.Entry = mine.Code, mine.Text, mine.Entry
	case errors.As(err, &large):
		p.Code, p.Detail = TooLarge, "the body is too large"
	}
	p.Status = statuses[p.Code]
	if p.Status == 0 {
		p.Status = http.StatusInternalServerError
	}
	p.Title = http.StatusText(p.Status)
	return p
}

func fail(w http.ResponseWriter, err error) {
	p := ProblemOf(err)
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="toolgate"`)
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p)
}
