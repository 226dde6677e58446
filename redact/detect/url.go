package detect

import "bytes"

// maxURL is how much of a URL's authority is looked at.
const maxURL = 2 << 10

// url finds the user info of the URL whose "://" stands here (RFC 3986, section 3.2). A user without password is masked only
// where it may be a token; "git@" is none.
func (c *scanner) url(at int) {
	at += len("://")
	end := at
	for last := min(len(c.text), at+maxURL); end < last && c.text[end] > ' ' && !in(c.text[end], "/?#\"'`<>\\"); {
		end++
	}
	if end == len(c.text) {
		c.touch(at)
	}
	i := bytes.LastIndexByte(c.text[at:end], '@')
	if i < 1 {
		return
	}
	info := c.text[at : at+i]
	colon := bytes.IndexByte(info, ':')
	if colon < 0 && (len(info) < 12 || !varied(info)) || colon == len(info)-1 && colon < 8 {
		return
	}
	c.hide(at, at+i, Userinfo)
}

// signed are parameters of URLs and forms that let their bearer in. What weak ones hold is secret only if it looks so.
var signed = map[string]string{
	"xamzsignature": SignedURL, "xamzsecuritytoken": SignedURL, "xamzcredential": SignedURL, "xgoogsignature": SignedURL,
	"xgoogcredential": SignedURL, "xosssignature": SignedURL, "xosssecuritytoken": SignedURL, "signature": SignedURL, "sig": SignedURL,
	"awsaccesskeyid": SignedURL, "googleaccessid": SignedURL, "ossaccesskeyid": SignedURL, "keypairid": SignedURL, "policy": weak,
	"samlresponse": Credential, "samlrequest": Credential, "ticket": weak, "code": weak, "state": weak, "key": weak, "hmac": weak,
	"nonce": weak, "auth": weak, "sid": weak, "session": weak, "sessionid": weak, "jwt": weak, "otp": Credential, "hash": weak,
	"invite": weak, "invitation": weak, "codeverifier": Credential, "devicecode": Credential, "requesttoken": Credential,
	"oauthsignature": SignedURL, "oauthtoken": Credential, "oauthverifier": Credential, "xtoken": Credential,
}

const weak = "weak"

// param finds the value of the parameter whose "=" stands here. Its name is at the beginning of the text or behind "?", "&", "#" or
// ";".
func (c *scanner) param(at int) {
	start := back(c.text, at, maxName, &paramByte)
	if start == at || start > 0 && !in(c.text[start-1], "?&#;") {
		return
	}
	class := c.paramClass(c.text[start:at])
	if class == "" {
		return
	}
	end := run(c.text, at+1, &valueByte)
	value := c.text[at+1 : end]
	if end == len(c.text) {
		c.touch(at + 1)
	}
	if class == weak {
		if len(value) < 8 || !varied(value) && len(value) < 20 {
			return
		}
		class = SignedURL
	}
	if identifier(value) && bytes.IndexByte(value, '_') >= 0 || template(value) {
		return
	}
	if start == 0 && (class == SignedURL || len(value) < 6) && !bytes.ContainsAny(c.text, "&") {
		return // key=value as such is a pair, and is judged as one
	}
	c.hide(at+1, end, class)
}

func (c *scanner) paramClass(name []byte) string {
	var buf [64]byte
	n := normalise(buf[:0], name)
	if class := signed[string(n)]; class != "" {
		return class
	}
	if secretName(n) {
		return Credential
	}
	return ""
}

var (
	paramByte = classOf(func(b byte) bool { return isWord(b) || in(b, "-.%[]$") })
	valueByte = classOf(func(b byte) bool { return b > ' ' && b != 0x7f && !in(b, "&#\"'`<>;\\") })
)
