package why

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/reach"
	"github.com/drydock-dev/drydock/internal/service/cloudformation"
)

const nestedStack = "AWS::CloudFormation::Stack"

// reason explains the failure of a resource and adds the evidence to what. over reports that the failure would not
// happen again and that nothing is left to fix.
func (q *stackQuestion) reason(ctx context.Context, e *cloudformation.StoryEvent, what *api.StackFailure) (why *api.Reason, over bool, err error) {
	out := &api.Reason{By: "CloudFormation", Text: e.Reason}
	if e.Service != "" {
		call := &api.StackCall{Service: e.Service, Operation: e.Action, Code: e.Code, Message: e.Answer}
		call.RequestID = e.RequestIDs[len(e.RequestIDs)-1]
		what.Call = call
		out.By, out.Code, out.Component = e.Service, e.Code, e.Service+":"+e.Action
		out.Text = fmt.Sprintf("request %s was answered: %s", call.RequestID, e.Answer)
	}
	for _, id := range e.RequestIDs {
		request, ok, err := q.x.explainRequest(ctx, "", id)
		if err != nil {
			return nil, false, err
		}
		if !ok || !request.Refused {
			continue
		}
		what.Request = &request
		now := request.Now != nil && request.Now.Allowed
		shown := request // the fixes come below
		shown.Fixes = nil
		if f := request.Fault; f != nil {
			bare := *f
			bare.Fixes, shown.Fault = nil, &bare
		}
		out.Text, out.Fixes = strings.TrimRight(shown.Text(), "\n"), request.Fixes
		out.By = node.ByIAM
		if f := request.Fault; f != nil {
			out.By, out.Fixes = "fault", f.Fixes
			now = !slices.ContainsFunc(q.x.cfg.Faults.List(q.account, q.region), func(set fault.Fault) bool { return set.ID == f.ID })
		}
		if now {
			out.Fixes = q.again([]advice.Fix{{}})
			return out, len(out.Fixes) == 0, nil
		}
		out.Fixes = q.again(q.lasting(e, out.Fixes))
		return out, false, nil
	}
	if e.Type == nestedStack && q.depth < maxNesting && e.PhysicalID != "" {
		nested, ok, err := q.x.explainStack(ctx, q.account, q.region, e.PhysicalID, q.depth+1)
		if err != nil {
			return nil, false, err
		}
		if ok && len(nested.Failures) > 0 {
			what.Stack = &nested
			return q.ofNested(&nested), false, nil
		}
	}
	why = q.nodes(ctx, e.Type, e.PhysicalID, e.Instances, what)
	if unsignalled(e.Reason) && len(what.Nodes) > 0 && (why == nil || why.By != node.ByNetwork) {
		if path := q.signalPath(ctx, what.Nodes[0].Instance); path != nil {
			why = path
		}
	}
	switch {
	case why != nil:
		why.Text = e.Reason + "\n" + why.Text
		switch {
		case !q.rolledBack():
		case why.By == node.ByNetwork:
			why.Fixes, why.Note = nil, "the rollback has deleted what it would be tried on. With --on-failure DO_NOTHING a stack that fails is kept, and this command proposes a fix"
		default:
			why.Fixes, why.Note = nil, "the template has to be changed, or what it refers to"
		}
		why.Fixes = q.again(why.Fixes)
		return why, false, nil
	case unsignalled(e.Reason):
		out.Note = "user data has to end with cfn-signal --stack " + q.out.Stack + " --resource " + e.LogicalID + q.at() + " before the timeout"
		for _, n := range what.Nodes {
			if last := lastStep(&n); last != nil {
				out.Text += "\n" + n.Instance + " got as far as " + last.Name + ", and nothing has failed there before"
			}
		}
		return out, false, nil
	}
	if strings.HasPrefix(e.Status, "DELETE") {
		if fixes, text := q.inTheWay(ctx, e); len(fixes) > 0 {
			out.Text, out.Fixes = out.Text+"\n"+text, q.again(fixes)
			return out, false, nil
		}
		out.Fixes = q.again([]advice.Fix{{Sketch: "delete what is in the way first"}})
		if q.deletes {
			out.Fixes = append(out.Fixes, q.retaining(e.LogicalID))
		}
		return out, false, nil
	}
	out.Fixes = q.again(q.templateFixes(e.Reason))
	if len(out.Fixes) == 0 {
		out.Note = "what the template says about " + e.LogicalID + " has to be changed"
	}
	return out, false, nil
}

