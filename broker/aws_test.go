package broker

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/broker/awstest"
)

const (
	testRole   = "arn:aws:iam::123456789012:role/agents/orders"
	testPolicy = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:GetObject","Resource":"*"}]}`
	placeholds = "AWS4-HMAC-SHA256 Credential=AKIAPLACEHOLDER/20200101/eu-central-1/s3/aws4_request, SignedHeaders=host;range;x-amz-date, Signature=00"
)

var testKeys = awstest.Keys{ID: "ASIAEXAMPLE", Secret: "aws/secret+SECRET", Token: "aws/token+SECRET=="}

// awsBinding asks an STS for a session with the workload's token.
func awsBinding(t testing.TB, stsURL string) Binding {
	return Binding{
		Name: "objects", Tools: []string{"orders_tool"}, Targets: []string{"api.orders.test:443"},
		AWS: &AWS{
			RoleARN: testRole, STSURL: stsURL, SubjectTokenFile: writeFile(t, actorSecret+"\n"), Policy: testPolicy,
			Services: []string{"s3", "sqs"}, Regions: []string{"eu-central-1"},
		},
	}
}

// sdkRequest is what the tool's SDK sends, as the proxy hands it on.
func sdkRequest(target string) *http.Request {
	u, err := url.Parse(target)
	if err != nil {
		panic(err)
	}
	return &http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Header: http.Header{
		"Authorization": {placeholds}, "X-Amz-Date": {"20200101T000000Z"}, "X-Amz-Security-Token": {"placeholder"}, "Range": {"bytes=0-9"},
	}}
}

func TestAWSIssuer(t *testing.T) {
	testIssuer(t, func(t *testing.T) issuerUnderTest {
		var mu sync.Mutex
		mode := ""
		set := func(m string) func() { return func() { mu.Lock(); mode = m; mu.Unlock() } }
		s := newTokenServer(t, func(w http.ResponseWriter, r *http.Request, _ int) {
			mu.Lock()
			m := mode
			mu.Unlock()
			switch m {
			case "spoil":
				awstest.Refuse(w, 400, "ExpiredTokenException", r.PostFormValue("WebIdentityToken"))
			case "hang":
				<-r.Context().Done()
			default:
				awstest.Answer(w, testKeys, time.Now().Add(15*time.Minute), testRole, r.PostFormValue("RoleSessionName"))
			}
		})
		return issuerUnderTest{
			issuer: mustExchanger(t, awsBinding(t, s.URL)), subject: alice(), on: sdkRequest("https://bucket.s3.eu-central-1.amazonaws.com/key"),
			secrets: []string{testKeys.Token, testKeys.Secret, subjectSecret, actorSecret}, spoil: set("spoil"), hang: set("hang"),
		}
	})
}

func TestAWSAsks(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*AWS)
		want   map[string]string
	}{
		"workload": {func(*AWS) {}, map[string]string{"WebIdentityToken": actorSecret, "Policy": testPolicy}},
		"caller, no policy": {func(c *AWS) { c.SubjectTokenFile, c.Policy = "", "" },
			map[string]string{"WebIdentityToken": subjectSecret}},
	} {
		t.Run(name, func(t *testing.T) {
			sts := new(awstest.STS)
			s := httptest.NewServer(sts)
			t.Cleanup(s.Close)
			bd := awsBinding(t, s.URL)
			c.change(bd.AWS)
			b, found := mustNew(t, bd, Options{})
			for range 2 { // the second from the cache
				ref := mustGet(t, b, found, alice()).Ref()
				if ref.Kind != "aws" || ref.Audience != testRole || time.Until(ref.Expires) > 15*time.Minute {
					t.Errorf("ref %+v", ref)
				}
			}
			want := url.Values{
				"Action": {"AssumeRoleWithWebIdentity"}, "Version": {"2011-06-15"}, "RoleArn": {testRole},
				"RoleSessionName": {"task-1@acme"}, "DurationSeconds": {"900"},
			}
			for k, v := range c.want {
				want.Set(k, v)
			}
			if asked := sts.Asked(); len(asked) != 1 || !reflect.DeepEqual(asked[0], want) {
				t.Errorf("asked %v, want %v", asked, want)
			}
			other := alice()
			other.Task = "task-2"
			mustGet(t, b, found, other)
			if asked := sts.Asked(); len(asked) != 2 || asked[1].Get("RoleSessionName") != "task-2@acme" {
				t.Errorf("another task: %v", asked)
			}
		})
	}
}

