package interop

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	dynamodbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/toolgate/toolgate/broker/awstest"
)

// What stands for the clouds. They are names of the real ones, since the sidecar reads services and regions from them.
const (
	s3Host      = "s3.eu-central-1.amazonaws.com"
	strictHost  = "s3.eu-west-1.amazonaws.com" // its binding passes on no unsigned bodies
	queueHost   = "sqs.eu-central-1.amazonaws.com"
	tableHost   = "dynamodb.eu-central-1.amazonaws.com"
	storageHost = "storage.googleapis.com"
)

var cloudHosts = []string{s3Host, strictHost, queueHost, tableHost, storageHost}

const awsBindings = `    - name: objects
      tools: [interop]
      targets: [{{range .Ports}}"` + s3Host + `:{{.}}", {{end}}]
      aws:
        roleARN: arn:aws:iam::123456789012:role/tools/objects
        stsURL: {{.STS}}
        subject: caller
        services: [s3]
        regions: [eu-central-1]
        unsignedPayload: true
    - name: others
      tools: [interop]
      targets: [{{range .Ports}}"` + strictHost + `:{{.}}", "` + queueHost + `:{{.}}", "` + tableHost + `:{{.}}", {{end}}]
      aws:
        roleARN: arn:aws:iam::123456789012:role/tools/others
        stsURL: {{.STS}}
        subject: caller
        services: [s3, sqs, dynamodb]
        regions: [eu-central-1, eu-west-1]
`

// amazon is S3, SQS and DynamoDB as far as one needs to be for an SDK, with every signature verified.
type amazon struct {
	sts     awstest.STS
	mu      sync.Mutex
	objects map[string][]byte
	signed  []awstest.Signed
}

func newAmazon(t *testing.T) (*amazon, *sidecar, *world, string) {
	w, a := newWorld(t), &amazon{objects: map[string][]byte{}}
	sts := httptest.NewServer(&a.sts)
	t.Cleanup(sts.Close)
	w.hosts, w.clouds, w.extra = cloudHosts[:4], awsBindings, map[string]any{"STS": sts.URL}
	port := w.serve(t, a, true)
	return a, w.start(t), w, port
}

func (a *amazon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	id, _, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential="), "/")
	signed, err := awstest.Verify(r, r.RequestURI, body, a.sts.Keys(id), time.Now())
	if err != nil || id == "" {
		// As S3 does: with what it compared, token included.
		awstest.Refuse(w, http.StatusForbidden, "SignatureDoesNotMatch", fmt.Sprint(err))
		return
	}
	a.mu.Lock()
	a.signed = append(a.signed, signed)
	a.mu.Unlock()
	switch signed.Service {
	case "s3":
		a.object(w, r, body)
	case "sqs":
		var m struct{ MessageBody string }
		if json.Unmarshal(body, &m) != nil {
			http.Error(w, "JSON", http.StatusBadRequest)
			return
		}
		sum := md5.Sum([]byte(m.MessageBody))
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		_, _ = fmt.Fprintf(w, `{"MessageId":"m-1","MD5OfMessageBody":"%s"}`, hex.EncodeToString(sum[:]))
	case "dynamodb":
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		_, _ = io.WriteString(w, `{"Item":{"id":{"S":"`+r.Header.Get("X-Amz-Target")+`"}}}`)
	}
}

func (a *amazon) object(w http.ResponseWriter, r *http.Request, body []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case r.Method == http.MethodPut:
		if strings.Contains(r.Header.Get("Content-Encoding"), "aws-chunked") {
			body = unchunk(body)
		}
		a.objects[r.URL.Path] = body
		w.Header().Set("ETag", `"1"`)
	case r.URL.Query().Get("list-type") == "2":
		w.Header().Set("Content-Type", "application/xml")
		_, _ = fmt.Fprintf(w, `<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name><Prefix></Prefix><KeyCount>%d</KeyCount><MaxKeys>9</MaxKeys><IsTruncated>false</IsTruncated></ListBucketResult>`, len(a.objects))
	case a.objects[r.URL.Path] == nil:
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "<Error><Code>NoSuchKey</Code><Message>token: "+r.Header.Get("X-Amz-Security-Token")+"</Message></Error>")
	default:
		_, _ = w.Write(a.objects[r.URL.Path])
	}
}

