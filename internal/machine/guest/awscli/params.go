package awscli

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/drydock-dev/drydock/internal/awsapi/model"
)

// parameters reads the options of an operation into values by member name.
func (c *command) parameters(op *model.Operation, args []string) (map[string]any, error) {
	in := map[string]any{}
	for i := 0; i < len(args); {
		name, glued, isGlued := strings.Cut(args[i], "=")
		if !strings.HasPrefix(name, "--") {
			return nil, &failure{status: statusUsage, text: "\nUnknown options: " + strings.Join(args[i:], ", ")}
		}
		i++
		m, negated := option(op, name[2:])
		if m == nil {
			return nil, &failure{status: statusUsage, text: "\nUnknown options: " + strings.Join(args[i-1:], ", ")}
		}
		var values []string
		if isGlued {
			values = []string{glued}
		}
		takes := 1
		if m.Shape.Type == model.List {
			takes = math.MaxInt
		}
		for !isGlued && len(values) < takes && i < len(args) && !strings.HasPrefix(args[i], "--") && (m.Shape.Type != model.Boolean) {
			values = append(values, args[i])
			i++
		}
		switch {
		case m.Shape.Type == model.Boolean && !isGlued:
			in[m.Name] = !negated
			continue
		case len(values) == 0 && onlyFlag(m.Shape): // --no-source-dest-check
			in[m.Name] = map[string]any{"Value": !negated}
			continue
		case len(values) == 0 && m.Shape.Type != model.List || negated:
			return nil, usagef("argument %s: expected one argument", name)
		}
		v, err := c.parameter(m.Shape, values)
		if err != nil {
			return nil, &failure{status: statusUsage, text: fmt.Sprintf("\nError parsing parameter '%s': %s", name, err)}
		}
		in[m.Name] = v
	}
	if op.Name == "RunInstances" { // what the CLI does besides its model
		if in["MinCount"] == nil && in["MaxCount"] == nil {
			in["MinCount"], in["MaxCount"] = 1.0, 1.0
		}
		if text, ok := in["UserData"].(string); ok {
			in["UserData"] = base64.StdEncoding.EncodeToString([]byte(text))
		}
	}
	var missing []string
	if op.Input != nil {
		for _, m := range op.Input.Members {
			if _, ok := in[m.Name]; m.Required && !ok && !m.IdempotencyToken {
				missing = append(missing, "--"+kebab(m.Name))
			}
		}
	}
	if len(missing) > 0 {
		return nil, usagef("the following arguments are required: %s", strings.Join(missing, ", "))
	}
	return in, nil
}

// option finds the member for an option; --no-X negates a flag.
func option(op *model.Operation, name string) (m *model.Member, negated bool) {
	if op.Input == nil {
		return nil, false
	}
	find := func(name string) *model.Member {
		i := slices.IndexFunc(op.Input.Members, func(m *model.Member) bool { return plainName(m.Name) == plainName(name) })
		if i < 0 {
			return nil
		}
		return op.Input.Members[i]
	}
	if m := find(name); m != nil {
		return m, false
	}
	if m := find("egress"); name == "ingress" && m != nil && m.Shape.Type == model.Boolean { // the CLI's negation of this option
		return m, true
	}
	if rest, ok := strings.CutPrefix(name, "no-"); ok {
		if m := find(rest); m != nil && (m.Shape.Type == model.Boolean || onlyFlag(m.Shape)) {
			return m, true
		}
	}
	return nil, false
}

// onlyFlag reports whether a structure is EC2's wrapper for a flag.
func onlyFlag(s *model.Shape) bool {
	return s.Type == model.Structure && len(s.Members) == 1 && s.Members[0].Name == "Value" && s.Members[0].Shape.Type == model.Boolean
}

