package broker

import (
	"bytes"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/toolgate/toolgate/broker/awstest"
	"github.com/toolgate/toolgate/redact"
)

func newResigned(k awstest.Keys, at time.Time, services ...string) *resigned {
	return &resigned{
		signing: signing{services: services, regions: []string{"us-east-1", "eu-central-1"}, maxBody: 1000},
		keys:    sessionKeys{k.ID, redact.New(k.Secret), redact.New(k.Token)}, signer: v4.NewSigner(),
		now: func() time.Time { return at },
	}
}

// What AWS publishes comes out, to the letter, for a request that the tool signed with keys of no worth at another time.
func TestResignedVectors(t *testing.T) {
	for _, v := range awstest.Vectors {
		t.Run(v.Name, func(t *testing.T) {
			at, _ := time.Parse("20060102T150405Z", v.Date)
			u, err := url.ParseRequestURI(v.Target)
			if err != nil {
				t.Fatal(err)
			}
			u.Scheme, u.Host = "https", v.Host
			out := &http.Request{Method: http.MethodGet, URL: u, Host: v.Host, Header: http.Header{
				"X-Amz-Date": {"19990101T000000Z"}, "X-Amz-Security-Token": {"placeholder"}, "User-Agent": {"sdk"},
				"Authorization": {"AWS4-HMAC-SHA256 Credential=AKIAPLACEHOLDER/19990101/us-east-1/" + v.Service + "/aws4_request,SignedHeaders=" + v.SignedHeaders + ",Signature=00"},
			}}
			for name, value := range v.Header {
				out.Header.Set(name, value)
			}
			if strings.HasPrefix(v.Service, "service") {
				out.URL.Host = "aws.test" // a service by that name is nowhere
			}
			if _, reason := newResigned(v.Keys, at, v.Service).place(out, nil); reason != "" {
				t.Fatal(reason)
			}
			want := "AWS4-HMAC-SHA256 Credential=" + v.Keys.ID + "/" + v.Date[:8] + "/us-east-1/" + v.Service + "/aws4_request, SignedHeaders=" +
				v.SignedHeaders + ", Signature=" + v.Signature
			if got := out.Header.Get("Authorization"); got != want {
				t.Errorf("signed %q\nwant   %q", got, want)
			}
		})
	}
}

