package main

import (
	"strings"
	"testing"

	"github.com/toolgate/toolgate/config"
)

// TestFenceOfEachTool: a tool's connections and queries go to the listeners that are its own, and to nobody else's.
func TestFenceOfEachTool(t *testing.T) {
	capture := func(name, address, tool string) config.Listener {
		return config.Listener{Name: name, Kind: config.Transparent, Address: address, Tool: tool}
	}
	names := func(name, address, tool string) config.Listener {
		return config.Listener{Name: name, Kind: config.DNS, Address: address, Tool: tool}
	}
	a, b := capture("a", "127.0.0.1:15001", "search"), capture("b", "127.0.0.1:15002", "mail")
	for what, c := range map[string]struct {
		listeners []config.Listener
		arg       string
		dns       uint16
		mistake   string
	}{
		"no name server":                  {nil, "2001=a", 0, ""},
		"one":                             {[]config.Listener{names("n", "127.0.0.1:15053", "search")}, "2001=a", 15053, ""},
		"another tool's":                  {[]config.Listener{names("n", "127.0.0.1:15053", "mail")}, "2001=a", 0, ""},
		"one for each family":             {[]config.Listener{names("n", "127.0.0.1:15053", "search"), names("n6", "[::1]:15053", "search")}, "2001=a", 15053, ""},
		"two ports":                       {[]config.Listener{names("n", "127.0.0.1:15053", "search"), names("m", "127.0.0.1:15054", "search")}, "2001=a", 0, "expected one port"},
		"two tools on one port":           {[]config.Listener{names("n", "127.0.0.1:15053", "search"), names("m", "[::1]:15053", "mail")}, "2001=a", 0, "for different tools"},
		"out of reach":                    {[]config.Listener{names("n", "127.0.0.2:15053", "search")}, "2001=a", 0, "redirected queries arrive there"},
		"the name server as the listener": {[]config.Listener{names("n", "127.0.0.1:15053", "search")}, "2001=n", 0, "of kind dns"},
		"another tool's on the other loopback address": {[]config.Listener{capture("c", "[::1]:15001", "mail")}, "2001=a", 0, "for different tools"},
		"the same tool's": {[]config.Listener{capture("a6", "[::1]:15001", "search")}, "2001=a", 0, ""},
	} {
		s := &config.Snapshot{Listeners: append([]config.Listener{a, b}, c.listeners...)}
		got, err := toolFence(s, c.arg)
		switch {
		case c.mistake == "" && (err != nil || got.DNS != c.dns || !got.Transparent || got.UID != 2001 || got.Listener.Port() != 15001):
			t.Errorf("%s: %+v, %v", what, got, err)
		case c.mistake != "" && (err == nil || !strings.Contains(err.Error(), c.mistake)):
			t.Errorf("%s: %+v, %v, expected %q", what, got, err, c.mistake)
		}
	}
}
