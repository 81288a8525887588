package logs

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	awslogs "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/store"
)

// maxPolicies is the maximum number of resource policies per account and region.
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/cloudwatch_limits_cwl.html
const maxPolicies = 10

// PutResourcePolicy sets a resource policy, by which the account allows AWS services to write
// events.
func (s *Service) PutResourcePolicy(ctx context.Context, in *awslogs.PutResourcePolicyInput) (*awslogs.PutResourcePolicyOutput, error) {
	sc, p := scopeOf(ctx), policyRecord{Name: aws.ToString(in.PolicyName), Document: aws.ToString(in.PolicyDocument), Updated: s.now()}
	if p.Name == "" || p.Document == "" {
		return nil, errParameter("A resource policy needs a policyName and a policyDocument.") // from memory
	}
	if _, err := policy.Parse(policy.Resource, p.Document); err != nil {
		return nil, errPolicy(err)
	}
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		_, err := resourcePolicies.Get(tx, sc.Key(p.Name))
		if notFound(err) && len(resourcePolicies.All(tx, sc.All())) >= maxPolicies {
			return errPolicyLimit()
		}
		return resourcePolicies.Put(tx, sc.Key(p.Name), p)
	})
	shown := shownPolicy(p)
	return &awslogs.PutResourcePolicyOutput{ResourcePolicy: &shown}, err
}

func shownPolicy(p policyRecord) logstypes.ResourcePolicy {
	return logstypes.ResourcePolicy{PolicyName: &p.Name, PolicyDocument: &p.Document, LastUpdatedTime: millis(p.Updated), PolicyScope: logstypes.PolicyScopeAccount}
}

// DeleteResourcePolicy deletes a resource policy.
func (s *Service) DeleteResourcePolicy(ctx context.Context, in *awslogs.DeleteResourcePolicyInput) (*awslogs.DeleteResourcePolicyOutput, error) {
	sc, name := scopeOf(ctx), aws.ToString(in.PolicyName)
	return &awslogs.DeleteResourcePolicyOutput{}, s.store.Update(ctx, func(tx *store.Tx) error {
		if _, err := resourcePolicies.Get(tx, sc.Key(name)); err != nil {
			return store.NotFoundAs(err, errNoPolicy(name))
		}
		resourcePolicies.Delete(tx, sc.Key(name))
		return nil
	})
}

// DescribeResourcePolicies lists resource policies.
func (s *Service) DescribeResourcePolicies(ctx context.Context, in *awslogs.DescribeResourcePoliciesInput) (*awslogs.DescribeResourcePoliciesOutput, error) {
	page, err := pages(50).Start(in.Limit, in.NextToken)
	if err != nil {
		return nil, err
	}
	out := &awslogs.DescribeResourcePoliciesOutput{ResourcePolicies: []logstypes.ResourcePolicy{}}
	resourcePolicies.Scan(s.store, scopeOf(ctx).All(), page.After, func(_ store.Key, p policyRecord) bool {
		if page.Full() {
			return false
		}
		out.ResourcePolicies = append(out.ResourcePolicies, shownPolicy(p))
		page.Add(p.Name)
		return true
	})
	out.NextToken = page.Next()
	return out, nil
}
