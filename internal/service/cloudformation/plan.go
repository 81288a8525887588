package cloudformation

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
	"github.com/drydock-dev/drydock/internal/store"
)

// unknown stands for a value that is known only after the change, in AWS's words.
const unknown = "{{changeSet:KNOWN_AFTER_APPLY}}"

// A plan describes what an update would do.
type plan struct {
	changed []plannedChange // by logical ID
	// other is true if something besides resources changes.
	other   bool
	outputs []outputRecord
}

func (p *plan) changes() bool { return p.other || len(p.changed) > 0 }

// A planner resolves the values of a new version as far as they are known before the update.
type planner struct {
	*runtime
	had  map[string]resourceRecord
	same []string
	// fates has what happens to each resource that changes.
	fates map[string]fate
}

// A fate is the effect of an update on a resource.
type fate int

const (
	unchanged fate = iota
	modified
	replaced
	added
)

// plan compares a stack with its next version. same has the nested stacks that are known not to change.
func (s *Service) plan(ctx context.Context, key store.Key, now, next *stackRecord, same ...string) (*plan, error) {
	if next.Fault != "" {
		return &plan{}, nil
	}
	o := &operation{s: s, key: key, rec: *next, arn: stackARN(key, next)}
	if err := o.bound(); err != nil {
		return nil, asInvalid(err)
	}
	rt, err := o.runtime(ctx)
	if err != nil {
		return nil, err
	}
	p := &planner{runtime: rt, same: same, had: map[string]resourceRecord{}, fates: map[string]fate{}}
	for _, item := range resources.All(s.store, within(key)) {
		if !gone(item.Value.Status) {
			p.had[item.Value.LogicalID] = item.Value
		}
	}
	out := &plan{}
	declared := map[string]*template.Resource{}
	for _, d := range o.instance.Resources {
		declared[d.ID] = d
	}
	var stray []string
	for _, d := range o.instance.Resources {
		if had, ok := p.had[d.ID]; ok && had.Type != d.Type {
			stray = append(stray, d.ID)
		}
	}
	if len(stray) > 0 {
		return nil, invalid("Update of resource type is not permitted. The new template modifies resource type of the following resources: [%s]", strings.Join(stray, ", "))
	}
	seen := map[string]bool{}
	var visit func(d *template.Resource)
	visit = func(d *template.Resource) {
		if seen[d.ID] {
			return
		}
		seen[d.ID] = true
		for _, id := range d.DependsOn {
			visit(declared[id])
		}
		if c, ok := p.resource(d, now, next); ok {
			out.changed = append(out.changed, c)
		}
	}
	for _, d := range o.instance.Resources {
		visit(d)
	}
	for id, had := range p.had {
		if declared[id] == nil {
			out.changed = append(out.changed, p.removal(had))
		}
	}
	slices.SortFunc(out.changed, func(a, b plannedChange) int { return strings.Compare(*a.LogicalResourceId, *b.LogicalResourceId) })
	out.outputs, err = o.outputsOf(p)
	out.other = err != nil || !slices.Equal(out.outputs, now.Outputs) || !slices.Equal(now.Tags, next.Tags) || !slices.Equal(now.NotificationARNs, next.NotificationARNs)
	return out, nil
}

func (p *planner) removal(had resourceRecord) plannedChange {
	c := cloudformationtypes.ResourceChange{
		Action: cloudformationtypes.ChangeActionRemove, LogicalResourceId: &had.LogicalID, PhysicalResourceId: nonEmpty(had.PhysicalID), ResourceType: &had.Type,
		PolicyAction: cloudformationtypes.PolicyActionDelete, BeforeContext: p.context(had.properties()), Scope: []cloudformationtypes.ResourceAttribute{}, Details: []cloudformationtypes.ResourceChangeDetail{},
	}
	if strings.HasPrefix(had.DeletionPolicy, "Retain") {
		c.PolicyAction = cloudformationtypes.PolicyActionRetain
	}
	return plannedChange{c}
}

