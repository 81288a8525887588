package cloudformation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscloudformation "github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
	"github.com/drydock-dev/drydock/internal/store"
)

// perPage is the page size of every list.
const perPage = 100

func paged(question string) paging.Rules {
	return paging.Rules{Usual: perPage, Question: question, BadToken: func(token string) error { return invalid("NextToken %s is invalid", token) }} // from memory
}

// below returns the key of a record that belongs to a stack.
func below(stack store.Key, id string) store.Key {
	stack.ID += "/" + id
	return stack
}

func within(stack store.Key) store.Scope {
	return regional.At(stack.Account, stack.Region).Below(stack.ID)
}

func (f *foundStack) describe() cloudformationtypes.Stack {
	out := cloudformationtypes.Stack{
		StackId: aws.String(f.arn()), StackName: &f.Name, StackStatus: f.Status, CreationTime: &f.Created, DisableRollback: aws.Bool(f.OnFailure == "DO_NOTHING" && f.Parent == ""),
		DriftInformation: f.driftInformation(),
		NotificationARNs: append([]string{}, f.NotificationARNs...), RollbackConfiguration: &cloudformationtypes.RollbackConfiguration{}, Tags: []cloudformationtypes.Tag{},
		Description: nonEmpty(f.Description), RoleARN: nonEmpty(f.RoleARN), StackStatusReason: nonEmpty(f.Reason),
	}
	if f.Parent != "" {
		out.ParentId, out.RootId = &f.Parent, &f.Root
	}
	if f.ChangeSet != "" {
		out.ChangeSetId = &f.ChangeSet
	}
	if !f.Updated.IsZero() {
		out.LastUpdatedTime = &f.Updated
	}
	if f.Timeout > 0 {
		out.TimeoutInMinutes = aws.Int32(int32(f.Timeout.Minutes()))
	}
	if f.Status != cloudformationtypes.StackStatusDeleteComplete {
		out.EnableTerminationProtection = &f.Protected
	}
	if !f.Deleted.IsZero() {
		out.DeletionTime = &f.Deleted
	}
	for _, c := range f.Capabilities {
		out.Capabilities = append(out.Capabilities, cloudformationtypes.Capability(c))
	}
	for _, t := range f.Tags {
		out.Tags = append(out.Tags, cloudformationtypes.Tag{Key: &t.Key, Value: &t.Value})
	}
	for _, p := range f.Parameters {
		shown := cloudformationtypes.Parameter{ParameterKey: &p.Name, ParameterValue: &p.Value, ResolvedValue: nonEmpty(p.Resolved)}
		if p.NoEcho {
			shown.ParameterValue = aws.String("****")
			if p.Resolved != "" {
				shown.ResolvedValue = shown.ParameterValue
			}
		}
		out.Parameters = append(out.Parameters, shown)
	}
	for _, o := range f.Outputs {
		out.Outputs = append(out.Outputs, cloudformationtypes.Output{OutputKey: &o.Key, OutputValue: &o.Value, Description: nonEmpty(o.Description), ExportName: nonEmpty(o.Export)})
	}
	return out
}

func nonEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// DescribeStacks describes the requested stack, or all stacks that are not deleted.
func (s *Service) DescribeStacks(ctx context.Context, in *awscloudformation.DescribeStacksInput) (*awscloudformation.DescribeStacksOutput, error) {
	sc, out := scopeOf(ctx), &awscloudformation.DescribeStacksOutput{Stacks: []cloudformationtypes.Stack{}}
	if in.StackName != nil {
		f, err := find(s.store, sc, *in.StackName)
		if err != nil {
			return nil, store.NotFoundAs(err, stackNotFound(*in.StackName))
		}
		out.Stacks = append(out.Stacks, f.describe())
		return out, nil
	}
	list := slices.DeleteFunc(all(s.store, sc), func(f foundStack) bool { return f.Status == cloudformationtypes.StackStatusDeleteComplete })
	page, next, err := paging.CutInOrder(paged("stacks"), list, func(f foundStack) string { return f.ID }, nil, in.NextToken)
	for _, f := range page {
		out.Stacks = append(out.Stacks, f.describe())
	}
	out.NextToken = next
	return out, err
}

