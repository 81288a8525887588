package logrouter

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A parser makes fields of a text. https://docs.fluentbit.io/manual/data-pipeline/parsers/configuring-parser
type parser struct {
	re                  *regexp.Regexp // nil means JSON
	timeKey, timeLayout string
	keepTime            bool
	types               map[string]string
	decode              []string // fields with JSON
}

func newParser(s section) (*parser, error) {
	name := s.get("name")
	if err := s.only([]string{"name", "format", "regex", "time_key", "time_format", "time_keep", "time_strict", "types", "decode_field_as", "decode_field", "skip_empty_values"}); err != nil {
		return nil, fmt.Errorf("parser %s: %w", name, err)
	}
	p := &parser{timeKey: s.get("time_key"), keepTime: isTrue(s.get("time_keep")), types: map[string]string{}}
	switch format := strings.ToLower(s.get("format")); format {
	case "json":
	case "regex":
		var err error
		if p.re, err = regexp.Compile(s.get("regex")); err != nil {
			return nil, fmt.Errorf("parser %s: invalid Regex: %w", name, err)
		}
	default:
		return nil, fmt.Errorf("parser %s: the format %s is not available in Drydock", name, format)
	}
	var err error
	if p.timeLayout, err = layout(s.get("time_format")); err != nil {
		return nil, fmt.Errorf("parser %s: %w", name, err)
	}
	for _, t := range strings.Fields(s.get("types")) {
		field, kind, _ := strings.Cut(t, ":")
		p.types[field] = strings.ToLower(kind)
	}
	for _, d := range append(s.all("decode_field_as"), s.all("decode_field")...) {
		how, field, _ := strings.Cut(d, " ")
		if how != "json" && how != "escaped" && how != "escaped_utf8" {
			return nil, fmt.Errorf("parser %s: the decoder %s is not available in Drydock", name, how)
		}
		if how == "json" {
			p.decode = append(p.decode, strings.Fields(field)...)
		}
	}
	return p, nil
}

// parse returns the fields of a text, and the time that they tell, or false if the text has another form.
func (p *parser) parse(text string, at time.Time) (map[string]any, time.Time, bool) {
	fields := map[string]any{}
	if p.re == nil {
		if json.Unmarshal([]byte(text), &fields) != nil || fields == nil {
			return nil, at, false
		}
	} else {
		m := p.re.FindStringSubmatch(text)
		if m == nil {
			return nil, at, false
		}
		for i, name := range p.re.SubexpNames() {
			if name != "" && m[i] != "" {
				fields[name] = p.typed(name, m[i])
			}
		}
	}
	for _, name := range p.decode {
		var v any
		if text, ok := fields[name].(string); ok && json.Unmarshal([]byte(text), &v) == nil {
			if m, ok := v.(map[string]any); ok {
				fields[name] = m
			}
		}
	}
	if text, ok := fields[p.timeKey].(string); ok && p.timeLayout != "" {
		if t, err := time.Parse(p.timeLayout, text); err == nil {
			at = t
		} else if t, err := time.Parse(strings.Replace(p.timeLayout, "-0700", "Z07:00", 1), text); err == nil {
			at = t
		}
		if !p.keepTime {
			delete(fields, p.timeKey)
		}
	}
	return fields, at, true
}

func (p *parser) typed(name, text string) any {
	switch p.types[name] {
	case "integer":
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n
		}
	case "float":
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			return f
		}
	case "bool":
		if b, err := strconv.ParseBool(strings.ToLower(text)); err == nil {
			return b
		}
	}
	return text
}

// directives are those of strftime as parts of Go's layouts. A fraction follows the seconds in Go whether the layout has it or
// not.
var directives = strings.NewReplacer(
	".%L", "", ".%f", "", "%Y", "2006", "%m", "01", "%d", "02", "%e", "_2", "%H", "15", "%I", "03", "%M", "04", "%S", "05", "%p", "PM", "%y", "06",
	"%b", "Jan", "%B", "January", "%a", "Mon", "%A", "Monday", "%z", "-0700", "%Z", "MST", "%T", "15:04:05", "%F", "2006-01-02", "%D", "01/02/06", "%%", "%",
)

// layout returns Go's layout of a format of strptime.
func layout(format string) (string, error) {
	out := directives.Replace(format)
	if i := strings.IndexByte(out, '%'); i >= 0 && !strings.Contains(format, "%%") {
		return "", fmt.Errorf("the Time_Format %s is not available in Drydock", format)
	}
	return out, nil
}
