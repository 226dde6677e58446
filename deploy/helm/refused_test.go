package helm

import (
	"strings"
	"testing"
)

// TestRefusedValues: a typo, a value of the wrong kind and what does not go together are refused with a sentence.
func TestRefusedValues(t *testing.T) {
	for _, c := range []struct{ name, values, want string }{
		{"typo at the top", "injecter: {replicas: 3}", "injecter"},
		{"typo below", "injector: {replcas: 3}", "replcas"},
		{"typo in a list", "image: {pullSecrets: [{nam: x}]}", "nam"},
		{"typo in an image", "sidecar: {image: {repository: r, digets: x}}", "digets"},
		{"typo in the network", "networkPolicy: {dns: {namespaceSelector: {matchLabel: {a: b}}}}", "matchLabel"},
		{"typo in the sidecar's config", "sidecar: {config: {egres: {}}}", "egres"},
		{"listeners are the injector's", "sidecar: {config: {listeners: []}}", "listeners"},
		{"admin is the injector's", "sidecar: {config: {admin: {address: '127.0.0.1:1'}}}", "admin"},
		{"records where nothing can be written", "sidecar: {config: {audit: {output: /var/log/records.jsonl, rotate: {maxBytes: 65536}}}}", "sidecar.config.audit.output is \"/var/log/records.jsonl\""},
		{"the same in a policy", "injection: {mode: policy}\nkillSwitch: {enabled: false}\nmanifests: {search: x}\nsidecar: {config: {audit: {output: /records.jsonl}}}", "sidecar.config.audit.output is"},
		{"records without an end", "sidecar: {config: {audit: {output: /var/lib/toolgate/records.jsonl}}}", "set audit.rotate.maxBytes"},
		{"records that do not fit", "sidecar: {config: {audit: {output: /var/lib/toolgate/records.jsonl, rotate: {maxBytes: 8388608}}}}", "may write 92274688 bytes"},
		{"captures where nothing can be written", "sidecar: {config: {audit: {capture: {dir: captures, tools: [search]}}}}", "sidecar.config.audit.capture.dir is \"captures\""},
		{"captures that do not fit", "sidecar: {config: {audit: {capture: {dir: /var/lib/toolgate/captures, tools: [a, b, c, d, e]}}}}", "audit.capture.maxFileBytes"},
		{"the gateway's records", "manifests: {search: x}\ngateway: {enabled: true, config: {audit: {output: /records.jsonl}}}", "gateway.config.audit.output is"},
		{"wrong word", "injection: {traffic: transparant}", "/injection/traffic"},
		{"wrong kind", "injector: {replicas: '3'}", "/injector/replicas"},
		{"slow webhook", "injection: {timeoutSeconds: 30}", "/injection/timeoutSeconds"},
		{"root", "sidecar: {uid: 0}", "/sidecar/uid"},
		{"tag as digest", "injector: {image: {repository: r, digest: latest}}", "/injector/image/digest"},
		{"no limit", "sidecar: {resources: {limits: null}}", "limits"},
		{"limit without memory", "sidecar: {resources: {limits: {memory: null}}}", "memory"},
		{"expression in a value", "sidecar: {tokenAudience: \"a' || true || 'b\"}", "/sidecar/tokenAudience"},
		{"expression in a repository", "sidecar: {image: {repository: \"a' || true || 'b\"}}", "/sidecar/image/repository"},
		{"expression in a secret's name", "sidecar: {secretName: \"a' || true || 'b\"}", "/sidecar/secretName"},
		{"name of a tool", "manifests: {'../x': y}", "manifests"},
		{"open issuer", "killSwitch: {oidc: {issuer: 'http://login.example.com'}}", "/killSwitch/oidc/issuer"},
		{"role", "killSwitch: {oidc: {roleMap: [sre=root]}}", "/killSwitch/oidc/roleMap"},
		{"issuer without client", "killSwitch: {oidc: {issuer: 'https://login.example.com'}}", "killSwitch.oidc.clientID is needed"},
		{"external without credentials", "killSwitch: {nats: {external: ['tls://n:4222']}}", "killSwitch.nats.credentialsSecret is needed"},
		{"cert-manager without issuer", "certManager: {enabled: true}\nkillSwitch: {enabled: false}", "certManager.issuerRef.name is needed"},
		{"cert-manager and kill switch", "certManager: {enabled: true, issuerRef: {name: ca}}", "killSwitch.tlsSecret"},
		{"gateway without tools", "gateway: {enabled: true}", "gateway.enabled needs the tools"},
		{"policy and fence", "injection: {mode: policy, traffic: transparent}\nkillSwitch: {enabled: false}", "injection.traffic: explicit only"},
		{"policy and fence always", "injection: {mode: policy}\nfence: {require: always}\nkillSwitch: {enabled: false}", "fence.require"},
		{"policy and tools without a backstop", "injection: {mode: policy, requireAllowedTools: true}\nbackstop: {enabled: false}\nkillSwitch: {enabled: false}", "injection.requireAllowedTools"},
		{"policy and kill switch", "injection: {mode: policy}", "killSwitch.tlsSecret"},
		{"policy and gateway", "injection: {mode: policy}\ngateway: {enabled: true}\nkillSwitch: {enabled: false}", "gateway.enabled"},
		{"policy and much", "injection: {mode: policy}\nkillSwitch: {enabled: false}\nmanifests: {big: " + strings.Repeat("x", 90000) + "}", "a policy may hold 90000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := render(t, "-f", values(t, c.values))
			if err == nil {
				t.Fatal("helm rendered it")
			}
			if !strings.Contains(out, c.want) {
				t.Errorf("found %s, expected it to name %s", out, c.want)
			}
		})
	}
}

// TestOldClusters: what the cluster cannot do is said before anything is made.
func TestOldClusters(t *testing.T) {
	policy := values(t, "injection: {mode: policy}\nkillSwitch: {enabled: false}\n"+search)
	for _, c := range []struct {
		version, want string
		args          []string
	}{
		{"v1.32.5", "kubeVersion: >=1.33.0-0", nil},
		{"v1.33.0", "", nil},
		{"v1.34.2-gke.100", "", nil},
		{"v1.35.1", "needs MutatingAdmissionPolicy v1", []string{"-f", policy}},
		{"v1.36.0-eks-1", "", []string{"-f", policy}},
	} {
		out, err := render(t, append([]string{"--kube-version", c.version}, c.args...)...)
		if (err != nil) != (c.want != "") || !strings.Contains(out, c.want) {
			t.Errorf("%s: found %v, %.300s, expected %q", c.version, err, out, c.want)
		}
	}
}