// ListStacks lists the stacks, including deleted ones.
func (s *Service) ListStacks(ctx context.Context, in *awscloudformation.ListStacksInput) (*awscloudformation.ListStacksOutput, error) {
	out := &awscloudformation.ListStacksOutput{StackSummaries: []cloudformationtypes.StackSummary{}}
	list := slices.DeleteFunc(all(s.store, scopeOf(ctx)), func(f foundStack) bool {
		return len(in.StackStatusFilter) > 0 && !slices.Contains(in.StackStatusFilter, f.Status)
	})
	page, next, err := paging.CutInOrder(paged("list"), list, func(f foundStack) string { return f.ID }, nil, in.NextToken)
	for _, f := range page {
		d := f.describe()
		out.StackSummaries = append(out.StackSummaries, cloudformationtypes.StackSummary{
			StackId: d.StackId, StackName: d.StackName, StackStatus: d.StackStatus, StackStatusReason: d.StackStatusReason, CreationTime: d.CreationTime, LastUpdatedTime: d.LastUpdatedTime,
			DeletionTime: d.DeletionTime, ParentId: d.ParentId, RootId: d.RootId, TemplateDescription: d.Description, DriftInformation: &cloudformationtypes.StackDriftInformationSummary{StackDriftStatus: d.DriftInformation.StackDriftStatus, LastCheckTimestamp: d.DriftInformation.LastCheckTimestamp},
		})
	}
	out.NextToken = next
	return out, err
}

// DescribeStackEvents lists the events of a stack, newest first.
func (s *Service) DescribeStackEvents(ctx context.Context, in *awscloudformation.DescribeStackEventsInput) (*awscloudformation.DescribeStackEventsOutput, error) {
	f, err := find(s.store, scopeOf(ctx), aws.ToString(in.StackName))
	if err != nil {
		return nil, store.NotFoundAs(err, stackNotFoundInBrackets(aws.ToString(in.StackName)))
	}
	list := events.All(s.store, within(f.key))
	slices.Reverse(list)
	page, next, err := paging.CutInOrder(paged("events of "+f.ID), list, func(e store.Item[eventRecord]) string { return e.Key.ID }, nil, in.NextToken)
	out := &awscloudformation.DescribeStackEventsOutput{NextToken: next, StackEvents: []cloudformationtypes.StackEvent{}}
	for _, item := range page {
		e := item.Value
		out.StackEvents = append(out.StackEvents, cloudformationtypes.StackEvent{
			EventId: &e.ID, StackId: aws.String(f.arn()), StackName: &f.Name, LogicalResourceId: &e.LogicalID, PhysicalResourceId: &e.PhysicalID, ResourceType: &e.Type, Timestamp: &e.Time,
			ResourceStatus: cloudformationtypes.ResourceStatus(e.Status), ResourceStatusReason: nonEmpty(e.Reason), DetailedStatus: cloudformationtypes.DetailedStatus(e.Detailed),
			ClientRequestToken: nonEmpty(e.Token), ResourceProperties: nonEmpty(e.Properties), OperationId: nonEmpty(e.Operation),
		})
	}
	return out, err
}

// resourcesOf returns the resources of a stack, sorted by logical ID.
func (s *Service) resourcesOf(f foundStack) []resourceRecord {
	var out []resourceRecord
	for _, item := range resources.All(s.store, within(f.key)) {
		out = append(out, item.Value)
	}
	return out
}

// DescribeStackResource describes one resource of a stack.
func (s *Service) DescribeStackResource(ctx context.Context, in *awscloudformation.DescribeStackResourceInput) (*awscloudformation.DescribeStackResourceOutput, error) {
	f, err := find(s.store, scopeOf(ctx), *in.StackName)
	if err != nil {
		return nil, store.NotFoundAs(err, stackNotFoundInQuotes(*in.StackName))
	}
	if !ofInstance(ctx, f.arn()) {
		return nil, notOfInstance(ctx, *in.StackName)
	}
	r, err := resources.Get(s.store, below(f.key, *in.LogicalResourceId))
	if err != nil {
		return nil, store.NotFoundAs(err, resourceNotFound(*in.StackName, *in.LogicalResourceId))
	}
	metadata := r.Metadata
	if metadata == "" {
		metadata = "{}"
	}
	return &awscloudformation.DescribeStackResourceOutput{StackResourceDetail: &cloudformationtypes.StackResourceDetail{
		StackId: aws.String(f.arn()), StackName: &f.Name, LogicalResourceId: &r.LogicalID, PhysicalResourceId: nonEmpty(r.shown()), ResourceType: &r.Type, LastUpdatedTimestamp: &r.Changed,
		ResourceStatus: r.Status, ResourceStatusReason: nonEmpty(r.Reason), Metadata: &metadata, DriftInformation: s.resourceDrift(f.key, &r),
	}}, nil
}

