package config

import (
	"os"
	"strings"
	"unicode/utf8"
)

// environment begins the name of a config that stands in an environment variable: env:NAME. A pod's variables cannot be changed
// after it was made, so nobody but whoever admits pods decides what is in it. A file of such a name is ./env:NAME.
const environment = "env:"

// bundle is a config whose manifests stand behind it, as further YAML documents of one text.
type bundle struct {
	config    document
	manifests []document
	together  bool // no manifest is looked for elsewhere
}

// document is one YAML document of a text.
type document struct {
	text string // preceded by as many line breaks as there are before it in the whole text, so that positions are those of the whole
	at   mark   // of its first line
}

// bundle reads the text that a config's name stands for, and cuts it into documents. ok is false after a mistake.
func (l *loader) bundle(name string) (b bundle, ok bool) {
	variable, together := strings.CutPrefix(name, environment)
	file := name
	var text []byte
	if together {
		file = variable
		text, ok = l.variable(name, variable)
	} else {
		text, ok = l.file(name)
	}
	if !ok {
		return bundle{}, false
	}
	whole, ok := l.text(file, text)
	if !ok {
		return bundle{}, false
	}
	docs := split(file, whole)
	if len(docs) == 0 {
		docs = []document{{text: whole, at: mark{file, 1, 1}}} // what is wrong with it is said where it is parsed
	}
	return bundle{docs[0], docs[1:], together || len(docs) > 1}, true
}

// variable reads a config from the environment. It counts in the revision by the name that it was asked for.
func (l *loader) variable(name, variable string) ([]byte, bool) {
	text, given := os.LookupEnv(variable)
	at := mark{name, 1, 1}
	switch {
	case variable == "":
		l.errorf(at, "found no name after env:, expected the environment variable that holds the config")
	case !given:
		l.errorf(at, "found no environment variable %s, expected one that holds the config and, behind it, the manifests", quote(variable))
	case strings.Trim(text, " \t\r\n") == "":
		l.errorf(at, "found the environment variable %s empty, expected the config in it and, behind it, the manifests", quote(variable))
	case len(text) > maxFileBytes:
		l.errorf(at, "found %d bytes in the environment variable %s, expected at most 1 MiB", len(text), quote(variable))
	default:
		l.read[name] = []byte(text)
		return l.read[name], true
	}
	return nil, false
}

// split cuts text at its document markers and leaves out documents that hold nothing but blanks and comments. A line that begins
// with --- and then ends or goes on with a blank is a marker wherever it stands: no scalar may hold one (YAML 1.2.2, 9.1.2 and
// 7.3, c-forbidden). The marker of a document that begins on the marker's own line stays with it.
func split(file, text string) []document {
	var docs []document
	line, first, hollow := 0, 0, true
	var b strings.Builder
	end := func() {
		if !hollow {
			docs = append(docs, document{b.String(), mark{file, first + 1, 1}})
		}
		b.Reset()
		b.WriteString(strings.Repeat("\n", line))
		first, hollow = line, true
	}
	for l := range strings.Lines(text) {
		if rest, marker := cutMarker(l); marker {
			end()
			if bare(rest) {
				l = l[len(strings.TrimRight(l, "\r\n")):]
			}
		}
		if hollow && strings.HasPrefix(l, "%") {
			return []document{{text, mark{file, 1, 1}}} // a directive, which is refused where the text is parsed
		}
		b.WriteString(l)
		hollow = hollow && bare(l)
		line++
	}
	end()
	return docs
}

// cutMarker reports whether a line begins with the marker of a document, and returns what follows it.
func cutMarker(line string) (rest string, marker bool) {
	rest, marker = strings.CutPrefix(line, "---")
	r, _ := utf8.DecodeRuneInString(rest)
	return rest, marker && (rest == "" || strings.ContainsRune(" \t\r\n", r))
}

// bare reports whether a line holds nothing but blanks and a comment.
func bare(line string) bool {
	line = strings.TrimLeft(line, " \t\r\n")
	return line == "" || line[0] == '#'
}
