package cloudformation

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
)

func userHandlers() map[string]handler {
	return map[string]handler{
		"AWS::IAM::User": made(handler{
			inPlace: "Groups ManagedPolicyArns PermissionsBoundary Policies Tags", update: updateUser,
			find: func(r *request) (string, error) {
				out, err := call[awsiam.GetUserOutput](r, &awsiam.GetUserInput{UserName: aws.String(r.name("UserName", 64))})
				if err != nil {
					return "", err
				}
				return *out.User.UserName, nil
			},
			settle: settleUser,
			read: func(r *request) (map[string]any, error) {
				out, err := call[awsiam.GetUserOutput](r, &awsiam.GetUserInput{UserName: &r.id})
				if err != nil {
					return nil, err
				}
				return map[string]any{"Arn": out.User.Arn}, nil
			},
			remove: removeUser,
		}, "UserName Tags Groups LoginProfile ManagedPolicyArns Policies", func(r *request, in *awsiam.CreateUserInput) {
			in.UserName, in.Tags = aws.String(r.name("UserName", 64)), r.iamTags()
		}, func(_ *request, out *awsiam.CreateUserOutput) *string { return out.User.UserName }),
		"AWS::IAM::Group": made(handler{
			inPlace: "ManagedPolicyArns Policies", update: updateGroup,
			find: func(r *request) (string, error) {
				out, err := call[awsiam.GetGroupOutput](r, &awsiam.GetGroupInput{GroupName: aws.String(r.name("GroupName", 128))})
				if err != nil {
					return "", err
				}
				return *out.Group.GroupName, nil
			},
			settle: func(r *request) error {
				for _, policy := range r.list("ManagedPolicyArns") {
					if _, err := call[awsiam.AttachGroupPolicyOutput](r, &awsiam.AttachGroupPolicyInput{GroupName: &r.id, PolicyArn: &policy}); err != nil {
						return err
					}
				}
				return each(r, "Policies", "", func(in *awsiam.PutGroupPolicyInput, _ *template.Map) error {
					in.GroupName = &r.id
					_, err := call[awsiam.PutGroupPolicyOutput](r, in)
					return err
				})
			},
			read: func(r *request) (map[string]any, error) {
				out, err := call[awsiam.GetGroupOutput](r, &awsiam.GetGroupInput{GroupName: &r.id})
				if err != nil {
					return nil, err
				}
				return map[string]any{"Arn": out.Group.Arn}, nil
			},
			remove: func(r *request) error {
				for _, policy := range r.list("ManagedPolicyArns") {
					if _, err := call[awsiam.DetachGroupPolicyOutput](r, &awsiam.DetachGroupPolicyInput{GroupName: &r.id, PolicyArn: &policy}); err != nil && !notFound(err) {
						return err
					}
				}
				err := each(r, "Policies", "PolicyDocument", func(in *awsiam.DeleteGroupPolicyInput, _ *template.Map) error {
					in.GroupName = &r.id
					_, err := call[awsiam.DeleteGroupPolicyOutput](r, in)
					return unlessGone(err)
				})
				if err != nil {
					return err
				}
				_, err = call[awsiam.DeleteGroupOutput](r, &awsiam.DeleteGroupInput{GroupName: &r.id})
				return err
			},
		}, "GroupName ManagedPolicyArns Policies", func(r *request, in *awsiam.CreateGroupInput) {
			in.GroupName = aws.String(r.name("GroupName", 128))
		}, func(_ *request, out *awsiam.CreateGroupOutput) *string { return out.Group.GroupName }),
		"AWS::IAM::UserToGroupAddition": {
			input: &awsiam.AddUserToGroupInput{}, own: "Users",
			inPlace: "GroupName Users", update: updateMembers,
			create: func(r *request) (string, error) { return r.generated(r.o.rec.Name, 128), r.addMembers() },
			read:   idAs("Id"),
			remove: func(r *request) error { return r.removeMembers(r.text("GroupName"), r.list("Users")) },
		},
		"AWS::IAM::AccessKey": made(handler{
			inPlace: "Status",
			settle: func(r *request) error {
				if !r.props.Has("Status") {
					return nil
				}
				in := &awsiam.UpdateAccessKeyInput{AccessKeyId: &r.id}
				if err := r.fill(in, "Serial"); err != nil {
					return err
				}
				_, err := call[awsiam.UpdateAccessKeyOutput](r, in)
				return err
			},
			read: idAs("Id"),
			remove: one[awsiam.DeleteAccessKeyOutput](func(r *request) any {
				return &awsiam.DeleteAccessKeyInput{AccessKeyId: &r.id, UserName: aws.String(r.text("UserName"))}
			}),
		}, "Serial Status", func(*request, *awsiam.CreateAccessKeyInput) {}, func(r *request, out *awsiam.CreateAccessKeyOutput) *string {
			r.given = map[string]any{"SecretAccessKey": *out.AccessKey.SecretAccessKey} // it is not returned again
			return out.AccessKey.AccessKeyId
		}),
		"AWS::IAM::ServiceLinkedRole": made(handler{
			read: idAs("RoleName"),
			remove: one[awsiam.DeleteServiceLinkedRoleOutput](func(r *request) any {
				return &awsiam.DeleteServiceLinkedRoleInput{RoleName: &r.id}
			}),
		}, "", func(*request, *awsiam.CreateServiceLinkedRoleInput) {}, func(_ *request, out *awsiam.CreateServiceLinkedRoleOutput) *string { return out.Role.RoleName }),
		"AWS::IAM::RolePolicy": again("PolicyDocument", made(handler{
			remove: one[awsiam.DeleteRolePolicyOutput](func(r *request) any {
				return &awsiam.DeleteRolePolicyInput{RoleName: aws.String(r.text("RoleName")), PolicyName: aws.String(r.text("PolicyName"))}
			}),
		}, "", func(*request, *awsiam.PutRolePolicyInput) {}, func(r *request, _ *awsiam.PutRolePolicyOutput) *string {
			return aws.String(r.text("PolicyName") + "|" + r.text("RoleName"))
		})),
		"AWS::IAM::GroupPolicy": again("PolicyDocument", made(handler{
			remove: one[awsiam.DeleteGroupPolicyOutput](func(r *request) any {
				return &awsiam.DeleteGroupPolicyInput{GroupName: aws.String(r.text("GroupName")), PolicyName: aws.String(r.text("PolicyName"))}
			}),
		}, "", func(*request, *awsiam.PutGroupPolicyInput) {}, func(r *request, _ *awsiam.PutGroupPolicyOutput) *string {
			return aws.String(r.text("PolicyName") + "|" + r.text("GroupName"))
		})),
		"AWS::IAM::UserPolicy": again("PolicyDocument", made(handler{
			remove: one[awsiam.DeleteUserPolicyOutput](func(r *request) any {
				return &awsiam.DeleteUserPolicyInput{UserName: aws.String(r.text("UserName")), PolicyName: aws.String(r.text("PolicyName"))}
			}),
		}, "", func(*request, *awsiam.PutUserPolicyInput) {}, func(r *request, _ *awsiam.PutUserPolicyOutput) *string {
			return aws.String(r.text("PolicyName") + "|" + r.text("UserName"))
		})),
	}
}