// Whatever path, query, headers and body a tool sends, the other side finds the signature right, and nothing of the tool's is left.
func TestResigned(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		service string
		target  string
		body    string
		header  http.Header
	}{
		"plain":               {"s3", "/key", "", nil},
		"root":                {"s3", "/", "", nil},
		"signs in a key":      {"s3", "/a%20b/%2Fc%2b+!'()*,:;=@&$~%C3%A4", "", nil},
		"steps in a key":      {"s3", "/a/../b//c/./d", "", nil},
		"a body":              {"s3", "/key", "body", nil},
		"a wrong hash":        {"s3", "/key", "body", http.Header{"X-Amz-Content-Sha256": {strings.Repeat("0", 64)}}},
		"query":               {"s3", "/?list-type=2&prefix=a%2Fb+c&b&a=2&a=1&delimiter=%2f;x&z=%C3%A4", "", nil},
		"an unsigned body":    {"s3", "/key", "body", http.Header{"X-Amz-Content-Sha256": {unsignedPayload}}}, // signed all the same
		"queue":               {"sqs", "/", "Action=SendMessage", http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}},
		"path of others":      {"sqs", "/a%20b/c%2Fd!/", "{}", http.Header{"X-Amz-Target": {"A.B"}}},
		"steps of others":     {"sqs", "/a/../b//c/./d/..", "", nil},
		"headers with spaces": {"s3", "/key", "", http.Header{"X-Amz-Meta-A": {"  a   b  "}, "Range": {"bytes=0-9"}}},
		"copies": {"s3", "/key", "", http.Header{
			"authorization": {"tool"}, "AUTHORIZATION": {"tool"}, "X_Amz_Security_Token": {"tool"}, "x-amz-security-token": {"tool"},
			"X_amz_date": {"tool"}, "Date": {"Sat, 01 Jan 2000 00:00:00 GMT"},
		}},
		"signed by the tool, changed on the way": {"s3", "/key", "", http.Header{"Accept-Encoding": {"identity"}, "User-Agent": {"sdk"}, "Te": {"trailers"}}},
	} {
		t.Run(name, func(t *testing.T) {
			path, query, _ := strings.Cut(c.target, "?")
			u := &url.URL{Scheme: "https", Host: "api.test:8443", RawQuery: query}
			u.Path, _ = url.PathUnescape(path)
			u.RawPath = path
			out := &http.Request{Method: http.MethodPut, URL: u, Host: u.Host, Trailer: http.Header{"Authorization": nil, "X-Amz-Checksum-Crc32": nil}}
			out.Header = http.Header{"X-Amz-Date": {"20200101T000000Z"}, "Authorization": {"AWS4-HMAC-SHA256 Credential=AKIAPLACEHOLDER/20200101/eu-central-1/" +
				c.service + "/aws4_request, SignedHeaders=accept-encoding;authorization;connection;content-length;date;host;range;te;user-agent;x-amz-date;x-amz-security-token, Signature=tool"}}
			if name == "copies" {
				delete(out.Header, "Authorization")
				c.header["AUTHORIZATION"] = []string{strings.Replace(placeholds, "Signature=00", "Signature=tool", 1)}
				delete(c.header, "authorization")
			}
			for k, v := range c.header {
				out.Header[k] = v
			}
			p := newResigned(testKeys, now, "s3", "sqs")
			if limit := p.body(out); limit != 1000 {
				t.Errorf("asks for %d bytes of the body", limit)
			}
			body, reason := p.place(out, []byte(c.body))
			if reason != "" || string(body) != c.body {
				t.Fatalf("%s, body %q", reason, body)
			}
			target := u.EscapedPath()
			if query != "" {
				target += "?" + query
			}
			// What is on its way may be changed by what carries it.
			for _, name := range []string{"Accept-Encoding", "User-Agent", "Te"} {
				out.Header.Del(name)
			}
			signed, err := awstest.Verify(out, target, body, testKeys, now)
			if err != nil {
				t.Fatal(err)
			}
			if signed.Service != c.service || signed.Region != "eu-central-1" {
				t.Errorf("signed for %+v", signed)
			}
			if _, ok := c.header["Range"]; ok && !slices.Contains(signed.Headers, "range") {
				t.Error("a header that the tool signed is not signed any more")
			}
			// A request that is sent once more, with other keys, is signed for the same.
			again := newResigned(awstest.Keys{ID: "ASIAOTHER", Secret: "other", Token: "other"}, now, "s3", "sqs")
			if _, reason := again.place(out, body); reason != "" {
				t.Fatal(reason)
			}
			if second, err := awstest.Verify(out, target, body, awstest.Keys{ID: "ASIAOTHER", Secret: "other", Token: "other"}, now); err != nil || !slices.Equal(second.Headers, signed.Headers) {
				t.Errorf("signed once more: %v, %v", second, err)
			}
			for name, values := range out.Header {
				if all := strings.Join(values, " "); strings.Contains(all, "tool") || strings.Contains(all, "20200101") || strings.Contains(all, "Jan 2000") {
					t.Errorf("%s: %q is left", name, all)
				}
			}
			if _, there := out.Trailer["Authorization"]; there || len(out.Trailer) != 1 {
				t.Errorf("trailers %v", out.Trailer)
			}
		})
	}
}

