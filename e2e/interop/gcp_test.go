package interop

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"
	"google.golang.org/api/option"
	"google.golang.org/api/storage/v1"
)

const gcpBindings = `    - name: buckets
      tools: [interop]
      targets: [{{range .Ports}}"` + storageHost + `:{{.}}", {{end}}]
      gcp:
        provider: //iam.googleapis.com/projects/123/locations/global/workloadIdentityPools/tools/providers/idp
        serviceAccount: orders@tools.iam.gserviceaccount.com
        scopes: ["https://www.googleapis.com/auth/devstorage.read_write"]
        subject: caller
        stsURL: {{.Google}}/v1/token
        iamURL: {{.Google}}
`

// googleIAM gives out "federated" for a task token, and "generated" for that.
func googleIAM(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.URL.Path == "/v1/token" && strings.Count(r.PostFormValue("subject_token"), ".") == 2:
		_, _ = io.WriteString(w, `{"access_token":"federated-SECRET","issued_token_type":"urn:ietf:params:oauth:token-type:access_token","token_type":"Bearer","expires_in":3599}`)
	case r.URL.Path == "/v1/projects/-/serviceAccounts/orders@tools.iam.gserviceaccount.com:generateAccessToken" && r.Header.Get("Authorization") == "Bearer federated-SECRET":
		_, _ = fmt.Fprintf(w, `{"accessToken":"generated-SECRET","expireTime":"%s"}`, time.Now().Add(15*time.Minute).UTC().Format(time.RFC3339))
	default:
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"error":{"code":403,"status":"PERMISSION_DENIED"}}`)
	}
}

// bucket is Google Cloud Storage as far as a client needs it, for the bearer of the generated token alone.
type bucket struct{ objects map[string][]byte }

func (b *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if got := r.Header["Authorization"]; len(got) != 1 || got[0] != "Bearer generated-SECRET" {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = fmt.Fprintf(w, `{"error":{"code":401,"message":"%q"}}`, got)
		return
	}
	switch {
	case r.Method == http.MethodPost:
		_, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
		parts := multipart.NewReader(r.Body, params["boundary"])
		var o storage.Object
		if p, err := parts.NextPart(); err != nil || json.NewDecoder(p).Decode(&o) != nil {
			http.Error(w, "parts", http.StatusBadRequest)
			return
		}
		p, err := parts.NextPart()
		if err != nil {
			http.Error(w, "parts", http.StatusBadRequest)
			return
		}
		b.objects[o.Name], _ = io.ReadAll(p)
		_, _ = fmt.Fprintf(w, `{"name":%q}`, o.Name)
	case r.URL.Query().Get("alt") == "media":
		_, _ = w.Write(b.objects[r.URL.Path[strings.Index(r.URL.Path, "/o/")+3:]])
	default: // an error that repeats the token
		w.WriteHeader(http.StatusNotFound)
		_, _ = fmt.Fprintf(w, `{"error":{"code":404,"message":"no such object for %s"}}`, r.Header.Get("Authorization"))
	}
}

// TestGoogleClient: Google's client for Go, with a token of no worth, does its work through the sidecar.
func TestGoogleClient(t *testing.T) {
	w := newWorld(t)
	google := httptest.NewServer(http.HandlerFunc(googleIAM))
	t.Cleanup(google.Close)
	w.hosts, w.clouds, w.extra = []string{storageHost}, gcpBindings, map[string]any{"Google": google.URL}
	port := w.serve(t, &bucket{objects: map[string][]byte{}}, true)
	s := w.start(t)
	wire := &http.Transport{Proxy: http.ProxyURL(s.proxyURL()), ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots(t, w.path("intercept-ca.pem"))}}
	client := &http.Client{Transport: &oauth2.Transport{Base: wire, Source: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "placeholder"})}}
	service, err := storage.NewService(t.Context(), option.WithHTTPClient(client), option.WithEndpoint("https://"+address(storageHost, port)+"/storage/v1/"))
	if err != nil {
		t.Fatal(err)
	}
	name := "a b/ä+&?.txt"
	if _, err := service.Objects.Insert("b", &storage.Object{Name: name}).Media(strings.NewReader("content")).Do(); err != nil {
		t.Fatal(err)
	}
	res, err := service.Objects.Get("b", name).Download()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if got := must[[]byte](t)(io.ReadAll(res.Body)); !bytes.Equal(got, []byte("content")) {
		t.Errorf("the object holds %q", got)
	}
	if _, err := service.Objects.Get("b", "nowhere").Do(); err == nil || !strings.Contains(err.Error(), "no such object") || strings.Contains(err.Error(), "SECRET") {
		t.Errorf("an error: %v", err)
	}
	refused, err := client.Get("https://" + address(storageHost, port) + "/storage/v1/b/b/o/x?access_token=stranger")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = refused.Body.Close() }()
	if text := must[[]byte](t)(io.ReadAll(refused.Body)); refused.StatusCode != http.StatusForbidden || !strings.Contains(string(text), "Reason: presigned") {
		t.Errorf("a token in the URL: %d %s", refused.StatusCode, text)
	}
}
