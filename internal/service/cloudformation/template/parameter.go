package template

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Parameter is a parameter that the template declares.
type Parameter struct {
	Name, Type, Description string
	Default                 *string
	NoEcho                  bool
	AllowedValues           []string

	pattern              *regexp.Regexp
	patternText          string
	minLength, maxLength *float64
	minValue, maxValue   *float64
	constraint           string
}

// existing are the types whose values must name something that exists.
var existing = []string{
	"AWS::EC2::AvailabilityZone::Name", "AWS::EC2::Image::Id", "AWS::EC2::Instance::Id", "AWS::EC2::KeyPair::KeyName", "AWS::EC2::SecurityGroup::GroupName",
	"AWS::EC2::SecurityGroup::Id", "AWS::EC2::Subnet::Id", "AWS::EC2::Volume::Id", "AWS::EC2::VPC::Id", "AWS::Route53::HostedZone::Id",
}

// Existing returns the AWS-specific type of the parameter's value or of its elements, or ""
// for other parameters.
func (p *Parameter) Existing() string {
	typ := p.Type
	if inner, ok := p.SSM(); ok {
		typ = inner
	}
	if inner, ok := strings.CutPrefix(typ, "List<"); ok {
		typ = strings.TrimSuffix(inner, ">")
	}
	if slices.Contains(existing, typ) {
		return typ
	}
	return ""
}

// SSM returns the type of the value in Parameter Store that the parameter names.
func (p *Parameter) SSM() (typ string, ok bool) {
	inner, ok := strings.CutPrefix(p.Type, "AWS::SSM::Parameter::Value<")
	return strings.TrimSuffix(inner, ">"), ok
}

// IsList reports whether Ref returns a list.
func (p *Parameter) IsList() bool {
	typ := p.Type
	if inner, ok := p.SSM(); ok {
		typ = inner
	}
	return typ == "CommaDelimitedList" || strings.HasPrefix(typ, "List<")
}

func validType(typ string) bool {
	switch typ {
	case "String", "Number", "List<Number>", "CommaDelimitedList", "AWS::SSM::Parameter::Name", "List<String>":
		return typ != "List<String>"
	}
	if inner, ok := strings.CutPrefix(typ, "AWS::SSM::Parameter::Value<"); ok && strings.HasSuffix(inner, ">") {
		inner = strings.TrimSuffix(inner, ">")
		return slices.Contains([]string{"String", "List<String>", "CommaDelimitedList"}, inner) || ofAWS(inner)
	}
	return ofAWS(typ)
}

func ofAWS(typ string) bool {
	if inner, ok := strings.CutPrefix(typ, "List<"); ok {
		return strings.HasSuffix(inner, ">") && inner != "AWS::EC2::KeyPair::KeyName>" && slices.Contains(existing, strings.TrimSuffix(inner, ">"))
	}
	return slices.Contains(existing, typ)
}

func (t *Template) readParameters(v any) error {
	if v == nil {
		return nil
	}
	all, ok := v.(*Map)
	if !ok {
		return formatErr("Parameters must be a map") // our own wording
	}
	if n := len(all.Keys()); n > maxParameters {
		return formatErr("Number of parameters, %d, is greater than maximum allowed, %d", n, maxParameters)
	}
	for _, name := range all.Keys() {
		if !alphanumeric.MatchString(name) {
			return formatErr("Parameter name %s is non alphanumeric.", name)
		}
		m, ok := all.Get(name).(*Map)
		if !ok {
			return formatErr("Any Parameters member must be an object.")
		}
		p, err := readParameter(name, m)
		if err != nil {
			return err
		}
		t.Parameters = append(t.Parameters, p)
	}
	return nil
}

