package awstest

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// STS answers AssumeRoleWithWebIdentity, and knows the keys that it gave out. The zero value takes any token.
type STS struct {
	Life func() time.Duration // of a session, whatever was asked; nil: as asked

	mu    sync.Mutex
	keys  map[string]Keys
	asked []url.Values
}

// ServeHTTP gives a new session each time, to whoever does not prefer JSON, of which AWS makes another shape.
func (s *STS) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil || r.Header.Get("Authorization") != "" || r.Header.Get("Accept") != "text/xml" || r.PostForm.Get("Action") != "AssumeRoleWithWebIdentity" {
		Refuse(w, http.StatusBadRequest, "ValidationError", "not a request that this STS takes")
		return
	}
	k := Keys{"ASIA" + rand.Text()[:16], rand.Text() + "+/SECRET", "token/" + rand.Text() + "+SECRET=="}
	s.mu.Lock()
	if s.keys == nil {
		s.keys = make(map[string]Keys)
	}
	s.keys[k.ID] = k
	s.asked = append(s.asked, r.PostForm)
	s.mu.Unlock()
	life := time.Second
	if n, err := time.ParseDuration(r.PostForm.Get("DurationSeconds") + "s"); err == nil {
		life = n
	}
	if s.Life != nil {
		life = s.Life()
	}
	Answer(w, k, time.Now().Add(life), r.PostForm.Get("RoleArn"), r.PostForm.Get("RoleSessionName"))
}

// Keys returns those with this access key id, which are none if this STS did not give them out.
func (s *STS) Keys(id string) Keys {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys[id]
}

// Asked returns the forms so far.
func (s *STS) Asked() []url.Values {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]url.Values(nil), s.asked...)
}

// Answer writes a session as AWS does.
func Answer(w http.ResponseWriter, k Keys, expires time.Time, roleARN, session string) {
	w.Header().Set("Content-Type", "text/xml")
	account, path, _ := strings.Cut(roleARN, ":role/")
	name := path[strings.LastIndexByte(path, '/')+1:] // a role's path is left out
	arn := strings.Replace(account, ":iam:", ":sts:", 1) + ":assumed-role/" + name + "/" + session
	fmt.Fprintf(w, `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
  <AssumeRoleWithWebIdentityResult>
    <Audience>sts.amazonaws.com</Audience>
    <AssumedRoleUser>
      <AssumedRoleId>AROA3XFRBF535EXAMPLE:%s</AssumedRoleId>
      <Arn>%s</Arn>
    </AssumedRoleUser>
    <Provider>arn:aws:iam::123456789012:oidc-provider/idp.example</Provider>
    <Credentials>
      <AccessKeyId>%s</AccessKeyId>
      <SecretAccessKey>%s</SecretAccessKey>
      <SessionToken>%s</SessionToken>
      <Expiration>%s</Expiration>
    </Credentials>
    <SubjectFromWebIdentityToken>user</SubjectFromWebIdentityToken>
  </AssumeRoleWithWebIdentityResult>
  <ResponseMetadata>
    <RequestId>c6104cbe-af31-11e0-8154-cbc7ccf896c7</RequestId>
  </ResponseMetadata>
</AssumeRoleWithWebIdentityResponse>
`, session, arn, k.ID, k.Secret, k.Token, expires.UTC().Format(time.RFC3339))
}

// Refuse writes an error as AWS does.
func Refuse(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "text/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, `<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
  <Error>
    <Type>Sender</Type>
    <Code>%s</Code>
    <Message>%s</Message>
  </Error>
  <RequestId>c6104cbe-af31-11e0-8154-cbc7ccf896c7</RequestId>
</ErrorResponse>
`, code, message)
}
