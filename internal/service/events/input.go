package events

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// pathForm matches the subset of JSONPath that EventBridge supports: names and indexes of elements.
// https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-transform-target-input.html
var pathForm = regexp.MustCompile(`^\$(\.[A-Za-z0-9_\-]+|\[\d{1,6}\]|\[\*\])*$`)

var pathSteps = regexp.MustCompile(`\.[A-Za-z0-9_\-]+|\[[\d*]+\]`)

func validPath(p string) bool { return pathForm.MatchString(p) }

// find returns the value at a path of an event, or false if there is none.
func find(v any, path string) (any, bool) {
	for _, step := range pathSteps.FindAllString(path, -1) {
		if name, ok := strings.CutPrefix(step, "."); ok {
			o, isObject := v.(map[string]any)
			if v, ok = o[name]; !ok || !isObject {
				return nil, false
			}
			continue
		}
		list, ok := v.([]any)
		if !ok {
			return nil, false
		}
		if step == "[*]" {
			continue
		}
		n, err := strconv.Atoi(strings.Trim(step, "[]"))
		if err != nil || n >= len(list) {
			return nil, false
		}
		v = list[n]
	}
	return v, true
}

// Variables that every template can use.
const (
	varRuleARN   = "aws.events.rule-arn"
	varRuleName  = "aws.events.rule-name"
	varIngestion = "aws.events.event.ingestion-time"
	varEvent     = "aws.events.event"
	varEventJSON = "aws.events.event.json"
)

func predefined(name string) bool {
	switch name {
	case varRuleARN, varRuleName, varIngestion, varEvent, varEventJSON:
		return true
	}
	return false
}

var placeholder = regexp.MustCompile(`<([A-Za-z0-9_.\-]+)>`)

func placeholders(template string) (names []string) {
	for _, m := range placeholder.FindAllStringSubmatch(template, -1) {
		names = append(names, m[1])
	}
	return names
}

// body returns what a target gets for an event. ok is false if the target's path or template does
// not yield a valid value.
func (t *target) body(event []byte, ruleARN, ruleName string, now time.Time) (string, bool) {
	switch {
	case t.Input != "":
		return t.Input, true
	case t.Path == "" && t.Template == "":
		return string(event), true
	}
	d := json.NewDecoder(bytes.NewReader(event))
	d.UseNumber()
	var e any
	if d.Decode(&e) != nil {
		return "", false
	}
	if t.Path != "" {
		v, ok := find(e, t.Path)
		return encode(v), ok
	}
	value := func(name string) (any, bool) {
		switch name {
		case varRuleARN:
			return ruleARN, true
		case varRuleName:
			return ruleName, true
		case varIngestion:
			return now.Format(time.RFC3339), true
		case varEvent:
			return withoutDetail(e), true
		case varEventJSON:
			return e, true
		}
		return find(e, t.Paths[name])
	}
	// If the template is a string, values are inserted without quotes. If it is an object, they are
	// inserted as JSON, except for strings within quotes.
	isString := strings.HasPrefix(strings.TrimSpace(t.Template), `"`)
	var b strings.Builder
	at, quoted := 0, false
	for _, m := range placeholder.FindAllStringSubmatchIndex(t.Template, -1) {
		for i := at; i < m[0]; i++ {
			switch t.Template[i] {
			case '"':
				quoted = !quoted
			case '\\':
				i++
			}
		}
		b.WriteString(t.Template[at:m[0]])
		at = m[1]
		v, found := value(t.Template[m[2]:m[3]])
		if !found {
			v = ""
		}
		text, isText := v.(string)
		switch {
		case isText && quoted:
			inside := encode(text)
			b.WriteString(inside[1 : len(inside)-1])
		case isString && quoted:
			b.WriteString(strings.ReplaceAll(encode(v), `"`, ""))
		default:
			b.WriteString(encode(v))
		}
	}
	b.WriteString(t.Template[at:])
	return b.String(), isString || json.Valid([]byte(b.String()))
}

// withoutDetail returns an event in the form of <aws.events.event>.
func withoutDetail(event any) any {
	o, _ := event.(map[string]any)
	out := map[string]any{}
	for k, v := range o {
		switch k {
		case "detail":
		case "detail-type":
			out["detailType"] = v
		default:
			out[k] = v
		}
	}
	return out
}

// encode returns a value as JSON.
func encode(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return "null"
	}
	return strings.TrimSuffix(b.String(), "\n")
}
