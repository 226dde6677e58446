package main

import (
	"slices"
	"testing"

	"github.com/toolgate/toolgate/config"
)

// TestFenceKnowsTheNameServer: tools' queries go to the one listener of kind dns, which is no port to keep them from.
func TestFenceKnowsTheNameServer(t *testing.T) {
	s := &config.Snapshot{Admin: "127.0.0.1:15020", Listeners: []config.Listener{
		{Name: "capture", Kind: config.Transparent, Address: "127.0.0.1:15006"},
		{Name: "names", Kind: config.DNS, Address: "127.0.0.1:15053"},
	}}
	ports, err := sidecarPorts(s)
	if err != nil || slices.Contains(ports, 15053) || !slices.Contains(ports, 15006) || !slices.Contains(ports, 15020) {
		t.Errorf("ports %v, %v", ports, err)
	}
	if port, err := namesPort(s); err != nil || port != 15053 {
		t.Errorf("name server at %d, %v", port, err)
	}
	s.Listeners = append(s.Listeners, config.Listener{Name: "more", Kind: config.DNS, Address: "127.0.0.1:15054"})
	if port, err := namesPort(s); err == nil {
		t.Errorf("of two name servers: %d", port)
	}
	if port, err := namesPort(&config.Snapshot{}); err != nil || port != 0 {
		t.Errorf("without one: %d, %v", port, err)
	}
}
