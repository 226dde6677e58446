package redact

import "strings"

// joinLines returns the base64 that goes on over lines, as MIME (RFC 2045, section 6.8) and PEM write it, without their ends: the word from i to
// end is its first line. Every line but the last has whole groups of four. stop is end where no line follows.
func joinLines(s string, i, end int) (joined string, stop int) {
	if end == len(s) || s[end] != '\n' && s[end] != '\r' || end-i < minRun || (end-i)%4 != 0 {
		return "", end
	}
	var b strings.Builder
	for stop = end; ; {
		b.WriteString(s[i:stop])
		next := stop
		for next < len(s) && strings.IndexByte(" \t\r\n", s[next]) >= 0 {
			next++
		}
		last := next
		for last < len(s) && base64Table[s[last]] {
			last++
		}
		if last == next || next == stop || (stop-i)%4 != 0 || strings.Count(s[stop:next], "\n") > 1 {
			break
		}
		i, stop = next, last
		if last < len(s) && s[last] == '=' {
			b.WriteString(s[i:stop])
			for stop < len(s) && s[stop] == '=' {
				stop++
			}
			break
		}
	}
	return b.String(), stop
}