// What a binding does not sign does not leave, and its body is not waited for.
func TestResignedRefuses(t *testing.T) {
	auth := func(service, region string) string {
		return "AWS4-HMAC-SHA256 Credential=AKIA/20200101/" + region + "/" + service + "/aws4_request, SignedHeaders=host, Signature=00"
	}
	for name, c := range map[string]struct {
		change func(*http.Request)
		want   Reason
	}{
		"no signature":   {func(r *http.Request) { r.Header.Del("Authorization") }, NotSigned},
		"two":            {func(r *http.Request) { r.Header.Add("Authorization", placeholds) }, NotSigned},
		"two spellings":  {func(r *http.Request) { r.Header["authorization"] = []string{auth("sqs", "eu-central-1")} }, NotSigned},
		"a bearer token": {func(r *http.Request) { r.Header.Set("Authorization", "Bearer a") }, NotSigned},
		"version 2":      {func(r *http.Request) { r.Header.Set("Authorization", "AWS AKIA:c2ln") }, NotSigned},
		"version 4a": {func(r *http.Request) {
			r.Header.Set("Authorization", strings.Replace(placeholds, "HMAC", "ECDSA-P256", 1))
		}, NotSigned},
		"two scopes": {func(r *http.Request) {
			r.Header.Set("Authorization", placeholds+", Credential=A/20200101/us-east-1/iam/aws4_request")
		}, NotSigned},
		"no scope": {func(r *http.Request) {
			r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKIA, SignedHeaders=host, Signature=00")
		}, NotSigned},
		"upper case":            {func(r *http.Request) { r.Header.Set("Authorization", auth("S3", "eu-central-1")) }, NotSigned},
		"another service":       {func(r *http.Request) { r.Header.Set("Authorization", auth("iam", "eu-central-1")) }, WrongService},
		"another region":        {func(r *http.Request) { r.Header.Set("Authorization", auth("s3", "ap-east-1")) }, WrongRegion},
		"another host":          {func(r *http.Request) { r.Header.Set("Authorization", auth("sqs", "eu-central-1")) }, WrongHost},
		"another host's region": {func(r *http.Request) { r.Header.Set("Authorization", auth("s3", "us-east-1")) }, WrongHost},
		"presigned":             {func(r *http.Request) { r.URL.RawQuery = "a=b&X-Amz-Signature=00" }, Presigned},
		"presigned, escaped":    {func(r *http.Request) { r.URL.RawQuery = "%58-amz-%63redential=A" }, Presigned},
		"presigned, semicolon":  {func(r *http.Request) { r.URL.RawQuery = "a=b;x-amz-security-token=A" }, Presigned},
		"presigned, old":        {func(r *http.Request) { r.URL.RawQuery = "AWSAccessKeyId=A&Signature=b&Expires=1" }, Presigned},
		"a form": {func(r *http.Request) {
			r.Method = "POST"
			r.Header.Set("Content-Type", "multipart/form-data; boundary=b")
		}, Presigned},
		"a form, in other letters": {func(r *http.Request) { r.Method = "POST"; r.Header["content_type"] = []string{"Multipart/Form-Data"} }, Presigned},
		"a query of junk":          {func(r *http.Request) { r.URL.RawQuery = "%zz=1" }, Presigned},
		"unsigned trailer":         {func(r *http.Request) { r.Header.Set(amzContent, unsignedTrailer) }, UnsignedPayload},
		"chunks":                   {func(r *http.Request) { r.Header.Set(amzContent, "STREAMING-AWS4-HMAC-SHA256-PAYLOAD") }, ChunkSigned},
		"chunks and trailer":       {func(r *http.Request) { r.Header.Set(amzContent, "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER") }, ChunkSigned},
		"two hashes":               {func(r *http.Request) { r.Header["x-amz-content_sha256"] = []string{"a"}; r.Header.Set(amzContent, "b") }, NotSigned},
	} {
		t.Run(name, func(t *testing.T) {
			p := newResigned(testKeys, time.Now(), "s3", "sqs")
			r := sdkRequest("https://bucket.s3.eu-central-1.amazonaws.com/key")
			c.change(r)
			if n := p.body(r); n != 0 {
				t.Errorf("waits for %d bytes", n)
			}
			_, err := (&Credential{ref: Ref{Binding: "objects"}, put: p}).Apply(r, nil)
			e := wantReason(t, err, c.want)
			if e.Reason.Advice() == "" {
				t.Error("nobody is told what to do")
			}
			noLeak(t, err, testKeys.Secret, testKeys.Token)
		})
	}
}

func TestUnsignedPayload(t *testing.T) {
	now := time.Now()
	for _, payload := range []string{unsignedPayload, unsignedTrailer} {
		r := sdkRequest("https://bucket.s3.eu-central-1.amazonaws.com/key")
		r.Header.Set(amzContent, payload)
		p := newResigned(testKeys, now, "s3", "sqs")
		p.unsigned = true
		if n := p.body(r); n != 0 {
			t.Errorf("%s: waits for %d bytes", payload, n)
		}
		if _, reason := p.place(r, nil); reason != "" {
			t.Fatal(reason)
		}
		if _, err := awstest.Verify(r, "/key", []byte("unread"), testKeys, now); err != nil {
			t.Error(err)
		}
		queue := sdkRequest("https://sqs.eu-central-1.amazonaws.com/")
		queue.Header.Set("Authorization", strings.Replace(placeholds, "/s3/", "/sqs/", 1))
		queue.Header.Set(amzContent, payload)
		if n := p.body(queue); payload == unsignedPayload && n == 0 {
			t.Error("another service's body is not signed")
		}
		if _, reason := p.place(queue, nil); payload == unsignedTrailer && reason != UnsignedPayload {
			t.Errorf("another service: %q", reason)
		}
	}
}

