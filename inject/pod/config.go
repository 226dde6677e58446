package pod

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/inject/settings"
)

// maxConfig bounds the config in bytes: Linux takes no string of an environment that is longer than 128 KiB.
const maxConfig = 100 << 10

// config is the value of the variable with the sidecar's config: that document, and each tool's manifest as a further one. It stands in
// the environment, since a pod's cannot be changed once it was created, as an annotation can.
func (in *injection) config(manifest func(tool string) ([]byte, error)) (string, error) {
	var all []toolManifest
	for _, tool := range in.plan.tools {
		m, err := readManifest(tool, manifest)
		if err != nil {
			return "", err
		}
		all = append(all, m)
	}
	base, err := in.base(all)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out) // JSON is YAML whose strings no reader takes for anything else
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(base); err != nil {
		return "", fmt.Errorf("settings: sidecarConfig: %w", err)
	}
	for _, m := range all {
		out.WriteString("---\n" + m.text + "\n")
	}
	if out.Len() > maxConfig {
		return "", refuse(TooLarge, "the config of this pod's sidecar has %d bytes, of which %d fit: use fewer tools in one pod, or shorter manifests", out.Len(), maxConfig)
	}
	return strings.ReplaceAll(out.String(), "$", "$$"), nil // $(NAME) would be replaced by the kubelet
}

type object = map[string]any

// base is the sidecar's own document: the settings' with what is this pod's.
func (in *injection) base(manifests []toolManifest) (object, error) {
	out, err := clone(in.settings.SidecarConfig)
	if err != nil {
		return nil, err
	}
	out["apiVersion"], out["kind"] = "toolgate/v1", "Sidecar"
	out["listeners"] = in.listeners()
	out["admin"] = object{"address": in.anywhere(PortAdmin)}
	if in.plan.mode == settings.Transparent {
		out["fence"] = object{"rules": "netinit", "probePort": PortProbe}
	}
	in.onlyOurTools(out)
	in.identity(out)
	in.killSwitch(out)
	in.gateway(out)
	in.trust(out)
	return out, in.passthrough(out, manifests)
}

// clone copies by way of JSON, which also says what of YAML has no place in a config.
func clone(v object) (object, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("settings: sidecarConfig: %w", err)
	}
	out := object{}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&out); err != nil {
		return nil, fmt.Errorf("settings: sidecarConfig: %w", err)
	}
	if out == nil { // null
		out = object{}
	}
	return out, nil
}

// child returns a mapping below another, which is made if need be.
func child(of object, key string) object {
	c, ok := of[key].(object)
	if !ok {
		c = object{}
		of[key] = c
	}
	return c
}

func setDefault(of object, key string, v any) {
	if _, there := of[key]; !there {
		of[key] = v
	}
}

func (in *injection) anywhere(port int) string {
	if in.settings.IPv6 {
		return fmt.Sprintf("[::]:%d", port)
	}
	return fmt.Sprintf("0.0.0.0:%d", port)
}

// listener is the name of a tool's listener. It has the tool's number, since names made of two names could meet.
func (in *injection) listener(kind settings.Mode, tool string) string {
	return fmt.Sprintf("%s-%d", kind, slices.Index(in.plan.tools, tool)+1)
}

// listeners has one for each tool: in transparent mode for each family, and a name server. All are on loopback addresses, so that nobody
// reaches one from outside the pod.
func (in *injection) listeners() []object {
	var out []object
	for i, tool := range in.plan.tools {
		add := func(kind, suffix, host string, port int) {
			l := object{"name": fmt.Sprintf("%s-%d%s", kind, i+1, suffix), "kind": kind, "address": fmt.Sprintf("%s:%d", host, port+i), "tool": tool}
			if kind != "dns" {
				l["tokenFile"] = FileToken
			}
			out = append(out, l)
		}
		if in.plan.mode == settings.Explicit {
			add("explicit", "", "127.0.0.1", PortExplicit)
			continue
		}
		add("transparent", "", "127.0.0.1", PortTransparent)
		add("dns", "", "127.0.0.1", PortDNS)
		if in.settings.IPv6 {
			add("transparent", "-v6", "[::1]", PortTransparent)
			add("dns", "-v6", "[::1]", PortDNS)
		}
	}
	return out
}

// onlyOurTools takes out what is about tools of other pods, which this sidecar has no manifests of.
func (in *injection) onlyOurTools(out object) {
	for _, at := range [][2]string{{"broker", "bindings"}, {"egress", "allowPrivate"}} {
		section, _ := out[at[0]].(object)
		list, ok := section[at[1]].([]any)
		if !ok {
			continue
		}
		kept := []any{}
		for _, v := range list {
			entry, _ := v.(object)
			tools, ok := entry["tools"].([]any)
			if !ok {
				kept = append(kept, v) // the sidecar says what is wrong with it
				continue
			}
			tools = slices.DeleteFunc(tools, func(t any) bool {
				name, ok := t.(string)
				return ok && !slices.Contains(in.plan.tools, name)
			})
			if len(tools) > 0 {
				entry["tools"] = tools
				kept = append(kept, entry)
			}
		}
		section[at[1]] = kept
	}
	in.onlyOurCaptures(out)
}