// DescribeStackResources describes the resources of a stack. The stack may be identified by
// one of its resources.
func (s *Service) DescribeStackResources(ctx context.Context, in *awscloudformation.DescribeStackResourcesInput) (*awscloudformation.DescribeStackResourcesOutput, error) {
	sc := scopeOf(ctx)
	var f foundStack
	switch {
	case in.StackName != nil:
		var err error
		if f, err = find(s.store, sc, *in.StackName); err != nil {
			return nil, store.NotFoundAs(err, stackNotFound(*in.StackName))
		}
	case in.PhysicalResourceId != nil:
		for _, item := range resources.All(s.store, sc.All()) {
			if item.Value.shown() == *in.PhysicalResourceId && item.Value.Status != cloudformationtypes.ResourceStatusDeleteComplete {
				rec, err := stacks.Get(s.store, sc.Key(item.Value.Stack))
				if store.IgnoreNotFound(err) != nil {
					return nil, err
				}
				f = foundStack{sc.Key(item.Value.Stack), rec}
			}
		}
		if f.ID == "" {
			return nil, invalid("Stack for %s does not exist", *in.PhysicalResourceId) // from memory
		}
	default:
		return nil, invalid("One of StackName or PhysicalResourceId must be specified.") // from memory
	}
	out := &awscloudformation.DescribeStackResourcesOutput{StackResources: []cloudformationtypes.StackResource{}}
	for _, r := range s.resourcesOf(f) {
		if in.LogicalResourceId != nil && *in.LogicalResourceId != r.LogicalID {
			continue
		}
		if len(out.StackResources) == perPage {
			break
		}
		out.StackResources = append(out.StackResources, cloudformationtypes.StackResource{
			StackId: aws.String(f.arn()), StackName: &f.Name, LogicalResourceId: &r.LogicalID, PhysicalResourceId: nonEmpty(r.shown()), ResourceType: &r.Type, Timestamp: &r.Changed,
			ResourceStatus: r.Status, ResourceStatusReason: nonEmpty(r.Reason), DriftInformation: s.resourceDrift(f.key, &r),
		})
	}
	if in.LogicalResourceId != nil && len(out.StackResources) == 0 {
		return nil, resourceNotFound(aws.ToString(in.StackName), *in.LogicalResourceId)
	}
	return out, nil
}

// ListStackResources lists the resources of a stack.
func (s *Service) ListStackResources(ctx context.Context, in *awscloudformation.ListStackResourcesInput) (*awscloudformation.ListStackResourcesOutput, error) {
	f, err := find(s.store, scopeOf(ctx), *in.StackName)
	if err != nil {
		return nil, store.NotFoundAs(err, stackNotFound(*in.StackName))
	}
	page, next, err := paging.Cut(paged("resources of "+f.ID), s.resourcesOf(f), func(r resourceRecord) string { return r.LogicalID }, nil, in.NextToken)
	out := &awscloudformation.ListStackResourcesOutput{NextToken: next, StackResourceSummaries: []cloudformationtypes.StackResourceSummary{}}
	for _, r := range page {
		drift := s.resourceDrift(f.key, &r)
		out.StackResourceSummaries = append(out.StackResourceSummaries, cloudformationtypes.StackResourceSummary{
			LogicalResourceId: &r.LogicalID, PhysicalResourceId: nonEmpty(r.shown()), ResourceType: &r.Type, LastUpdatedTimestamp: &r.Changed,
			ResourceStatus: r.Status, ResourceStatusReason: nonEmpty(r.Reason),
			DriftInformation: &cloudformationtypes.StackResourceDriftInformationSummary{StackResourceDriftStatus: drift.StackResourceDriftStatus, LastCheckTimestamp: drift.LastCheckTimestamp},
		})
	}
	return out, err
}

