package detect

var (
	localByte  = classOf(func(b byte) bool { return isWord(b) || b >= 0x80 || in(b, ".+-%") })
	userByte   = classOf(func(b byte) bool { return b > ' ' && b != 0x7f && !in(b, "/?#=&\"'`<>\\") })
	domainByte = classOf(func(b byte) bool { return isAlnum(b) || b >= 0x80 || b == '-' || b == '.' })
)

// The bounds of RFC 5321, section 4.5.3.1.
const (
	maxLocal  = 64
	maxDomain = 255
)

// mail finds the address whose "@" stands here. It is one that is written in messages, not all that RFC 5322 knows.
func (c *scanner) mail(at int) {
	if user := back(c.text, at, 2*maxLocal, &userByte); user > 1 && c.text[user-1] == '/' && c.text[user-2] == '/' {
		return // a URL's host stands behind
	}
	start := back(c.text, at, maxLocal, &localByte)
	for start < at && in(c.text[start], ".-%") {
		start++
	}
	end := at + 1 + run(c.text[at+1:min(len(c.text), at+1+maxDomain)], 0, &domainByte)
	for end > at && in(c.text[end-1], ".-") {
		end--
	}
	if start == at || end <= at+1 || !topLevel(c.text[at+1:end]) {
		return
	}
	c.found(start, end, Email)
}

// topLevel reports whether a domain has two labels or more, and the last is letters, or of xn--.
func topLevel(domain []byte) bool {
	dot := len(domain) - 1
	for dot >= 0 && domain[dot] != '.' {
		dot--
	}
	if dot < 1 || domain[dot-1] == '.' || len(domain)-dot-1 < 2 {
		return false
	}
	last := domain[dot+1:]
	if foldPrefix(last, "xn--") {
		return true
	}
	for _, b := range last {
		if !isAlpha(b) && b < 0x80 {
			return false
		}
	}
	return true
}
