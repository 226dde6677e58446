package redact

import (
	"bytes"
	"strings"
	"testing"
)

// TestTable: a column is masked for its head.
func TestTable(t *testing.T) {
	s := forFields(t, "customer_email")
	for _, c := range []struct{ contentType, in, want string }{
		{"text/csv", "id,DB_PASSWORD,z\n1,hunter2,a\n2,,b\n", "id,DB_PASSWORD,z\n1,[REDACTED:credential],a\n2,,b\n"},
		{"text/csv; charset=utf-8", "\ufeff\"a\"\",token\",\"api key\",customerEmail\r\n1,\"hunter2,\"\"hunter2\r\nhunter2\",hunter2\r\n", "\\ufeff\"a\"\",token\",\"api key\",customerEmail\r\n[REDACTED:credential],\"[REDACTED:credential]\",[REDACTED:field]\r\n"},
		{"text/csv", "\ufeff\"password\",a\n\"hunter2\nhunter2\",b", "\\ufeff\"password\",a\n\"[REDACTED:credential]\",b"},
		{"application/csv", "a;token\nx,y;hunter2,hunter2\n", "a;token\nx,y;[REDACTED:credential]\n"},
		{"text/tab-separated-values", "a\ttoken\nx,y\thunter2\n", "a\ttoken\nx,y\t[REDACTED:credential]\n"},
		{"text/csv", "a,token\rx,hunter2\ry,hunter2", "a,token\rx,[REDACTED:credential]\ry,[REDACTED:credential]"},
		{"text/csv", "a,token,b\nx,y,hunter2,z\nu,hunter2\nv\n", "a,token,b\nx,[REDACTED:credential],[REDACTED:credential],[REDACTED:credential]\nu,[REDACTED:credential]\nv\n"},
		{"text/csv", "name,value\nDB_PASSWORD,hunter2\nHOME,/root\n", "name,value\nDB_PASSWORD,[REDACTED:credential]\nHOME,/root\n"},
		{"text/csv", "a,b\ntoken,kept\nx,password=hunter2\n", "a,b\ntoken,kept\nx,password=[REDACTED:credential]\n"},
		{"text/csv; header=absent", "a,token\nx,kept\n", "a,token\nx,kept\n"},
		{"text/plain", "a,token\nx,kept\n", "a,token\nx,kept\n"},
		{"text/csv", "token\nhun\"ter2\n\"hunter2\" hunter2\n", "token\n[REDACTED:credential]\n\"[REDACTED:credential]\"\n"},
		{"text/csv", "a,token\nx,\"hunter2\nopen", "a,token\nx,\"[REDACTED:credential]\""},
		{"text/csv", "a,token\nx,[REDACTED:credential]hunter2\n", "a,token\nx,[REDACTED:credential]\n"},
	} {
		r := s.Body(c.contentType, []byte(c.in), true)
		if r.Text != c.want {
			t.Errorf("%q\n=> %q\nnot %q", c.in, r.Text, c.want)
			continue
		}
		if again := s.Body(c.contentType, []byte(r.Text), true); again.Text != r.Text {
			t.Errorf("not idempotent: %q\n%q", r.Text, again.Text)
		}
		for cut := range len(c.in) {
			var out bytes.Buffer
			if _, err := s.Copy(&out, &pieced{text: []byte(c.in), cut: cut}, c.contentType, ""); err != nil || out.String() != c.want {
				t.Fatalf("%q cut at %d: %v %q", c.in, cut, err, &out)
			}
		}
	}
}

// TestTableBounds: a row that is too long becomes its length and a hash, and a table whose head is too long is not read.
func TestTableBounds(t *testing.T) {
	s := &Scrubber{}
	long := strings.Repeat("hunter2\n", 8<<10)
	for in, want := range map[string]string{
		"a,token\nx,\"" + long + "\"\ny,hunter2\n":         "a,token\n[unparsed 65541 bytes hmac=",
		"\"" + long + "\",token\ny,hunter2\n":              "[unparsed 65555 bytes hmac=",
		"a,token\n" + strings.Repeat("x,hunter2\n", 1<<15): "a,token\nx,[REDACTED:credential]\nx,",
	} {
		r := s.Body("text/csv", []byte(in), true)
		if strings.Contains(r.Text, "hunter2") || !strings.HasPrefix(r.Text, want) {
			t.Errorf("%.40q: %.300q", in, r.Text)
		}
		var out bytes.Buffer
		if _, err := s.Copy(&out, strings.NewReader(in), "text/csv", ""); err != nil || strings.Contains(out.String(), "hunter2") {
			t.Errorf("%.40q: %v %.300q", in, err, &out)
		}
	}
}
