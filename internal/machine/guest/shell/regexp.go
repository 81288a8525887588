package shell

import (
	"fmt"
	"regexp"
	"strings"
)

// basicRegexp converts a POSIX basic regular expression, in which \( starts a group and ( is literal, to Go's syntax.
func basicRegexp(s string) string {
	var out strings.Builder
	class := false
	for i := 0; i < len(s); i++ {
		ch := s[i]
		switch {
		case class:
			out.WriteByte(ch)
			class = ch != ']'
		case ch == '[':
			out.WriteByte(ch)
			class = true
			// A ] that comes first in a class is literal.
			for _, p := range []string{"^]", "]", "^"} {
				if strings.HasPrefix(s[i+1:], p) {
					out.WriteString(strings.ReplaceAll(p, "]", `\]`))
					i += len(p)
					break
				}
			}
		case ch == '\\' && i+1 < len(s):
			i++
			if strings.IndexByte("(){}+?|", s[i]) < 0 {
				out.WriteByte('\\')
			}
			out.WriteByte(s[i])
		case strings.IndexByte("(){}+?|", ch) >= 0:
			out.WriteByte('\\')
			out.WriteByte(ch)
		case ch == '*' && (i == 0 || i == 1 && s[0] == '^'):
			out.WriteString(`\*`)
		default:
			out.WriteByte(ch)
		}
	}
	return out.String()
}

// maxPattern bounds a regular expression; Go's take time linear in the text.
const maxPattern = 1 << 12

func compile(pattern string, extended, fold bool) (*regexp.Regexp, error) {
	if len(pattern) > maxPattern {
		return nil, fmt.Errorf("regular expression too big")
	}
	if !extended {
		pattern = basicRegexp(pattern)
	}
	flags := "(?m)"
	if fold {
		flags = "(?mi)"
	}
	return regexp.Compile(flags + pattern)
}