// parameter reads the words after an option.
func (c *command) parameter(s *model.Shape, words []string) (any, error) {
	for i, w := range words {
		for _, scheme := range []string{"file://", "fileb://"} {
			if name, ok := strings.CutPrefix(w, scheme); ok {
				b, err := c.file(name)
				if err != nil {
					return nil, fmt.Errorf("Unable to load paramfile %s: [Errno 2] No such file or directory: '%s'", w, name) //nolint:staticcheck // the CLI's text
				}
				words[i] = string(b)
				if scheme == "fileb://" && s.Type == model.Blob {
					return base64.StdEncoding.EncodeToString(b), nil
				}
			}
		}
	}
	if len(words) == 1 && s.Type != model.String && (strings.HasPrefix(strings.TrimSpace(words[0]), "{") || strings.HasPrefix(strings.TrimSpace(words[0]), "[")) {
		var v any
		if err := json.Unmarshal([]byte(words[0]), &v); err == nil || s.Type == model.List && s.Elem.Shape.Type != model.Structure || s.Type == model.Structure {
			if err != nil {
				return nil, fmt.Errorf("Invalid JSON: %s\nJSON received: %s", err, words[0]) //nolint:staticcheck // the CLI's text
			}
			return coerce(s, v, 0)
		}
	}
	if s.Type == model.List {
		list := make([]any, len(words))
		for i, w := range words {
			v, err := c.parameter(s.Elem.Shape, []string{w})
			if err != nil {
				return nil, err
			}
			list[i] = v
		}
		return list, nil
	}
	if s.Type == model.Structure || s.Type == model.Map {
		v, err := parseShorthand(words[0])
		if err != nil {
			return nil, err
		}
		return coerce(s, v, 0)
	}
	return coerce(s, words[0], 0)
}

const maxDepth = 32

// coerce converts a value to its shape, with the members' own names.
func coerce(s *model.Shape, v any, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("it is nested too deeply")
	}
	text, isText := v.(string)
	switch s.Type {
	case model.Structure:
		from, ok := v.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("Expected: '=', received: 'EOF' for input:\n%v", v) //nolint:staticcheck // the CLI's text
		}
		out := map[string]any{}
		for k, x := range from {
			m := s.Member(k)
			if m == nil {
				return nil, fmt.Errorf("Unknown parameter in input: %q, must be one of: %s", k, memberNames(s)) //nolint:staticcheck // botocore's text
			}
			var err error
			if out[k], err = coerce(m.Shape, x, depth+1); err != nil {
				return nil, err
			}
		}
		return out, nil
	case model.List:
		from, ok := v.([]any)
		if !ok {
			from = []any{v} // shorthand cannot write a list with one element
		}
		out := make([]any, len(from))
		for i, x := range from {
			var err error
			if out[i], err = coerce(s.Elem.Shape, x, depth+1); err != nil {
				return nil, err
			}
		}
		return out, nil
	case model.Map:
		from, ok := v.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("Expected: '=', received: 'EOF' for input:\n%v", v) //nolint:staticcheck // the CLI's text
		}
		out := map[string]any{}
		for k, x := range from {
			var err error
			if out[k], err = coerce(s.Value.Shape, x, depth+1); err != nil {
				return nil, err
			}
		}
		return out, nil
	case model.Integer, model.Long, model.Float, model.Double:
		if isText {
			n, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return nil, fmt.Errorf("invalid literal for int() with base 10: '%s'", text)
			}
			return n, nil
		}
	case model.Boolean:
		if isText {
			return strings.EqualFold(text, "true"), nil
		}
	case model.String, model.Blob, model.Timestamp:
		switch v.(type) {
		case string:
		case float64, bool:
			return fmt.Sprint(v), nil
		default:
			return nil, fmt.Errorf("Invalid type for parameter, value: %v", v) //nolint:staticcheck // botocore's text
		}
	}
	return v, nil
}

func memberNames(s *model.Shape) string {
	var out []string
	for _, m := range s.Members {
		out = append(out, m.Name)
	}
	return strings.Join(out, ", ")
}