func TestBodyLimit(t *testing.T) {
	p := newResigned(testKeys, time.Now(), "s3")
	for length, want := range map[int64]int64{-1: 1000, 0: 1000, 1: 1, 999: 999, 1000: 1000, 5000: 1000} {
		r := sdkRequest("https://bucket.s3.eu-central-1.amazonaws.com/key")
		r.ContentLength = length
		if got := p.body(r); got != want {
			t.Errorf("of a body of %d it wants %d, not %d", length, got, want)
		}
	}
}

func TestHostsOfAWS(t *testing.T) {
	for _, c := range []struct {
		host, service, region string
		fits                  bool
	}{
		{"dynamodb.eu-central-1.amazonaws.com", "dynamodb", "eu-central-1", true},
		{"dynamodb.eu-central-1.amazonaws.com", "dynamodb", "us-east-1", false},
		{"dynamodb.eu-central-1.amazonaws.com", "s3", "eu-central-1", false},
		{"dynamodb-fips.us-east-1.amazonaws.com", "dynamodb", "us-east-1", true},
		{"dynamodb.eu-central-1.api.aws", "dynamodb", "eu-central-1", true},
		{"123456789012.ddb.eu-central-1.amazonaws.com", "dynamodb", "eu-central-1", true},
		{"bucket.s3.eu-central-1.amazonaws.com", "s3", "eu-central-1", true},
		{"sqs.s3.eu-central-1.amazonaws.com", "sqs", "eu-central-1", false}, // a bucket of that name
		{"sqs.eu-west-1.s3.eu-central-1.amazonaws.com", "sqs", "eu-west-1", false},
		{"a.b.s3.dualstack.eu-central-1.amazonaws.com", "s3", "eu-central-1", true},
		{"bucket.s3-eu-west-1.amazonaws.com", "s3", "eu-west-1", true},
		{"bucket.s3-eu-west-1.amazonaws.com", "s3", "eu-central-1", false},
		{"bucket.s3.amazonaws.com", "s3", "us-east-1", true},
		{"123456789012.s3-control.eu-central-1.amazonaws.com", "s3", "eu-central-1", true},
		{"bucket.vpce-1a.s3.eu-central-1.vpce.amazonaws.com", "s3", "eu-central-1", true},
		{"search-x.eu-central-1.es.amazonaws.com", "es", "eu-central-1", true},
		{"search-x.eu-central-1.es.amazonaws.com", "es", "us-east-1", false},
		{"abc.execute-api.eu-central-1.amazonaws.com", "execute-api", "eu-central-1", true},
		{"abc.lambda-url.eu-central-1.on.aws", "lambda", "eu-central-1", true},
		{"email.eu-central-1.amazonaws.com", "ses", "eu-central-1", true},
		{"sqs.cn-north-1.amazonaws.com.cn", "sqs", "cn-north-1", true},
		{"iam.amazonaws.com", "iam", "us-east-1", true},
		{"iam.amazonaws.com", "sts", "us-east-1", false},
		{"amazonaws.com.evil.test", "s3", "us-east-1", true}, // not AWS: the binding's targets are all that decides
		{"minio.test", "s3", "us-east-1", true},
	} {
		if got := fitsHost(c.host, c.service, c.region); got != c.fits {
			t.Errorf("%s for %s in %s: %v", c.host, c.service, c.region, got)
		}
	}
}

// S3 repeats a request whose signature it does not like, token included. The tool must not learn it.
func TestScrubsSession(t *testing.T) {
	c := &Credential{value: redact.New(testKeys.Token), echoes: []redact.Secret{redact.New(testKeys.Secret)}}
	var b bytes.Buffer
	if _, err := b.ReadFrom(c.ScrubBody(strings.NewReader("<CanonicalRequest>PUT\nx-amz-security-token:" + testKeys.Token + "\n</CanonicalRequest>" + testKeys.Secret))); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "SECRET") {
		t.Error(b.String())
	}
}
