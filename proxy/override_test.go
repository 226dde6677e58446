package proxy

import (
	"net/http"
	"strings"
	"testing"
)

// Many servers take a header's word for the method. What a rule does not allow must not be had by such a word, and TRACE by none.
func TestMethodOverrides(t *testing.T) {
	for _, r := range intercepted {
		t.Run(r.name, func(t *testing.T) {
			l := newLab(t)
			got := make(chan string, 16)
			l.mux.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) {
				got <- r.Method + " " + r.Header.Get("X-Http-Method-Override")
			})
			client := l.client(l.token, r.h2)
			for _, c := range []struct{ host, header, value, code string }{
				{"ruled", "X-HTTP-Method-Override", "GET", ""},
				{"ruled", "X-HTTP-Method-Override", "get", ""},
				{"ruled", "X-HTTP-Method-Override", "DELETE", "method_not_allowed"},
				{"ruled", "X-HTTP-Method-Override", " delete ", "method_not_allowed"},
				{"ruled", "X-HTTP-Method-Override", "GET, DELETE", "method_not_allowed"},
				{"ruled", "X-HTTP-Method", "PUT", "method_not_allowed"},
				{"ruled", "X-Method-Override", "PATCH", "method_not_allowed"},
				{"bound", "X-HTTP-Method-Override", "DELETE", ""}, // no rule names methods
				{"bound", "X-Method-Override", "trace", "method_not_allowed"},
			} {
				req, err := http.NewRequest("POST", l.url("https", c.host+".ok.test", "/ok/1"), nil)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set(c.header, c.value)
				res, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				_ = res.Body.Close()
				if code := res.Header.Get("Toolgate-Denial"); code != c.code {
					t.Errorf("%+v: code %q", c, code)
				}
				if c.code == "" {
					if sent := <-got; sent != "POST "+strings.TrimSpace(c.value) {
						t.Errorf("%+v: the upstream got %q", c, sent)
					}
				}
			}
		})
	}
}
