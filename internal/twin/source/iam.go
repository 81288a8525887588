package source

import (
	"context"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	"golang.org/x/sync/errgroup"

	"github.com/drydock-dev/drydock/internal/twin/entities"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// ofIAM is an operation of IAM.
func ofIAM[In, Out any](name string, call func(context.Context, *In, ...func(*awsiam.Options)) (*Out, error)) operation[In, Out, awsiam.Options] {
	return operation[In, Out, awsiam.Options]{service: "iam", name: name, call: call}
}

// readIAM reads users, groups, roles and policies in one call. If that is not allowed, it reads the roles that clusters
// and instances use one by one.
func (r *reader) readIAM(ctx context.Context) error {
	used, err := entities.UsedIn(r.folder.Recording(r.source))
	if err != nil {
		return err
	}
	details := ofIAM("GetAccountAuthorizationDetails", r.iam.GetAccountAuthorizationDetails)
	if r.opt.IAM == recording.UsedIAM {
		details.trim = func(pages []*awsiam.GetAccountAuthorizationDetailsOutput) *recording.Gap {
			used.Trim(pages)
			return &recording.Gap{Service: "iam", Operation: "GetAccountAuthorizationDetails", Code: recording.NotAsked, Message: "IAM roles and policies that no cluster or instance uses were not kept (--iam all keeps them)"}
		}
	}
	whole, err := ask(ctx, r, details, &awsiam.GetAccountAuthorizationDetailsInput{}, "")
	if err != nil || len(whole) > 0 {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(used.Profiles)) {
		pages, err := ask(ctx, r, ofIAM("GetInstanceProfile", r.iam.GetInstanceProfile), &awsiam.GetInstanceProfileInput{InstanceProfileName: &name}, r.arn("instance-profile/"+name))
		if err != nil {
			return err
		}
		for _, p := range pages {
			for _, role := range p.InstanceProfile.Roles {
				used.Roles[aws.ToString(role.RoleName)] = true
			}
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for _, name := range slices.Sorted(maps.Keys(used.Roles)) {
		g.Go(func() error { return r.readRole(ctx, name) })
	}
	return g.Wait()
}

func (r *reader) arn(resource string) string {
	return "arn:" + r.source.Partition + ":iam::" + r.source.Account + ":" + resource
}

// readRole reads a role with its policies and instance profiles. Gaps are about the role, or about a policy.
func (r *reader) readRole(ctx context.Context, name string) error {
	c := r.iam
	found, err := ask(ctx, r, ofIAM("GetRole", c.GetRole), &awsiam.GetRoleInput{RoleName: &name}, r.arn("role/"+name))
	if err != nil || len(found) == 0 || found[0].Role == nil {
		return err
	}
	role := found[0].Role
	subject := aws.ToString(role.Arn)
	if err := describe(ctx, r, ofIAM("ListInstanceProfilesForRole", c.ListInstanceProfilesForRole), &awsiam.ListInstanceProfilesForRoleInput{RoleName: &name}, subject); err != nil {
		return err
	}
	inline, err := ask(ctx, r, ofIAM("ListRolePolicies", c.ListRolePolicies), &awsiam.ListRolePoliciesInput{RoleName: &name}, subject)
	if err != nil {
		return err
	}
	for _, p := range inline {
		for _, policy := range p.PolicyNames {
			if err := describe(ctx, r, ofIAM("GetRolePolicy", c.GetRolePolicy), &awsiam.GetRolePolicyInput{RoleName: &name, PolicyName: &policy}, subject); err != nil {
				return err
			}
		}
	}
	lists, err := ask(ctx, r, ofIAM("ListAttachedRolePolicies", c.ListAttachedRolePolicies), &awsiam.ListAttachedRolePoliciesInput{RoleName: &name}, subject)
	if err != nil {
		return err
	}
	policies := entities.PoliciesOf(nil, role.PermissionsBoundary)
	for _, p := range lists {
		policies = append(policies, entities.PoliciesOf(p.AttachedPolicies, nil)...)
	}
	for _, policy := range policies {
		if err := r.readPolicy(ctx, policy); err != nil {
			return err
		}
	}
	return nil
}

// readPolicy reads the version in force of a customer's policy.
func (r *reader) readPolicy(ctx context.Context, policy string) error {
	found, err := ask(ctx, r, ofIAM("GetPolicy", r.iam.GetPolicy), &awsiam.GetPolicyInput{PolicyArn: &policy}, policy)
	if err != nil || len(found) == 0 || found[0].Policy == nil {
		return err
	}
	return describe(ctx, r, ofIAM("GetPolicyVersion", r.iam.GetPolicyVersion), &awsiam.GetPolicyVersionInput{PolicyArn: &policy, VersionId: found[0].Policy.DefaultVersionId}, policy)
}

// readOIDC reads the identity providers.
func (r *reader) readOIDC(ctx context.Context) error {
	lists, err := ask(ctx, r, ofIAM("ListOpenIDConnectProviders", r.iam.ListOpenIDConnectProviders), &awsiam.ListOpenIDConnectProvidersInput{}, "")
	if err != nil {
		return err
	}
	for _, list := range lists {
		for _, p := range list.OpenIDConnectProviderList {
			if err := describe(ctx, r, ofIAM("GetOpenIDConnectProvider", r.iam.GetOpenIDConnectProvider), &awsiam.GetOpenIDConnectProviderInput{OpenIDConnectProviderArn: p.Arn}, aws.ToString(p.Arn)); err != nil {
				return err
			}
		}
	}
	return nil
}
