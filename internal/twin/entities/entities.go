// Package entities finds the IAM entities in a recording: in the answer to GetAccountAuthorizationDetails or, if the
// source did not allow that, in the answers about single roles.
//
// It is a leaf beside package recording, because several services load what belongs to roles.
package entities

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// Entities are the IAM entities of an account, in the form of GetAccountAuthorizationDetails.
type Entities struct {
	Users    []iamtypes.UserDetail
	Groups   []iamtypes.GroupDetail
	Roles    []iamtypes.RoleDetail
	Policies []iamtypes.ManagedPolicyDetail
	// Gaps are what is missing of single roles because a policy of theirs could not be read.
	Gaps []recording.Gap

	whole bool
	asked map[string]bool // the names of roles that were asked for, if not all were
	// profiles are the ARNs of roles by those of their instance profiles.
	profiles map[string]string
}

// RoleOf returns the ARN of an instance profile's role.
func (e *Entities) RoleOf(profileARN string) (string, bool) {
	role, ok := e.profiles[profileARN]
	return role, ok
}

// Known reports whether a role or user that is not among the entities does not exist. Otherwise, it may just not have
// been read.
func (e *Entities) Known(principalARN string) bool {
	name, ok := roleName(principalARN)
	return e.whole || ok && e.asked[name]
}

// roleName returns the name of a role, which is unique whatever its path is.
func roleName(roleARN string) (string, bool) {
	_, name, ok := strings.Cut(roleARN, ":role/")
	return name[strings.LastIndexByte(name, '/')+1:], ok
}

// Of returns the entities in a recording.
func Of(r *recording.Recording) (*Entities, error) {
	e := &Entities{asked: map[string]bool{}, profiles: map[string]string{}}
	details, err := recording.Pages[awsiam.GetAccountAuthorizationDetailsInput, awsiam.GetAccountAuthorizationDetailsOutput](r, "iam", "GetAccountAuthorizationDetails")
	if err != nil {
		return nil, err
	}
	for _, p := range details {
		e.Users, e.Groups = append(e.Users, p.Output.UserDetailList...), append(e.Groups, p.Output.GroupDetailList...)
		e.Roles, e.Policies = append(e.Roles, p.Output.RoleDetailList...), append(e.Policies, p.Output.Policies...)
	}
	e.whole = len(details) > 0 && !slices.ContainsFunc(r.Gaps(), func(g recording.Gap) bool { return g.Code == recording.NotAsked })
	switch {
	case e.whole:
	case len(details) > 0:
		used, err := UsedIn(r)
		if err != nil {
			return nil, err
		}
		e.asked = used.Roles
	default:
		if err := e.one(r); err != nil {
			return nil, err
		}
	}
	for _, r := range e.Roles {
		for _, p := range r.InstanceProfileList {
			e.profiles[aws.ToString(p.Arn)] = aws.ToString(r.Arn)
		}
	}
	return e, nil
}

// one puts together what was read of single roles.
func (e *Entities) one(r *recording.Recording) error {
	for _, a := range r.Answers {
		if a.Service == "iam" && a.Operation == "GetRole" && a.Gap == nil {
			in, err := recording.Input[awsiam.GetRoleInput](&a)
			if err != nil {
				return err
			}
			e.asked[aws.ToString(in.RoleName)] = true
		}
	}
	inline, attached, profiles := map[string][]iamtypes.PolicyDetail{}, map[string][]iamtypes.AttachedPolicy{}, map[string][]iamtypes.InstanceProfile{} // by role
	for _, read := range []func() error{
		func() error {
			return each(r, "GetRolePolicy", func(in *awsiam.GetRolePolicyInput, out *awsiam.GetRolePolicyOutput) {
				inline[aws.ToString(in.RoleName)] = append(inline[aws.ToString(in.RoleName)], iamtypes.PolicyDetail{PolicyName: in.PolicyName, PolicyDocument: out.PolicyDocument})
			})
		},
		func() error {
			return each(r, "ListAttachedRolePolicies", func(in *awsiam.ListAttachedRolePoliciesInput, out *awsiam.ListAttachedRolePoliciesOutput) {
				attached[aws.ToString(in.RoleName)] = append(attached[aws.ToString(in.RoleName)], out.AttachedPolicies...)
			})
		},
		func() error {
			return each(r, "ListInstanceProfilesForRole", func(in *awsiam.ListInstanceProfilesForRoleInput, out *awsiam.ListInstanceProfilesForRoleOutput) {
				profiles[aws.ToString(in.RoleName)] = append(profiles[aws.ToString(in.RoleName)], out.InstanceProfiles...)
			})
		},
		func() error {
			return each(r, "GetInstanceProfile", func(_ *awsiam.GetInstanceProfileInput, out *awsiam.GetInstanceProfileOutput) {
				if p := out.InstanceProfile; p != nil && len(p.Roles) > 0 {
					e.profiles[aws.ToString(p.Arn)] = aws.ToString(p.Roles[0].Arn)
				}
			})
		},
		func() error { return e.readPolicies(r) },
		func() error {
			return each(r, "GetRole", func(in *awsiam.GetRoleInput, out *awsiam.GetRoleOutput) {
				if role := out.Role; role != nil {
					name := aws.ToString(in.RoleName)
					e.Roles = append(e.Roles, iamtypes.RoleDetail{
						Arn: role.Arn, AssumeRolePolicyDocument: role.AssumeRolePolicyDocument, CreateDate: role.CreateDate, Path: role.Path, RoleId: role.RoleId, RoleName: role.RoleName,
						PermissionsBoundary: role.PermissionsBoundary, RoleLastUsed: role.RoleLastUsed, Tags: role.Tags,
						RolePolicyList: inline[name], AttachedManagedPolicies: attached[name], InstanceProfileList: profiles[name],
					})
				}
			})
		},
	} {
		if err := read(); err != nil {
			return err
		}
	}
	e.missPolicies(r)
	return nil
}