// GetTemplate returns the text that the stack was created from, or what AWS::Include made of it. The language extensions
// are only expanded when the stack is created.
func (s *Service) GetTemplate(ctx context.Context, in *awscloudformation.GetTemplateInput) (*awscloudformation.GetTemplateOutput, error) {
	var stack store.Key
	var version versionRecord
	switch {
	case in.ChangeSetName != nil:
		set, err := findSet(s.store, scopeOf(ctx), in.ChangeSetName, in.StackName)
		if err != nil {
			return nil, err
		}
		stack, version = set.stack.key, set.versionRecord
	case in.StackName == nil:
		return nil, invalid("StackName is required if ChangeSetName is not specified.")
	default:
		f, err := find(s.store, scopeOf(ctx), *in.StackName)
		if err != nil {
			return nil, store.NotFoundAs(err, stackNotFound(*in.StackName))
		}
		stack, version = f.key, f.versionRecord
	}
	text := processed(s.store, stack, &version)
	if in.TemplateStage == cloudformationtypes.TemplateStageOriginal {
		text = original(s.store, stack, &version)
	}
	return &awscloudformation.GetTemplateOutput{
		TemplateBody: &text, StagesAvailable: []cloudformationtypes.TemplateStage{cloudformationtypes.TemplateStageOriginal, cloudformationtypes.TemplateStageProcessed},
	}, nil
}

// iamTypes are the types that need a capability. A resource that has the property given
// here needs CAPABILITY_NAMED_IAM.
// https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_CreateStack.html
var iamTypes = map[string]string{
	"AWS::IAM::AccessKey": "", "AWS::IAM::Group": "GroupName", "AWS::IAM::InstanceProfile": "InstanceProfileName", "AWS::IAM::ManagedPolicy": "ManagedPolicyName",
	"AWS::IAM::Policy": "", "AWS::IAM::Role": "RoleName", "AWS::IAM::User": "UserName", "AWS::IAM::UserToGroupAddition": "",
}

// capabilities returns the types in a template that need a capability, the capability that
// they need, and the reason.
func capabilities(t *template.Template, declared []*template.Resource) (types []string, needed, reason string) {
	seen := map[string]bool{}
	for _, r := range declared {
		name, ok := iamTypes[r.Type]
		if !ok {
			continue
		}
		seen[r.Type] = true
		if needed == "" {
			needed = "CAPABILITY_IAM"
		}
		if name != "" && r.Properties.Has(name) {
			needed = "CAPABILITY_NAMED_IAM"
		}
	}
	types = slices.Sorted(maps.Keys(seen))
	if needed != "" {
		reason = fmt.Sprintf("The following resource(s) require capabilities: [%s]", strings.Join(types, ", "))
	}
	return types, needed, reason
}

func granted(have []string, needed string) bool {
	return needed == "" || slices.Contains(have, needed) || slices.Contains(have, "CAPABILITY_NAMED_IAM")
}

func capabilityList(needed string) []cloudformationtypes.Capability {
	if needed == "" {
		return nil
	}
	return []cloudformationtypes.Capability{cloudformationtypes.Capability(needed)}
}

// ValidateTemplate checks a template without parameters.
func (s *Service) ValidateTemplate(ctx context.Context, in *awscloudformation.ValidateTemplateInput) (*awscloudformation.ValidateTemplateOutput, error) {
	body, err := s.source(ctx, in.TemplateBody, in.TemplateURL)
	if err != nil {
		return nil, err
	}
	t, err := parsed(body)
	if err != nil {
		return nil, err
	}
	if err := checkTypes(t); err != nil {
		return nil, err
	}
	_, needed, reason := capabilities(t, t.Declared())
	out := &awscloudformation.ValidateTemplateOutput{
		Description: nonEmpty(t.Description), Parameters: []cloudformationtypes.TemplateParameter{}, Capabilities: capabilityList(needed), CapabilitiesReason: nonEmpty(reason),
		DeclaredTransforms: t.Transforms,
	}
	for _, p := range t.Parameters {
		out.Parameters = append(out.Parameters, cloudformationtypes.TemplateParameter{ParameterKey: &p.Name, DefaultValue: p.Default, NoEcho: &p.NoEcho, Description: nonEmpty(p.Description)})
	}
	return out, nil
}

