package template

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// function returns the name and the argument of a function call, which is a map whose only
// key is the function's name.
func function(v any) (name string, arg any, ok bool) {
	m, isMap := v.(*Map)
	if !isMap || len(m.Keys()) != 1 {
		return "", nil, false
	}
	name = m.Keys()[0]
	if name != "Ref" && !strings.HasPrefix(name, "Fn::") {
		return "", nil, false
	}
	return name, m.Get(name), true
}

// templateErrUnsupported returns AWS's error for an unsupported function, with the list of
// functions as AWS prints it.
func templateErrUnsupported(name string) error {
	return errorf("Template Error: Encountered unsupported function: %s Supported functions are: [Fn::Base64, Fn::GetAtt, Fn::GetAZs, Fn::ImportValue, Fn::Join, Fn::Or, Fn::Split, Fn::FindInMap, Fn::Select, Ref, Fn::If, Fn::Equals, Fn::And, Fn::Sub, Fn::Not, Condition, Fn::Cidr]", name)
}

// pseudo are the pseudo parameters.
var pseudo = []string{"AWS::AccountId", "AWS::NoValue", "AWS::NotificationARNs", "AWS::Partition", "AWS::Region", "AWS::StackId", "AWS::StackName", "AWS::URLSuffix"}

// A checker checks the form of functions and what they refer to.
type checker struct {
	i     *Instance
	block string
	// deps are the resources that active places refer to.
	deps map[string]bool
	// active is true unless the place is in a branch or entity that is switched off.
	active  bool
	missing []string
	// conditions are the conditions that a condition refers to.
	conditions map[string]bool
}

func (c *checker) unresolved(id string) {
	if !slices.Contains(c.missing, id) {
		c.missing = append(c.missing, id)
	}
}

func (c *checker) isParameter(name string) bool {
	return slices.ContainsFunc(c.i.t.Parameters, func(p *Parameter) bool { return p.Name == name })
}

// resource records a reference to a resource.
func (c *checker) resource(id string) {
	switch {
	case c.block == "Conditions", !c.i.declared[id], c.active && c.i.off[id]:
		c.unresolved(id)
	case c.active:
		c.deps[id] = true
	}
}

func (c *checker) ref(name string) {
	if slices.Contains(pseudo, name) || c.isParameter(name) {
		return
	}
	c.resource(name)
}

