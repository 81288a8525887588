package source

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsorg "github.com/aws/aws-sdk-go-v2/service/organizations"
	orgtypes "github.com/aws/aws-sdk-go-v2/service/organizations/types"

	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// maxLevels is how many organizational units can be above an account, with the root.
// https://docs.aws.amazon.com/organizations/latest/userguide/orgs_reference_limits.html
const maxLevels = 6

func ofOrganizations[In, Out any](name string, call func(context.Context, *In, ...func(*awsorg.Options)) (*Out, error)) operation[In, Out, awsorg.Options] {
	return operation[In, Out, awsorg.Options]{service: recording.Organizations, name: name, call: call}
}

// readControls reads the policies of AWS Organizations that bind the account: its own, and those of what is above it. The
// management account is bound by none.
func (r *reader) readControls(ctx context.Context) error {
	orgs, err := ask(ctx, r, ofOrganizations("DescribeOrganization", r.organizations.DescribeOrganization), &awsorg.DescribeOrganizationInput{}, "")
	if err != nil || len(orgs) == 0 || orgs[0].Organization == nil || aws.ToString(orgs[0].Organization.MasterAccountId) == r.source.Account {
		return err
	}
	target, root := r.source.Account, false
	read := map[string]bool{}
	for range maxLevels + 1 {
		for _, kind := range []orgtypes.PolicyType{orgtypes.PolicyTypeServiceControlPolicy, orgtypes.PolicyTypeResourceControlPolicy} {
			lists, err := ask(ctx, r, ofOrganizations("ListPoliciesForTarget", r.organizations.ListPoliciesForTarget), &awsorg.ListPoliciesForTargetInput{TargetId: &target, Filter: kind}, target)
			if err != nil {
				return err
			}
			for _, list := range lists {
				for _, p := range list.Policies {
					id := aws.ToString(p.Id)
					if read[id] {
						continue
					}
					read[id] = true
					if err := describe(ctx, r, ofOrganizations("DescribePolicy", r.organizations.DescribePolicy), &awsorg.DescribePolicyInput{PolicyId: &id}, id); err != nil {
						return err
					}
				}
			}
		}
		if root {
			break
		}
		parents, err := ask(ctx, r, ofOrganizations("ListParents", r.organizations.ListParents), &awsorg.ListParentsInput{ChildId: &target}, target)
		if err != nil || len(parents) == 0 || len(parents[0].Parents) == 0 {
			return err
		}
		target, root = aws.ToString(parents[0].Parents[0].Id), parents[0].Parents[0].Type == orgtypes.ParentTypeRoot
	}
	return nil
}
