package certs

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/killswitch/central"
	"github.com/toolgate/toolgate/killswitch/central/api"
)

const adminSecret = "toolgate-killswitch-admin"

// TestAdminToken: the kill switch takes the line for an admin's, and the token is in the Secret alone. Neither is made again.
func TestAdminToken(t *testing.T) {
	l := newLab(t)
	var log bytes.Buffer
	l.options.Log = slog.New(slog.NewTextHandler(&log, nil))
	l.sync(New(l.options))
	if l.object(secretPath+adminSecret) != nil {
		t.Error("it was made though nobody asked for it")
	}
	l.options.AdminToken = true
	l.sync(New(l.options))
	token, lines := string(l.data(adminSecret, "token")), l.data(adminSecret, "tokens")
	known, err := api.ParseTokens(bytes.NewReader(lines))
	if err != nil || len(known) != 1 {
		t.Fatalf("%d tokens: %v", len(known), err)
	}
	want := api.Tokens{}
	for _, p := range known {
		want.Add(token, p)
		if p.Name != "toolgate-admin" || len(p.Roles) != 1 || p.Roles[0] != central.Admin {
			t.Errorf("it is %+v", p)
		}
	}
	for sum := range want {
		if _, there := known[sum]; !there || len(token) < 26 {
			t.Error("the line is not the token's")
		}
	}
	if bytes.Contains(lines, []byte(token)) || strings.Contains(log.String(), token) {
		t.Error("the token stands beside its hash, or in the log")
	}
	if labels := metadata(l.object(secretPath + adminSecret))["labels"].(map[string]any); labels[labelKey] != labelValue {
		t.Errorf("labels %v", labels)
	}
	l.wrote()
	l.sync(New(l.options))
	if w := l.wrote(); len(w) > 0 {
		t.Errorf("it wrote %v", w)
	}
}

// TestAdminTokenIsYours: what a person has put there stays, and a Secret without a line is named.
func TestAdminTokenIsYours(t *testing.T) {
	l := newLab(t)
	l.options.AdminToken = true
	k := New(l.options)
	l.sync(k)
	l.edit(secretPath+adminSecret, func(o map[string]any) {
		o["data"] = map[string]any{"tokens": "IyBub2JvZHkK"}
		delete(metadata(o), "labels")
	})
	l.wrote()
	l.sync(k)
	l.edit(secretPath+adminSecret, func(o map[string]any) { delete(o, "data") })
	l.wrote()
	err := k.Sync(context.Background())
	found, ok := errors.AsType[*SecretError](err)
	if !ok || found.Reason != Corrupt || found.Name != "toolgate/"+adminSecret {
		t.Errorf("error %v", err)
	}
	if w := l.wrote(); len(w) > 0 {
		t.Errorf("it wrote %v", w)
	}
	l.trusted(k) // the certificates are kept all the same
}