func (c *checker) value(v any) error {
	switch v := v.(type) {
	case []any:
		return c.all(v)
	case *Map:
		if name, arg, ok := function(v); ok {
			return c.function(name, arg)
		}
		for _, k := range v.Keys() {
			if err := c.value(v.Get(k)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *checker) all(list []any) error {
	for _, e := range list {
		if err := c.value(e); err != nil {
			return err
		}
	}
	return nil
}

// Texts that describe the form of each function.
const (
	formGetAtt    = "every Fn::GetAtt object requires two non-empty parameters, the resource name and the resource attribute"
	formJoin      = "every Fn::Join object requires two parameters, (1) a string delimiter and (2) a list of strings to be joined or a function that returns a list of strings (such as Fn::GetAZs) to be joined."
	formSplit     = "every Fn::Split object requires two parameters, (1) a string delimiter and (2) a string to be split or a function that returns a string to be split."
	formSelect    = "Fn::Select requires a list argument with two elements: an integer index and a list"
	formFindInMap = "every Fn::FindInMap object requires three parameters, the map name, map key and the attribute for return value"
	formEquals    = "every Fn::Equals object requires a list of 2 string parameters."
	formSub       = "One or more Fn::Sub intrinsic functions don't specify expected arguments. Specify a string as first argument, and an optional second argument to specify a mapping of values to replace in the string"
	formSubName   = "variable names in Fn::Sub syntax must contain only alphanumeric characters, underscores, periods, and colons"
	formIf        = "Fn::If requires a list argument with three elements"
	formBase64    = "every Fn::Base64 object must have a String-typed value."
	formCidr      = "every Fn::Cidr object requires two or three parameters, (1) an IP block, (2) a count and (3) the size of a block"
	formImport    = "the attribute in Fn::ImportValue must not depend on any resources, imported values, or Fn::GetAZs"
)

func (c *checker) function(name string, arg any) error {
	list, _ := arg.([]any)
	_, _, isFunction := function(arg)
	switch name {
	case "Ref":
		id, ok := arg.(string)
		if !ok {
			return formatErr("Every Ref object must have a single String value.") // [?]
		}
		c.ref(id)
		return nil
	case "Fn::GetAtt":
		if text, ok := arg.(string); ok {
			if id, attr, ok := strings.Cut(text, "."); ok {
				list = []any{id, attr}
			}
		}
		if len(list) != 2 {
			return templateErr(formGetAtt)
		}
		id, ok := list[0].(string)
		attr, isText := Text(list[1])
		if !ok || id == "" || isText && attr == "" {
			return templateErr(formGetAtt)
		}
		if !isText {
			if n, arg, ok := function(list[1]); !ok || n != "Ref" || !c.isParameter(textOf(arg)) {
				return templateErr(formGetAtt)
			}
		}
		if c.block != "Conditions" && !c.i.declared[id] {
			return templateErr("instance of Fn::GetAtt references undefined resource %s", id)
		}
		c.resource(id)
		return nil
	case "Fn::Sub":
		return c.sub(arg)
	case "Fn::Join":
		if len(list) != 2 {
			return templateErr(formJoin)
		}
		if _, ok := list[0].(string); !ok || !listLike(list[1]) {
			return templateErr(formJoin)
		}
		return c.value(list[1])
	case "Fn::Split":
		if len(list) != 2 {
			return templateErr(formSplit)
		}
		_, ok := list[0].(string)
		_, text := Text(list[1])
		if _, _, f := function(list[1]); !ok || !text && !f {
			return templateErr(formSplit)
		}
		return c.value(list[1])
	case "Fn::Select":
		if len(list) != 2 || !listLike(list[1]) {
			return templateErr(formSelect)
		}
		index, literal := Text(list[0])
		_, _, f := function(list[0])
		if !literal && !f {
			return templateErr(formSelect)
		}
		if literal {
			n, err := strconv.Atoi(index)
			elems, ok := list[1].([]any)
			if err != nil || n < 0 || ok && n >= len(elems) {
				return templateErr(formSelect)
			}
		}
		return c.all(list)
	case "Fn::FindInMap":
		if len(list) != 3 && (len(list) != 4 || !c.i.t.extended()) {
			return templateErr(formFindInMap)
		}
		if err := c.all(list); err != nil {
			return err
		}
		return c.mapping(list)
	case "Fn::GetAZs":
		if _, ok := Text(arg); !ok && !isFunction {
			return templateErr("every Fn::GetAZs object requires a region") // our own wording
		}
		return c.value(arg)
	case "Fn::Base64":
		if _, ok := Text(arg); !ok && !isFunction {
			return templateErr(formBase64)
		}
		return c.value(arg)
	case "Fn::Cidr":
		if len(list) < 2 || len(list) > 3 {
			return templateErr(formCidr)
		}
		return c.all(list)
	case "Fn::ImportValue":
		inner := checker{i: c.i, block: c.block, deps: map[string]bool{}, active: true}
		if err := inner.value(arg); err != nil {
			return err
		}
		if len(inner.deps) > 0 || len(inner.missing) > 0 || uses(arg, "Fn::ImportValue", "Fn::GetAZs") {
			return templateErr(formImport)
		}
		return nil
	case "Fn::If":
		return c.choice(list)
	case "Fn::Equals", "Fn::And", "Fn::Or", "Fn::Not":
		return c.boolean(name, list)
	case "Fn::Length", "Fn::ToJsonString":
		if !c.i.t.extended() {
			return templateErrUnsupported(name)
		}
		return c.value(arg)
	case transform:
		return errorf("Drydock does not implement the transform %s: macros run in Lambda.", nameOf(arg))
	}
	if strings.HasPrefix(name, loop) {
		return formatErr("[/%s/%s] resource definition is malformed", c.block, name)
	}
	return templateErrUnsupported(name)
}

// Imports reports whether a value uses Fn::ImportValue.
func Imports(v any) bool { return uses(v, "Fn::ImportValue") }

// A Reference is a parameter, a resource, or an attribute of a resource that a value refers to.
type Reference struct{ Name, Attribute string }

// References returns the references in a value, in the order of the text.
func References(v any) (out []Reference) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			out = append(out, References(e)...)
		}
	case *Map:
		name, arg, _ := function(v)
		list, _ := arg.([]any)
		switch name {
		case "Ref":
			return []Reference{{Name: textOf(arg)}}
		case "Fn::GetAtt":
			if text, ok := arg.(string); ok {
				id, attribute, _ := strings.Cut(text, ".")
				return []Reference{{id, attribute}}
			}
			if len(list) == 2 {
				return []Reference{{textOf(list[0]), textOf(list[1])}}
			}
		case "Fn::Sub":
			var vars *Map
			text := textOf(arg)
			if len(list) == 2 {
				text = textOf(list[0])
				vars, _ = list[1].(*Map)
			}
			for _, p := range pieces(text) {
				if p.variable && !vars.Has(p.text) {
					id, attribute, _ := strings.Cut(p.text, ".")
					out = append(out, Reference{id, attribute})
				}
			}
			return append(out, References(list)...)
		}
		for _, k := range v.Keys() {
			out = append(out, References(v.Get(k))...)
		}
	}
	return out
}

func textOf(v any) string { text, _ := Text(v); return text }

// listLike reports whether a value is a list or a function, which may return one.
func listLike(v any) bool {
	_, _, f := function(v)
	return isList(v) || f
}

// uses reports whether a value contains one of the functions.
func uses(v any, names ...string) bool {
	switch v := v.(type) {
	case []any:
		return slices.ContainsFunc(v, func(e any) bool { return uses(e, names...) })
	case *Map:
		for _, k := range v.Keys() {
			if slices.Contains(names, k) || uses(v.Get(k), names...) {
				return true
			}
		}
	}
	return false
}

