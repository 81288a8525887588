package fargate

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
)

// maxLogging is how many characters the ConfigMap may have.
const maxLogging = 5300

// A loggingSection describes one key of the ConfigMap.
type loggingSection struct {
	key, directive string
	kind           string   // as it appears in messages
	required       []string // keys of each directive, in lower case
	plugins        []string // allowed values of the key name; nil means any
}

// https://docs.aws.amazon.com/eks/latest/userguide/fargate-logging.html#fargate-logging-log-router-configuration
var loggingSections = []loggingSection{
	{"filters.conf", "FILTER", "filter", []string{"name", "match"}, []string{"grep", "parser", "record_modifier", "rewrite_tag", "throttle", "nest", "modify", "kubernetes"}},
	{"output.conf", "OUTPUT", "output", []string{"name", "match"}, []string{"es", "firehose", "kinesis_firehose", "cloudwatch", "cloudwatch_logs", "kinesis"}},
	{"parsers.conf", "PARSER", "parser", []string{"name", "format"}, nil},
}

// loggingFault says why Fargate rejects a ConfigMap, or returns "" if it does not. The rules are documented, and the
// text about plugins is quoted in DataDog/documentation#24023; the others are from memory.
func loggingFault(m *corev1.ConfigMap) string {
	size := 0
	for k, v := range m.Data {
		size += utf8.RuneCountInString(k) + utf8.RuneCountInString(v)
		known := slices.ContainsFunc(loggingSections, func(s loggingSection) bool { return s.key == k })
		if strings.HasSuffix(k, ".conf") && !known {
			return k + " is not supported"
		}
	}
	if size > maxLogging {
		return fmt.Sprintf("it has more than %d characters", maxLogging)
	}
	for _, s := range loggingSections {
		if why := s.fault(m.Data[s.key]); why != "" {
			return why
		}
	}
	if strings.TrimSpace(m.Data["output.conf"]) == "" {
		return "output.conf has no output plugin"
	}
	return ""
}

// fault checks the text under one key against the rules.
func (s *loggingSection) fault(text string) string {
	if strings.Contains(text, "${") {
		return "environment variables are not allowed in " + s.key
	}
	var have map[string]string // of the current directive; nil before the first
	outer, inner := -1, -1
	ended := func() string {
		if have == nil {
			return ""
		}
		for _, k := range s.required {
			if have[k] == "" {
				return fmt.Sprintf("%s is required for each [%s]", k, s.directive)
			}
		}
		if name := have["name"]; s.plugins != nil && !slices.Contains(s.plugins, strings.ToLower(name)) {
			return fmt.Sprintf("%s is not a supported %s plugin", name, s.kind)
		}
		return ""
	}
	for line := range strings.Lines(text) {
		body := strings.TrimSpace(line)
		indent := len(line) - len(strings.TrimLeft(line, " \t"))
		if body == "" || strings.HasPrefix(body, "#") {
			continue
		}
		if strings.HasPrefix(body, "[") {
			if why := ended(); why != "" {
				return why
			}
			if !strings.EqualFold(body, "["+s.directive+"]") {
				return fmt.Sprintf("%s is not allowed in %s", body, s.key)
			}
			if outer >= 0 && indent != outer {
				return "the directives of " + s.key + " are not indented alike"
			}
			outer, have = indent, map[string]string{}
			continue
		}
		if have == nil {
			return fmt.Sprintf("%s does not begin with [%s]", s.key, s.directive)
		}
		if inner >= 0 && indent != inner || indent <= outer {
			return "the keys of " + s.key + " are not indented alike, and more than their directives"
		}
		inner = indent
		key, value, _ := strings.Cut(strings.ReplaceAll(body, "\t", " "), " ")
		have[strings.ToLower(key)] = strings.TrimSpace(value)
	}
	return ended()
}
