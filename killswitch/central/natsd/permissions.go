package natsd

import (
	"fmt"
	"strings"

	"github.com/nats-io/jwt/v2"

	"github.com/toolgate/toolgate/killswitch/bus"
)

// The parts of the permissions. A sidecar hears and asks, and speaks for itself; name stands for the user's name.
var (
	heard = []string{bus.SubjectLive, bus.SubjectHeartbeat, bus.SubjectProbe}
	asked = []string{
		bus.SubjectSync,
		"$JS.API.DIRECT.GET." + bus.Stream,
		"$JS.API.DIRECT.GET." + bus.CheckpointStream,
	}
	said = []string{bus.AllAcks, bus.AllStatuses, bus.AllAnswers}
)

func spoken(name string) []string {
	var own []string
	for _, all := range said {
		own = append(own, strings.Replace(all, "*", name, 1))
	}
	return own
}

func sidecarPermissions(name string) (publish, subscribe []string) {
	return append(append([]string{}, asked...), spoken(name)...), append(append([]string{}, heard...), "_INBOX.>")
}

func controlPermissions() (publish, subscribe []string) {
	return []string{"toolgate.killswitch.>", "$JS.API.>", "_INBOX.>", "_R_.>"}, []string{"toolgate.killswitch.>", "_INBOX.>"}
}

// ServerConfig returns the accounts of a NATS server's configuration file that grant each side its part. Users are left to
// the operator: by name and password hash, nkey or certificate.
func ServerConfig() string {
	var b strings.Builder
	list := func(items []string) string { return `["` + strings.Join(items, `", "`) + `"]` }
	publish, subscribe := controlPermissions()
	b.WriteString("# Two accounts, so that no sidecar can name a subject of the control plane as the place for an answer.\n")
	b.WriteString("accounts {\n  TOOLGATE {\n    jetstream: enabled\n    users: [\n      # the control plane; give it a password hash, an nkey or a certificate\n")
	fmt.Fprintf(&b, "      {user: control, password: $TOOLGATE_CONTROL_PASSWORD, permissions: {\n        publish: %s\n        subscribe: %s}}\n    ]\n", list(publish), list(subscribe))
	b.WriteString("    exports: [\n")
	for _, s := range heard {
		fmt.Fprintf(&b, "      {stream: %q, accounts: [TOOLGATE_SIDECARS]}\n", s)
	}
	for _, s := range asked {
		fmt.Fprintf(&b, "      {service: %q, response: stream, accounts: [TOOLGATE_SIDECARS]}\n", s)
	}
	b.WriteString("    ]\n    imports: [\n")
	for _, s := range said {
		fmt.Fprintf(&b, "      {stream: {account: TOOLGATE_SIDECARS, subject: %q}}\n", s)
	}
	publish, subscribe = sidecarPermissions("sidecar")
	b.WriteString("    ]\n  }\n  TOOLGATE_SIDECARS {\n    users: [\n      # repeat for each name; the name stands in what it may publish\n")
	fmt.Fprintf(&b, "      {user: sidecar, password: $TOOLGATE_SIDECAR_PASSWORD, permissions: {\n        publish: %s\n        subscribe: %s}}\n    ]\n", list(publish), list(subscribe))
	b.WriteString("    exports: [\n")
	for _, s := range said {
		fmt.Fprintf(&b, "      {stream: %q, accounts: [TOOLGATE]}\n", s)
	}
	b.WriteString("    ]\n    imports: [\n")
	for _, s := range heard {
		fmt.Fprintf(&b, "      {stream: {account: TOOLGATE, subject: %q}}\n", s)
	}
	for _, s := range asked {
		fmt.Fprintf(&b, "      {service: {account: TOOLGATE, subject: %q}}\n", s)
	}
	b.WriteString("    ]\n  }\n}\n")
	return b.String()
}

// accounts returns the claims of both accounts.
func (k *keys) accounts() (control, sidecars *jwt.AccountClaims) {
	control, sidecars = jwt.NewAccountClaims(k.public("control-account")), jwt.NewAccountClaims(k.public("sidecar-account"))
	control.Name, sidecars.Name = "TOOLGATE", "TOOLGATE_SIDECARS"
	control.Limits.JetStreamLimits = jwt.JetStreamLimits{DiskStorage: jwt.NoLimit, Streams: 2, Consumer: 0}
	for _, s := range heard {
		control.Exports.Add(&jwt.Export{Name: s, Subject: jwt.Subject(s), Type: jwt.Stream})
		sidecars.Imports.Add(&jwt.Import{Name: s, Account: control.Subject, Subject: jwt.Subject(s), Type: jwt.Stream})
	}
	for _, s := range asked {
		control.Exports.Add(&jwt.Export{Name: s, Subject: jwt.Subject(s), Type: jwt.Service, ResponseType: jwt.ResponseTypeStream})
		sidecars.Imports.Add(&jwt.Import{Name: s, Account: control.Subject, Subject: jwt.Subject(s), Type: jwt.Service})
	}
	for _, s := range said {
		sidecars.Exports.Add(&jwt.Export{Name: s, Subject: jwt.Subject(s), Type: jwt.Stream})
		control.Imports.Add(&jwt.Import{Name: s, Account: sidecars.Subject, Subject: jwt.Subject(s), Type: jwt.Stream})
	}
	publish, subscribe := controlPermissions()
	control.SigningKeys.AddScopedSigner(scope("control", k.public("control-issuer"), publish, subscribe))
	publish, subscribe = sidecarPermissions("{{name()}}")
	sidecars.SigningKeys.AddScopedSigner(scope("sidecar", k.public("sidecar-issuer"), publish, subscribe))
	return control, sidecars
}

func scope(role, key string, publish, subscribe []string) *jwt.UserScope {
	s := jwt.NewUserScope()
	s.Key, s.Role = key, role
	s.Template.Pub.Allow.Add(publish...)
	s.Template.Sub.Allow.Add(subscribe...)
	return s
}