// lasting makes fixes hold for the resources that a retry creates: in statements, * stands for the random part of the
// name of the resource that failed, and for the IDs of those that a rollback has deleted. This only widens statements,
// so what was proven stays true.
func (q *stackQuestion) lasting(e *cloudformation.StoryEvent, fixes []advice.Fix) []advice.Fix {
	if strings.HasPrefix(e.Status, "DELETE") {
		return fixes
	}
	var replace []string
	if e.Suffix != "" {
		replace = append(replace, e.Suffix, "*", strings.ToLower(e.Suffix), "*")
	}
	for _, past := range q.scope {
		if past.Status == "DELETE_COMPLETE" && past.PhysicalID != "" && !strings.Contains(past.PhysicalID, ":") {
			replace = append(replace, "/"+past.PhysicalID+`"`, `/*"`)
		}
	}
	r := strings.NewReplacer(replace...)
	for i := range fixes {
		for j, c := range fixes[i].Changes {
			before, after := c.Value, r.Replace(c.Value)
			fixes[i].Changes[j].Value = after
			for k := range fixes[i].Commands {
				fixes[i].Commands[k] = strings.ReplaceAll(fixes[i].Commands[k], before, after)
			}
		}
	}
	return fixes
}

// ofNested returns the reason for a nested stack's first failure, worded for its parent.
func (q *stackQuestion) ofNested(nested *api.StackExplanation) *api.Reason {
	out := &api.Reason{By: "the nested stack " + nested.Stack, Text: nested.Failures[0].LogicalID + ": " + nested.Failures[0].Reason}
	for _, s := range nested.Steps {
		if s.Name == nested.Failures[0].LogicalID && s.Reason != nil {
			r := *s.Reason
			r.By, r.Text = r.By+" in the nested stack "+nested.Stack, s.Name+" "+s.Evidence+"\n"+r.Text
			return &r
		}
	}
	return out
}

// rolledBack reports whether a rollback has deleted what the stack's creation had made.
func (q *stackQuestion) rolledBack() bool {
	return strings.HasPrefix(q.out.Status, "ROLLBACK_") || strings.HasPrefix(q.out.Status, "UPDATE_ROLLBACK_") || q.out.Status == "DELETE_COMPLETE"
}

// nodes explains the instances of a resource that waits for them, or returns nil if nothing is wrong with any.
func (q *stackQuestion) nodes(ctx context.Context, typ, physicalID string, instances []string, what *api.StackFailure) *api.Reason {
	instances = slices.Clone(instances)
	tag, value := "", physicalID
	switch typ {
	case "AWS::EC2::Instance":
		if len(instances) == 0 && physicalID != "" {
			instances = []string{physicalID}
		}
	case "AWS::AutoScaling::AutoScalingGroup":
		tag = tagGroup
	case "AWS::EKS::Nodegroup":
		tag = "eks:nodegroup-name"
		_, value, _ = strings.Cut(physicalID, "/")
	case "AWS::CloudFormation::WaitCondition": // which of them should signal is not known
		tag, value = "aws:cloudformation:stack-id", q.out.ARN
	default:
		return nil
	}
	for _, m := range q.x.cfg.Machines.Instances(q.account, q.region) {
		if tag != "" && m.Tags[tag] == value && !slices.Contains(instances, m.ID) {
			instances = append(instances, m.ID)
		}
	}
	known := answers{}
	var out *api.Reason
	for _, id := range instances {
		e, err := q.x.explainNode(q.account, q.region, id, known)
		if err != nil {
			continue
		}
		if what != nil {
			what.Nodes = append(what.Nodes, e)
		}
		s := e.FirstFailed()
		if s == nil || out != nil || strings.TrimSpace(s.Evidence) == context.Canceled.Error() { // it was terminated
			continue
		}
		why := api.Reason{By: "instance", Component: id}
		if s.Reason != nil {
			why = *s.Reason
		}
		why.Text = strings.TrimRight(id+" fails at "+s.Name+": "+strings.TrimSpace(s.Evidence)+"\n"+why.Text, "\n")
		out = &why
	}
	return out
}