func TestAWSCallerWithoutToken(t *testing.T) {
	bd := awsBinding(t, "http://127.0.0.1:1/")
	bd.AWS.SubjectTokenFile = ""
	s := alice()
	s.Token = alice().Token
	is := mustExchanger(t, bd)
	_, err := is.Key(Subject{Subject: "a", Tool: "orders_tool"})
	wantReason(t, err, NoSubjectToken)
	_, err = is.Issue(t.Context(), Subject{Subject: "", Tool: "orders_tool", Token: s.Token})
	wantReason(t, err, NoIdentity)
}

// What STS answers is one session of the role and by the name that were asked for, or nothing.
func TestAWSAnswer(t *testing.T) {
	good := func() string {
		w := httptest.NewRecorder()
		awstest.Answer(w, testKeys, time.Now().Add(15*time.Minute), testRole, "task-1@acme")
		return w.Body.String()
	}()
	swap := func(from, to string) string {
		if !strings.Contains(good, from) {
			t.Fatalf("the answer has no %q", from)
		}
		return strings.ReplaceAll(good, from, to)
	}
	again := regexp.MustCompile(`(?s)<Credentials>.*</Credentials>`).FindString(good)
	expiration := regexp.MustCompile(`<Expiration>.*</Expiration>`).FindString(good)
	id := "<AccessKeyId>" + testKeys.ID + "</AccessKeyId>"
	for name, c := range map[string]struct {
		body string
		want Reason
	}{
		"good":                          {good, ""},
		"no user":                       {regexp.MustCompile(`(?s)<AssumedRoleUser>.*</AssumedRoleUser>`).ReplaceAllString(good, ""), ""},
		"longer than asked":             {swap(expiration, "<Expiration>2100-01-01T00:00:00Z</Expiration>"), ""},
		"JSON":                          {`{"AssumeRoleWithWebIdentityResponse":{}}`, BadAnswer},
		"nothing":                       {"", BadAnswer},
		"two answers":                   {good + good, BadAnswer},
		"something after":               {good + "x", BadAnswer},
		"broken off":                    {good[:len(good)-20], BadAnswer},
		"a document type":               {`<!DOCTYPE x [<!ENTITY a "b">]>` + good, BadAnswer},
		"another name space":            {swap("https://sts.amazonaws.com/doc/2011-06-15/", "https://evil.test/"), BadAnswer},
		"another action":                {swap("AssumeRoleWithWebIdentityResponse", "AssumeRoleResponse"), BadAnswer},
		"two sessions":                  {swap(again, again+again), BadAnswer},
		"two key ids":                   {swap(id, id+id), BadAnswer},
		"no key id":                     {swap(id, ""), BadAnswer},
		"an empty key id":               {swap(id, "<AccessKeyId/>"), BadAnswer},
		"a key id that moves the scope": {swap(id, "<AccessKeyId>A/20300101/us-east-1/iam</AccessKeyId>"), BadAnswer},
		"a token of two lines":          {swap(testKeys.Token, "a&#13;&#10;X-Evil: b"), BadAnswer},
		"no token":                      {swap("<SessionToken>"+testKeys.Token+"</SessionToken>", ""), BadAnswer},
		"another role":                  {swap("assumed-role/orders/", "assumed-role/admin/"), WrongSubject},
		"another account":               {swap("::123456789012:assumed", "::999999999999:assumed"), WrongSubject},
		"another session":               {swap("/task-1@acme</Arn>", "/task-2@acme</Arn>"), WrongSubject},
		"over":                          {swap(expiration, "<Expiration>2001-01-01T00:00:00Z</Expiration>"), Expired},
		"no end":                        {swap(expiration, ""), BadAnswer},
		"a strange end":                 {swap(expiration, "<Expiration>soon</Expiration>"), BadExpiry},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTokenServer(t, func(w http.ResponseWriter, _ *http.Request, _ int) { write(w, 200, c.body) })
			cred, err := mustExchanger(t, awsBinding(t, s.URL)).Issue(t.Context(), alice())
			if c.want != "" {
				wantReason(t, err, c.want)
			} else if err != nil || time.Until(cred.Ref().Expires) > awsSession {
				t.Errorf("%v, %v", cred, err)
			}
		})
	}
}

