//go:build linux

package cases

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolgate/toolgate/broker/awstest"
)

// ambient is in everything that is planted around the sidecar.
const ambient = "AMBIENT-7c1e90"

// metadata are the addresses of the clouds' metadata services. They answer here, as every address does.
var metadata = []string{"169.254.169.254", "169.254.170.2", "169.254.170.23", "168.63.129.16", "100.100.100.200"}

// planted are files that SDKs and tools find by themselves, below the home folder.
var planted = map[string]string{
	".aws/credentials": "[default]\naws_access_key_id = AKIA" + ambient + "\naws_secret_access_key = " + ambient + "\n",
	".aws/config":      "[default]\nregion = us-east-1\ncredential_process = /bin/echo " + ambient + "\nrole_arn = arn:aws:iam::1:role/" + ambient + "\n",
	".aws/token":       ambient, ".azure/token": ambient,
	".config/gcloud/application_default_credentials.json": `{"type":"authorized_user","client_id":"` + ambient + `","client_secret":"` + ambient + `","refresh_token":"` + ambient + `"}`,
	".config/gcloud/credentials.db":                       ambient, ".config/gcloud/configurations/config_default": "[core]\naccount = " + ambient + "\n",
	".azure/msal_token_cache.json": `{"AccessToken":{"a":{"secret":"` + ambient + `"}}}`, ".azure/azureProfile.json": `{"subscriptions":[]}`,
	".netrc":           "machine idp.ok.test login " + ambient + " password " + ambient + "\ndefault login " + ambient + " password " + ambient + "\n",
	".vault-token":     ambient,
	".git-credentials": "https://" + ambient + "@s.wild.test\n", ".config/gh/hosts.yml": "github.com: {oauth_token: " + ambient + "}\n",
	".docker/config.json": `{"auths":{"s.wild.test":{"auth":"` + ambient + `"}}}`, ".kube/config": "users: [{name: a, user: {token: " + ambient + "}}]\n",
	".npmrc": "//s.wild.test/:_authToken=" + ambient + "\n", ".pgpass": "*:*:*:*:" + ambient + "\n",
}

// plantedEnv are the variables that SDKs and tools read by themselves. Each place that one names is a metadata service.
func plantedEnv(home string) []string {
	service := "http://169.254.169.254/" + ambient
	env := []string{
		"HOME=" + home, "USERPROFILE=" + home, "XDG_CONFIG_HOME=" + home + "/.config", "NETRC=" + home + "/.netrc",
		"AWS_SHARED_CREDENTIALS_FILE=" + home + "/.aws/credentials", "AWS_CONFIG_FILE=" + home + "/.aws/config", "AWS_SDK_LOAD_CONFIG=1",
		"AWS_WEB_IDENTITY_TOKEN_FILE=" + home + "/.aws/token", "AWS_ROLE_ARN=arn:aws:iam::1:role/" + ambient,
		"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI=/" + ambient, "AWS_CONTAINER_CREDENTIALS_FULL_URI=http://169.254.170.2/" + ambient,
		"AWS_EC2_METADATA_SERVICE_ENDPOINT=" + service, "AWS_ENDPOINT_URL=" + service, "AWS_ENDPOINT_URL_STS=" + service,
		"GOOGLE_APPLICATION_CREDENTIALS=" + home + "/.config/gcloud/application_default_credentials.json", "CLOUDSDK_CONFIG=" + home + "/.config/gcloud",
		"GCE_METADATA_HOST=169.254.169.254", "GCE_METADATA_IP=169.254.169.254", "GCE_METADATA_ROOT=169.254.169.254",
		"GOOGLE_CLOUD_UNIVERSE_DOMAIN=evil.test", "GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES=1",
		"AZURE_CONFIG_DIR=" + home + "/.azure", "AZURE_FEDERATED_TOKEN_FILE=" + home + "/.azure/token", "AZURE_AUTHORITY_HOST=" + service,
		"IDENTITY_ENDPOINT=" + service, "MSI_ENDPOINT=" + service, "IMDS_ENDPOINT=" + service,
		"VAULT_ADDR=" + service, "BAO_ADDR=" + service, "ACTIONS_ID_TOKEN_REQUEST_URL=" + service, "KUBECONFIG=" + home + "/.kube/config",
		"KUBERNETES_SERVICE_HOST=169.254.169.254", "KUBERNETES_SERVICE_PORT=443", "SPIFFE_ENDPOINT_SOCKET=tcp://169.254.169.254:80",
		"NO_PROXY=", "no_proxy=",
	}
	for _, name := range []string{
		"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ROLE_SESSION_NAME",
		"AWS_CONTAINER_AUTHORIZATION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK", "CLOUDSDK_AUTH_ACCESS_TOKEN", "GOOGLE_OAUTH_ACCESS_TOKEN", "GOOGLE_API_KEY",
		"GOOGLE_CREDENTIALS", "GOOGLE_CLOUD_PROJECT", "AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_CLIENT_SECRET", "AZURE_USERNAME", "AZURE_PASSWORD",
		"ARM_CLIENT_SECRET", "IDENTITY_HEADER", "MSI_SECRET", "VAULT_TOKEN", "BAO_TOKEN", "VAULT_NAMESPACE", "GITHUB_TOKEN", "GH_TOKEN",
		"ACTIONS_ID_TOKEN_REQUEST_TOKEN", "GITLAB_TOKEN", "CI_JOB_TOKEN", "NPM_TOKEN", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "DATABASE_URL", "PGPASSWORD",
	} {
		env = append(env, name+"="+ambient)
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		env = append(env, name+"="+service)
	}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		proxy := "http://" + ambient + ":" + ambient + "@169.254.169.254:80"
		env = append(env, name+"="+proxy, strings.ToLower(name)+"="+proxy)
	}
	return env
}

