package iam

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/catalog/managedpolicies"
)

// A detail is one element of GetAccountAuthorizationDetails: its key, for paging, and a function
// that adds it to the response.
type detail struct {
	key string
	add func(*awsiam.GetAccountAuthorizationDetailsOutput) error
}

// GetAccountAuthorizationDetails describes all users, groups, roles and policies with their
// documents. It includes only those of AWS's policies that are in use.
func (s *Service) GetAccountAuthorizationDetails(ctx context.Context, in *awsiam.GetAccountAuthorizationDetailsInput) (*awsiam.GetAccountAuthorizationDetailsOutput, error) {
	all := s.details(awsapi.CallFrom(ctx).Account, func(t iamtypes.EntityType) bool {
		return len(in.Filter) == 0 || slices.Contains(in.Filter, t)
	})
	p, err := paginate(all, func(d detail) string { return d.key }, in.Marker, in.MaxItems)
	if err != nil {
		return nil, err
	}
	out := &awsiam.GetAccountAuthorizationDetailsOutput{
		UserDetailList: []iamtypes.UserDetail{}, GroupDetailList: []iamtypes.GroupDetail{}, RoleDetailList: []iamtypes.RoleDetail{},
		Policies: []iamtypes.ManagedPolicyDetail{}, IsTruncated: p.truncated, Marker: p.marker,
	}
	for _, d := range p.items {
		if err := d.add(out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// details returns everything in an account, sorted by key.
func (s *Service) details(account string, wanted func(iamtypes.EntityType) bool) []detail {
	var list []detail
	us := users.All(s.store, within(account))
	gs := groups.All(s.store, within(account))
	rs := roles.All(s.store, within(account))
	ps := policies.All(s.store, within(account))
	used := s.usages(account)
	if wanted(iamtypes.EntityTypeUser) {
		for _, i := range us {
			list = append(list, detail{"1/" + i.Key.ID, func(out *awsiam.GetAccountAuthorizationDetailsOutput) error {
				out.UserDetailList = append(out.UserDetailList, userDetail(account, &i.Value))
				return nil
			}})
		}
	}
	if wanted(iamtypes.EntityTypeGroup) {
		for _, i := range gs {
			list = append(list, detail{"2/" + i.Key.ID, func(out *awsiam.GetAccountAuthorizationDetailsOutput) error {
				out.GroupDetailList = append(out.GroupDetailList, groupDetail(account, &i.Value))
				return nil
			}})
		}
	}
	if wanted(iamtypes.EntityTypeRole) {
		for _, i := range rs {
			list = append(list, detail{"3/" + i.Key.ID, func(out *awsiam.GetAccountAuthorizationDetailsOutput) error {
				r, err := s.roleDetail(account, &i.Value)
				out.RoleDetailList = append(out.RoleDetailList, r)
				return err
			}})
		}
	}
	addPolicy := func(key string, p *iamtypes.Policy, versions []iamtypes.PolicyVersion) {
		list = append(list, detail{key, func(out *awsiam.GetAccountAuthorizationDetailsOutput) error {
			out.Policies = append(out.Policies, iamtypes.ManagedPolicyDetail{
				Arn: p.Arn, PolicyId: p.PolicyId, PolicyName: p.PolicyName, Path: p.Path, Description: p.Description,
				CreateDate: p.CreateDate, UpdateDate: p.UpdateDate, DefaultVersionId: p.DefaultVersionId, IsAttachable: p.IsAttachable,
				AttachmentCount: p.AttachmentCount, PermissionsBoundaryUsageCount: p.PermissionsBoundaryUsageCount, PolicyVersionList: versions,
			})
			return nil
		}})
	}
	if wanted(iamtypes.EntityTypeLocalManagedPolicy) {
		for _, i := range ps {
			p := &i.Value
			addPolicy("4/"+i.Key.ID, outPolicy(account, p, used[p.arn(account)]), outVersions(p))
		}
	}
	if wanted(iamtypes.EntityTypeAWSManagedPolicy) {
		for policyARN, u := range used {
			if p, ok := managedpolicies.Get(policyARN); ok {
				addPolicy("5/"+policyARN, outManaged(p, u), []iamtypes.PolicyVersion{{
					VersionId: &p.VersionID, Document: escaped(p.Document), IsDefaultVersion: true, CreateDate: &p.Updated,
				}})
			}
		}
	}
	slices.SortFunc(list, func(a, b detail) int { return strings.Compare(a.key, b.key) })
	return list
}

func outVersions(p *managedPolicy) []iamtypes.PolicyVersion {
	var out []iamtypes.PolicyVersion
	for _, v := range slices.Backward(p.Versions) {
		out = append(out, iamtypes.PolicyVersion{
			VersionId: &v.ID, Document: escaped(v.Document), IsDefaultVersion: v.ID == p.Default, CreateDate: &v.Created,
		})
	}
	return out
}

// inlineDetails returns the inline policies with their documents.
func (id *identity) inlineDetails() []iamtypes.PolicyDetail {
	out := []iamtypes.PolicyDetail{}
	for _, n := range id.inlineNames() {
		out = append(out, iamtypes.PolicyDetail{PolicyName: &n, PolicyDocument: escaped(id.Inline[n])})
	}
	return out
}

func userDetail(account string, u *user) iamtypes.UserDetail {
	return iamtypes.UserDetail{
		Arn: aws.String(u.arn(account)), UserId: &u.ID, UserName: &u.Name, Path: &u.Path, CreateDate: &u.Created,
		GroupList: append([]string{}, u.Groups...), UserPolicyList: u.inlineDetails(), AttachedManagedPolicies: u.attached(nil),
		PermissionsBoundary: u.boundary(), Tags: outTags(u.Tags),
	}
}

func groupDetail(account string, g *group) iamtypes.GroupDetail {
	return iamtypes.GroupDetail{
		Arn: aws.String(g.arn(account)), GroupId: &g.ID, GroupName: &g.Name, Path: &g.Path, CreateDate: &g.Created,
		GroupPolicyList: g.inlineDetails(), AttachedManagedPolicies: g.attached(nil),
	}
}

func (s *Service) roleDetail(account string, r *role) (iamtypes.RoleDetail, error) {
	out := iamtypes.RoleDetail{
		Arn: aws.String(r.arn(account)), RoleId: &r.ID, RoleName: &r.Name, Path: &r.Path, CreateDate: &r.Created,
		AssumeRolePolicyDocument: escaped(s.shownTrust(r)), RolePolicyList: r.inlineDetails(), AttachedManagedPolicies: r.attached(nil),
		PermissionsBoundary: r.boundary(), Tags: outTags(r.Tags), InstanceProfileList: []iamtypes.InstanceProfile{},
		RoleLastUsed: s.roleLastUsed(account, r),
	}
	holding := profilesOf(s.store, account, r.Name)
	for i := range holding {
		p, err := s.outProfile(account, &holding[i].Value)
		if err != nil {
			return out, err
		}
		out.InstanceProfileList = append(out.InstanceProfileList, *p)
	}
	return out, nil
}