// onlyOurCaptures leaves nothing to capture where no tool of the pod is listed.
func (in *injection) onlyOurCaptures(out object) {
	section, _ := out["audit"].(object)
	capture, _ := section["capture"].(object)
	tools, ok := capture["tools"].([]any)
	if !ok {
		return
	}
	kept := slices.DeleteFunc(tools, func(t any) bool {
		name, ok := t.(string)
		return ok && !slices.Contains(in.plan.tools, name)
	})
	if capture["tools"] = kept; len(kept) == 0 {
		delete(section, "capture")
	}
}

// identity makes the caller the pod's own service account, if the settings name no other issuer.
func (in *injection) identity(out object) {
	issuer := object{
		"issuer": in.settings.Cluster.Issuer, "jwksURL": in.settings.Cluster.JWKSURL, "audiences": []string{in.settings.TokenAudience},
		"claims": object{
			"tenant": "kubernetes.io.namespace", "agent": "kubernetes.io.serviceaccount.name", "task": "kubernetes.io.pod.name",
		},
	}
	if in.keysFromAPI() {
		issuer["caFile"], issuer["tokenFile"] = FileClusterCA, FileAPIToken
	}
	setDefault(child(out, "identity"), "issuers", []any{issuer})
}

// keysFromAPI reports whether the cluster's API server itself shows the keys. It does so to whom it knows; nobody else gets a token for it.
func (in *injection) keysFromAPI() bool {
	host, _, _ := strings.Cut(strings.TrimPrefix(in.settings.Cluster.JWKSURL, "https://"), "/")
	return host == "kubernetes.default.svc" || strings.HasPrefix(host, "kubernetes.default.svc.")
}

// killSwitch names the fleet's control plane.
func (in *injection) killSwitch(out object) {
	k := in.settings.KillSwitch
	if len(k.Servers) == 0 {
		return
	}
	section := child(out, "killSwitch")
	setDefault(section, "stateDir", DirState)
	nats := child(section, "nats")
	setDefault(nats, "servers", k.Servers)
	for key, v := range map[string]string{"publicKey": k.PublicKey, "ca": k.CA, "credentialsURL": k.CredentialsURL} {
		if v != "" {
			setDefault(nats, key, v)
		}
	}
	if k.CredentialsURL != "" {
		setDefault(nats, "tokenFile", FileKillSwitch)
	}
}

// gateway names the egress gateway, to which the pod's token says who it is.
func (in *injection) gateway(out object) {
	g := in.settings.Gateway
	if g.Address == "" {
		return
	}
	way := object{"address": g.Address, "tokenFile": FileGateway}
	for key, v := range map[string]string{"serverName": g.ServerName, "ca": g.CA} {
		if v != "" {
			way[key] = v
		}
	}
	setDefault(child(out, "egress"), "gateway", way)
}

// trust says where the CA goes that tools are to trust, and where it is kept for the sidecar's next start. A settings file does not
// decide that: tools mount the one, and nobody the other.
func (in *injection) trust(out object) {
	intercept := child(out, "intercept")
	intercept["caOutFile"], intercept["bundleOutFile"] = FileCA, FileBundle
	if _, given := intercept["caCertFile"]; !given {
		intercept["caStateDir"] = DirCAKey
	}
	if in.plan.java {
		intercept["trustStoreFile"] = FileTrustStore
	}
	if in.settings.CA.Extra != "" {
		setDefault(intercept, "extraCAs", in.settings.CA.Extra)
	}
}

// passthrough takes hosts out of those that are intercepted without need. A host with a binding or rules must be seen.
func (in *injection) passthrough(out object, manifests []toolManifest) error {
	seen := map[string]string{}
	broker, _ := out["broker"].(object)
	for _, b := range entries(broker["bindings"]) {
		for _, target := range texts(b["targets"]) {
			seen[host(target)] = "a binding"
		}
	}
	for _, m := range manifests {
		for _, r := range m.Egress.Rules {
			seen[host(r.Host)] = "rules in the manifest of " + m.Name
		}
	}
	intercept := child(out, "intercept")
	targets := texts(intercept["targets"])
	for _, name := range in.plan.passthrough {
		for _, pattern := range slices.Sorted(maps.Keys(seen)) {
			if covers(pattern, name) {
				return refuse(BadAnnotation, "the annotation %s names %q, which %s needs to see into: remove it", AnnotationPassthrough, name, seen[pattern])
			}
		}
		targets = slices.DeleteFunc(targets, func(t string) bool { return host(t) == name })
		if i := slices.IndexFunc(targets, func(t string) bool { return covers(host(t), name) }); i >= 0 {
			return refuse(BadAnnotation, "the annotation %s names %q, which the platform intercepts with all of %s: remove it, or have that changed in the injector's settings", AnnotationPassthrough, name, targets[i])
		}
	}
	if len(in.plan.passthrough) > 0 && intercept["targets"] != nil {
		intercept["targets"] = targets
	}
	return nil
}

func entries(v any) []object {
	var out []object
	list, _ := v.([]any)
	for _, e := range list {
		if o, ok := e.(object); ok {
			out = append(out, o)
		}
	}
	return out
}

func texts(v any) []string {
	out := []string{}
	list, _ := v.([]any)
	for _, e := range list {
		if s, ok := e.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// host is a target without its port.
func host(target string) string {
	name, _, _ := strings.Cut(target, ":")
	return strings.ToLower(name)
}