// unchunk takes the body out of aws-chunked, without its trailer.
func unchunk(b []byte) (body []byte) {
	for {
		line, rest, _ := bytes.Cut(b, []byte("\r\n"))
		size, _, _ := strings.Cut(string(line), ";")
		n, err := strconv.ParseInt(size, 16, 64)
		if err != nil || n == 0 || n > int64(len(rest)) {
			return body
		}
		body, b = append(body, rest[:n]...), rest[min(n+2, int64(len(rest))):]
	}
}

// awsConfig is that of a tool: keys of no worth, the proxy, and whom to trust.
func awsConfig(t *testing.T, s *sidecar, w *world, region string, h2 bool) aws.Config {
	client := awshttp.NewBuildableClient().WithTransportOptions(func(tr *http.Transport) {
		tr.Proxy = http.ProxyURL(s.proxyURL())
		tr.TLSClientConfig = &tls.Config{RootCAs: roots(t, w.path("intercept-ca.pem"))}
		tr.ForceAttemptHTTP2 = h2
	})
	return aws.Config{
		Region: region, HTTPClient: client, RetryMaxAttempts: 1, RequestChecksumCalculation: aws.RequestChecksumCalculationWhenSupported,
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenSupported, // as its configuration has them by default
		Credentials:                credentials.NewStaticCredentialsProvider("AKIAPLACEHOLDER", "placeholder", "placeholder"),
	}
}

// TestAWSSDKForGo: the SDK for Go, with keys of no worth, does its work through the sidecar.
func TestAWSSDKForGo(t *testing.T) {
	a, s, w, port := newAmazon(t)
	for _, h2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("h2=%v", h2), func(t *testing.T) {
			conf := awsConfig(t, s, w, "eu-central-1", h2)
			store := s3.NewFromConfig(conf, func(o *s3.Options) {
				o.BaseEndpoint, o.UsePathStyle = aws.String("https://"+address(s3Host, port)), true
			})
			for _, key := range []string{"plain", "a b/ä+!'()*&=@:,;$~/../x//y", "%2F"} {
				for what, body := range map[string]io.Reader{
					"bytes": strings.NewReader("content of " + key), "stream": io.MultiReader(strings.NewReader("content of "), strings.NewReader(key)),
				} {
					in := &s3.PutObjectInput{Bucket: aws.String("b"), Key: &key, Body: body, ContentType: aws.String("text/plain"), Metadata: map[string]string{"a": "b  c"}}
					if what == "stream" {
						in.ContentLength = aws.Int64(int64(len("content of " + key)))
					}
					if _, err := store.PutObject(t.Context(), in); err != nil {
						t.Fatalf("put %q from %s: %v", key, what, err)
					}
					got, err := store.GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("b"), Key: &key})
					if err != nil {
						t.Fatalf("get %q: %v", key, err)
					}
					if b := must[[]byte](t)(io.ReadAll(got.Body)); string(b) != "content of "+key {
						t.Errorf("%q from %s holds %q", key, what, b)
					}
				}
			}
			list, err := store.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: aws.String("b"), Prefix: aws.String("a b+/ä"), Delimiter: aws.String("/")})
			if err != nil || *list.KeyCount == 0 {
				t.Errorf("list: %v, %v", list, err)
			}
			queue := sqs.NewFromConfig(conf, func(o *sqs.Options) { o.BaseEndpoint = aws.String("https://" + address(queueHost, port)) })
			sent, err := queue.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: aws.String("https://" + address(queueHost, port) + "/1/q"), MessageBody: aws.String("hello")})
			if err != nil || *sent.MessageId != "m-1" {
				t.Errorf("queue: %v, %v", sent, err)
			}
			table := dynamodb.NewFromConfig(conf, func(o *dynamodb.Options) { o.BaseEndpoint = aws.String("https://" + address(tableHost, port)) })
			item, err := table.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("t"), Key: map[string]dynamodbtypes.AttributeValue{"id": &dynamodbtypes.AttributeValueMemberS{Value: "1"}}})
			if err != nil || item.Item["id"].(*dynamodbtypes.AttributeValueMemberS).Value != "DynamoDB_20120810.GetItem" {
				t.Errorf("table: %v, %v", item, err)
			}
			// What an upstream repeats of the session is masked.
			_, err = store.GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("b"), Key: aws.String("nowhere")})
			if err == nil || !strings.Contains(err.Error(), "NoSuchKey") || strings.Contains(err.Error(), "SECRET") {
				t.Errorf("an error: %v", err)
			}
		})
	}
	if asked := a.sts.Asked(); len(asked) != 2 { // one for each binding
		t.Errorf("STS was asked %d times", len(asked))
	}
	for _, signed := range a.signed {
		if !strings.HasPrefix(signed.KeyID, "ASIA") {
			t.Errorf("signed as %s", signed.KeyID)
		}
	}
}

