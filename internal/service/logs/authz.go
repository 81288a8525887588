package logs

import (
	"context"
	"reflect"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awslogs "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/policy"
)

// Authz provides package authz with the stored attributes of log groups, and with the resource
// policies.
func (s *Service) Authz() authz.Resolver { return resolver{s} }

type resolver struct{ s *Service }

// HoldsPolicies implements authz.PolicyHolder.
func (resolver) HoldsPolicies() {}

// Resource implements authz.Resolver. Resources are identified by the ARNs that Targets returns.
func (r resolver) Resource(_ context.Context, account, region, _, id string) (authz.Resource, bool) {
	sc := scope{regional.At(account, region)}
	rest, ok := strings.CutPrefix(id, sc.groupARN(""))
	if !ok {
		return authz.Resource{}, false
	}
	name, _, _ := strings.Cut(rest, ":")
	out := authz.Resource{ARN: id}
	for _, p := range resourcePolicies.All(r.s.store, sc.All()) {
		out.AccountPolicies = append(out.AccountPolicies, policy.Source{Name: "resource policy " + p.Value.Name + " of CloudWatch Logs", Document: r.s.docs.Get(p.Value.Document)})
	}
	if name != "" {
		if g, err := groups.Get(r.s.store, sc.Key(name)); err == nil {
			out.Tags = g.Tags
		}
	}
	return out, true
}

// Targets implements authz.Targeter. Except for tags, a group's ARN includes a part for its
// streams, so policies must name log-group:NAME:* to allow anything.
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/iam-access-control-overview-cwl.html
func (r resolver) Targets(_ context.Context, call *awsapi.Call, in any) ([]authz.Target, bool) {
	sc := scope{regional.At(call.Account, call.Region)}
	v := reflect.ValueOf(in).Elem()
	text := func(member string) string {
		if f := v.FieldByName(member); f.IsValid() {
			if p, ok := f.Interface().(*string); ok {
				return aws.ToString(p)
			}
		}
		return ""
	}
	group := text("LogGroupName")
	for _, member := range []string{"LogGroupIdentifier", "ResourceArn", "ResourceIdentifier"} {
		if id := text(member); id != "" {
			group = sc.groupName(id)
		}
	}
	t := authz.Target{Type: "log-group", ID: sc.streamARN(group, "")}
	setTags := func(tags map[string]string) {
		t.Tags = tags
		for k := range tags {
			t.TagKeys = append(t.TagKeys, k)
		}
	}
	switch in := in.(type) {
	case *awslogs.TestMetricFilterInput, *awslogs.PutResourcePolicyInput, *awslogs.DeleteResourcePolicyInput, *awslogs.DescribeResourcePoliciesInput:
		return nil, false
	case *awslogs.CreateLogGroupInput:
		t.New = true
		setTags(in.Tags)
	case *awslogs.TagLogGroupInput:
		setTags(in.Tags)
	case *awslogs.UntagLogGroupInput:
		t.TagKeys = in.Tags
	case *awslogs.TagResourceInput:
		t.ID = sc.groupARN(group)
		setTags(in.Tags)
	case *awslogs.UntagResourceInput:
		t.ID, t.TagKeys = sc.groupARN(group), in.TagKeys
	case *awslogs.ListTagsForResourceInput:
		t.ID = sc.groupARN(group)
	case *awslogs.CreateLogStreamInput, *awslogs.DeleteLogStreamInput, *awslogs.PutLogEventsInput, *awslogs.GetLogEventsInput:
		t.Type, t.ID = "log-stream", sc.streamARN(group, text("LogStreamName"))
	}
	return []authz.Target{t}, true
}

// authorization corrects the service authorization reference.
var authorization = awsapi.Authorization{
	Members: map[string]string{
		"LogGroupName": "logGroupName",
	},
	Tagging: awsapi.Tagging{Action: "TagResource", Source: "https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_CreateLogGroup.html"},
}
