package cloudformation

import (
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
)

func (r *request) iamTags() (out []iamtypes.Tag) {
	for _, t := range r.tags() { // AWS does not put aws:cloudformation: tags on IAM resources either
		out = append(out, iamtypes.Tag{Key: &t.Key, Value: &t.Value})
	}
	return out
}

// A policyUser is a role, a group or a user that a policy is put on.
type policyUser struct{ kind, name string }

func (r *request) policyUsers() (out []policyUser) {
	for _, kind := range []string{"Roles", "Groups", "Users"} {
		for _, name := range r.list(kind) {
			out = append(out, policyUser{kind, name})
		}
	}
	return out
}

func (r *request) arnOf(path, resource string) string {
	if path == "" {
		path = "/"
	}
	return arn.New("iam", "", r.o.key.Account, resource+path)
}

func iamHandlers() map[string]handler {
	return map[string]handler{
		"AWS::IAM::Role": {
			input: &awsiam.CreateRoleInput{}, own: "RoleName Policies ManagedPolicyArns Tags",
			inPlace: "AssumeRolePolicyDocument Description ManagedPolicyArns MaxSessionDuration PermissionsBoundary Policies Tags", update: updateRole,
			find: func(r *request) (string, error) {
				out, err := call[awsiam.GetRoleOutput](r, &awsiam.GetRoleInput{RoleName: aws.String(r.name("RoleName", 64))})
				if err != nil {
					return "", err
				}
				return *out.Role.RoleName, nil
			},
			create: func(r *request) (string, error) {
				in := &awsiam.CreateRoleInput{}
				if err := r.fill(in, "RoleName Policies ManagedPolicyArns Tags"); err != nil {
					return "", err
				}
				in.RoleName, in.Tags = aws.String(r.name("RoleName", 64)), r.iamTags()
				out, err := call[awsiam.CreateRoleOutput](r, in)
				if err != nil {
					return "", err
				}
				return *out.Role.RoleName, nil
			},
			settle: func(r *request) error {
				for _, policy := range r.list("ManagedPolicyArns") {
					if _, err := call[awsiam.AttachRolePolicyOutput](r, &awsiam.AttachRolePolicyInput{RoleName: &r.id, PolicyArn: &policy}); err != nil {
						return err
					}
				}
				policies, _ := r.props.Get("Policies").([]any)
				for _, p := range policies {
					in := &awsiam.PutRolePolicyInput{RoleName: &r.id}
					m, ok := p.(*template.Map)
					if !ok {
						return r.notHonoured("Policies")
					}
					if err := r.fillWith(in, m, nil, "Policies."); err != nil {
						return err
					}
					if _, err := call[awsiam.PutRolePolicyOutput](r, in); err != nil {
						return err
					}
				}
				return nil
			},
			read: func(r *request) (map[string]any, error) {
				out, err := call[awsiam.GetRoleOutput](r, &awsiam.GetRoleInput{RoleName: &r.id})
				if err != nil {
					return nil, err
				}
				return map[string]any{"Arn": out.Role.Arn, "RoleId": out.Role.RoleId, "RoleName": out.Role.RoleName}, nil
			},
			remove: func(r *request) error {
				for _, policy := range r.list("ManagedPolicyArns") {
					if _, err := call[awsiam.DetachRolePolicyOutput](r, &awsiam.DetachRolePolicyInput{RoleName: &r.id, PolicyArn: &policy}); err != nil && !notFound(err) {
						return err
					}
				}
				policies, _ := r.props.Get("Policies").([]any)
				for _, p := range policies {
					m, _ := p.(*template.Map)
					name, _ := template.Text(m.Get("PolicyName"))
					if _, err := call[awsiam.DeleteRolePolicyOutput](r, &awsiam.DeleteRolePolicyInput{RoleName: &r.id, PolicyName: &name}); err != nil && !notFound(err) {
						return err
					}
				}
				_, err := call[awsiam.DeleteRoleOutput](r, &awsiam.DeleteRoleInput{RoleName: &r.id})
				return err
			},
		},
		"AWS::IAM::InstanceProfile": {
			input: &awsiam.CreateInstanceProfileInput{}, own: "InstanceProfileName Roles",
			inPlace: "Roles", update: func(r *request) error { return r.removeRoles(r.goneFrom("Roles")) },
			find: func(r *request) (string, error) {
				p, err := r.profile(r.name("InstanceProfileName", 128))
				return aws.ToString(p.InstanceProfileName), err
			},
			create: func(r *request) (string, error) {
				in := &awsiam.CreateInstanceProfileInput{}
				if err := r.fill(in, "InstanceProfileName Roles"); err != nil {
					return "", err
				}
				in.InstanceProfileName = aws.String(r.name("InstanceProfileName", 128))
				_, err := call[awsiam.CreateInstanceProfileOutput](r, in)
				return *in.InstanceProfileName, err
			},
			settle: func(r *request) error {
				p, err := r.profile(r.id)
				if err != nil {
					return err
				}
				for _, role := range r.list("Roles") {
					if slices.ContainsFunc(p.Roles, func(have iamtypes.Role) bool { return aws.ToString(have.RoleName) == role }) {
						continue
					}
					if _, err := call[awsiam.AddRoleToInstanceProfileOutput](r, &awsiam.AddRoleToInstanceProfileInput{InstanceProfileName: &r.id, RoleName: &role}); err != nil {
						return err
					}
				}
				return nil
			},
			read: func(r *request) (map[string]any, error) {
				p, err := r.profile(r.id)
				return map[string]any{"Arn": p.Arn, "InstanceProfileName": p.InstanceProfileName}, err
			},
			remove: func(r *request) error {
				if err := r.removeRoles(r.list("Roles")); err != nil {
					return err
				}
				_, err := call[awsiam.DeleteInstanceProfileOutput](r, &awsiam.DeleteInstanceProfileInput{InstanceProfileName: &r.id})
				return err
			},
		},
		"AWS::IAM::Policy": {
			input: &awsiam.PutRolePolicyInput{}, own: "Roles Groups Users",
			inPlace: "Groups PolicyDocument PolicyName Roles Users", update: updatePolicy,
			create: func(r *request) (string, error) { return r.generated(r.o.rec.Name, 128), r.putPolicy() },
			read:   idAs("Id"),
			remove: func(r *request) error { return r.deletePolicy(r.text("PolicyName"), r.policyUsers()) },
		},
		"AWS::IAM::ManagedPolicy": {
			input: &awsiam.CreatePolicyInput{}, own: "ManagedPolicyName Roles Groups Users",
			inPlace: "Groups PolicyDocument Roles Users", update: updateManagedPolicy,
			find: func(r *request) (string, error) {
				out, err := call[awsiam.GetPolicyOutput](r, &awsiam.GetPolicyInput{PolicyArn: aws.String(r.arnOf(r.text("Path"), "policy") + r.name("ManagedPolicyName", 128))})
				if err != nil {
					return "", err
				}
				return *out.Policy.Arn, nil
			},
			create: func(r *request) (string, error) {
				in := &awsiam.CreatePolicyInput{}
				if err := r.fill(in, "ManagedPolicyName Roles Groups Users"); err != nil {
					return "", err
				}
				in.PolicyName = aws.String(r.name("ManagedPolicyName", 128))
				out, err := call[awsiam.CreatePolicyOutput](r, in)
				if err != nil {
					return "", err
				}
				return *out.Policy.Arn, nil
			},
			settle: func(r *request) error {
				for _, u := range r.policyUsers() {
					var err error
					switch u.kind {
					case "Roles":
						_, err = call[awsiam.AttachRolePolicyOutput](r, &awsiam.AttachRolePolicyInput{RoleName: &u.name, PolicyArn: &r.id})
					case "Groups":
						_, err = call[awsiam.AttachGroupPolicyOutput](r, &awsiam.AttachGroupPolicyInput{GroupName: &u.name, PolicyArn: &r.id})
					default:
						_, err = call[awsiam.AttachUserPolicyOutput](r, &awsiam.AttachUserPolicyInput{UserName: &u.name, PolicyArn: &r.id})
					}
					if err != nil {
						return err
					}
				}
				return nil
			},
			read: func(r *request) (map[string]any, error) {
				out, err := call[awsiam.GetPolicyOutput](r, &awsiam.GetPolicyInput{PolicyArn: &r.id})
				if err != nil {
					return nil, err
				}
				return map[string]any{"PolicyArn": r.id, "PolicyId": out.Policy.PolicyId, "DefaultVersionId": out.Policy.DefaultVersionId}, nil
			},
			remove: func(r *request) error {
				if err := r.detachPolicy(r.policyUsers()); err != nil {
					return err
				}
				versions, err := call[awsiam.ListPolicyVersionsOutput](r, &awsiam.ListPolicyVersionsInput{PolicyArn: &r.id})
				if err != nil {
					return err
				}
				for _, v := range versions.Versions {
					if v.IsDefaultVersion {
						continue
					}
					if _, err := call[awsiam.DeletePolicyVersionOutput](r, &awsiam.DeletePolicyVersionInput{PolicyArn: &r.id, VersionId: v.VersionId}); unlessGone(err) != nil {
						return err
					}
				}
				_, err = call[awsiam.DeletePolicyOutput](r, &awsiam.DeletePolicyInput{PolicyArn: &r.id})
				return err
			},
		},
		"AWS::IAM::OIDCProvider": {
			input: &awsiam.CreateOpenIDConnectProviderInput{}, own: "Tags",
			inPlace: "ClientIdList Tags ThumbprintList", update: updateOIDCProvider,
			find: findOIDCProvider, create: createOIDCProvider,
			read:   func(r *request) (map[string]any, error) { return map[string]any{"Arn": r.id}, nil },
			remove: deleteOIDCProvider,
		},
	}
}

