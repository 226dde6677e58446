package settings

import (
	"crypto/x509"
	"encoding/pem"
	"net"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// ours are keys of a sidecar's config that are made for each pod.
var ours = []string{"listeners", "manifests", "admin", "fence"}

func (f *file) check(s *Settings) {
	f.oneOf("$.apiVersion", s.APIVersion, "toolgate/v1")
	f.oneOf("$.kind", s.Kind, "Injector")
	f.required("$.sidecarImage", s.SidecarImage)
	f.required("$.fenceImage", s.FenceImage)
	f.oneOf("$.imagePullPolicy", s.ImagePullPolicy, "Always", "IfNotPresent", "Never")
	f.oneOf("$.mode", string(s.Mode), string(Explicit), string(Transparent))
	f.oneOf("$.unknownPodFields", string(s.UnknownPodFields), string(RefuseUnknown), string(WarnUnknown))
	f.id("$.uid", s.UID)
	f.id("$.toolUID", s.ToolUID)
	if s.ToolUID <= s.UID && s.UID < s.ToolUID+64 {
		f.errorf("$.toolUID", "found %d, expected ids of tools, 64 from here on, that leave out the sidecar's, %d", s.ToolUID, s.UID)
	}
	f.resources("$.resources", s.Resources)
	f.resources("$.fenceResources", s.FenceResources)
	f.probes(s.Probes)
	f.required("$.tokenAudience", s.TokenAudience)
	f.url("$.cluster.issuer", s.Cluster.Issuer, "https")
	f.url("$.cluster.jwksURL", s.Cluster.JWKSURL, "https")
	f.required("$.toolsDir", s.ToolsDir)
	f.certificates("$.ca.extra", s.CA.Extra)
	f.entries("$.proxyVariables.noProxy", s.ProxyVariables.NoProxy)
	for _, h := range s.Passthrough {
		if !hostPattern.MatchString(h) {
			f.errorf("$.passthrough", "found %q, expected a host in lower case such as api.example.com or *.example.com", h)
		}
	}
	f.killSwitch(s.KillSwitch)
	f.required("$.gateway.audience", s.Gateway.Audience)
	if a := s.Gateway.Address; a != "" {
		if host, port, err := net.SplitHostPort(a); err != nil || host == "" || port == "" {
			f.errorf("$.gateway.address", "found %q, expected a host and a port such as toolgate-gateway.toolgate.svc.cluster.local:15443", a)
		}
	}
	for _, key := range ours {
		if _, there := s.SidecarConfig[key]; there {
			f.errorf("$.sidecarConfig."+key, "found it, expected it to be left out: it is made for each pod")
		}
	}
}

// hostPattern is a host, or all hosts below one.
var hostPattern = regexp.MustCompile(`^(\*\.)?([a-z0-9_]([a-z0-9_-]*[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

func (f *file) required(path, v string) {
	if strings.TrimSpace(v) == "" {
		f.errorf(path, "found nothing, expected some text")
	}
}

func (f *file) oneOf(path, v string, values ...string) {
	if !slices.Contains(values, v) {
		f.errorf(path, "found %q, expected %s", v, strings.Join(values, ", "))
	}
}

// id refuses root, and what the kernel has no room for.
func (f *file) id(path string, id int64) {
	if id < 1 || id > 1<<31-65 {
		f.errorf(path, "found %d, expected a user id from 1 to %d", id, 1<<31-65)
	}
}

func (f *file) resources(path string, r Resources) {
	cpu, ok1 := f.quantity(path+".cpuRequest", r.CPURequest)
	cpuLimit, ok2 := f.quantity(path+".cpuLimit", r.CPULimit)
	if ok1 && ok2 && cpu.Cmp(cpuLimit) > 0 {
		f.errorf(path+".cpuRequest", "found %s, expected at most the limit, %s", r.CPURequest, r.CPULimit)
	}
	memory, ok1 := f.quantity(path+".memoryRequest", r.MemoryRequest)
	memoryLimit, ok2 := f.quantity(path+".memoryLimit", r.MemoryLimit)
	if ok1 && ok2 && memory.Cmp(memoryLimit) > 0 {
		f.errorf(path+".memoryRequest", "found %s, expected at most the limit, %s", r.MemoryRequest, r.MemoryLimit)
	}
}

func (f *file) quantity(path, text string) (resource.Quantity, bool) {
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Sign() <= 0 {
		f.errorf(path, "found %q, expected a quantity above 0 such as 100m or 64Mi", text)
		return q, false
	}
	return q, true
}

func (f *file) probes(p Probes) {
	for _, n := range []struct {
		key string
		v   int32
	}{
		{"startupPeriodSeconds", p.StartupPeriodSeconds}, {"startupFailures", p.StartupFailures},
		{"readinessPeriodSeconds", p.ReadinessPeriodSeconds}, {"livenessPeriodSeconds", p.LivenessPeriodSeconds},
		{"livenessFailures", p.LivenessFailures}, {"timeoutSeconds", p.TimeoutSeconds},
	} {
		if n.v < 1 || n.v > 3600 {
			f.errorf("$.probes."+n.key, "found %d, expected 1 to 3600", n.v)
		}
	}
}

func (f *file) url(path, v string, schemes ...string) {
	scheme, rest, ok := strings.Cut(v, "://")
	if !ok || rest == "" || !slices.Contains(schemes, scheme) {
		f.errorf(path, "found %q, expected a URL of %s", v, strings.Join(schemes, ", "))
	}
}

// entries refuses what would end or expand an entry of a list in an environment variable.
func (f *file) entries(path string, list []string) {
	for _, e := range list {
		if e == "" || strings.ContainsAny(e, ", \t\r\n$") {
			f.errorf(path, "found %q, expected an entry without spaces, commas and $", e)
		}
	}
}

func (f *file) certificates(path, text string) {
	rest := []byte(strings.TrimSpace(text))
	for len(rest) > 0 {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			f.errorf(path, "found text that is not PEM, expected certificates")
			return
		}
		if _, err := x509.ParseCertificate(block.Bytes); block.Type != "CERTIFICATE" || err != nil {
			f.errorf(path, "found a %s that cannot be used, expected certificates only", block.Type)
			return
		}
	}
}

func (f *file) killSwitch(k KillSwitch) {
	f.required("$.killSwitch.audience", k.Audience)
	if len(k.Servers) == 0 {
		return
	}
	f.required("$.killSwitch.publicKeyFile", k.PublicKeyFile)
	if k.CredentialsURL != "" {
		f.url("$.killSwitch.credentialsURL", k.CredentialsURL, "https")
	}
}