func readParameter(name string, m *Map) (*Parameter, error) {
	p := &Parameter{Name: name}
	for _, k := range m.Keys() {
		v := m.Get(k)
		text, scalar := Text(v)
		if !scalar && k != "AllowedValues" && (k != "Default" || !isList(v)) {
			return nil, formatErr("Every %s member must be a string.", k)
		}
		switch k {
		case "Type":
			p.Type = text
		case "Default":
			if list, ok := v.([]any); ok {
				text = joined(list)
			}
			p.Default = &text
		case "NoEcho":
			p.NoEcho = strings.EqualFold(text, "true")
		case "Description":
			p.Description = text
		case "ConstraintDescription":
			p.constraint = text
		case "AllowedPattern":
			re, err := regexp.Compile(`^(?:` + text + `)$`)
			if err != nil {
				return nil, errorf("Drydock cannot read the AllowedPattern of parameter %s: it uses what Go's regular expressions do not have.", name)
			}
			p.pattern, p.patternText = re, text
		case "AllowedValues":
			list, ok := v.([]any)
			if !ok {
				return nil, formatErr("Every AllowedValues member must be a list.")
			}
			for _, e := range list {
				text, ok := Text(e)
				if !ok {
					return nil, formatErr("Every AllowedValues value must be a string.")
				}
				p.AllowedValues = append(p.AllowedValues, text)
			}
		case "MinLength", "MaxLength", "MinValue", "MaxValue":
			n, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return nil, formatErr("Every %s member must be a number.", k)
			}
			switch k {
			case "MinLength":
				p.minLength = &n
			case "MaxLength":
				p.maxLength = &n
			case "MinValue":
				p.minValue = &n
			default:
				p.maxValue = &n
			}
		default:
			return nil, errorf("Invalid template parameter property '%s'", k)
		}
	}
	switch {
	case p.Type == "":
		return nil, formatErr("Every Parameters object must contain a Type member.")
	case !validType(p.Type):
		return nil, formatErr("Unrecognized parameter type: %s", p.Type)
	}
	return p, nil
}

func isList(v any) bool { _, ok := v.([]any); return ok }

func joined(list []any) string {
	var parts []string
	for _, e := range list {
		text, _ := Text(e)
		parts = append(parts, text)
	}
	return strings.Join(parts, ",")
}

// check returns an error if a value is invalid.
func (p *Parameter) check(value string) error {
	if len(value) > maxValue {
		return errorf("Parameter '%s' must contain at most %d characters", p.Name, maxValue) // [?]
	}
	if p.Type == "AWS::SSM::Parameter::Name" || strings.HasPrefix(p.Type, "AWS::SSM::Parameter::Value<") {
		if value == "" {
			return errorf("Parameter %s should either have input value or default value", p.Name)
		}
	}
	elems := []string{value}
	if _, ssm := p.SSM(); !ssm && p.IsList() {
		elems = split(value)
	}
	for _, v := range elems {
		if bad := p.bad(v); bad != "" {
			if p.constraint != "" {
				return errorf("Parameter %s failed to satisfy constraint: %s", p.Name, p.constraint)
			}
			return errorf("Parameter '%s' %s", p.Name, bad)
		}
	}
	return nil
}

func (p *Parameter) bad(v string) string {
	if p.Type == "Number" || p.Type == "List<Number>" {
		n, err := strconv.ParseFloat(v, 64)
		switch {
		case err != nil:
			return "must be a number."
		case p.minValue != nil && n < *p.minValue:
			return "must be a number not less than " + short(*p.minValue)
		case p.maxValue != nil && n > *p.maxValue:
			return "must be a number not greater than " + short(*p.maxValue)
		}
	}
	n := float64(utf8.RuneCountInString(v))
	switch {
	case len(p.AllowedValues) > 0 && !slices.Contains(p.AllowedValues, v):
		return "must be one of AllowedValues"
	case p.minLength != nil && n < *p.minLength:
		return "must contain at least " + short(*p.minLength) + " characters"
	case p.maxLength != nil && n > *p.maxLength:
		return "must contain at most " + short(*p.maxLength) + " characters"
	case p.pattern != nil && !p.pattern.MatchString(v):
		return "must match pattern " + p.patternText
	}
	return ""
}

func short(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// split splits the value of a list. An empty value has one empty element, which CDK's
// bootstrap template relies on.
func split(value string) []string {
	out := strings.Split(value, ",")
	for i := range out {
		out[i] = strings.TrimSpace(out[i])
	}
	return out
}

// Values returns the values of all parameters, which are the given ones or the defaults.
func (t *Template) Values(given map[string]string) (map[string]string, error) {
	var unknown, missing []string
	names := map[string]bool{}
	for _, p := range t.Parameters {
		names[p.Name] = true
	}
	for name := range given {
		if !names[name] {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return nil, errorf("Parameters: [%s] do not exist in the template", strings.Join(unknown, ", "))
	}
	out := map[string]string{}
	for _, p := range t.Parameters {
		v, ok := given[p.Name]
		if !ok && p.Default != nil {
			v, ok = *p.Default, true
		}
		if !ok {
			missing = append(missing, p.Name)
			continue
		}
		out[p.Name] = v
	}
	if len(missing) > 0 {
		return nil, errorf("Parameters: [%s] must have values", strings.Join(missing, ", "))
	}
	for _, p := range t.Parameters {
		if err := p.check(out[p.Name]); err != nil {
			return nil, err
		}
	}
	return out, nil
}