// lastStep returns the last step that succeeded before the instance was terminated. It returns nil if no step
// succeeded.
func lastStep(e *api.NodeExplanation) (out *api.Step) {
	for i := range e.Steps {
		if s := &e.Steps[i]; s.State == api.StepOK && s.Name != node.StepStop {
			out = s
		}
	}
	return out
}

// unsignalled reports whether a resource failed because too few signals arrived.
func unsignalled(reason string) bool {
	return strings.HasPrefix(reason, "Failed to receive ") || strings.HasPrefix(reason, "WaitCondition timed out") || strings.Contains(reason, "MinSuccessfulInstancesPercent")
}

// signalPath returns why an instance cannot send a signal to CloudFormation, or nil if the network lets it.
func (q *stackQuestion) signalPath(ctx context.Context, instance string) *api.Reason {
	host := "cloudformation." + q.region + ".amazonaws.com"
	s, err := q.x.cfg.Network(ctx, q.account, q.region)
	if err != nil {
		return nil
	}
	if m, err := q.x.cfg.Machines.Instance(instance); err != nil || m.ID == "" {
		return nil // it is gone
	}
	v := s.CheckName(reach.Flow{From: reach.At(instance), Protocol: reach.TCP, Port: 443}, host)
	if v.Reachable || len(v.Explanations) == 0 {
		return nil
	}
	first := v.Explanations[0]
	a := advice.Network(s, advice.Connection{Through: q.x.through(ctx, q.account, q.region), Needs: []advice.Need{need(instance, host, 443)}})
	return &api.Reason{
		By: node.ByNetwork, Code: first.Code, Component: first.Component, Text: instance + " cannot send a signal to " + host + ": " + first.Text, Fixes: a.Fixes, Note: a.Note,
	}
}

// waits explains what a resource in progress waits for, if something is wrong with it.
func (q *stackQuestion) waits(ctx context.Context, id string, p *progress) *api.Reason {
	if p.last.Type == nestedStack && p.physicalID != "" && q.depth < maxNesting {
		if nested, ok, err := q.x.explainStack(ctx, q.account, q.region, p.physicalID, q.depth+1); err == nil && ok && len(nested.Failures) > 0 {
			return q.ofNested(&nested)
		}
	}
	if why := q.nodes(ctx, p.last.Type, p.physicalID, nil, nil); why != nil {
		return why
	}
	if p.last.Type == "AWS::EKS::Nodegroup" {
		if cluster, name, ok := strings.Cut(p.physicalID, "/"); ok {
			if e, err := q.x.explainNodes(ctx, q.account, q.region, cluster, name); err == nil && len(e.Issues) > 0 {
				return &api.Reason{By: "EKS", Component: id, Text: strings.Join(e.Issues, "\n"), Fixes: e.Fixes}
			}
		}
	}
	return nil
}

// retaining is the fix that deletes the stack but keeps a resource.
func (q *stackQuestion) retaining(id string) advice.Fix {
	var all []string
	for _, r := range q.Resources {
		if r.Status == "DELETE_FAILED" {
			all = append(all, r.LogicalID)
		}
	}
	if len(all) == 0 {
		all = []string{id}
	}
	at := " --region " + q.region
	return advice.Paste("aws cloudformation delete-stack --stack-name "+q.out.ARN+" --retain-resources "+strings.Join(all, " ")+at,
		"aws cloudformation wait stack-delete-complete --stack-name "+q.out.ARN+at)
}

