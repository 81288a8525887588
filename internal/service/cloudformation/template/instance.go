package template

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// An Environment has the values of the pseudo parameters.
type Environment struct {
	AccountID, Region  string
	StackID, StackName string
	NotificationARNs   []string
}

// A Runtime resolves what only a running stack knows.
type Runtime interface {
	Ref(id string) (string, error)
	GetAtt(id, attribute string) (any, error)
	// Import returns the value of an export.
	Import(name string) (string, error)
	// Zones returns the availability zones of a region for Fn::GetAZs.
	Zones(region string) ([]string, error)
	// Dynamic resolves the text between "{{resolve:" and "}}".
	Dynamic(reference string) (string, error)
}

// An Instance is a template with the values of its parameters: everything that a condition
// switches off is gone, loops are expanded, and references are known to be valid.
type Instance struct {
	Resources []*Resource // in the order of the template
	Outputs   []*Output

	t   *Template
	env Environment
	// params are strings or lists of strings. If params is nil, they are not known, and
	// every condition is assumed to be true.
	params     map[string]any
	on, off    map[string]bool // results of conditions; resources that are switched off
	declared   map[string]bool // all resources, including those that are switched off
	conditions *Map
}

// static checks everything that does not depend on parameters.
func (t *Template) static() (*Instance, error) { return t.bind(Environment{}, nil) }

// Bind gives the parameters their values, which [Template.Values] returned. If a parameter
// names one in Parameter Store, its value here is the one stored there.
func (t *Template) Bind(env Environment, values map[string]string) (*Instance, error) {
	params := map[string]any{}
	for _, p := range t.Parameters {
		v := values[p.Name]
		if !p.IsList() {
			params[p.Name] = v
			continue
		}
		list := []any{}
		for _, e := range split(v) {
			list = append(list, e)
		}
		params[p.Name] = list
	}
	return t.bind(env, params)
}

func (t *Template) bind(env Environment, params map[string]any) (*Instance, error) {
	i := &Instance{t: t, env: env, params: params, on: map[string]bool{}, off: map[string]bool{}, declared: map[string]bool{}}
	resources, outputs := t.resources, t.outputs
	i.conditions = t.conditions
	if t.extended() {
		x := expander{i: i}
		for _, m := range []**Map{&i.conditions, &resources, &outputs} {
			out, err := x.section(*m)
			if err != nil {
				return nil, TransformError(fmt.Sprintf("Transform AWS::LanguageExtensions failed with: %s", err))
			}
			*m = out
		}
	}
	rs, os, err := declared(resources, outputs)
	if err != nil {
		return nil, err
	}
	for _, r := range rs {
		i.declared[r.ID] = true
	}
	if err := i.checkConditions(); err != nil {
		return nil, err
	}
	holds := func(condition, what string) (bool, error) {
		if condition == "" {
			return true, nil
		}
		if !i.conditions.Has(condition) {
			return false, formatErr("Unresolved condition dependency %s in the %s block of the template", condition, what)
		}
		return i.condition(condition)
	}
	for _, r := range rs {
		ok, err := holds(r.condition, "Resources")
		if err != nil {
			return nil, err
		}
		if ok {
			i.Resources = append(i.Resources, r)
		} else {
			i.off[r.ID] = true
		}
	}
	if err := i.checkResources(rs); err != nil {
		return nil, err
	}
	if err := i.resolvePolicies(); err != nil {
		return nil, err
	}
	for _, o := range os {
		ok, err := holds(o.condition, "Outputs")
		if err != nil {
			return nil, err
		}
		if ok {
			i.Outputs = append(i.Outputs, o)
		}
	}
	if err := i.checkOutputs(os); err != nil {
		return nil, err
	}
	return i, i.checkCycles()
}

