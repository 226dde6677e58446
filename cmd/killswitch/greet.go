package main

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/toolgate/toolgate/killswitch/central/api"
	"github.com/toolgate/toolgate/killswitch/central/natsd"
)

// greet says where it listens, and what sidecars need. bus is the NATS server's URL.
func (s *settings) greet(say func(string), address, bus, hint, key string) {
	scheme := "http"
	if s.tlsCert != "" {
		scheme = "https"
	}
	say("listening on " + scheme + "://" + address)
	say(hint)
	servers, ours := reachable(bus)
	how := "    credentialsFile: " + s.credentials() + "\n"
	if s.enrolment.issuer != "" {
		// Nobody hands out the file then: it names a path of this machine, and its credentials are good for ever.
		web, some := reachable(scheme + "://" + address)
		ours = ours || some
		how = fmt.Sprintf("    credentialsURL: %s\n    tokenFile: FILE # with a token of %s for the audience %s\n", web+api.CredentialsPath, s.enrolment.issuer, s.enrolment.audience)
		say("a sidecar that the injector puts into a pod knows all of this; any other needs it in its config:\n")
	} else {
		say("sidecars need this in their config:\n")
	}
	notes := ""
	if ours {
		notes += "    # in place of HOST the name by which sidecars reach this server\n"
	}
	if s.natsCert != "" {
		notes += "    # caFile: FILE, where the certificate is of a CA that the system does not know\n"
	}
	say(fmt.Sprintf("killSwitch:\n  nats:\n    servers: [%q]\n%s    publicKey: %q\n%s", servers, how, key, notes))
}

// credentials is the file of sidecars' NATS user.
func (s *settings) credentials() string {
	if s.natsURL != "" {
		return "sidecar.creds" // issued by the cluster's operator
	}
	file := natsd.SidecarCredentials(s.dir)
	if full, err := filepath.Abs(file); err == nil {
		return full
	}
	return file
}

// reachable puts HOST in the place of an address that means all of this machine's, which is no place to connect to; some reports whether it
// did.
func reachable(address string) (text string, some bool) {
	u, err := url.Parse(address)
	if err != nil || strings.Contains(address, ",") { // several, as they were given
		return address, false
	}
	if ip := net.ParseIP(u.Hostname()); ip == nil || !ip.IsUnspecified() {
		return address, false
	}
	u.Host = "HOST:" + u.Port()
	return u.String(), true
}
