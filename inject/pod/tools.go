package pod

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/toolgate/toolgate/inject/settings"
)

var (
	bundleMount = corev1.VolumeMount{Name: VolumeCA, MountPath: DirCA, ReadOnly: true}
	// systemMount is of one file, which exists by then: the sidecar has written it before its startup probe passes.
	systemMount = corev1.VolumeMount{Name: VolumeCA, MountPath: SystemBundle, SubPath: path.Base(FileBundle), ReadOnly: true}
)

// caVariables make runtimes trust the bundle. Most of them replace the runtime's own roots, so it holds the public ones as well.
var caVariables = []string{
	"SSL_CERT_FILE",                    // OpenSSL, Go, Python's ssl and httpx, uv, Ruby
	"REQUESTS_CA_BUNDLE",               // Python's requests
	"CURL_CA_BUNDLE",                   // curl, requests
	"NODE_EXTRA_CA_CERTS",              // Node, Bun
	"GIT_SSL_CAINFO",                   // git
	"AWS_CA_BUNDLE",                    // AWS CLI and SDKs
	"PIP_CERT",                         // pip
	"CARGO_HTTP_CAINFO",                // cargo
	"DENO_CERT",                        // Deno
	"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", // gRPC's C core: Python, Ruby, PHP
	"HTTPLIB2_CA_CERTS",                // httplib2
	"npm_config_cafile",                // npm
}

// tools gives each container with a tool what it needs to reach the sidecar and to trust it.
func (in *injection) tools() {
	for _, c := range in.containers() {
		tool := in.plan.of[c.Name]
		if tool == "" {
			continue
		}
		if len(c.EnvFrom) > 0 {
			in.warnf("the container %s takes variables by envFrom, which cannot be seen here: where one has the name of an injected one, the injected one wins", c.Name)
		}
		for _, name := range caVariables {
			in.set(c, FileBundle, "it may not trust the sidecar", name)
		}
		in.mountRoots(c)
		if in.plan.mode == settings.Explicit && in.settings.ProxyVariables.Enabled {
			in.proxyVariables(c, in.port(PortExplicit, tool))
		}
		if in.plan.java {
			in.set(c, in.javaOptions(tool), "its Java programs may neither trust nor use the sidecar", "JAVA_TOOL_OPTIONS")
		}
	}
}

// port is a tool's port of one kind.
func (in *injection) port(first int, tool string) int {
	return first + slices.Index(in.plan.tools, tool)
}

func (in *injection) mountRoots(c *corev1.Container) {
	c.VolumeMounts = append(c.VolumeMounts, bundleMount)
	if !in.settings.CA.SystemBundle {
		return
	}
	for _, m := range c.VolumeMounts {
		if at := path.Clean(m.MountPath); at == SystemBundle || at == "/" || strings.HasPrefix(SystemBundle, at+"/") {
			in.warnf("the container %s mounts a volume on %s, so its system's roots are left as they are: programs that read them, and no variable, will not trust the sidecar", c.Name, m.MountPath)
			return
		}
	}
	c.VolumeMounts = append(c.VolumeMounts, systemMount)
}

const ungated = "in mode explicit its calls may then go past the sidecar"

// proxyVariables are set in both cases: curl reads http_proxy in lower case only, others the upper one.
func (in *injection) proxyVariables(c *corev1.Container, port int) {
	proxy := fmt.Sprintf("http://127.0.0.1:%d", port)
	in.set(c, proxy, ungated, "HTTP_PROXY", "http_proxy")
	in.set(c, proxy, ungated, "HTTPS_PROXY", "https_proxy")
	in.set(c, proxy, ungated, "ALL_PROXY", "all_proxy")
	in.set(c, strings.Join(in.noProxy(), ","), ungated, "NO_PROXY", "no_proxy")
	in.set(c, "1", "its Node programs may not use the sidecar", "NODE_USE_ENV_PROXY")
}

// noProxy are hosts that tools reach by themselves. The kubelet replaces the last with the address of the cluster's API.
func (in *injection) noProxy() []string {
	return append([]string{"localhost", "127.0.0.1", "::1", "$(KUBERNETES_SERVICE_HOST)"}, in.settings.ProxyVariables.NoProxy...)
}

// javaOptions are for the JVM, which reads neither PEM files nor proxy variables.
func (in *injection) javaOptions(tool string) string {
	options := "-Djavax.net.ssl.trustStore=" + FileTrustStore + " -Djavax.net.ssl.trustStoreType=PKCS12 -Djavax.net.ssl.trustStorePassword=changeit"
	if in.plan.mode != settings.Explicit || !in.settings.ProxyVariables.Enabled {
		return options
	}
	for _, scheme := range []string{"http", "https"} {
		options += fmt.Sprintf(" -D%s.proxyHost=127.0.0.1 -D%s.proxyPort=%d", scheme, scheme, in.port(PortExplicit, tool))
	}
	return options + " -Dhttp.nonProxyHosts=localhost|127.*|[::1]|$(KUBERNETES_SERVICE_HOST)"
}

// set gives a variable, by all of its names, a value. If the container has one of its own by any of these names, that one stays and none
// is added, since programs differ in which of two names they prefer.
func (in *injection) set(c *corev1.Container, value, consequence string, names ...string) {
	have := map[string]bool{}
	for _, e := range c.Env {
		if !slices.Contains(names, e.Name) {
			continue
		}
		if e.ValueFrom != nil || e.Value != value {
			in.warnf("the container %s sets %s itself, which stays as it is: %s", c.Name, e.Name, consequence)
			return
		}
		have[e.Name] = true
	}
	for _, name := range names {
		if !have[name] {
			c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: value})
		}
	}
}