// readPolicies collects the customer managed policies. Only the default version of each was read.
func (e *Entities) readPolicies(r *recording.Recording) error {
	versions := map[string][]iamtypes.PolicyVersion{}
	if err := each(r, "GetPolicyVersion", func(in *awsiam.GetPolicyVersionInput, out *awsiam.GetPolicyVersionOutput) {
		if out.PolicyVersion != nil {
			versions[aws.ToString(in.PolicyArn)] = append(versions[aws.ToString(in.PolicyArn)], *out.PolicyVersion)
		}
	}); err != nil {
		return err
	}
	return each(r, "GetPolicy", func(_ *awsiam.GetPolicyInput, out *awsiam.GetPolicyOutput) {
		if p := out.Policy; p != nil && len(versions[aws.ToString(p.Arn)]) > 0 {
			e.Policies = append(e.Policies, iamtypes.ManagedPolicyDetail{
				Arn: p.Arn, AttachmentCount: p.AttachmentCount, CreateDate: p.CreateDate, DefaultVersionId: p.DefaultVersionId, Description: p.Description, IsAttachable: p.IsAttachable, Path: p.Path,
				PermissionsBoundaryUsageCount: p.PermissionsBoundaryUsageCount, PolicyId: p.PolicyId, PolicyName: p.PolicyName, PolicyVersionList: versions[aws.ToString(p.Arn)], UpdateDate: p.UpdateDate,
			})
		}
	})
}

// missPolicies adds a gap for each role with a policy that was not read. The gaps of the source are about the policy.
func (e *Entities) missPolicies(r *recording.Recording) {
	gaps := map[string]recording.Gap{}
	for _, g := range r.Gaps() {
		if g.Service == "iam" && (g.Operation == "GetPolicy" || g.Operation == "GetPolicyVersion") {
			gaps[g.Subject] = g
		}
	}
	for _, role := range e.Roles {
		for _, p := range PoliciesOf(role.AttachedManagedPolicies, role.PermissionsBoundary) {
			if g, ok := gaps[p]; ok {
				e.Gaps = append(e.Gaps, recording.Gap{
					Service: "iam", Operation: g.Operation, Subject: aws.ToString(role.Arn), Code: recording.NotModelled, Message: fmt.Sprintf("%s, a policy of %s", g, aws.ToString(role.Arn)),
				})
			}
		}
	}
}

// PoliciesOf returns the ARNs of the customers' policies that are attached or are the boundary.
func PoliciesOf(attached []iamtypes.AttachedPolicy, boundary *iamtypes.AttachedPermissionsBoundary) []string {
	var out []string
	for _, p := range attached {
		out = append(out, aws.ToString(p.PolicyArn))
	}
	if boundary != nil {
		out = append(out, aws.ToString(boundary.PermissionsBoundaryArn))
	}
	return slices.DeleteFunc(out, func(p string) bool { return strings.HasPrefix(p, "arn:aws:iam::aws:") })
}

func each[In, Out any](r *recording.Recording, operation string, fn func(*In, *Out)) error {
	return eachOf(r, "iam", operation, fn)
}

func eachOf[In, Out any](r *recording.Recording, service, operation string, fn func(*In, *Out)) error {
	pages, err := recording.Pages[In, Out](r, service, operation)
	for _, p := range pages {
		fn(p.Input, p.Output)
	}
	return err
}
