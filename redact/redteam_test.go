package redact

import (
	"encoding/base64"
	"strings"
	"testing"
	"unicode/utf16"
)

func utf16le(s string) string {
	out := "\xff\xfe"
	for _, u := range utf16.Encode([]rune(s)) {
		out += string([]byte{byte(u), byte(u >> 8)})
	}
	return out
}

// TestRedTeam are ways to get a secret past the engine that a person who looks for one would not miss. All hold the secret zoeQ7-k2mB9x.
func TestRedTeam(t *testing.T) {
	const secret = "zoeQ7-k2mB9x"
	pair := base64.StdEncoding.EncodeToString([]byte("user:" + secret))
	for name, c := range map[string][2]string{
		"spaces around":            {"text/plain", "password   =   zoeQ7-k2mB9x"},
		"YAML":                     {"application/yaml", "db:\n  password: zoeQ7-k2mB9x\n"},
		"YAML, quoted name":        {"application/yaml", "'db-password': 'zoeQ7-k2mB9x'\n"},
		"YAML, value below":        {"application/yaml", "password: >-\n  zoeQ7-k2mB9x\n"},
		"XML element":              {"application/xml", "<password>zoeQ7-k2mB9x</password>"},
		"XML attribute":            {"application/xml", `<db user="a" password="zoeQ7-k2mB9x"/>`},
		"XML, name and value":      {"application/xml", `<add key="Password" value="zoeQ7-k2mB9x" />`},
		"INI":                      {"text/plain", "[db]\npassword = zoeQ7-k2mB9x\n"},
		"shell export":             {"text/plain", "export DB_PASSWORD='zoeQ7-k2mB9x'"},
		"PowerShell":               {"text/plain", `$env:DB_PASSWORD = "zoeQ7-k2mB9x"`},
		"Dockerfile":               {"text/plain", "ENV API_TOKEN zoeQ7-k2mB9x\n"},
		"command's option":         {"text/plain", "mysql --password zoeQ7-k2mB9x -h db"},
		"curl":                     {"text/plain", "curl -u anna:zoeQ7-k2mB9x https://h.example"},
		"SQL":                      {"text/plain", "CREATE USER anna IDENTIFIED BY 'zoeQ7-k2mB9x';"},
		"SQL, PostgreSQL":          {"text/plain", "ALTER ROLE anna WITH PASSWORD 'zoeQ7-k2mB9x'"},
		"JDBC":                     {"text/plain", "jdbc:postgresql://db/x?user=anna&password=zoeQ7-k2mB9x"},
		"JDBC of Oracle":           {"text/plain", "jdbc:oracle:thin:anna/zoeQ7-k2mB9x@db:1521/x"},
		"MongoDB":                  {"text/plain", "mongodb+srv://anna:zoeQ7-k2mB9x@c.example/x"},
		"Redis":                    {"text/plain", "redis://:zoeQ7-k2mB9x@cache.example:6379/0"},
		"AMQP":                     {"text/plain", "amqps://anna:zoeQ7-k2mB9x@mq.example/v"},
		"Azure AccountKey":         {"text/plain", "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=zoeQ7-k2mB9x==;EndpointSuffix=core.example"},
		"Azure SharedAccessKey":    {"text/plain", "Endpoint=sb://a.example/;SharedAccessKeyName=n;SharedAccessKey=zoeQ7-k2mB9x="},
		"ODBC":                     {"text/plain", "Driver={x};Server=db;Uid=anna;Pwd=zoeQ7-k2mB9x;"},
		"HTTP in a body":           {"text/plain", "GET / HTTP/1.1\r\nX-Api-Key: zoeQ7-k2mB9x\r\n\r\n"},
		"HTTP in a body, cookie":   {"text/plain", "GET / HTTP/1.1\r\nCookie: sid=zoeQ7-k2mB9x\r\n\r\n"},
		"git remote":               {"text/plain", "origin\thttps://anna:zoeQ7-k2mB9x@git.example/r.git (push)"},
		"Docker":                   {jsonType, `{"auths":{"r.example":{"auth":"` + pair + `"}}}`},
		"kubeconfig":               {"application/yaml", "users:\n- name: a\n  user:\n    token: zoeQ7-k2mB9x\n"},
		"Kubernetes secret":        {"application/yaml", "kind: Secret\ndata:\n  password: " + pair + "\n"},
		"netrc":                    {"text/plain", "machine h.example login anna password zoeQ7-k2mB9x\n"},
		"npmrc":                    {"text/plain", "//r.example/:_authToken=zoeQ7-k2mB9x\n"},
		"AWS credentials":          {"text/plain", "[default]\naws_secret_access_key = zoeQ7-k2mB9x\n"},
		"service account":          {jsonType, `{"type":"service_account","private_key":"-----BEGIN PRIVATE KEY-----\nzoeQ7-k2mB9x\n-----END PRIVATE KEY-----\n"}`},
		"pgpass":                   {"text/plain", "postgres://db:5432?password=zoeQ7-k2mB9x"},
		"BOM":                      {"text/plain", "\ufeffpassword=zoeQ7-k2mB9x"},
		"BOM before JSON":          {jsonType, "\ufeff" + `{"password":"zoeQ7-k2mB9x"}`},
		"UTF-16":                   {"text/plain", utf16le("password=zoeQ7-k2mB9x")},
		"full-width name":          {jsonType, `{"ｐassword":"zoeQ7-k2mB9x"}`},
		"full-width name, in text": {"text/plain", `{"ｐassword": "zoeQ7-k2mB9x", `},
		"array of a secret's name": {jsonType, `{"passwords":["zoeQ7-k2mB9x"]}`},
		"Python":                   {"text/plain", "client = Client(api_key='zoeQ7-k2mB9x')"},
		"Terraform":                {"text/plain", "password = \"zoeQ7-k2mB9x\"\n"},
		"WebSocket text":           {"text/plain", `{"type":"auth","access_token":"zoeQ7-k2mB9x"}`},
		"zero width in the name":   {jsonType, "{\"pass\u200bword\":\"zoeQ7-k2mB9x\"}"},
	} {
		t.Run(name, func(t *testing.T) {
			out := new(Scrubber).Body(c[0], []byte(c[1]), true).Text
			if plain := strings.ReplaceAll(out, `\x00`, ""); strings.Contains(plain, secret) || strings.Contains(plain, pair) {
				t.Errorf("%q\n=> %q", c[1], out)
			}
		})
	}
}