// TestAWSRefuses: what a binding does not allow is refused by the sidecar, with a sentence, and does not reach AWS.
func TestAWSRefuses(t *testing.T) {
	a, s, w, port := newAmazon(t)
	put := func(host, region string, options ...func(*s3.Options)) string {
		conf := awsConfig(t, s, w, region, false)
		heard := &hearing{HTTPClient: conf.HTTPClient}
		conf.HTTPClient = heard
		store := s3.NewFromConfig(conf, append(options, func(o *s3.Options) {
			o.BaseEndpoint, o.UsePathStyle = aws.String("https://"+address(host, port)), true
		})...)
		_, err := store.PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String("b"), Key: aws.String("k"), Body: strings.NewReader("content")})
		return fmt.Sprint(err, heard.last)
	}
	plainBody := func(o *s3.Options) { o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired }
	if said := put(strictHost, "eu-west-1", plainBody); said != "<nil>" {
		t.Errorf("a body in one piece: %s", said)
	}
	before := len(a.signed)
	for reason, said := range map[string]string{
		"unsigned_payload": put(strictHost, "eu-west-1"),
		"wrong_region":     put(s3Host, "us-east-1"),
		"wrong_host":       put(strictHost, "eu-central-1", plainBody),
	} {
		if !strings.Contains(said, "Reason: "+reason) {
			t.Errorf("%s: %s", reason, said)
		}
	}
	// A presigned URL, and a request that nobody signed.
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(s.proxyURL()), TLSClientConfig: &tls.Config{RootCAs: roots(t, w.path("intercept-ca.pem"))}}}
	presigned, err := s3.NewPresignClient(s3.NewFromConfig(awsConfig(t, s, w, "eu-central-1", false), func(o *s3.Options) {
		o.BaseEndpoint, o.UsePathStyle = aws.String("https://"+address(s3Host, port)), true
	})).PresignGetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("b"), Key: aws.String("k")})
	if err != nil {
		t.Fatal(err)
	}
	for reason, url := range map[string]string{"presigned": presigned.URL, "not_signed": "https://" + address(s3Host, port) + "/b/k"} {
		res, err := client.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode != http.StatusForbidden || !strings.Contains(string(text), "Reason: "+reason) {
			t.Errorf("%s: %d %s", reason, res.StatusCode, text)
		}
	}
	if len(a.signed) != before {
		t.Errorf("%d refused requests reached AWS", len(a.signed)-before)
	}
}

// hearing is an HTTP client that keeps what came of the last request.
type hearing struct {
	aws.HTTPClient
	last string
}

func (h *hearing) Do(r *http.Request) (*http.Response, error) {
	res, err := h.HTTPClient.Do(r)
	if err == nil {
		text, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		h.last, res.Body = string(text), io.NopCloser(bytes.NewReader(text))
	}
	return res, err
}

// TestBotocore: the SDK for Python, set up by environment as a tool's container is.
func TestBotocore(t *testing.T) {
	python := program(t, "python3")
	if out, err := exec.Command(python, "-c", "import botocore").CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("MISSING with CI=true: python3-botocore is not installed: %s", out)
		}
		t.Skipf("NOT TESTED: python3-botocore is not installed: %s", out)
	}
	a, s, w, port := newAmazon(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, filepath.Join("testdata", "tool_aws.py"), port)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "HTTPS_PROXY=" + s.proxyURL().String(), "AWS_CA_BUNDLE=" + w.path("intercept-ca.pem"),
		"AWS_ACCESS_KEY_ID=AKIAPLACEHOLDER", "AWS_SECRET_ACCESS_KEY=placeholder", "AWS_REGION=eu-central-1", "AWS_DEFAULT_REGION=eu-central-1",
	}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) || err != nil || !strings.Contains(string(out), "all done") {
		t.Errorf("%v\n%s", err, out)
	}
	if len(a.signed) < 7 || strings.Contains(string(out), "SECRET") {
		t.Errorf("%d requests came\n%s", len(a.signed), out)
	}
}
