package awk

import (
	"strconv"
	"strings"
)

// The kinds of tokens. Operators and punctuation are their own text.
const (
	tokEnd     = "end of program"
	tokNewline = "newline"
	tokNumber  = "number"
	tokString  = "string"
	tokRegexp  = "regexp"
	tokName    = "name"
	tokCall    = "function" // a name directly before a parenthesis that is not a builtin
	tokBuiltin = "builtin"
)

// keywords are token kinds of their own.
var keywords = map[string]bool{
	"BEGIN": true, "END": true, "if": true, "else": true, "while": true, "for": true, "do": true, "in": true, "print": true, "printf": true,
	"next": true, "exit": true, "delete": true, "break": true, "continue": true, "getline": true, "function": true, "func": true, "return": true, "nextfile": true,
}

type token struct {
	kind string
	text string
	n    float64
	line int
}

type lexer struct {
	text string
	at   int
	line int
	last string // kind of the last token
}

// operators are tried longest first.
var operators = []string{
	"&&", "||", "==", "!=", "<=", ">=", "+=", "-=", "*=", "/=", "%=", "^=", "++", "--", ">>", "!~", "**",
	"{", "}", "(", ")", "[", "]", ";", ",", "+", "-", "*", "/", "%", "^", "!", ">", "<", "|", "?", ":", "~", "$", "=",
}

func (l *lexer) bad(near string) error {
	return &SyntaxError{Line: l.line, Near: near[:min(len(near), 20)]}
}

// next reads a token. A slash starts a regular expression unless an operand has just ended.
func (l *lexer) next() (token, error) {
	t, err := l.scan()
	t.line = l.line
	l.last = t.kind
	return t, err
}

func (l *lexer) scan() (token, error) {
	for l.at < len(l.text) {
		switch c := l.text[l.at]; {
		case c == ' ' || c == '\t' || c == '\r':
			l.at++
		case c == '\\' && strings.HasPrefix(l.text[l.at:], "\\\n"):
			l.at += 2
			l.line++
		case c == '#':
			for l.at < len(l.text) && l.text[l.at] != '\n' {
				l.at++
			}
		case c == '\n':
			l.at++
			l.line++
			return token{kind: tokNewline, text: "\n"}, nil
		default:
			return l.word()
		}
	}
	return token{kind: tokEnd}, nil
}

func (l *lexer) word() (token, error) {
	rest := l.text[l.at:]
	switch c := rest[0]; {
	case c == '"':
		return l.quoted('"', tokString)
	case c == '/' && !l.operandEnded():
		return l.quoted('/', tokRegexp)
	case c >= '0' && c <= '9' || c == '.' && len(rest) > 1 && rest[1] >= '0' && rest[1] <= '9':
		n := len(numberPrefix(rest))
		l.at += n
		f, _ := strconv.ParseFloat(rest[:n], 64) // out of range is infinity
		return token{kind: tokNumber, text: rest[:n], n: f}, nil
	case letter(c):
		n := 1
		for n < len(rest) && (letter(rest[n]) || rest[n] >= '0' && rest[n] <= '9') {
			n++
		}
		name := rest[:n]
		l.at += n
		switch {
		case keywords[name]:
			return token{kind: name, text: name}, nil
		case builtins[name].known:
			return token{kind: tokBuiltin, text: name}, nil
		case n < len(rest) && rest[n] == '(':
			return token{kind: tokCall, text: name}, nil
		}
		return token{kind: tokName, text: name}, nil
	}
	for _, op := range operators {
		if strings.HasPrefix(rest, op) {
			l.at += len(op)
			if op == "**" {
				op = "^"
			}
			return token{kind: op, text: op}, nil
		}
	}
	return token{}, l.bad(rest)
}

func letter(c byte) bool { return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' }

func (l *lexer) operandEnded() bool {
	switch l.last {
	case tokNumber, tokString, tokRegexp, tokName, tokBuiltin, ")", "]", "$", "++", "--":
		return true
	}
	return false
}

// quoted reads a string or a regular expression. In a regular expression only \/ is an escape here; the others belong
// to the regular expression.
func (l *lexer) quoted(end byte, kind string) (token, error) {
	var out strings.Builder
	class := false // inside [ ] of a regular expression
	for i := l.at + 1; i < len(l.text); i++ {
		switch c := l.text[i]; {
		case c == '\n':
			return token{}, l.bad(l.text[l.at:i])
		case c == end && !class:
			l.at = i + 1
			return token{kind: kind, text: out.String()}, nil
		case c == '\\' && i+1 < len(l.text) && l.text[i+1] == '\n':
			i++
			l.line++
		case c == '\\' && i+1 < len(l.text) && kind == tokString:
			i += escape(&out, l.text[i+1:])
		case c == '\\' && i+1 < len(l.text):
			i++
			if l.text[i] != '/' {
				out.WriteByte('\\')
			}
			out.WriteByte(l.text[i])
		case kind == tokRegexp && c == '[' && !class:
			class = true
			out.WriteByte(c)
			for _, p := range []string{"^]", "]", "^"} { // a ] that comes first is literal
				if strings.HasPrefix(l.text[i+1:], p) {
					out.WriteString(p)
					i += len(p)
					break
				}
			}
		case kind == tokRegexp && class && strings.HasPrefix(l.text[i:], "[:"):
			n := strings.Index(l.text[i:], ":]")
			if n < 0 {
				return token{}, l.bad(l.text[l.at:])
			}
			out.WriteString(l.text[i : i+n+2])
			i += n + 1
		case kind == tokRegexp && c == ']':
			class = false
			out.WriteByte(c)
		default:
			out.WriteByte(c)
		}
	}
	return token{}, l.bad(l.text[l.at:])
}
