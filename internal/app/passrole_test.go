package app

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/model"
)

// carriesRole matches the names of members that hold a role, or a profile with one.
var carriesRole = regexp.MustCompile(`(?i)role_?arn|role$|permission_?arn$|^iaminstanceprofile$`)

// notPassed says why operations do not require iam:PassRole by a row of their service if a request has one of
// these members.
var notPassed = map[string]string{
	"sts AssumeRole RoleArn":                                                                  "the role is assumed, not passed: its trust policy decides",
	"sts AssumeRoleWithWebIdentity RoleArn":                                                   "the role is assumed, not passed: its trust policy decides",
	"sts AssumeRoleWithSAML RoleArn":                                                          "the role is assumed, not passed: its trust policy decides",
	"eks CreatePodIdentityAssociation targetRoleArn":                                          "the pod's role assumes it by itself: https://docs.aws.amazon.com/eks/latest/userguide/pod-id-assign-target-role.html",
	"eks UpdatePodIdentityAssociation targetRoleArn":                                          "the pod's role assumes it by itself, as above",
	"ssm SendCommand ServiceRoleArn":                                                          "Systems Manager's own resolver asks, with the documents and instances of the request",
	"ec2 RequestSpotInstances LaunchSpecification.IamInstanceProfile":                         "as for RunInstances",
	"ec2 RunInstances IamInstanceProfile":                                                     "EC2's own resolver asks, which knows the launch template's profile, too",
	"ec2 CreateLaunchTemplate LaunchTemplateData.IamInstanceProfile":                          "a launch passes the role: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/permissions-for-launch-templates.html",
	"ec2 CreateLaunchTemplateVersion LaunchTemplateData.IamInstanceProfile":                   "a launch passes the role, as above",
	"eks CreateCapability configuration.argoCd.rbacRoleMappings.role":                         "ADMIN, EDITOR or VIEWER in Argo CD",
	"eks UpdateCapability configuration.argoCd.rbacRoleMappings.addOrUpdateRoleMappings.role": "as above",
	"eks UpdateCapability configuration.argoCd.rbacRoleMappings.removeRoleMappings.role":      "as above",
}

// TestEveryRoleIsPassed: anyone who can pass a role to a service gets the role's permissions, unless that requires
// iam:PassRole. Every member of every handled operation that carries a role must have a rule, or a reason why not.
func TestEveryRoleIsPassed(t *testing.T) {
	a := authz.New(authz.Config{Services: operations()})
	used := map[string]bool{}
	found := 0
	for _, s := range operations() {
		m, err := model.Get(s.Name)
		if err != nil {
			t.Fatal(err)
		}
		for _, op := range s.Operations {
			honours := awsapi.ParseHonours(op.Members)
			walkMembers(m.Operations[op.Name].Input, "", nil, func(path string) {
				name := path[strings.LastIndexByte(path, '.')+1:]
				if !carriesRole.MatchString(name) || !honours.Covers(path) && op.Members != "*" {
					return
				}
				found++
				key := s.Name + " " + op.Name + " " + path
				reason, exempt := notPassed[key]
				used[key] = true
				rule := a.Passes(s.Name, op.Name, path) || a.Passes(s.Name, op.Name, path+".Arn") && a.Passes(s.Name, op.Name, path+".Name")
				switch {
				case rule && exempt:
					t.Errorf("%s has a row in PassedRoles and a reason to have none", key)
				case !rule && reason == "":
					t.Errorf("%s hands over a role without iam:PassRole: add a row to PassedRoles of the service's authorization, or a reason here", key)
				}
			})
		}
	}
	if found < 20 {
		t.Errorf("found %d members that carry a role: the test looks in the wrong place", found)
	}
	for key := range notPassed {
		if !used[key] {
			t.Errorf("%s is gone", key)
		}
	}
}

// walkMembers calls found with the dotted paths of all members below a shape. Lists and maps do not count as levels.
func walkMembers(sh *model.Shape, prefix string, within []*model.Shape, found func(path string)) {
	for sh != nil && sh.Type != model.Structure {
		switch {
		case sh.Elem != nil:
			sh = sh.Elem.Shape
		case sh.Value != nil:
			sh = sh.Value.Shape
		default:
			return
		}
	}
	if sh == nil || slices.Contains(within, sh) { // shapes may refer to themselves
		return
	}
	for _, m := range sh.Members {
		found(prefix + m.Name)
		walkMembers(m.Shape, prefix+m.Name+".", append(within, sh), found)
	}
}
