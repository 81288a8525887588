package eks_test

import (
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/policy"
)

// What a policy must allow for add-ons: the add-on itself, by its ARN, and passing each role to the
// service that uses it.
func TestAddOnsAskForTheirARNAndTheirRoles(t *testing.T) {
	w := addOnWorld(t)
	made := w.createAddon(&awseks.CreateAddonInput{AddonName: aws.String("vpc-cni")})
	a := authz.New(authz.Config{
		Services:  []awsapi.Service{w.svc.AWS()},
		Policies:  func(awsapi.Principal) (policy.Policies, bool) { return policy.Policies{}, false },
		Resolvers: map[string]authz.Resolver{"eks": w.svc.Authz()},
	})
	cluster := "arn:aws:eks:us-east-1:" + w.account + ":cluster/dev"
	dev, name := aws.String("dev"), aws.String("vpc-cni")
	associations := []ekstypes.AddonPodIdentityAssociations{{ServiceAccount: aws.String("aws-node"), RoleArn: aws.String(w.arn("role/pods"))}}
	for _, tt := range []struct {
		operation string
		in        any
		want      []string
	}{
		{"DescribeAddon", &awseks.DescribeAddonInput{ClusterName: dev, AddonName: name}, []string{"eks:DescribeAddon " + *made.AddonArn}},
		{"DeleteAddon", &awseks.DeleteAddonInput{ClusterName: dev, AddonName: name}, []string{"eks:DeleteAddon " + *made.AddonArn}},
		{"ListAddons", &awseks.ListAddonsInput{ClusterName: dev}, []string{"eks:ListAddons " + cluster}},
		{"UpdateAddon", &awseks.UpdateAddonInput{ClusterName: dev, AddonName: name, ServiceAccountRoleArn: aws.String(w.arn("role/other"))},
			[]string{"eks:UpdateAddon " + *made.AddonArn, "iam:PassRole " + w.arn("role/other")}},
		{"CreateAddon", &awseks.CreateAddonInput{ClusterName: dev, AddonName: name, PodIdentityAssociations: associations},
			[]string{"eks:CreateAddon " + cluster, "iam:PassRole " + w.arn("role/pods")}},
		{"ListUpdates", &awseks.ListUpdatesInput{Name: dev, AddonName: name}, []string{"eks:ListUpdates " + *made.AddonArn, "eks:ListUpdates " + cluster}},
		{"TagResource", &awseks.TagResourceInput{ResourceArn: made.AddonArn, Tags: map[string]string{"a": "b"}}, []string{"eks:TagResource " + *made.AddonArn}},
	} {
		t.Run(tt.operation, func(t *testing.T) {
			call := &awsapi.Call{
				Service: "eks", Operation: tt.operation, Account: w.account, Region: "us-east-1",
				Principal: awsapi.Principal{Type: awsapi.IAMUser, Account: w.account, Name: "me"},
			}
			var got []string
			for _, c := range a.Checks(t.Context(), call, tt.in) {
				got = append(got, c.Action+" "+c.Resource)
			}
			slices.Sort(got)
			if !slices.Equal(got, tt.want) {
				t.Errorf("checks = %q, want %q", got, tt.want)
			}
		})
	}
}