func findOIDCProvider(r *request) (string, error) {
	id := arn.New("iam", "", r.o.key.Account, "oidc-provider/"+strings.TrimPrefix(r.text("Url"), "https://"))
	_, err := call[awsiam.GetOpenIDConnectProviderOutput](r, &awsiam.GetOpenIDConnectProviderInput{OpenIDConnectProviderArn: &id})
	return id, err
}

func createOIDCProvider(r *request) (string, error) {
	in := &awsiam.CreateOpenIDConnectProviderInput{}
	if err := r.fill(in, "Tags"); err != nil {
		return "", err
	}
	in.Tags = r.iamTags()
	out, err := call[awsiam.CreateOpenIDConnectProviderOutput](r, in)
	if err != nil {
		return "", err
	}
	return *out.OpenIDConnectProviderArn, nil
}

func deleteOIDCProvider(r *request) error {
	_, err := call[awsiam.DeleteOpenIDConnectProviderOutput](r, &awsiam.DeleteOpenIDConnectProviderInput{OpenIDConnectProviderArn: &r.id})
	return err
}

func (r *request) profile(name string) (iamtypes.InstanceProfile, error) {
	out, err := call[awsiam.GetInstanceProfileOutput](r, &awsiam.GetInstanceProfileInput{InstanceProfileName: &name})
	if err != nil {
		return iamtypes.InstanceProfile{}, err
	}
	return *out.InstanceProfile, nil
}

