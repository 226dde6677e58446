package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/killswitch/central"
	"github.com/toolgate/toolgate/killswitch/central/api"
	"github.com/toolgate/toolgate/killswitch/ledger"
	"github.com/toolgate/toolgate/killswitch/signals"
)

func signalsFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "signals", "", "the `file` that says whose security events and alerts become revocations")
}

// loadSignals reads the file of --signals. Without one there is nobody to listen to.
func loadSignals(file string) (signals.Config, error) {
	if file == "" {
		return signals.Config{}, nil
	}
	c, err := config.LoadSignals(file)
	if err != nil {
		return signals.Config{}, fmt.Errorf("--signals:\n%w", err)
	}
	return c, nil
}

// receive returns what takes c's signals and makes them revocations of service, which counts and tells of them.
func receive(c signals.Config, service *central.Service, log *slog.Logger) (*signals.Receiver, error) {
	r, err := signals.New(c, signals.Options{
		Revoker: revoker{service}, Log: log,
		Count: func(o signals.Outcome) { service.CountSignal(o.Sender, o.Event, string(o.Result)) },
	})
	if err != nil {
		return nil, fmt.Errorf("--signals: %w", err)
	}
	service.Senders(func() []central.Sender {
		list := []central.Sender{}
		for _, s := range r.Status() {
			list = append(list, central.Sender{Name: s.Name, Heard: s.Heard, Stream: s.Stream, Polled: s.Polled, Failing: s.Failing, Problem: s.PollErr})
		}
		return list
	})
	return r, nil
}

// poll asks the transmitters that are polled until the returned function is called or ctx ends. The function waits for the last
// event to be dealt with.
func poll(ctx context.Context, r *signals.Receiver) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// beside serves the paths of those who have tokens of their own: r's senders, and sidecars by enrol unless that is nil. Everything
// else is next's.
func beside(r *signals.Receiver, enrol, next http.Handler) http.Handler {
	mux := http.NewServeMux()
	heard := r.Handler()
	mux.Handle("/v1/signals/", heard)
	mux.Handle("/v1/alerts/", heard)
	if enrol != nil {
		mux.Handle(api.CredentialsPath, enrol)
	}
	mux.Handle("/", next)
	return mux
}

// revoker makes what signals ask for entries of the log.
type revoker struct{ service *central.Service }

// Revoke implements signals.Revoker.
func (r revoker) Revoke(ctx context.Context, q signals.Request) error {
	p := sender(q.By)
	p.Tenants = q.Tenants
	return settled(r.service.Revoke(ctx, p, central.Request{
		ID: q.ID, Selector: *ledger.SelectorOf(q.Selector), Reason: q.Reason, Ticket: q.Ticket, Expires: q.Expires,
	}))
}

// Restore implements signals.Revoker. Of its own revocations alone, since a sender's name is part of their ids.
func (r revoker) Restore(ctx context.Context, id, by, reason string) error {
	return settled(r.service.Restore(ctx, sender(by), id, central.Reason{Reason: reason}))
}

func sender(name string) central.Principal {
	return central.Principal{Name: name, Roles: []central.Role{central.Responder}}
}

// settled maps what the control plane said. What is not a refusal for good stays as it is: the sender is to try again.
func settled(o central.Outcome, err error) error {
	if err == nil {
		if o.NeedsApproval() {
			return signals.ErrProposed
		}
		return nil
	}
	var no *central.Error
	if !errors.As(err, &no) {
		return err
	}
	switch no.Code {
	case central.Conflict:
		return signals.ErrTaken
	case central.NotFound:
		return signals.ErrUnknown
	case central.Invalid, central.Forbidden:
		return signals.ErrRefused
	}
	return err
}

func printSenders(w io.Writer, list []central.Sender) {
	for _, s := range list {
		fmt.Fprintf(w, "signals\t%s: heard %s, polled %s", s.Name, stamp(s.Heard), stamp(s.Polled))
		if s.Stream != "" {
			fmt.Fprintf(w, ", stream %q", s.Stream)
		}
		if s.Problem != "" {
			fmt.Fprintf(w, "; polls fail since %s: %s", stamp(s.Failing), s.Problem)
		}
		fmt.Fprintln(w)
	}
}