// unlessGone returns the error of a deletion, or nil if there was nothing to delete.
func unlessGone(err error) error {
	if notFound(err) {
		return nil
	}
	return err
}

// settleUser adds a user to its groups and sets its policies and its password.
func settleUser(r *request) error {
	for _, group := range r.list("Groups") {
		if _, err := call[awsiam.AddUserToGroupOutput](r, &awsiam.AddUserToGroupInput{GroupName: &group, UserName: &r.id}); err != nil {
			return err
		}
	}
	for _, policy := range r.list("ManagedPolicyArns") {
		if _, err := call[awsiam.AttachUserPolicyOutput](r, &awsiam.AttachUserPolicyInput{UserName: &r.id, PolicyArn: &policy}); err != nil {
			return err
		}
	}
	err := each(r, "Policies", "", func(in *awsiam.PutUserPolicyInput, _ *template.Map) error {
		in.UserName = &r.id
		_, err := call[awsiam.PutUserPolicyOutput](r, in)
		return err
	})
	if err != nil {
		return err
	}
	return each(r, "LoginProfile", "", func(in *awsiam.CreateLoginProfileInput, _ *template.Map) error {
		in.UserName = &r.id
		if _, err := call[awsiam.CreateLoginProfileOutput](r, in); codeOf(err) != "EntityAlreadyExists" {
			return err
		}
		return nil
	})
}

func removeUser(r *request) error {
	for _, group := range r.list("Groups") {
		if _, err := call[awsiam.RemoveUserFromGroupOutput](r, &awsiam.RemoveUserFromGroupInput{GroupName: &group, UserName: &r.id}); unlessGone(err) != nil {
			return err
		}
	}
	for _, policy := range r.list("ManagedPolicyArns") {
		if _, err := call[awsiam.DetachUserPolicyOutput](r, &awsiam.DetachUserPolicyInput{UserName: &r.id, PolicyArn: &policy}); unlessGone(err) != nil {
			return err
		}
	}
	err := each(r, "Policies", "PolicyDocument", func(in *awsiam.DeleteUserPolicyInput, _ *template.Map) error {
		in.UserName = &r.id
		_, err := call[awsiam.DeleteUserPolicyOutput](r, in)
		return unlessGone(err)
	})
	if err != nil {
		return err
	}
	if r.props.Has("LoginProfile") {
		if _, err := call[awsiam.DeleteLoginProfileOutput](r, &awsiam.DeleteLoginProfileInput{UserName: &r.id}); unlessGone(err) != nil {
			return err
		}
	}
	_, err = call[awsiam.DeleteUserOutput](r, &awsiam.DeleteUserInput{UserName: &r.id})
	return err
}

func (r *request) addMembers() error {
	for _, user := range r.list("Users") {
		if _, err := call[awsiam.AddUserToGroupOutput](r, &awsiam.AddUserToGroupInput{GroupName: aws.String(r.text("GroupName")), UserName: &user}); err != nil {
			return err
		}
	}
	return nil
}

func (r *request) removeMembers(group string, users []string) error {
	for _, user := range users {
		if _, err := call[awsiam.RemoveUserFromGroupOutput](r, &awsiam.RemoveUserFromGroupInput{GroupName: &group, UserName: &user}); unlessGone(err) != nil {
			return err
		}
	}
	return nil
}