// resolvePolicies resolves the functions in DeletionPolicy and UpdateReplacePolicy.
// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/transform-aws-languageextensions.html
func (i *Instance) resolvePolicies() error {
	for _, r := range i.Resources {
		for n, name := range r.policies {
			if !i.t.extended() { // [seen] https://github.com/awslabs/aws-servicebroker/pull/22
				return formatErr("Every %s member must be a string.", name)
			}
			v, err := i.Value(r.functions[n], nil)
			if errors.Is(err, errNoRuntime) {
				return formatErr("%s of resource %s must not depend on resources.", name, r.ID) // our own wording
			}
			if err != nil {
				return err
			}
			if err := r.setPolicy(name, textOf(v)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (i *Instance) checkResources(all []*Resource) error {
	c := checker{i: i, block: "Resources"}
	for _, r := range all {
		c.deps, c.active = map[string]bool{}, !i.off[r.ID]
		if err := c.value(r.Properties); err != nil {
			return err
		}
		for _, policy := range []*Map{r.CreationPolicy, r.UpdatePolicy} {
			if policy != nil {
				if err := c.value(policy); err != nil {
					return err
				}
			}
		}
		for _, id := range r.explicit {
			switch {
			case !i.declared[id]:
				c.unresolved(id)
			case !i.off[id]: // nothing has to wait for a resource that is switched off
				c.deps[id] = true
			}
		}
		r.DependsOn = slices.Sorted(maps.Keys(c.deps))
	}
	if len(c.missing) > 0 {
		return formatErr("Unresolved resource dependencies [%s] in the Resources block of the template", strings.Join(c.missing, ", "))
	}
	return nil
}

func (i *Instance) checkOutputs(all []*Output) error {
	c := checker{i: i, block: "Outputs"}
	for _, o := range all {
		c.deps, c.active = map[string]bool{}, slices.Contains(i.Outputs, o)
		for _, v := range []any{o.Value, o.Export} {
			if v != nil {
				if err := c.value(v); err != nil {
					return err
				}
			}
		}
	}
	if len(c.missing) > 0 {
		return errorf("Unresolved resource dependencies [%s] in the Outputs block of the template", strings.Join(c.missing, ", "))
	}
	return nil
}

// checkCycles removes resources that nothing waits for and resources that wait for nothing,
// until only cycles are left.
func (i *Instance) checkCycles() error {
	waits, waited := map[string]map[string]bool{}, map[string]map[string]bool{}
	for _, r := range i.Resources {
		waits[r.ID], waited[r.ID] = map[string]bool{}, map[string]bool{}
	}
	for _, r := range i.Resources {
		for _, d := range r.DependsOn {
			waits[r.ID][d], waited[d][r.ID] = true, true
		}
	}
	for changed := true; changed; {
		changed = false
		for id := range waits {
			if len(waits[id]) > 0 && len(waited[id]) > 0 {
				continue
			}
			for d := range waits[id] {
				delete(waited[d], id)
			}
			for d := range waited[id] {
				delete(waits[d], id)
			}
			delete(waits, id)
			delete(waited, id)
			changed = true
		}
	}
	if len(waits) > 0 {
		return errorf("Circular dependency between resources: [%s]", strings.Join(slices.Sorted(maps.Keys(waits)), ", "))
	}
	return nil
}

// condition evaluates a condition and keeps the result.
func (i *Instance) condition(name string) (bool, error) {
	if i.params == nil {
		return true, nil
	}
	if v, ok := i.on[name]; ok {
		return v, nil
	}
	r := i.resolver(nil)
	v, err := r.boolean(i.conditions.Get(name), 0)
	i.on[name] = v
	return v, err
}

// checkConditions checks the conditions, and that none depends on itself.
func (i *Instance) checkConditions() error {
	const (
		open = 1
		done = 2
	)
	state := map[string]int{}
	var visit func(name string) error
	visit = func(name string) error {
		switch state[name] {
		case done:
			return nil
		case open:
			return formatErr("Circular dependencies for resource conditions: [%s]", name) // our own wording
		}
		state[name] = open
		c := checker{i: i, block: "Conditions", deps: map[string]bool{}, active: true, conditions: map[string]bool{}}
		if err := c.conditionValue(i.conditions.Get(name)); err != nil {
			return err
		}
		if len(c.missing) > 0 {
			return formatErr("Unresolved dependencies [%s]. Cannot reference resources in the Conditions block of the template", strings.Join(c.missing, ", "))
		}
		for _, next := range slices.Sorted(maps.Keys(c.conditions)) {
			if err := visit(next); err != nil {
				return err
			}
		}
		state[name] = done
		return nil
	}
	for _, name := range i.conditions.Keys() {
		if err := visit(name); err != nil {
			return err
		}
	}
	return nil
}

// An expander expands Fn::ForEach.
type expander struct {
	i      *Instance
	values int
}

const loop = "Fn::ForEach::"

func hasLoops(v any) bool {
	switch v := v.(type) {
	case *Map:
		for _, k := range v.Keys() {
			if strings.HasPrefix(k, loop) || hasLoops(v.Get(k)) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, hasLoops)
	}
	return false
}

// computes reports whether a value contains a Ref or a Fn::GetAtt with an argument that is a function.
func computes(v any) bool {
	switch v := v.(type) {
	case *Map:
		if name, arg, ok := function(v); ok && (name == "Ref" || name == "Fn::GetAtt") {
			list, isList := arg.([]any)
			if !isList {
				list = []any{arg}
			}
			return slices.ContainsFunc(list, func(e any) bool { _, isMap := e.(*Map); return isMap })
		}
		return slices.ContainsFunc(v.Keys(), func(k string) bool { return computes(v.Get(k)) })
	case []any:
		return slices.ContainsFunc(v, computes)
	}
	return false
}

// computed returns the argument of a Ref or a Fn::GetAtt with the functions in it resolved. It returns an error if one of
// them depends on resources.
func (x *expander) computed(arg any) (any, error) {
	switch arg := arg.(type) {
	case *Map:
		v, err := x.i.Value(arg, nil)
		if errors.Is(err, errNoRuntime) {
			err = Error("the arguments of Ref and Fn::GetAtt must not depend on resources") // our own wording
		}
		return v, err
	case []any:
		out := make([]any, len(arg))
		for n, e := range arg {
			var err error
			if out[n], err = x.computed(e); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return arg, nil
}

func (x *expander) section(m *Map) (*Map, error) {
	if m == nil || !hasLoops(m) && !computes(m) {
		return m, nil
	}
	v, err := x.value(m, nil, 0)
	if err != nil {
		return nil, err
	}
	return v.(*Map), nil
}

var errLayout = Error("Fn::ForEach layout is incorrect")

func (x *expander) value(v any, vars map[string]string, depth int) (any, error) {
	if x.values++; x.values > maxValues || depth > maxDepth {
		return nil, Error("the template becomes too large")
	}
	switch v := v.(type) {
	case []any:
		out := []any{}
		for _, e := range v {
			e, err := x.value(e, vars, depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, e)
		}
		return out, nil
	case *Map:
		if name, arg, ok := function(v); ok && !strings.HasPrefix(name, loop) {
			switch name {
			case "Ref":
				if id, ok := arg.(string); ok {
					if value, ok := vars[id]; ok {
						return value, nil
					}
				}
				arg = deepSubstitute(arg, vars)
			case "Fn::Sub", "Fn::GetAtt":
				arg = deepSubstitute(arg, vars)
			}
			arg, err := x.value(arg, vars, depth+1)
			if err == nil && (name == "Ref" || name == "Fn::GetAtt") {
				arg, err = x.computed(arg)
			}
			if err != nil {
				return nil, err
			}
			out := &Map{}
			out.Set(name, arg)
			return out, nil
		}
		out := &Map{}
		for _, k := range v.Keys() {
			if strings.HasPrefix(k, loop) {
				if err := x.loop(out, v.Get(k), vars, depth); err != nil {
					return nil, err
				}
				continue
			}
			e, err := x.value(v.Get(k), vars, depth+1)
			if err != nil {
				return nil, err
			}
			out.Set(substitute(k, vars), e)
		}
		return out, nil
	}
	return v, nil
}

func (x *expander) loop(into *Map, v any, vars map[string]string, depth int) error {
	list, ok := v.([]any)
	if !ok || len(list) != 3 {
		return errLayout
	}
	id, ok := list[0].(string)
	body, isMap := list[2].(*Map)
	if !ok || !isMap || !alphanumeric.MatchString(id) {
		return errLayout
	}
	elems, err := x.collection(list[1], vars)
	if err != nil {
		return err
	}
	for _, e := range elems {
		inner := maps.Clone(vars)
		if inner == nil {
			inner = map[string]string{}
		}
		inner[id] = e
		out, err := x.value(body, inner, depth+1)
		if err != nil {
			return err
		}
		for _, k := range out.(*Map).Keys() {
			into.Set(k, out.(*Map).Get(k))
		}
	}
	return nil
}

func (x *expander) collection(v any, vars map[string]string) ([]string, error) {
	if name, arg, ok := function(v); ok && name == "Ref" {
		id, _ := arg.(string)
		list, ok := x.i.params[id].([]any)
		if !ok {
			return nil, errLayout
		}
		v = list
	}
	list, ok := v.([]any)
	if !ok {
		return nil, errLayout
	}
	var out []string
	for _, e := range list {
		if name, arg, ok := function(e); ok && name == "Ref" {
			id, _ := arg.(string)
			if text, ok := vars[id]; ok {
				e = text
			} else {
				e = x.i.params[id]
			}
		}
		text, ok := Text(e)
		if !ok {
			return nil, errLayout
		}
		out = append(out, text)
	}
	return out, nil
}

// substitute replaces the variables of loops: ${Id} with the value, &{Id} with the
// alphanumeric characters of the value.
func substitute(text string, vars map[string]string) string {
	for id, value := range vars {
		text = strings.ReplaceAll(text, "${"+id+"}", value)
		text = strings.ReplaceAll(text, "&{"+id+"}", strings.Map(func(r rune) rune {
			if r < 128 && alphanumeric.MatchString(string(r)) {
				return r
			}
			return -1
		}, value))
	}
	return text
}

// deepSubstitute replaces the variables of loops in the arguments of Ref, Fn::GetAtt and Fn::Sub.
func deepSubstitute(v any, vars map[string]string) any {
	switch v := v.(type) {
	case string:
		return substitute(v, vars)
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			if text, ok := e.(string); ok {
				e = substitute(text, vars)
			}
			out[i] = e
		}
		return out
	}
	return v
}
