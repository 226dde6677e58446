package helm

import (
	"os"
	"testing"
)

// operator is given to helm template where the cluster has the Prometheus operator.
var operator = []string{"--api-versions", "monitoring.coreos.com/v1"}

// search is a tool, with what is special in a config and in an expression.
const search = `manifests:
  search: |
    name: search
    owner: search-team
    version: "1"
    description: costs $5, it's "cheap" $(HOME) \ $$
    risk: low
    egress: {allowedDomains: [api.search.example]}
`

// installation is a way of installing the chart.
type installation struct {
	name   string
	values string
	args   []string
}

func installations() []installation {
	return []installation{
		{"default", "", nil},
		{"default with the operator", "", operator},
		{"ha", "", append([]string{"-f", "toolgate/values-ha.yaml"}, operator...)},
		{"laptop", "", []string{"-f", "toolgate/values-laptop.yaml"}},
		{"a tool", search, nil},
		{"transparent", "injection: {traffic: transparent}", nil},
		{"transparent unless annotated", "injection: {traffic: transparent}\nfence: {require: annotated}", nil},
		{"pinned tools", "injection: {requireAllowedTools: true}", nil},
		{"gateway", "gateway: {enabled: true}\n" + search, operator},
		{"no kill switch", "killSwitch: {enabled: false}", operator},
		{"people", "killSwitch: {tokensSecret: tokens, oidc: {issuer: 'https://login.example.com', clientID: ks, clientSecret: oidc, url: 'https://ks.example.com', audience: ks, roleMap: [sre=responder, 'soc=responder@acme']}}", nil},
		{"digests", "image: {registry: mirror.example:5000/x}\ninjector: {image: {repository: i, digest: 'sha256:0000000000000000000000000000000000000000000000000000000000000000'}}", nil},
		{"cert-manager", "certManager: {enabled: true, issuerRef: {name: ca}}\nkillSwitch: {tlsSecret: tls, signingKeySecret: key}", nil},
		{"open", "networkPolicy: {enabled: false}\nbackstop: {enabled: false}\ntests: {enabled: false}\ncrds: {install: false}", nil},
		{"warn", "backstop: {action: Warn, allowHostPath: true, protectNamespaces: false}\ninjection: {failurePolicy: Ignore, excludedNamespaces: [team-a]}", nil},
		{"placed", "injector: {nodeSelector: {a: b}, tolerations: [{key: a, operator: Exists}], priorityClassName: system-cluster-critical, podAnnotations: {a: b}}\nimage: {pullSecrets: [{name: pull}]}\ncluster: {publicIssuerDiscovery: true}", nil},
		{"policy", "injection: {mode: policy}\nkillSwitch: {enabled: false}\n" + search, nil},
		{"policy with kill switch", "injection: {mode: policy}\nkillSwitch: {tlsSecret: tls, signingKeySecret: key}\n" + search, operator},
		{"named", "fullnameOverride: gate\nnameOverride: gate", nil},
	}
}

// each renders every installation and calls f with its objects.
func each(t *testing.T, f func(t *testing.T, i installation, text string)) {
	for _, i := range installations() {
		t.Run(i.name, func(t *testing.T) {
			args := i.args
			if i.values != "" {
				args = append([]string{"-f", values(t, i.values)}, args...)
			}
			text, err := render(t, args...)
			if err != nil {
				t.Fatalf("helm template: %v\n%s", err, text)
			}
			f(t, i, text)
		})
	}
}

func TestLint(t *testing.T) {
	helm := tool(t, "helm", helmVersion)
	for _, i := range installations() {
		t.Run(i.name, func(t *testing.T) {
			args := []string{"lint", "--strict", "--kube-version", kubernetesVersion, chart}
			if i.values != "" {
				args = append(args, "-f", values(t, i.values))
			}
			for n, a := range i.args {
				if a == "-f" {
					args = append(args, a, i.args[n+1])
				}
			}
			if out, err := command(t, "", helm, args...); err != nil {
				t.Errorf("helm lint: %v\n%s", err, out)
			}
		})
	}
}

func TestUnits(t *testing.T) {
	if out, err := command(t, "", tool(t, "helm-unittest", helmUnittestVersion), "--strict", chart); err != nil {
		t.Errorf("helm-unittest: %v\n%s", err, out)
	} else {
		t.Log(out)
	}
}

// TestDefinitionsAreTemplates: Helm would install what is in crds, never upgrade it, and then refuse the template's for not being its own.
func TestDefinitionsAreTemplates(t *testing.T) {
	if _, err := os.Stat("toolgate/crds"); err == nil {
		t.Error("toolgate/crds is there: definitions belong into toolgate/files/crds")
	}
	text, err := render(t)
	if err != nil {
		t.Fatal(text)
	}
	for _, o := range objects(t, text) {
		if o.kind() == "CustomResourceDefinition" {
			if o.text("metadata", "annotations", "helm.sh/resource-policy") != "keep" {
				t.Errorf("%s goes with the release, and every tool with it", o.id())
			}
			return
		}
	}
	t.Error("the chart has no definition")
}
