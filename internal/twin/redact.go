package twin

import (
	"encoding/base64"
	"regexp"
	"strings"
)

// What a redacted value is replaced with has its length and shape: letters stay letters, digits stay digits.

// secretWords are what the names of secret values contain.
const secretWords = `(?:secret|passw(?:or)?d|token|api[_-]?key|access[_-]?key|private[_-]?key|credentials?\b|\b_?auth\b)`

var (
	// NAME=value, NAME: value and "NAME": "value" with a secret's name.
	namedSecret = regexp.MustCompile(`(?i)(["']?[A-Z0-9_.\-]*` + secretWords + `[A-Z0-9_.\-]*["']?\s*[:=]\s*)("[^"\n]*"|'[^'\n]*'|[^\s"',;]+)`)
	// Options such as --password VALUE.
	optionSecret = regexp.MustCompile(`(?i)(--?[a-z0-9\-]*` + secretWords + `[a-z0-9\-]*[ =])("[^"\n]*"|'[^'\n]*'|[^\s"']+)`)
	// Values that are secret by their form: access keys, tokens of well-known kinds.
	formSecret = regexp.MustCompile(`\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bgh[pousr]_[A-Za-z0-9]{20,}\b|\bxox[abpr]-[A-Za-z0-9\-]{10,}\b|\beyJ[A-Za-z0-9_\-]{10,}\.[A-Za-z0-9_\-]{10,}\.[A-Za-z0-9_\-]*`)
	bearer     = regexp.MustCompile(`(?i)(\b(?:bearer|basic)\s+)([A-Za-z0-9+/._=\-]{8,})`)
	urlSecret  = regexp.MustCompile(`(://[^/\s:@]*:)([^/\s@]+)(@)`)
	privateKey = regexp.MustCompile(`(?s)(-----BEGIN [A-Z ]*PRIVATE KEY-----)(.*?)(-----END [A-Z ]*PRIVATE KEY-----)`)
	// harmless are names that look like a secret's: those of the metadata service's token.
	harmless = regexp.MustCompile(`(?i)metadata-token|http-?tokens`)
)

// mask keeps the length and the shape of a value. References to variables and commands stay, because they show no value.
func mask(value string) string {
	if strings.HasPrefix(strings.Trim(value, `"'`), "$") {
		return value
	}
	return strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z':
			return 'x'
		case c >= 'A' && c <= 'Z':
			return 'X'
		case c >= '0' && c <= '9':
			return '0'
		case c > 127:
			return 'x'
		}
		return c
	}, value)
}

// Redact masks what is secret in a text, by the rules above.
func Redact(text string) string {
	second := func(re *regexp.Regexp, text string) string {
		return re.ReplaceAllStringFunc(text, func(found string) string {
			part := re.FindStringSubmatch(found)
			if harmless.MatchString(part[1]) {
				return found
			}
			out := part[1] + mask(part[2])
			return out + strings.Join(part[3:], "")
		})
	}
	for _, re := range []*regexp.Regexp{privateKey, urlSecret, bearer, namedSecret, optionSecret} {
		text = second(re, text)
	}
	return formSecret.ReplaceAllStringFunc(text, mask)
}

// RedactUserData masks what is secret in user data, which is in base64. What is not text is left out entirely, but
// keeps its length. A cluster's endpoint, certificate authority and name are not secret.
func RedactUserData(encoded string) string {
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return mask(encoded)
	}
	if strings.ContainsRune(string(raw), 0) { // compressed, for one
		return base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", len(raw))))
	}
	return base64.StdEncoding.EncodeToString([]byte(Redact(string(raw))))
}