const ambientBindings = `    - name: aws
      tools: [t1]
      targets: ["s3.wild.test:443"]
      aws: {roleARN: "arn:aws:iam::123456789012:role/orders", stsURL: "https://idp.ok.test/aws", subjectTokenFile: workload, services: [s3], regions: [eu-central-1], caFile: upstream-ca.pem}
    - name: gcp
      tools: [t1]
      targets: ["gcp.wild.test:443"]
      gcp: {provider: "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q", serviceAccount: a@b.iam.gserviceaccount.com, scopes: [s], subjectTokenFile: workload, stsURL: "https://idp.ok.test/token", iamURL: "https://idp.ok.test", caFile: upstream-ca.pem}
    - name: azure
      tools: [t1]
      targets: ["azure.wild.test:443"]
      clientCredentials: {tokenURL: "https://idp.ok.test/token", target: scope, scopes: [s], clientAuth: {method: workload_token, clientID: c, tokenFile: workload}, caFile: upstream-ca.pem}
    - name: exchange
      tools: [t1]
      targets: ["exchange.wild.test:443"]
      tokenExchange: {tokenURL: "https://idp.ok.test/token", mode: impersonation, audience: a, scopes: [s], clientAuth: {method: none, clientID: c}, caFile: upstream-ca.pem}
`

// clouds plays every issuer, and remembers what it was told.
type clouds struct {
	mu     sync.Mutex
	status int // 200: a good answer
	heard  []string
}

func (c *clouds) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c.mu.Lock()
	status := c.status
	c.heard = append(c.heard, fmt.Sprint(r.URL, r.Header, string(body)))
	c.mu.Unlock()
	end := time.Now().Add(10 * time.Minute)
	switch {
	case status == 0:
		panic(http.ErrAbortHandler)
	case status != http.StatusOK:
		w.WriteHeader(status)
	case r.URL.Path == "/aws":
		form, _ := url.ParseQuery(string(body))
		awstest.Answer(w, awstest.Keys{ID: "ASIACONFIGURED", Secret: "s", Token: "CONFIGURED"}, end, form.Get("RoleArn"), form.Get("RoleSessionName"))
	case r.URL.Path == "/token":
		_, _ = io.WriteString(w, `{"access_token":"CONFIGURED","issued_token_type":"urn:ietf:params:oauth:token-type:access_token","token_type":"Bearer","expires_in":600}`)
	default:
		_, _ = fmt.Fprintf(w, `{"accessToken":"CONFIGURED","expireTime":%q}`, end.UTC().Format(time.RFC3339))
	}
}

func (c *clouds) set(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status = status
}