// resource plans what happens to a declared resource.
func (p *planner) resource(d *template.Resource, now, next *stackRecord) (plannedChange, bool) {
	c := cloudformationtypes.ResourceChange{
		LogicalResourceId: &d.ID, ResourceType: &d.Type, Scope: []cloudformationtypes.ResourceAttribute{}, Details: []cloudformationtypes.ResourceChangeDetail{},
	}
	props, err := p.o.instance.Properties(d, p)
	had, ok := p.had[d.ID]
	if !ok {
		p.fates[d.ID] = added
		c.Action, c.AfterContext = cloudformationtypes.ChangeActionAdd, p.context(props)
		return plannedChange{c}, true
	}
	c.Action, c.PhysicalResourceId, c.Replacement = cloudformationtypes.ChangeActionModify, nonEmpty(had.shown()), cloudformationtypes.ReplacementFalse
	r := p.o.request(p.ctx, &had, &had.resourceState)
	was := *r
	r.props, r.was, r.stackTags = props, &was, next.Tags
	if err != nil { // whether it fails is decided during the update
		p.fates[d.ID] = modified
		c.Scope = []cloudformationtypes.ResourceAttribute{cloudformationtypes.ResourceAttributeProperties}
		return plannedChange{c}, true
	}
	changed := r.differences()
	slices.Sort(changed)
	for _, name := range changed {
		details, scope := p.details(d, name, now, next), cloudformationtypes.ResourceAttributeProperties
		if name == tagsProperty(d.Type) {
			scope = cloudformationtypes.ResourceAttributeTags
		}
		for _, detail := range details {
			t := detail.Target
			t.Attribute, t.Path = scope, aws.String("/Properties/"+name)
			t.BeforeValue, t.AfterValue = p.value(was.props.Get(name)), p.value(props.Get(name))
			switch {
			case t.BeforeValue == nil:
				t.AttributeChangeType = cloudformationtypes.AttributeChangeTypeAdd
			case t.AfterValue == nil:
				t.AttributeChangeType = cloudformationtypes.AttributeChangeTypeRemove
			default:
				t.AttributeChangeType = cloudformationtypes.AttributeChangeTypeModify
			}
			if scope == cloudformationtypes.ResourceAttributeTags {
				t.Name = nil
			}
			switch {
			case t.RequiresRecreation != cloudformationtypes.RequiresRecreationAlways:
			case detail.Evaluation == cloudformationtypes.EvaluationTypeStatic:
				c.Replacement = cloudformationtypes.ReplacementTrue
			case c.Replacement == cloudformationtypes.ReplacementFalse:
				c.Replacement = cloudformationtypes.ReplacementConditional
			}
		}
		if !slices.Contains(c.Scope, scope) {
			c.Scope = append(c.Scope, scope)
		}
		c.Details = append(c.Details, details...)
	}
	if metadata, err := p.o.metadata(d, p); err != nil || metadata != had.Metadata {
		c.Scope = append(c.Scope, cloudformationtypes.ResourceAttributeMetadata)
		c.Details = append(c.Details, cloudformationtypes.ResourceChangeDetail{
			Target:     &cloudformationtypes.ResourceTargetDefinition{Attribute: cloudformationtypes.ResourceAttributeMetadata, RequiresRecreation: cloudformationtypes.RequiresRecreationNever},
			Evaluation: cloudformationtypes.EvaluationTypeStatic, ChangeSource: cloudformationtypes.ChangeSourceDirectModification,
		})
	}
	if d.Type == stackTyp && !slices.Contains(p.same, d.ID) {
		// https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_ResourceChangeDetail.html
		if !slices.Contains(c.Scope, cloudformationtypes.ResourceAttributeProperties) {
			c.Scope = append(c.Scope, cloudformationtypes.ResourceAttributeProperties)
		}
		c.Details = append(c.Details, cloudformationtypes.ResourceChangeDetail{
			Target:     &cloudformationtypes.ResourceTargetDefinition{Attribute: cloudformationtypes.ResourceAttributeProperties, RequiresRecreation: cloudformationtypes.RequiresRecreationNever},
			Evaluation: cloudformationtypes.EvaluationTypeDynamic, ChangeSource: cloudformationtypes.ChangeSourceAutomatic,
		})
	}
	if len(c.Scope) == 0 {
		return plannedChange{}, false
	}
	p.fates[d.ID] = modified
	if c.Replacement == cloudformationtypes.ReplacementTrue {
		p.fates[d.ID], c.PolicyAction = replaced, cloudformationtypes.PolicyActionReplaceAndDelete
		if had.UpdateReplacePolicy == "Retain" {
			c.PolicyAction = cloudformationtypes.PolicyActionReplaceAndRetain
		}
	}
	c.BeforeContext, c.AfterContext = p.context(was.props), p.context(props)
	return plannedChange{c}, true
}