// mapping checks a look-up as far as this is possible without parameters.
func (c *checker) mapping(list []any) error {
	name, ok := list[0].(string)
	if !ok {
		return nil
	}
	m, found := c.i.t.mappings.Get(name).(*Map)
	if !found {
		if len(list) == 4 {
			return nil
		}
		return templateErr("Mapping named '%s' is not present in the 'Mappings' section of template.", name)
	}
	first, ok1 := Text(list[1])
	second, ok2 := Text(list[2])
	if ok1 && ok2 && len(list) == 3 {
		if row, ok := m.Get(first).(*Map); !ok || !row.Has(second) {
			return templateErr("Unable to get mapping for %s::%s::%s", name, first, second)
		}
	}
	return nil
}

func (c *checker) choice(list []any) error {
	if len(list) != 3 {
		return templateErr(formIf)
	}
	name, ok := list[0].(string)
	if !ok {
		return templateErr(formIf)
	}
	if !c.i.conditions.Has(name) {
		return templateErr("unresolved condition dependency %s in Fn::If", name)
	}
	if c.conditions != nil {
		c.conditions[name] = true
	}
	if c.i.params == nil || c.block == "Conditions" {
		return c.all(list[1:])
	}
	chosen, err := c.i.condition(name)
	if err != nil {
		return err
	}
	was := c.active
	defer func() { c.active = was }()
	for n, v := range list[1:] {
		c.active = was && chosen == (n == 0)
		if err := c.value(v); err != nil {
			return err
		}
	}
	return nil
}

// conditionValue checks an expression that must be true or false.
func (c *checker) conditionValue(v any) error {
	m, ok := v.(*Map)
	if !ok || len(m.Keys()) != 1 {
		return formatErr("Conditions can only be boolean operations on parameters and other conditions")
	}
	name := m.Keys()[0]
	if name == "Condition" {
		other, ok := m.Get(name).(string)
		if !ok || !c.i.conditions.Has(other) {
			return templateErr("Unresolved dependencies [%s]. Cannot reference resources in the Conditions block of the template", textOf(m.Get(name)))
		}
		if c.conditions != nil {
			c.conditions[other] = true
		}
		return nil
	}
	list, _ := m.Get(name).([]any)
	switch name {
	case "Fn::Equals", "Fn::And", "Fn::Or", "Fn::Not":
		return c.boolean(name, list)
	}
	return formatErr("Conditions can only be boolean operations on parameters and other conditions")
}

func (c *checker) boolean(name string, list []any) error {
	switch name {
	case "Fn::Equals":
		if len(list) != 2 {
			return templateErr(formEquals)
		}
		for _, e := range list {
			_, scalar := Text(e)
			if _, _, f := function(e); !scalar && !f {
				return templateErr(formEquals)
			}
		}
		return c.all(list)
	case "Fn::Not":
		if len(list) != 1 {
			return templateErr("every Fn::Not object requires one boolean parameter.")
		}
	default:
		if len(list) < 2 || len(list) > 10 {
			return templateErr("every %s object requires a list of at least 2 and at most 10 boolean parameters.", name)
		}
	}
	for _, e := range list {
		if err := c.conditionValue(e); err != nil {
			return err
		}
	}
	return nil
}

var subName = regexp.MustCompile(`^[A-Za-z0-9_.:]+$`)

func (c *checker) sub(arg any) error {
	text, ok := arg.(string)
	var vars *Map
	if list, isList := arg.([]any); isList {
		if len(list) != 2 {
			return templateErr(formSub)
		}
		text, ok = list[0].(string)
		var isMap bool
		if vars, isMap = list[1].(*Map); !ok || !isMap {
			return templateErr(formSub)
		}
		for _, k := range vars.Keys() {
			if err := c.value(vars.Get(k)); err != nil {
				return err
			}
		}
	}
	if !ok {
		return templateErr(formSub)
	}
	for _, p := range pieces(text) {
		switch {
		case !p.variable || vars.Has(p.text):
			continue
		case !subName.MatchString(p.text):
			return templateErr(formSubName)
		}
		if id, _, ok := strings.Cut(p.text, "."); ok {
			if c.block != "Conditions" && !c.i.declared[id] {
				return templateErr("instance of Fn::Sub references invalid resource attribute %s", p.text)
			}
			c.resource(id)
			continue
		}
		c.ref(p.text)
	}
	return nil
}

// A piece is a part of a text for Fn::Sub: either literal text or a variable.
type piece struct {
	text     string
	variable bool
}

func pieces(text string) (out []piece) {
	for {
		at := strings.Index(text, "${")
		if at < 0 {
			return append(out, piece{text: text})
		}
		end := strings.IndexByte(text[at:], '}')
		if end < 0 {
			return append(out, piece{text: text})
		}
		name := text[at+2 : at+end]
		out = append(out, piece{text: text[:at]})
		if literal, ok := strings.CutPrefix(name, "!"); ok {
			out = append(out, piece{text: "${" + literal + "}"})
		} else {
			out = append(out, piece{strings.TrimSpace(name), true})
		}
		text = text[at+end+1:]
	}
}
