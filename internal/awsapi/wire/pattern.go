package wire

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// patterns caches the models' compiled patterns: string → *regexp.Regexp, nil if Go cannot compile it.
var patterns sync.Map

// rewritten replaces patterns with look-aheads, which Go does not support.
var rewritten = map[string]string{
	`^[a-z0-9]([a-z0-9]|-(?!-)){1,61}[a-z0-9]$`: `[a-z0-9](-?[a-z0-9])+`, // IAM's account aliases; the length is checked anyway
	`^(?!\s*$).+`: `.*\S.*`,
}

// javaPattern compiles a model's pattern, a Java regular expression that must match a whole string. It returns nil
// for patterns that Go cannot express (such as look-aheads); TestPatterns lists them.
func javaPattern(java string) *regexp.Regexp {
	if re, ok := patterns.Load(java); ok {
		return re.(*regexp.Regexp)
	}
	text, ok := rewritten[java]
	if !ok {
		text = strings.ReplaceAll(java, `\uD800\uDC00-\uDBFF\uDFFF`, `\x{10000}-\x{10FFFF}`)
		text = unicodeEscape.ReplaceAllString(text, `\x{$1}`)
		text = counts.ReplaceAllStringFunc(text, fewer)
	}
	re, err := regexp.Compile("^(?:" + text + ")$")
	if err != nil {
		re = nil
	}
	patterns.Store(java, re)
	return re
}

var (
	unicodeEscape = regexp.MustCompile(`\\u([0-9A-Fa-f]{4})`)
	counts        = regexp.MustCompile(`\{\d+,\d+\}`)
)

// fewer turns {2,2000} into {2,}, since Go's repeat count is limited to 1000. The members have their own maximum
// length anyway.
func fewer(count string) string {
	least, most, _ := strings.Cut(strings.Trim(count, "{}"), ",")
	if n, err := strconv.Atoi(most); err == nil && n <= 1000 {
		return count
	}
	return "{" + least + ",}"
}
