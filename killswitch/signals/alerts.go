package signals

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/toolgate/toolgate/killswitch"
)

const (
	maxAlertBody = 1 << 20
	maxAlerts    = 1000
	labelPrefix  = "toolgate_"
)

// notification is what is read of an Alertmanager's webhook, version 4.
type notification struct {
	Version   string  `json:"version"`
	Truncated int     `json:"truncatedAlerts"`
	Alerts    []alert `json:"alerts"`
}

type alert struct {
	Status      string            `json:"status"`
	Labels      map[string]string `json:"labels"`
	StartsAt    time.Time         `json:"startsAt"`
	Fingerprint string            `json:"fingerprint"`
}

// tally is the answer: how many alerts had their effect, and which did not.
type tally struct {
	Done   int     `json:"done"`
	Failed []fault `json:"failed,omitempty"`
}

type fault struct {
	Fingerprint string `json:"fingerprint,omitempty"`
	Result      Result `json:"result"`
	Text        string `json:"text"`
}

// alerts takes a webhook. Every alert is tried, whatever becomes of the others. 503 makes an Alertmanager send all of them again,
// which is harmless; 400 it counts as failed and gives up.
func (r *Receiver) alerts(w http.ResponseWriter, req *http.Request) {
	a := r.alertmanagers[req.PathValue("name")]
	if a == nil {
		http.NotFound(w, req)
		return
	}
	n, err := readAlerts(w, req, a)
	if err != nil {
		refused := asRefusal(err)
		r.alertDone(a, "", refused.result, err)
		if refused.result == Unauthenticated {
			w.Header().Set("WWW-Authenticate", "Bearer")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		reply(w, tally{Failed: []fault{{Result: refused.result, Text: refused.text}}})
		return
	}
	var out tally
	for i := range n.Alerts {
		id, result, err := r.alert(req.Context(), a, &n.Alerts[i])
		r.alertDone(a, id, result, err)
		if err != nil {
			out.Failed = append(out.Failed, fault{clean(n.Alerts[i].Fingerprint, 64), result, asRefusal(err).text})
			continue
		}
		out.Done++
	}
	if n.Truncated > 0 {
		err := refuse(Truncated, "alerts were left out; raise max_alerts of the receiver or group them less")
		r.alertDone(a, "", Truncated, err)
		out.Failed = append(out.Failed, fault{Result: Truncated, Text: asRefusal(err).text})
	}
	reply(w, out)
}

func readAlerts(w http.ResponseWriter, req *http.Request, a *Alertmanager) (*notification, error) {
	if err := authenticate(req, a.TokenFile); err != nil {
		return nil, err
	}
	if media, _, err := mime.ParseMediaType(req.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return nil, refuse(Malformed, "the body is not application/json")
	}
	b, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxAlertBody))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, refuse(Malformed, "the body is larger than 1 MiB")
	} else if err != nil {
		return nil, err
	}
	var n notification
	if json.Unmarshal(b, &n) != nil || n.Version != "4" || len(n.Alerts) > maxAlerts {
		return nil, refuse(Malformed, "not an Alertmanager notification of version 4 with at most 1000 alerts")
	}
	return &n, nil
}

// alert carries out one alert.
func (r *Receiver) alert(ctx context.Context, a *Alertmanager, al *alert) (id string, result Result, err error) {
	q, err := a.request(al)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, effectTime)
		defer cancel()
		result, err = r.alertEffect(ctx, a, al, &q)
	}
	if err != nil {
		result = asRefusal(err).result
	}
	return q.ID, result, err
}

func (r *Receiver) alertEffect(ctx context.Context, a *Alertmanager, al *alert, q *Request) (Result, error) {
	switch {
	case al.Status == "resolved" && !a.Restore:
		return Ignored, nil
	case al.Status == "resolved":
		err := r.o.Revoker.Restore(ctx, q.ID, q.By, "the alert is resolved")
		if errors.Is(err, ErrUnknown) {
			err = nil // it was never revoked
		}
		return Restored, fromRevoker(err)
	case !q.Expires.IsZero() && !q.Expires.After(r.now()):
		return Expired, nil
	}
	return Revoked, fromRevoker(r.o.Revoker.Revoke(ctx, *q))
}

// request maps an alert by its labels alone, which make its fingerprint: annotations change while an alert goes on, and the request
// must not.
func (a *Alertmanager) request(al *alert) (Request, error) {
	if al.Status != "firing" && al.Status != "resolved" || !isPlain(al.Fingerprint) || al.StartsAt.IsZero() {
		return Request{}, refuse(Malformed, "status, fingerprint or startsAt is missing or not as it should be")
	}
	start := al.StartsAt.UTC()
	q := Request{
		ID:     revocationID("alert-", a.Name, al.Fingerprint, start.Format(time.RFC3339Nano)),
		By:     "alerts:" + a.Name,
		Ticket: al.Fingerprint,
		Reason: clean("alert "+cmp.Or(al.Labels["alertname"], "without a name")+" at "+a.Name, maxReason),
	}
	if a.Expires > 0 {
		q.Expires = start.Add(a.Expires)
	}
	var err error
	q.Selector, err = labelled(al.Labels)
	return q, err
}

// labelled makes a selector of the labels that begin with toolgate_. One that is not known is refused: left out, it would widen
// the selector.
func labelled(labels map[string]string) (killswitch.Selector, error) {
	var s killswitch.Selector
	fields := map[string]*[]string{
		"tool": &s.Tool, "version": &s.Version, "tenant": &s.Tenant, "subject": &s.Subject, "agent": &s.Agent, "task": &s.Task,
		"run": &s.Run, "capability_class": &s.CapabilityClass, "risk": &s.Risk, "host": &s.Host,
	}
	for name, value := range labels {
		field, ours := strings.CutPrefix(name, labelPrefix)
		if !ours {
			continue
		}
		to := fields[field]
		if to == nil {
			return s, refuse(Unmapped, "a label that begins with toolgate_ is not known")
		}
		if !isPlain(value) {
			return s, refuse(Unmapped, "a label that begins with toolgate_ has a value that nothing matches")
		}
		*to = []string{value}
	}
	if s.Validate() != nil {
		return s, refuse(Unmapped, "the labels that begin with toolgate_ are missing or make no selector")
	}
	return s, nil
}

func (r *Receiver) alertDone(a *Alertmanager, id string, result Result, err error) {
	r.count(a.Name, "alert", result)
	attrs := []slog.Attr{slog.String("sender", a.Name), slog.String("result", string(result))}
	if id != "" {
		attrs = append(attrs, slog.String("id", id))
	}
	level := slog.LevelInfo
	if err != nil {
		level = slog.LevelWarn
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	r.o.Log.LogAttrs(context.Background(), level, "alert", attrs...)
}

func reply(w http.ResponseWriter, t tally) {
	status := http.StatusOK
	for _, f := range t.Failed {
		if f.Result == Unavailable {
			status = http.StatusServiceUnavailable
			break
		}
		status = http.StatusBadRequest
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.MarshalWrite(w, t)
}
