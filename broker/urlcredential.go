package broker

import (
	"net/url"
	"strings"
)

// amzQuery are the parameters of a presigned URL of AWS, of Signature Version 4 and 2. The latter's others mean nothing alone.
var amzQuery = []string{
	"x-amz-signature", "x-amz-credential", "x-amz-algorithm", "x-amz-date", "x-amz-expires", "x-amz-signedheaders", "x-amz-security-token",
	"awsaccesskeyid",
}

// holdsCredential reports whether a URL's query has one of these parameters, in any case or escaping: with a credential that a stranger
// gave the tool, its requests would go to the stranger's account. A query that cannot be read is as bad.
func holdsCredential(u *url.URL, names []string) bool {
	// Some servers part parameters at semicolons as well.
	for part := range strings.FieldsFuncSeq(u.RawQuery, func(r rune) bool { return r == '&' || r == ';' }) {
		name, _, _ := strings.Cut(part, "=")
		name, err := url.QueryUnescape(name)
		if err != nil {
			return true
		}
		for _, n := range names {
			if strings.EqualFold(strings.TrimSpace(name), n) {
				return true
			}
		}
	}
	return false
}