// watchOpens returns a function that tells which files below dir were opened since.
func watchOpens(t *testing.T, dir string) func() []string {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	err = filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err == nil {
			_, err = unix.InotifyAddWatch(fd, path, unix.IN_OPEN)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	drain := func() (seen []string) {
		buf := make([]byte, 64<<10)
		for {
			n, err := unix.Read(fd, buf)
			if err != nil || n <= 0 {
				return seen
			}
			seen = append(seen, fmt.Sprintf("%d bytes of events: %q", n, buf[:min(n, 200)]))
		}
	}
	drain() // the walk's own
	return drain
}

// TestNoAmbientCredentials: with every variable and file planted that an SDK would find by itself, and with a metadata service that
// answers, the sidecar uses what its configuration names and nothing else; not even when that fails.
func TestNoAmbientCredentials(t *testing.T) {
	note(t)
	l := newLab(t)
	l.begin()
	l.dns.set("idp.ok.test", at(addrU3))
	for _, name := range []string{"metadata.google.internal", "metadata", "instance-data"} {
		l.dns.set(name, at(metadata[0]))
	}
	issuers := &clouds{status: http.StatusOK}
	l.up.handle("idp.ok.test", issuers.ServeHTTP)
	home := t.TempDir()
	for name, text := range planted {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	opened := watchOpens(t, home)
	if _, err := os.ReadFile(filepath.Join(home, ".netrc")); err != nil || len(opened()) == 0 {
		t.Fatalf("an opened file is not noticed: %v", err)
	}
	w := l.files(t, func(s *settings) { s.bindings = ambientBindings })
	w.write(t, "workload", "workload-token")
	w.launch = func(cmd *exec.Cmd) error {
		cmd.Env = append(cmd.Env, plantedEnv(home)...)
		return cmd.Start()
	}
	w.start(t)
	l.meant = []netip.Addr{netip.MustParseAddr(addrU1), netip.MustParseAddr(addrU2), netip.MustParseAddr(addrU3)}

	for _, status := range []int{http.StatusOK, http.StatusForbidden, http.StatusServiceUnavailable, 0} {
		issuers.set(status)
		token := w.mint(t, map[string]any{"sub": "user:alice", "tenant": "A", "agent_id": "a1", "task_id": fmt.Sprint("status", status), "run_id": "r1"})
		for _, host := range []string{"s3", "gcp", "azure", "exchange"} {
			before := len(l.toUpstreams())
			got := w.ambientCall(t, token, host+".wild.test")
			arrived := l.toUpstreams()[before:]
			if status != http.StatusOK {
				if got != http.StatusForbidden && got != http.StatusServiceUnavailable || len(arrived) > 0 {
					t.Errorf("%s with issuers that answer %d: status %d, %d requests went on", host, status, got, len(arrived))
				}
				continue
			}
			if got != http.StatusOK || len(arrived) != 1 || !strings.Contains(fmt.Sprint(arrived[0].header), "CONFIGURED") {
				t.Errorf("%s: status %d, arrived %v", host, got, arrived)
			}
		}
	}
	w.stop(t)
	l.check(t) // no metadata service and no proxy was dialled
	for _, q := range l.dns.questions() {
		// The system's resolver, which finds issuers, has a search list.
		if !strings.HasPrefix(q.name, "idp.ok.test") && !slices.Contains([]string{"s3.wild.test", "gcp.wild.test", "azure.wild.test", "exchange.wild.test"}, q.name) {
			t.Errorf("the name server was asked for %q", q.name)
		}
	}
	if len(issuers.heard) < 4 {
		t.Errorf("the issuers heard %d requests", len(issuers.heard))
	}
	if all := fmt.Sprint(l.up.arrivals(), issuers.heard, w.printed()); strings.Contains(all, ambient) {
		t.Errorf("something planted was used: %s", all[max(0, strings.Index(all, ambient)-200):][:400])
	}
	if seen := opened(); len(seen) > 0 {
		t.Errorf("planted files were opened: %s", seen)
	}
}

// ambientCall makes the call of a tool that holds placeholders.
func (w *world) ambientCall(t *testing.T, token, host string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+host+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKIAPLACEHOLDER/20260101/eu-central-1/s3/aws4_request, SignedHeaders=host, Signature=00")
	res, err := w.client(t, w.t1, token, false).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// toUpstreams are the requests that went to others than issuers.
func (l *lab) toUpstreams() (out []arrived) {
	for _, a := range l.up.arrivals() {
		if a.host != "idp.ok.test" {
			out = append(out, a)
		}
	}
	return out
}
