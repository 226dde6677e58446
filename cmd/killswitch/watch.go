package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/cli"
	"github.com/toolgate/toolgate/killswitch/central"
	"github.com/toolgate/toolgate/killswitch/ledger"
)

func newWatch() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Print what happens, until interrupted; a lost connection is made again where it was",
		Args:  cli.FlagsOnly,
	}
	since := cmd.Flags().Int("since", -1, "begin with what came after this `revision`; default: with what comes next")
	r := remoteFlags(cmd)
	out := cli.OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := out.Valid(); err != nil {
			return err
		}
		c, err := r.dial()
		if err != nil {
			return err
		}
		w := watching{cmd: cmd, client: c, out: out}
		if *since >= 0 {
			w.from = strconv.Itoa(*since)
		}
		return w.run()
	}
	return cmd
}

type watching struct {
	cmd    *cobra.Command
	client *client
	out    *cli.Output
	from   string // revision after which to go on
}

func (w *watching) run() error {
	ctx := w.cmd.Context()
	for {
		err := w.once()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !isUnreached(err) {
			return err
		}
		if err != nil {
			fmt.Fprintf(w.cmd.ErrOrStderr(), "%v; trying again\n", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

// once reads one stream to its end.
func (w *watching) once() error {
	path := "/v1/watch"
	if w.from != "" {
		path += "?since=" + w.from
	}
	res, err := w.client.send(w.cmd.Context(), "GET", path, "", nil)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 4<<20)
	name := ""
	for lines.Scan() {
		line := lines.Text()
		if v, ok := strings.CutPrefix(line, "event: "); ok {
			name = v
		}
		if v, ok := strings.CutPrefix(line, "id: "); ok {
			w.from = v
		}
		if v, ok := strings.CutPrefix(line, "data: "); ok {
			if err := w.print(name, []byte(v)); err != nil {
				return cli.Wrong(err)
			}
		}
	}
	return nil
}

func (w *watching) print(name string, data []byte) error {
	stdout := w.cmd.OutOrStdout()
	if w.out.JSON() {
		_, err := fmt.Fprintf(stdout, "{\"event\":%q,\"data\":%s}\n", name, data)
		return err
	}
	switch name {
	case "entry":
		var e ledger.Entry
		return errors.Join(json.Unmarshal(data, &e), entryLine(stdout, &e))
	case "progress":
		var p central.Progress
		err := json.Unmarshal(data, &p)
		fmt.Fprintf(stdout, "  revision %d: %s\n", p.Revision, counts(&p))
		return err
	case "alarms":
		var list []central.Alarm
		err := json.Unmarshal(data, &list)
		for _, a := range list {
			fmt.Fprintf(stdout, "ALARM %s: %s\n", a.Kind, a.Text)
		}
		if len(list) == 0 {
			fmt.Fprintln(stdout, "no alarm any more")
		}
		return err
	}
	return nil
}

func entryLine(w io.Writer, e *ledger.Entry) error {
	_, err := fmt.Fprintf(w, "%s  revision %d: %s %s %s by %s: %s\n", stamp(e.At), e.Revision, e.Op, e.ID, describe(e.Selector), e.By, e.Reason)
	return err
}
