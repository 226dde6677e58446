package signals

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"

	"github.com/go-json-experiment/json"
)

// maxSET is the size in bytes of the largest SET; a larger body is not read to its end.
const maxSET = 16 << 10

// push is the recipient's side of RFC 8935.
func (r *Receiver) push(w http.ResponseWriter, req *http.Request) {
	t := r.transmitters[req.PathValue("name")]
	if t == nil || t.config.Push == nil {
		http.NotFound(w, req)
		return
	}
	if err := authenticate(req, t.config.Push.TokenFile); err != nil {
		r.done(t, &decision{}, err)
		answer(w, err)
		return
	}
	token, err := readSET(w, req)
	if err != nil {
		r.done(t, &decision{}, err)
	} else {
		// A sender that hangs up is no cause to leave its event half done.
		err = r.take(context.WithoutCancel(req.Context()), t, token, "")
	}
	if err != nil {
		answer(w, err)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

func readSET(w http.ResponseWriter, req *http.Request) (string, error) {
	if media, _, err := mime.ParseMediaType(req.Header.Get("Content-Type")); err != nil || media != "application/secevent+jwt" {
		return "", refuse(Malformed, "the body is not application/secevent+jwt")
	}
	b, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxSET))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return "", refuse(Malformed, "not a security event token of at most 16 KiB")
	}
	return string(b), err
}

// failure is the body of RFC 8935, section 2.3.
type failure struct {
	Err         string `json:"err"`
	Description string `json:"description"`
}

// answer writes 400 for what the sender must change and 503 for what may go well later.
func answer(w http.ResponseWriter, err error) {
	r := asRefusal(err)
	if r.result == Unavailable {
		w.Header().Set("Retry-After", "10")
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Language", "en")
	w.WriteHeader(http.StatusBadRequest)
	_ = json.MarshalWrite(w, failure{r.code(), r.text})
}
