package logrouter

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
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
	if err := s.wants("skip_empty_values", "on"); err != nil {
		return nil, fmt.Errorf("parser %s: %w", name, err)
	}
	p := &parser{timeKey: s.get("time_key"), keepTime: isTrue(s.get("time_keep")), types: map[string]string{}}
	switch format := strings.ToLower(s.get("format")); format {
	case "json":
	case "regex":
		var err error
		if p.re, err = compile(s.get("regex")); err != nil {
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
		kind = strings.ToLower(kind)
		if !slices.Contains([]string{"string", "integer", "float", "bool"}, kind) {
			return nil, fmt.Errorf("parser %s: the type %s is not available in Drydock", name, t)
		}
		p.types[field] = kind
	}
	for _, d := range append(s.all("decode_field_as"), s.all("decode_field")...) {
		how, field, _ := strings.Cut(d, " ")
		if how != "json" {
			return nil, fmt.Errorf("parser %s: the decoder %s is not available in Drydock", name, how)
		}
		p.decode = append(p.decode, strings.Fields(field)...)
	}
	return p, nil
}

// parse returns the fields of a text, and the time in them, or false if the text has another form.
func (p *parser) parse(text string, at time.Time) (map[string]any, time.Time, bool) {
	fields := map[string]any{}
	if p.re == nil {
		var ok bool
		if fields, ok = jsonObject(text); !ok {
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
		if text, ok := fields[name].(string); ok {
			if m, ok := jsonObject(text); ok {
				fields[name] = m
			}
		}
	}
	if text, ok := fields[p.timeKey].(string); ok && p.timeLayout != "" {
		t, err := time.Parse(p.timeLayout, text)
		if err != nil {
			t, err = time.Parse(strings.Replace(p.timeLayout, "-0700", "Z07:00", 1), text)
		}
		if err == nil && t.Year() == 0 { // as in Fluent Bit, a format without a year means this one
			t = t.AddDate(at.Year(), 0, 0)
		}
		if err == nil && t.Unix() >= 0 { // CloudWatch Logs knows no earlier time
			at = t
		}
		if err == nil && !p.keepTime {
			delete(fields, p.timeKey)
		}
	}
	return fields, at, true
}

// jsonObject decodes a JSON object. Its numbers stay as they are written.
func jsonObject(text string) (map[string]any, bool) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var out map[string]any
	if err := d.Decode(&out); err != nil || out == nil {
		return nil, false
	}
	_, err := d.Token()
	return out, errors.Is(err, io.EOF)
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
	if strings.Contains(directives.Replace(strings.ReplaceAll(format, "%%", "")), "%") {
		return "", fmt.Errorf("the Time_Format %s is not available in Drydock", format)
	}
	return directives.Replace(format), nil
}
