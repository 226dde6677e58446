package hunt

// outlet is a way out of the sidecar.
type outlet string

const (
	tool      outlet = "tool"           // what the tool gets: answers, refusals, the CA's files
	upstream  outlet = "upstream"       // what the target of an allowed call gets
	issuer    outlet = "issuer"         // what token endpoints, Vault, STS and GitHub's API get
	records   outlet = "records"        // on stdout and in files, and what sidecar audit makes of them
	payloads  outlet = "payload log"    // the lines that log.payloads asks for
	logs      outlet = "log"            // all others, at every level
	copies    outlet = "record copies"  // what the collector of audit.otlp gets
	captures  outlet = "captures"       // the files of audit.capture, and what sidecar replay serves of them
	traces    outlet = "traces"         // what the collector gets
	proxied   outlet = "upstream proxy" // the CONNECTs that it gets
	metrics   outlet = "metrics"
	admin     outlet = "probes"   // /healthz, /readyz and whatever else may be on that port
	resolver  outlet = "resolver" // names that are asked for
	bus       outlet = "bus"      // what the control plane gets
	state     outlet = "state"    // files that the sidecar writes, records apart
	commands  outlet = "commands" // sidecar check, explain, replay and quickstart
	arguments outlet = "process"  // the process's command line and title
	crash     outlet = "crash"    // what a dying process prints
)

var outlets = []outlet{tool, upstream, issuer, records, copies, captures, payloads, logs, traces, proxied, metrics, admin, resolver, bus, state, commands, arguments, crash}

// row is an input of the sidecar. It may be in these outlets and in no other.
type row struct {
	input string
	may   []outlet
	why   string
}

// group is a heading of the table.
type group struct {
	name string
	rows []row
}

// groups are what may appear where, as docs/security.md has it; TestTable holds the two together.
var groups = []group{
	{"Files and environment", []row{
		{"client secret", []outlet{issuer}, "how the sidecar authenticates"},
		{"private key", nil, "of client authentication, TLS, GitHub Apps, signing; it signs and is never sent"},
		{"workload token", []outlet{issuer}, ""},
		{"static secret", []outlet{upstream}, "headers, query, basic, placeholders"},
		{"key of the sidecar's CA", []outlet{state}, "in `caStateDir` alone"},
		{"key for the traces' collector", []outlet{traces}, "a header of the request"},
		{"key for the records' collector", []outlet{copies}, "likewise"},
		{"password for the upstream proxy", []outlet{proxied}, ""},
		{"seed of NATS credentials", nil, "it signs"},
		{"JWT of NATS credentials", []outlet{bus}, ""},
		{"environment variable", nil, ""},
		{"comment in a file", nil, ""},
		{"secret in the wrong place", nil, "a file that should hold something else, user info of an address"},
		{"value of a refused setting", []outlet{logs, commands}, "so that it can be found; never put a secret in a setting"},
		{"reason of a revocation", []outlet{logs, tool, state, commands}, "and who made it; the tool is told the reason"},
		{"token of an issuer", []outlet{upstream, issuer}, "the issued credential; at issuers to revoke it or to ask for another"},
		{"session of Vault", []outlet{issuer}, ""},
		{"secret key of AWS", nil, "it signs"},
		{"refresh token", nil, "not asked for and not used"},
		{"parameter of an issuer's answer", []outlet{commands}, "type, lifetime and scope of a token, which `explain --exchange` shows"},
		{"answer of an issuer", nil, "errors, descriptions, headers; only codes of the standards are kept"},
		{"answer of a collector", nil, ""},
		{"answer of the upstream proxy", nil, "but the number of its status"},
	}},
	{"Callers", []row{
		{"task token", []outlet{issuer}, "all three parts; to be exchanged, or to log in with"},
		{"token that is not accepted", nil, ""},
		{"opaque token", []outlet{issuer}, "to be introspected"},
		{"subject", []outlet{records, issuer, commands}, "traces have a keyed hash"},
		{"tenant, agent, task, run", []outlet{records, issuer, commands, traces, bus}, "the control plane is told which tenants have calls"},
		{"other claim", []outlet{issuer}, "inside the token"},
	}},
	{"Requests", []row{
		{"host", []outlet{records, captures, payloads, resolver, upstream, proxied, traces, logs}, "traces: only if a rule of the manifest has it"},
		{"host, refused", []outlet{records, tool}, "in the words of the refusal"},
		{"host, malformed", nil, ""},
		{"name in the TLS hello", nil, "that is not the CONNECT's"},
		{"path", []outlet{upstream, payloads, captures}, "records: the rule's pattern or a keyed hash"},
		{"query name", []outlet{upstream, payloads, captures}, ""},
		{"query value", []outlet{upstream}, "captures: short ones and words, whose name is not a secret's, would be shown"},
		{"fragment", []outlet{upstream, captures}, "which no request may have; taken for a part of the path"},
		{"user info", nil, ""},
		{"method", []outlet{upstream, records, payloads, captures}, "traces: only the standard ones"},
		{"header", []outlet{upstream}, "all that is not known to be harmless"},
		{"header, harmless", []outlet{upstream, payloads, captures}, "such as `User-Agent`"},
		{"header name", []outlet{upstream, payloads, captures}, ""},
		{"cookie", []outlet{upstream}, ""},
		{"cookie name", []outlet{upstream, payloads, captures}, ""},
		{"tool's own credential", []outlet{upstream}, "where no binding replaces it"},
		{"proxy credential", nil, ""},
		{"body", []outlet{upstream, payloads, captures}, "JSON, forms, multipart, events, text: what no rule knows to be secret"},
		{"body, of `redactFields`", []outlet{upstream}, "and fields with secret names"},
		{"body, of another type", []outlet{upstream}, "binary, gRPC"},
		{"media type", []outlet{upstream, payloads, captures, records}, "without its parameters in records"},
		{"trailer", []outlet{upstream}, ""},
		{"frame of a WebSocket", []outlet{upstream, tool}, "to and fro"},
		{"relayed bytes", []outlet{upstream, tool}, "to and fro"},
		{"malformed request", nil, "request lines, header lines, chunks, sizes"},
	}},
	{"Answers", []row{
		{"answer", []outlet{tool}, "reason phrase, headers, trailers, informational answers"},
		{"answer, body", []outlet{tool, payloads, captures}, "what no rule knows to be secret, and harmless headers"},
		{"answer, of `redactFields`", []outlet{tool}, "and fields with secret names"},
		{"malformed answer", nil, ""},
		{"URL asked of a replay", []outlet{captures}, "in the words of its refusal"},
		{"secret in a request to a replay", nil, "headers, body, what is no request"},
		{"name in a certificate", nil, "of an upstream whose certificate is for something else"},
	}},
}

// table is the same by input.
var table = func() map[string]row {
	m := make(map[string]row)
	for _, g := range groups {
		for _, r := range g.rows {
			m[r.input] = r
		}
	}
	return m
}()