// putPolicy puts the inline policy on every role, group and user that the resource names.
func (r *request) putPolicy() error {
	document, name := r.document("PolicyDocument"), r.text("PolicyName")
	for _, u := range r.policyUsers() {
		var err error
		switch u.kind {
		case "Roles":
			_, err = call[awsiam.PutRolePolicyOutput](r, &awsiam.PutRolePolicyInput{RoleName: &u.name, PolicyName: &name, PolicyDocument: &document})
		case "Groups":
			_, err = call[awsiam.PutGroupPolicyOutput](r, &awsiam.PutGroupPolicyInput{GroupName: &u.name, PolicyName: &name, PolicyDocument: &document})
		default:
			_, err = call[awsiam.PutUserPolicyOutput](r, &awsiam.PutUserPolicyInput{UserName: &u.name, PolicyName: &name, PolicyDocument: &document})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// deletePolicy deletes an inline policy from roles, groups and users.
func (r *request) deletePolicy(name string, from []policyUser) error {
	for _, u := range from {
		var err error
		switch u.kind {
		case "Roles":
			_, err = call[awsiam.DeleteRolePolicyOutput](r, &awsiam.DeleteRolePolicyInput{RoleName: &u.name, PolicyName: &name})
		case "Groups":
			_, err = call[awsiam.DeleteGroupPolicyOutput](r, &awsiam.DeleteGroupPolicyInput{GroupName: &u.name, PolicyName: &name})
		default:
			_, err = call[awsiam.DeleteUserPolicyOutput](r, &awsiam.DeleteUserPolicyInput{UserName: &u.name, PolicyName: &name})
		}
		if unlessGone(err) != nil {
			return err
		}
	}
	return nil
}

// detachPolicy detaches the managed policy from roles, groups and users.
func (r *request) detachPolicy(from []policyUser) error {
	for _, u := range from {
		var err error
		switch u.kind {
		case "Roles":
			_, err = call[awsiam.DetachRolePolicyOutput](r, &awsiam.DetachRolePolicyInput{RoleName: &u.name, PolicyArn: &r.id})
		case "Groups":
			_, err = call[awsiam.DetachGroupPolicyOutput](r, &awsiam.DetachGroupPolicyInput{GroupName: &u.name, PolicyArn: &r.id})
		default:
			_, err = call[awsiam.DetachUserPolicyOutput](r, &awsiam.DetachUserPolicyInput{UserName: &u.name, PolicyArn: &r.id})
		}
		if unlessGone(err) != nil {
			return err
		}
	}
	return nil
}

func (r *request) removeRoles(roles []string) error {
	for _, role := range roles {
		if _, err := call[awsiam.RemoveRoleFromInstanceProfileOutput](r, &awsiam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: &r.id, RoleName: &role}); unlessGone(err) != nil {
			return err
		}
	}
	return nil
}