// context returns the properties of a resource as change sets show them.
func (p *planner) context(props *template.Map) *string {
	m := &template.Map{}
	if props != nil {
		m.Set("Properties", props)
	}
	return p.value(m)
}

// value returns a property's value in the form that change sets show, or nil if the property has no value.
func (p *planner) value(v any) *string {
	if v == nil {
		return nil
	}
	text, ok := template.Text(v)
	if !ok {
		text = template.JSON(v)
	}
	return aws.String(string(masked([]byte(text), p.o.rec.Parameters)))
}

// details returns the reasons why a property changes.
func (p *planner) details(d *template.Resource, property string, now, next *stackRecord) []cloudformationtypes.ResourceChangeDetail {
	recreation := cloudformationtypes.RequiresRecreationNever
	if replaces(d.Type, []string{property}) {
		recreation = cloudformationtypes.RequiresRecreationAlways
	}
	var out []cloudformationtypes.ResourceChangeDetail
	add := func(evaluation cloudformationtypes.EvaluationType, source cloudformationtypes.ChangeSource, entity string) {
		out = append(out, cloudformationtypes.ResourceChangeDetail{
			Target:     &cloudformationtypes.ResourceTargetDefinition{Name: aws.String(property), RequiresRecreation: recreation},
			Evaluation: evaluation, ChangeSource: source, CausingEntity: nonEmpty(entity),
		})
	}
	const static, dynamic = cloudformationtypes.EvaluationTypeStatic, cloudformationtypes.EvaluationTypeDynamic
	direct := false
	for _, ref := range template.References(d.Properties.Get(property)) {
		switch was := p.fates[ref.Name]; {
		case ref.Attribute == "" && parameter(now, ref.Name) != parameter(next, ref.Name):
			add(static, cloudformationtypes.ChangeSourceParameterReference, ref.Name)
			direct = true
		case was == unchanged:
		case ref.Attribute == "" && was >= replaced:
			add(static, cloudformationtypes.ChangeSourceResourceReference, ref.Name)
		case ref.Attribute != "" && was >= replaced:
			add(static, cloudformationtypes.ChangeSourceResourceAttribute, ref.Name+"."+ref.Attribute)
		case ref.Attribute != "":
			add(dynamic, cloudformationtypes.ChangeSourceResourceAttribute, ref.Name+"."+ref.Attribute)
		}
	}
	switch {
	case direct:
		add(dynamic, cloudformationtypes.ChangeSourceDirectModification, "")
	case len(out) == 0:
		add(static, cloudformationtypes.ChangeSourceDirectModification, "")
	}
	return out
}

// parameter returns the value of a parameter as the template sees it.
func parameter(rec *stackRecord, name string) string {
	for _, p := range rec.Parameters {
		if p.Name == name && p.Resolved != "" {
			return p.Resolved
		} else if p.Name == name {
			return p.Value
		}
	}
	return ""
}

// Ref implements template.Runtime.
func (p *planner) Ref(id string) (string, error) {
	if had, ok := p.had[id]; ok && p.fates[id] < replaced && had.PhysicalID != "" {
		return had.shownAs(had.Type), nil
	}
	return unknown, nil
}

// GetAtt implements template.Runtime.
func (p *planner) GetAtt(id, attribute string) (any, error) {
	if p.fates[id] != unchanged {
		return unknown, nil
	}
	return p.runtime.GetAtt(id, attribute)
}

// Import implements template.Runtime. It records no import, because a plan does not use the value.
func (p *planner) Import(name string) (string, error) {
	for _, f := range all(p.o.s.store, scopeAt(p.o.key)) {
		for _, out := range f.Outputs {
			if out.Export == name && f.Status != cloudformationtypes.StackStatusDeleteComplete {
				return out.Value, nil
			}
		}
	}
	return "", template.Error("No export named " + name + " found.")
}