func TestAWSRefusals(t *testing.T) {
	for code, c := range map[string]struct {
		status int
		want   Reason
		times  int
	}{
		"AccessDenied":            {403, UnauthorizedClient, 1},
		"InvalidIdentityToken":    {400, InvalidGrant, 1},
		"PackedPolicyTooLarge":    {400, InvalidScope, 1},
		"IDPCommunicationError":   {400, ServerError, 2},
		"Throttling":              {400, RateLimited, 1},
		"InternalFailure":         {500, ServerError, 2},
		"SomethingNew" + "SECRET": {400, Refused, 1},
	} {
		s := newTokenServer(t, func(w http.ResponseWriter, r *http.Request, _ int) {
			awstest.Refuse(w, c.status, code, "no: "+r.PostFormValue("WebIdentityToken"))
		})
		_, err := mustExchanger(t, awsBinding(t, s.URL)).Issue(t.Context(), alice())
		noLeak(t, wantReason(t, err, c.want), "SECRET")
		if n := len(s.seen()); n != c.times {
			t.Errorf("%s: asked %d times, want %d", code, n, c.times)
		}
	}
}

func TestSessionName(t *testing.T) {
	allowed := regexp.MustCompile(`^[\w+=,.@-]{2,64}$`)
	names := map[string][2]string{}
	for _, parts := range [][2]string{
		{"acme", "task-1"}, {"acme.com", "t"}, {"acme", "com"}, {"", "task-1"}, {"task-1", ""}, {"", "t"}, {"acme", "a@acme"}, {"acme@acme", "a"}, {"acme", "a/b"},
		{"acme", "a b"}, {"acme", "a-b"}, {"ac/me", "x"}, {"ac-me", "x"}, {"acme", "a+0123456789ab"}, {"acme", strings.Repeat("a", 100)},
		{"acme", strings.Repeat("a", 101)}, {strings.Repeat("b", 100), strings.Repeat("a", 100)}, {"äöü", "日本"}, {"äöu", "日本"}, {"acme", "\r\n"},
	} {
		s := alice()
		s.Tenant, s.Task, s.Run = parts[0], parts[1], ""
		name := sessionName(&s)
		if !allowed.MatchString(name) {
			t.Errorf("%q gives %q, which AWS does not take", parts, name)
		}
		if other, twice := names[name]; twice {
			t.Errorf("%q and %q give %q", parts, other, name)
		}
		names[name] = parts
	}
}

func TestAWSRefusedConfigurations(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*AWS)
		want   string
	}{
		"a user's ARN":      {func(c *AWS) { c.RoleARN = "arn:aws:iam::123456789012:user/orders" }, "roleARN"},
		"no ARN":            {func(c *AWS) { c.RoleARN = "" }, "roleARN"},
		"in the clear":      {func(c *AWS) { c.STSURL = "http://sts.test/" }, "https"},
		"no region":         {func(c *AWS) { c.Regions = nil }, "regions"},
		"no service":        {func(c *AWS) { c.Services = nil }, "services"},
		"every service":     {func(c *AWS) { c.Services = []string{"*"} }, "not a name"},
		"s3express":         {func(c *AWS) { c.Services = []string{"s3express"} }, "s3express"},
		"no STS is known":   {func(c *AWS) { c.STSURL, c.Regions = "", []string{"garage"} }, "set stsURL"},
		"policy of words":   {func(c *AWS) { c.Policy = "allow all" }, "policy"},
		"policy said twice": {func(c *AWS) { c.Policy = `{"Statement":[],"Statement":[]}` }, "policy"},
		"policy of nothing": {func(c *AWS) { c.Policy = `{}` }, "policy"},
		"policy too long":   {func(c *AWS) { c.Policy = testPolicy + strings.Repeat(" ", 2048) }, "2048"},
		"no token":          {func(c *AWS) { c.SubjectTokenFile = "/nowhere/token" }, "subjectTokenFile /nowhere/token"},
	} {
		bd := awsBinding(t, "https://sts.test/")
		c.change(bd.AWS)
		if _, err := New([]Binding{bd}, Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for region, want := range map[string]string{
		"eu-central-1": "https://sts.eu-central-1.amazonaws.com/", "us-gov-west-1": "https://sts.us-gov-west-1.amazonaws.com/",
		"cn-north-1": "https://sts.cn-north-1.amazonaws.com.cn/",
	} {
		if got, err := stsURL(region); err != nil || got != want {
			t.Errorf("%s: %q, %v", region, got, err)
		}
	}
}
