package api

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/toolgate/toolgate/killswitch/central"
	"github.com/toolgate/toolgate/killswitch/ledger"
)

// export writes the log, one entry a line in its signed form.
func (a *API) export(w http.ResponseWriter, r *http.Request) {
	p, err := a.Auth.Authenticate(r)
	if err != nil {
		fail(w, err)
		return
	}
	entries, err := a.Service.Export(p)
	if err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Toolgate-Revision", strconv.Itoa(len(entries)))
	out := bufio.NewWriter(w)
	for _, e := range entries {
		_, _ = out.Write(append(e.Encode(), '\n'))
	}
	_ = out.Flush()
}

// importLog reads an export.
func (a *API) importLog(w http.ResponseWriter, r *http.Request) {
	p, err := a.Auth.Authenticate(r)
	if err != nil {
		fail(w, err)
		return
	}
	if r.Header.Get("Content-Type") != "application/x-ndjson" {
		fail(w, &central.Error{Code: MediaType, Text: "the body must be application/x-ndjson"})
		return
	}
	n, err := a.Service.Import(r.Context(), p, http.MaxBytesReader(w, r.Body, maxImport))
	if err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]int{"added": n})
}

// keepAlive is how often a silent stream is written to, so that nothing between takes it for dead.
const keepAlive = 15 * time.Second

// Watch sends server-sent events. An entry's event has its revision as id; with Last-Event-ID, or since=, those that came
// after it are sent first. The stream ends when the watcher does not keep up; it then begins again where it was.
func (a *API) Watch(w http.ResponseWriter, r *http.Request) {
	p, err := a.Auth.Authenticate(r)
	if err != nil {
		fail(w, err)
		return
	}
	since, err := a.since(r, p)
	if err != nil {
		fail(w, err)
		return
	}
	missed, events, stop, err := a.Service.Watch(p, since)
	if err != nil {
		fail(w, err)
		return
	}
	defer stop()
	w.Header().Set("Content-Type", "text/event-stream")
	s := stream{w: w, flush: http.NewResponseController(w), at: since}
	for _, e := range missed {
		s.entry(e)
	}
	s.comment()
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	for s.err == nil {
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
			s.comment()
		case e, open := <-events:
			if !open {
				return
			}
			if a.Service.MaySee(p, e) {
				a.send(&s, p, e)
			}
		}
	}
}

// since is where a stream begins: what the client names, or the log's present end.
func (a *API) since(r *http.Request, p central.Principal) (uint64, error) {
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		return number(id)
	}
	if r.URL.Query().Has("since") {
		return queryNumber(r, "since")
	}
	o, err := a.Service.Overview(p)
	return o.Revision, err
}

func (a *API) send(s *stream, p central.Principal, e central.Event) {
	switch {
	case e.Entry != nil:
		s.entry(e.Entry)
	case e.Alarms != nil:
		s.event("alarms", "", e.Alarms)
	default:
		if progress, err := a.Service.Progress(p, e.Progress); err == nil {
			s.event("progress", "", progress)
		}
	}
}

// stream writes events until writing fails.
type stream struct {
	w     http.ResponseWriter
	flush *http.ResponseController
	at    uint64 // revision of the last entry sent
	err   error
}

func (s *stream) entry(e *ledger.Entry) {
	if e.Revision <= s.at {
		return
	}
	s.at = e.Revision
	s.event("entry", strconv.FormatUint(e.Revision, 10), e)
}

func (s *stream) event(name, id string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		s.err = err
		return
	}
	if id != "" {
		id = "id: " + id + "\n"
	}
	s.write(fmt.Sprintf("event: %s\n%sdata: %s\n\n", name, id, b))
}

func (s *stream) comment() { s.write(": here\n\n") }

func (s *stream) write(text string) {
	_ = s.flush.SetWriteDeadline(time.Now().Add(10 * time.Second))
	if _, err := s.w.Write([]byte(text)); err != nil {
		s.err = err
		return
	}
	s.err = s.flush.Flush()
}
