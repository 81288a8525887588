package template

import (
	"errors"
	"slices"
	"strings"
)

// An Attribute returns an attribute of the resource that a parameter of an AWS-specific type names.
type Attribute func(typ, id, attribute string) (string, error)

// CheckRules evaluates the assertions of the template's rules for the values of the parameters.
// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/intrinsic-function-reference-rules.html
func (i *Instance) CheckRules(attribute Attribute) error {
	for _, name := range i.t.rules.Keys() {
		rule, ok := i.t.rules.Get(name).(*Map)
		assertions, isList := rule.Get("Assertions").([]any)
		if !ok || !isList {
			return formatErr("Rule %s must have a list of Assertions", name) // our own wording
		}
		holds := func(v any) (bool, error) {
			r := i.resolver(nil)
			r.attribute = attribute
			ok, err := r.boolean(v, 0)
			if errors.Is(err, errNoRuntime) {
				err = formatErr("Rule %s can only refer to parameters", name) // our own wording
			}
			return ok, err
		}
		if c := rule.Get("RuleCondition"); c != nil {
			applies, err := holds(c)
			if err != nil {
				return err
			}
			if !applies {
				continue
			}
		}
		for _, a := range assertions {
			assertion, ok := a.(*Map)
			if !ok || !assertion.Has("Assert") {
				return formatErr("Rule %s: every assertion must have an Assert", name) // our own wording
			}
			ok, err := holds(assertion.Get("Assert"))
			if err != nil {
				return err
			}
			if !ok {
				text, _ := Text(assertion.Get("AssertDescription"))
				return templateErr("%s", text) // [?]
			}
		}
	}
	return nil
}

// rule evaluates the boolean functions that exist only in rules.
func (r *resolver) rule(name string, list []any, depth int) (bool, error) {
	var args [2][]any
	switch name {
	case "Fn::Contains", "Fn::EachMemberIn", "Fn::EachMemberEquals":
		if len(list) != 2 {
			return false, templateErr("every %s object requires two parameters.", name) // our own wording
		}
		for n, e := range list {
			v, err := r.value(e, depth+1)
			if err != nil {
				return false, err
			}
			var isList bool
			if args[n], isList = v.([]any); !isList {
				args[n] = []any{v}
			}
		}
	default:
		return false, templateErrUnsupported(name)
	}
	has := func(in []any, v any) bool {
		return slices.ContainsFunc(in, func(e any) bool { return Equal(e, v) })
	}
	switch name {
	case "Fn::Contains":
		return len(args[1]) > 0 && has(args[0], args[1][0]), nil
	case "Fn::EachMemberIn":
		return !slices.ContainsFunc(args[0], func(e any) bool { return !has(args[1], e) }), nil
	}
	return len(args[1]) > 0 && !slices.ContainsFunc(args[0], func(e any) bool { return !Equal(e, args[1][0]) }), nil
}

// attributes lists the attributes, other than tags, that rules can refer to, by the type of the parameter.
// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/intrinsic-function-reference-rules.html#rules-parameter-attributes
var attributes = map[string][]string{
	"AWS::EC2::VPC::Id":           {"DefaultNetworkAcl", "DefaultSecurityGroup"},
	"AWS::EC2::Subnet::Id":        {"AvailabilityZone", "VpcId"},
	"AWS::EC2::SecurityGroup::Id": {},
}

// TagPrefix precedes the key of a tag in the name of an attribute.
const TagPrefix = "Tags."

// ofParameters evaluates Fn::RefAll, Fn::ValueOf and Fn::ValueOfAll. Their arguments must be literal strings.
func (r *resolver) ofParameters(name string, arg any) (any, error) {
	list, _ := arg.([]any)
	if name == "Fn::RefAll" {
		list = []any{arg, ""}
	}
	if len(list) != 2 {
		return nil, templateErr("every %s object requires two string parameters.", name) // our own wording
	}
	first, ok := list[0].(string)
	attribute, isText := list[1].(string)
	if !ok || !isText {
		return nil, templateErr("the parameters of %s must be strings, not functions.", name) // our own wording
	}
	out, found := []any{}, false
	for _, p := range r.i.t.Parameters {
		if p.Name != first && name == "Fn::ValueOf" || p.Type != first && p.Existing() != first && name != "Fn::ValueOf" {
			continue
		}
		found = true
		values, isList := r.i.params[p.Name].([]any)
		if !isList {
			values = []any{r.i.params[p.Name]}
		}
		for _, v := range values {
			if name != "Fn::RefAll" {
				var err error
				if v, err = r.attributeOf(p, textOf(v), attribute); err != nil {
					return nil, err
				}
			}
			if !isList && name == "Fn::ValueOf" {
				return v, nil
			}
			out = append(out, v)
		}
	}
	if !found && name == "Fn::ValueOf" {
		return nil, formatErr("Unresolved dependencies [%s]. Cannot reference resources in the Rules block of the template", first) // our own wording
	}
	return out, nil
}

func (r *resolver) attributeOf(p *Parameter, id, attribute string) (any, error) {
	typ := p.Existing()
	known, ok := attributes[typ]
	if !ok || !slices.Contains(known, attribute) && !strings.HasPrefix(attribute, TagPrefix) {
		return nil, templateErr("The attribute %s of the parameter %s, which has the type %s, cannot be used in rules.", attribute, p.Name, p.Type) // our own wording
	}
	v, err := r.attribute(typ, id, attribute)
	if err != nil {
		return nil, templateErr("Unable to retrieve the attribute %s of %s: %s", attribute, id, err) // our own wording
	}
	return r.text(v)
}
