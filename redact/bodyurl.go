package redact

import (
	"net/url"
	"strings"
)

// bearerParams are parameters of URLs, normalised, that may let their bearer in, whatever their values look like. The names of secrets are
// such parameters as well.
var bearerParams = map[string]bool{
	"xamzsignature": true, "xamzsecuritytoken": true, "xamzcredential": true, "xgoogsignature": true, "xgoogcredential": true,
	"xosssignature": true, "xosssecuritytoken": true, "signature": true, "sig": true, "code": true, "state": true, "key": true, "nonce": true,
	"samlresponse": true, "samlrequest": true, "relaystate": true, "ticket": true, "auth": true, "sid": true, "sessionid": true, "jwt": true,
	"codeverifier": true, "devicecode": true, "usercode": true, "oauthverifier": true, "hmac": true,
}

// bodyURL masks a payload's string that is one URL: its user info, and by their names parameters of its query and its fragment. What
// else is secret in it is found by its form. Log lines, which nobody reads for their parameters, use URL.
func (p *pass) bodyURL(u string) string {
	var b strings.Builder
	for i := strings.IndexAny(u, "?#"); i >= 0; i = strings.IndexAny(u, "?#&;") {
		b.WriteString(u[:i+1])
		u = u[i+1:]
		end := strings.IndexAny(u, "?#&;")
		if end < 0 {
			end = len(u)
		}
		name, value, ok := strings.Cut(u[:end], "=")
		if n := placeholderLen(value); !ok || value == "" || n > 0 && n == len(value) {
			continue
		}
		if mask := p.paramMask(name); mask != "" {
			b.WriteString(name + "=" + p.count(mask))
			u = u[end:]
		}
	}
	b.WriteString(u)
	return b.String()
}

// paramMask returns the placeholder for the value of a URL's parameter, or "".
func (p *pass) paramMask(name string) string {
	plain, err := url.QueryUnescape(name)
	if err != nil || len(plain) > maxName {
		return maskURL
	}
	if mask := p.formMask(plain); mask != "" {
		return mask
	}
	if bearerParams[normalise(plain)] {
		return maskURL
	}
	return ""
}
