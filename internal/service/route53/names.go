package route53

import (
	"fmt"
	"strconv"
	"strings"
)

// A problem with a name or value. Route 53 writes it as "FATAL problem: CODE (TEXT) encountered with 'VALUE'".
type problem struct{ code, text, value string }

func (p *problem) String() string {
	return fmt.Sprintf("FATAL problem: %s (%s) encountered with '%s'", p.code, p.text, p.value)
}

// normalized returns a domain name as Route 53 stores it: in lower case, with a trailing dot, and with characters other
// than letters, digits, hyphens and underscores as \ooo. A wildcard is \052. Spaces and non-ASCII characters must be
// given in this form.
// https://docs.aws.amazon.com/Route53/latest/DeveloperGuide/DomainNameFormat.html
func normalized(name string) (string, *problem) {
	var out strings.Builder
	label := 0
	in := strings.TrimSuffix(name, ".")
	if in == "" {
		return "", &problem{"DomainLabelEmpty", "Domain label is empty", name}
	}
	for i := 0; i < len(in); i++ {
		c := in[i]
		if c == '.' {
			if label == 0 {
				return "", &problem{"DomainLabelEmpty", "Domain label is empty", name}
			}
			label = 0
			out.WriteByte('.')
			continue
		}
		escaped := false
		if c == '\\' && i+3 < len(in) {
			if n, err := strconv.ParseUint(in[i+1:i+4], 8, 8); err == nil {
				c, i, escaped = byte(n), i+3, true
			}
		}
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_':
			out.WriteByte(c)
		case !escaped && (c <= ' ' || c > '~'):
			return "", &problem{"UnsupportedCharacter", "Value contains unsupported characters", string(rune(c))}
		default:
			fmt.Fprintf(&out, `\%03o`, c)
		}
		if label++; label > 63 {
			return "", &problem{"DomainLabelTooLong", "Domain label is too long", name}
		}
	}
	if label == 0 {
		return "", &problem{"DomainLabelEmpty", "Domain label is empty", name}
	}
	if out.Len() > 254 {
		return "", &problem{"DomainNameTooLong", "Domain name is too long", name}
	}
	return out.String() + ".", nil
}

// asked normalizes a name for comparison with stored ones. It returns invalid names unchanged.
func asked(name string) string {
	if n, p := normalized(name); p == nil {
		return n
	}
	return name
}

// plain returns a normalized name as programs look it up, without the trailing dot.
func plain(name string) string {
	return strings.TrimSuffix(strings.ReplaceAll(name, `\052`, "*"), ".")
}

// within reports whether a normalized name is in a zone.
func within(name, zone string) bool { return name == zone || strings.HasSuffix(name, "."+zone) }
