package awstest

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// The verifier agrees with what AWS publishes, and with nothing else.
func TestVectors(t *testing.T) {
	for _, v := range Vectors {
		t.Run(v.Name, func(t *testing.T) {
			at, _ := time.Parse(timeFormat, v.Date)
			request := func(signature string) *http.Request {
				r := &http.Request{Method: http.MethodGet, Host: v.Host, Header: http.Header{"X-Amz-Date": {v.Date}}}
				for name, value := range v.Header {
					r.Header.Set(name, value)
				}
				if v.Keys.Token != "" {
					r.Header.Set("X-Amz-Security-Token", v.Keys.Token)
				}
				r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+v.Keys.ID+"/"+v.Date[:8]+"/us-east-1/"+v.Service+
					"/aws4_request, SignedHeaders="+v.SignedHeaders+", Signature="+signature)
				return r
			}
			if _, err := Verify(request(v.Signature), v.Target, nil, v.Keys, at); err != nil {
				t.Error(err)
			}
			for what, err := range map[string]func() error{
				"another signature": func() error {
					_, err := Verify(request(strings.Repeat("0", 64)), v.Target, nil, v.Keys, at)
					return err
				},
				"another path": func() error { _, err := Verify(request(v.Signature), "/x"+v.Target, nil, v.Keys, at); return err },
				"a body":       func() error { _, err := Verify(request(v.Signature), v.Target, []byte("b"), v.Keys, at); return err },
				"too late": func() error {
					_, err := Verify(request(v.Signature), v.Target, nil, v.Keys, at.Add(6*time.Minute))
					return err
				},
				"an unsigned header": func() error {
					r := request(v.Signature)
					r.Header.Set("X-Amz-Acl", "public-read")
					_, err := Verify(r, v.Target, nil, v.Keys, at)
					return err
				},
			} {
				if err() == nil {
					t.Errorf("%s is taken", what)
				}
			}
		})
	}
}