// again adds to each fix the commands that retry the stack's operation. Without such commands it returns them as they
// are, except for empty ones, which it drops.
func (q *stackQuestion) again(fixes []advice.Fix) []advice.Fix {
	commands, sketch := q.retry()
	var out []advice.Fix
	for _, f := range fixes {
		if f.Sketch == "" {
			f.Sketch = sketch
		}
		f.Commands = slices.Concat(f.Commands, commands)
		if len(f.Commands) > 0 {
			out = append(out, f)
		}
	}
	return out
}

// retry returns the commands that retry the failed operation of the stack, and what has to be filled in.
func (q *stackQuestion) retry() (commands []string, sketch string) {
	if q.depth > 0 {
		return nil, "" // the parent is to be retried
	}
	stack, at := " --stack-name "+q.out.Stack, " --region "+q.region
	whole := " --stack-name " + q.out.ARN // of the stack itself, whatever gets its name
	deletion := []string{"aws cloudformation delete-stack" + whole + at, "aws cloudformation wait stack-delete-complete" + whole + at}
	switch q.out.Status {
	case "CREATE_FAILED", "UPDATE_FAILED":
		command := "aws cloudformation update-stack" + stack + " --use-previous-template --disable-rollback"
		if len(q.Parameters) > 0 {
			command += " --parameters"
			for _, p := range q.Parameters {
				command += " ParameterKey=" + aws.ToString(p.ParameterKey) + ",UsePreviousValue=true"
			}
		}
		return []string{command + q.capabilities() + at, "aws cloudformation wait stack-update-complete" + stack + at}, ""
	case "UPDATE_ROLLBACK_FAILED":
		return []string{"aws cloudformation continue-update-rollback" + stack + at, "aws cloudformation wait stack-rollback-complete" + stack + at}, ""
	case "DELETE_FAILED":
		return deletion, ""
	case "ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "DELETE_COMPLETE":
		if q.out.Status == "DELETE_COMPLETE" {
			deletion = nil
		}
		create, sketch := q.create()
		return append(deletion, create, "aws cloudformation wait stack-create-complete"+stack+at), sketch
	}
	return nil, ""
}

func (q *stackQuestion) capabilities() string {
	if len(q.Capabilities) == 0 {
		return ""
	}
	out := " --capabilities"
	for _, c := range q.Capabilities {
		out += " " + string(c)
	}
	return out
}

// create returns the command that creates the stack again from the template of the deleted one.
func (q *stackQuestion) create() (command, sketch string) {
	output := "text"
	if q.JSON { // the AWS CLI parses it
		output = "json"
	}
	at := " --region " + q.region
	command = "aws cloudformation create-stack --stack-name " + q.out.Stack +
		` --template-body "$(aws cloudformation get-template --stack-name ` + q.out.ARN + " --query TemplateBody --output " + output + at + `)"`
	type parameter struct{ ParameterKey, ParameterValue string }
	type tag struct{ Key, Value string }
	var parameters []parameter
	var tags []tag
	for _, p := range q.Parameters {
		value := aws.ToString(p.ParameterValue)
		if value == "****" {
			sketch = "fill in the values of parameters that are ****"
		}
		parameters = append(parameters, parameter{aws.ToString(p.ParameterKey), value})
	}
	for _, t := range q.Tags {
		tags = append(tags, tag{aws.ToString(t.Key), aws.ToString(t.Value)})
	}
	if q.Long {
		sketch = "the template is too long for --template-body: save it before you delete the stack, upload it to a bucket, and name it with --template-url"
	}
	if len(parameters) > 0 {
		command += " --parameters " + quotedJSON(parameters)
	}
	if len(tags) > 0 {
		command += " --tags " + quotedJSON(tags)
	}
	if role := aws.ToString(q.RoleARN); role != "" {
		command += " --role-arn " + role
	}
	if aws.ToBool(q.DisableRollback) {
		command += " --disable-rollback"
	}
	return command + q.capabilities() + at, sketch
}

// quotedJSON returns a value as JSON in one word for a shell.
func quotedJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil { // strings always encode
		panic(err)
	}
	return quoted(string(text))
}
