package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

type nodeKind uint8

const (
	invalidNode nodeKind = iota // already reported
	nullNode
	boolNode
	intNode
	floatNode
	dateNode // a plain scalar that other YAML readers take for a date
	stringNode
	listNode
	mappingNode
)

// node is one YAML value: what is left of the parser's tree once all that a config may not hold was refused.
type node struct {
	kind    nodeKind
	text    string // of a scalar
	at      mark
	entries []entry // of a mapping, keys unique
	items   []*node // of a list
}

type entry struct {
	key   string
	at    mark
	value *node
}

var plainDate = regexp.MustCompile(`^\d{4}-\d{1,2}-\d{1,2}([Tt ]|$)`)

// parse reads text, which begins at a place, as one YAML document (JSON is one as well) and returns its tree, or nil after a
// syntax error.
func (r *report) parse(at mark, text string) (root *node) {
	defer func() {
		if p := recover(); p != nil { // the parser's fault; the file is refused all the same
			r.errorf(at, "found text that cannot be parsed, expected YAML or JSON")
			root = nil
		}
	}()
	tokens := lexer.Tokenize(text)
	if !r.bounded(at, tokens) {
		return nil
	}
	parsed, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		r.syntax(at, err)
		return nil
	}
	return (&tree{r, at}).document(parsed.Docs)
}

// syntax reports a parser's error, whose interface is not exported.
func (r *report) syntax(start mark, err error) {
	var positioned interface {
		GetToken() *token.Token
		GetMessage() string
	}
	if !errors.As(err, &positioned) || positioned.GetToken() == nil {
		r.errorf(start, "found text that cannot be parsed, expected YAML or JSON")
		return
	}
	p, message := positioned.GetToken().Position, positioned.GetMessage()
	at := mark{start.file, max(p.Line, 1), max(p.Column, 1)}
	if strings.Contains(message, "'\t'") {
		r.errorf(at, "found a tab, expected spaces: YAML is not indented with tabs")
		return
	}
	r.errorf(at, "found broken syntax, expected YAML or JSON: %s", strings.ToValidUTF8(message, "?"))
}

type tree struct {
	*report
	start mark // of the text
}

func (t *tree) document(docs []*ast.DocumentNode) *node {
	var root *node
	for _, d := range docs {
		if dir, ok := d.Body.(*ast.DirectiveNode); ok {
			t.errorf(t.mark(dir), "found a %% directive, expected none")
			continue
		}
		if root != nil {
			at := root.at
			if d.Start != nil {
				at = mark{t.start.file, d.Start.Position.Line, d.Start.Position.Column}
			}
			t.errorf(at, "found a second document, expected one per file")
			break
		}
		root = t.node(d.Body)
	}
	if root == nil || root.kind == nullNode {
		t.errorf(t.start, "found an empty file, expected a mapping")
		return nil
	}
	return root
}

func (t *tree) mark(n ast.Node) mark {
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return t.start
	}
	p := n.GetToken().Position
	return mark{t.start.file, max(p.Line, 1), max(p.Column, 1)}
}

func (t *tree) node(n ast.Node) *node {
	if n == nil {
		return &node{kind: nullNode, at: t.start}
	}
	at := t.mark(n)
	switch n := n.(type) {
	case *ast.MappingNode:
		return t.mapping(at, n.Values, n.IsFlowStyle)
	case *ast.MappingValueNode:
		return t.mapping(at, []*ast.MappingValueNode{n}, n.IsFlowStyle)
	case *ast.SequenceNode:
		out := &node{kind: listNode, at: at}
		for _, v := range n.Values {
			out.items = append(out.items, t.node(v))
		}
		return out
	case *ast.AnchorNode:
		t.errorf(at, "found an anchor (&), expected the value itself: anchors are not allowed")
		return t.node(n.Value)
	case *ast.AliasNode:
		t.errorf(at, "found an alias (*), expected the value itself: aliases are not allowed; a text that begins with * needs quotes")
	case *ast.TagNode:
		t.errorf(at, "found the tag %s, expected none; quote the value to make it a string", quote(n.Start.Value))
		return t.node(n.Value)
	case *ast.NullNode:
		return &node{kind: nullNode, at: at}
	case *ast.BoolNode:
		return &node{kind: boolNode, text: fmt.Sprint(n.Value), at: at}
	case *ast.IntegerNode:
		return &node{kind: intNode, text: n.Token.Value, at: at}
	case *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return &node{kind: floatNode, text: n.GetToken().Value, at: at}
	case *ast.LiteralNode:
		return &node{kind: stringNode, text: n.Value.Value, at: at}
	case *ast.StringNode:
		if n.Token.Type == token.StringType && plainDate.MatchString(n.Value) {
			return &node{kind: dateNode, text: n.Value, at: at}
		}
		return &node{kind: stringNode, text: n.Value, at: at}
	default:
		t.errorf(at, "found %s, expected a value", n.Type())
	}
	return &node{at: at}
}

func (t *tree) mapping(at mark, values []*ast.MappingValueNode, flow bool) *node {
	if !flow && len(values) > 0 {
		at = t.mark(values[0].Key) // a block mapping's own token is its first colon
	}
	out := &node{kind: mappingNode, at: at}
	first := map[string]mark{}
	for _, v := range values {
		key, keyAt, ok := t.key(v.Key)
		if !ok {
			continue
		}
		if f, twice := first[key]; twice {
			t.errorf(keyAt, "found key %s a second time, expected it once; the first is at %d:%d", quote(key), f.line, f.col)
			continue
		}
		first[key] = keyAt
		out.entries = append(out.entries, entry{key, keyAt, t.node(v.Value)})
	}
	return out
}

func (t *tree) key(n ast.MapKeyNode) (string, mark, bool) {
	at := t.mark(n)
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, at, true
	case *ast.MergeKeyNode:
		t.errorf(at, "found a merge key (<<), expected plain keys: merging is not allowed")
	case *ast.NullNode, *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, at, true
	default:
		t.errorf(at, "found a key that is not plain text (%s), expected a plain one", n.Type())
	}
	return "", at, false
}