// GetTemplateSummary returns what a template, or the template of a stack, contains and needs.
func (s *Service) GetTemplateSummary(ctx context.Context, in *awscloudformation.GetTemplateSummaryInput) (*awscloudformation.GetTemplateSummaryOutput, error) {
	body, err := s.source(ctx, in.TemplateBody, in.TemplateURL)
	if err != nil {
		return nil, err
	}
	if in.StackName != nil {
		f, err := find(s.store, scopeOf(ctx), *in.StackName)
		if err != nil {
			return nil, store.NotFoundAs(err, stackNotFound(*in.StackName))
		}
		if f.Status == cloudformationtypes.StackStatusReviewInProgress {
			return nil, invalid("GetTemplateSummary cannot be called on REVIEW_IN_PROGRESS stacks.")
		}
		body = aws.String(processed(s.store, f.key, &f.versionRecord))
	}
	t, err := parsed(body)
	if err != nil {
		return nil, err
	}
	_, needed, reason := capabilities(t, t.Declared())
	out := &awscloudformation.GetTemplateSummaryOutput{
		Description: nonEmpty(t.Description), Version: nonEmpty(t.Version), ResourceTypes: t.Types(), Parameters: []cloudformationtypes.ParameterDeclaration{},
		Capabilities: capabilityList(needed), CapabilitiesReason: nonEmpty(reason), DeclaredTransforms: t.Transforms,
	}
	if t.Metadata != nil {
		out.Metadata = aws.String(template.JSON(t.Metadata))
	}
	for _, p := range t.Parameters {
		out.Parameters = append(out.Parameters, cloudformationtypes.ParameterDeclaration{
			ParameterKey: &p.Name, ParameterType: &p.Type, DefaultValue: p.Default, NoEcho: &p.NoEcho, Description: nonEmpty(p.Description),
			ParameterConstraints: &cloudformationtypes.ParameterConstraints{AllowedValues: p.AllowedValues},
		})
	}
	byType := map[string][]string{}
	for _, r := range t.Declared() {
		byType[r.Type] = append(byType[r.Type], r.ID)
	}
	for _, typ := range slices.Sorted(maps.Keys(byType)) {
		if sch := schemas()[typ]; sch != nil {
			out.ResourceIdentifierSummaries = append(out.ResourceIdentifierSummaries, cloudformationtypes.ResourceIdentifierSummary{
				ResourceType: &typ, LogicalResourceIds: byType[typ], ResourceIdentifiers: sch.PrimaryIdentifier,
			})
		}
	}
	return out, nil
}

// ListExports lists the values that stacks export.
func (s *Service) ListExports(ctx context.Context, in *awscloudformation.ListExportsInput) (*awscloudformation.ListExportsOutput, error) {
	list := []cloudformationtypes.Export{}
	for _, f := range all(s.store, scopeOf(ctx)) {
		for _, o := range f.Outputs {
			if o.Export != "" && f.Status != cloudformationtypes.StackStatusDeleteComplete {
				list = append(list, cloudformationtypes.Export{ExportingStackId: aws.String(f.arn()), Name: &o.Export, Value: &o.Value})
			}
		}
	}
	slices.SortFunc(list, func(a, b cloudformationtypes.Export) int { return strings.Compare(*a.Name, *b.Name) })
	page, next, err := paging.Cut(paged("exports"), list, func(e cloudformationtypes.Export) string { return *e.Name }, nil, in.NextToken)
	return &awscloudformation.ListExportsOutput{Exports: page, NextToken: next}, err
}

// ListImports lists the stacks that use an export.
func (s *Service) ListImports(ctx context.Context, in *awscloudformation.ListImportsInput) (*awscloudformation.ListImportsOutput, error) {
	names := []string{}
	for _, f := range all(s.store, scopeOf(ctx)) {
		if slices.Contains(f.Imports, *in.ExportName) && f.Status != cloudformationtypes.StackStatusDeleteComplete {
			names = append(names, f.Name)
		}
	}
	if len(names) == 0 {
		return nil, invalid("Export '%s' is not imported by any stack.", *in.ExportName)
	}
	slices.Sort(names)
	page, next, err := paging.Cut(paged("imports"), names, func(n string) string { return n }, nil, in.NextToken)
	return &awscloudformation.ListImportsOutput{Imports: page, NextToken: next}, err
}

// resolver provides package authz with the ARNs and tags of stacks. A stack's ARN contains
// its ID, which requests leave out.
type resolver struct{ s *Service }

// Resource implements authz.Resolver.
func (r resolver) Resource(_ context.Context, account, region, kind, id string) (authz.Resource, bool) {
	if kind != "stack" {
		return authz.Resource{}, false
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(id, "stack/"), "/")
	f, err := find(r.s.store, regional.At(account, region), id)
	if err != nil {
		f, err = find(r.s.store, regional.At(account, region), name)
	}
	if err != nil {
		return authz.Resource{}, false
	}
	tags := map[string]string{}
	for _, t := range f.Tags {
		tags[t.Key] = t.Value
	}
	return authz.Resource{ARN: f.arn(), Tags: tags}, true
}
