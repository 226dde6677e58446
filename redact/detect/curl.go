package detect

import "bytes"

// curl finds the user and password that a command line of curl gives with -u or --user.
func (c *scanner) curl(at int) {
	end := min(len(c.text), at+window)
	for i := max(at, c.curls); i < end; i++ {
		if c.text[i] != '-' || i == 0 || !in(c.text[i-1], " \t\n\r") {
			continue
		}
		for _, option := range [...]string{"-u", "--user"} {
			if rest := c.text[i:]; bytes.HasPrefix(rest, []byte(option)) && len(rest) > len(option) && in(rest[len(option)], " \t=") {
				c.login(i + len(option))
			}
		}
	}
	c.curls = end
}

// login finds what stands behind the option: user:password, in quotes or each in quotes. What stands for a password is none.
func (c *scanner) login(at int) {
	for at < len(c.text) && in(c.text[at], " \t=") {
		at++
	}
	if at == len(c.text) {
		return
	}
	end := at
	if quote := c.text[at]; in(quote, "\"'") {
		at++
		for end = at; end < len(c.text) && c.text[end] != quote && c.text[end] != '\n' && end-at < window; end++ {
		}
		if end+2 < len(c.text) && c.text[end+1] == ':' {
			end = run(c.text, end, &loginByte)
		}
	} else {
		end = run(c.text, at, &loginByte)
	}
	if end == len(c.text) {
		c.touch(at)
	}
	value := bytes.Trim(c.text[at:end], "\"'")
	user, password, ok := bytes.Cut(value, []byte(":"))
	password = bytes.Trim(password, "\"'")
	if len(password) == 0 {
		ok = len(user) >= 8 && varied(user) // a key as the user's name
		password = user
	}
	if !ok || len(user)+len(password) < 3 || template(user) || example(password) || masked(value) || bytes.ContainsAny(value, "{}<>$()") && varied(value) && template(password) {
		return
	}
	c.hide(at, end, Credential)
}

var loginByte = classOf(func(b byte) bool { return b > ' ' && b != 0x7f && !in(b, "`<>|;\\") })

// example reports whether a password is one of documentation, or a name for one.
func example(password []byte) bool {
	if template(password) || sameByte(password) && in(password[0], "xX*") {
		return true
	}
	if last := password[len(password)-1]; password[0] == '[' && last == ']' && placeholderLen(password) == 0 || password[0] == '{' && last == '}' {
		return true
	}
	if password[0] == '$' && len(bytes.Trim(password[1:], "0123456789{}")) < len(password)-1 {
		return true // $1
	}
	switch string(bytes.ToLower(password)) {
	case "changeme", "changeit", "pass", "password", "pwd", "test", "token":
		return true
	}
	return false
}
