package eks_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"
)

func TestACapability(t *testing.T) {
	w := newWorld(t)
	ctx, dev, argo := t.Context(), aws.String("dev"), aws.String("argo")
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	const trusted = "capabilities.eks.amazonaws.com"
	w.iam.add(w.arn("role/capability"), "AROACAP", trusted)
	w.iam.add(w.arn("role/other"), "AROAOTHER", trusted)
	w.iam.add(w.arn("role/untrusting"), "AROAUN", "eks.amazonaws.com")
	w.iam.add(w.arn("role/untaggable"), "AROATAG", trusted)
	w.iam.untaggable(w.arn("role/untaggable"))
	in := func() *awseks.CreateCapabilityInput {
		return &awseks.CreateCapabilityInput{
			ClusterName: dev, CapabilityName: argo, Type: ekstypes.CapabilityTypeArgocd, RoleArn: aws.String(w.arn("role/capability")),
			DeletePropagationPolicy: ekstypes.CapabilityDeletePropagationPolicyRetain, Tags: map[string]string{"a": "b"}, ClientRequestToken: aws.String("once"),
			Configuration: &ekstypes.CapabilityConfigurationRequest{ArgoCd: &ekstypes.ArgoCdConfigRequest{
				AwsIdc: &ekstypes.ArgoCdAwsIdcConfigRequest{IdcInstanceArn: aws.String("arn:aws:sso:::instance/ssoins-1234567890abcdef")},
				RbacRoleMappings: []ekstypes.ArgoCdRoleMapping{
					{Role: ekstypes.ArgoCdRoleAdmin, Identities: []ekstypes.SsoIdentity{{Id: aws.String("u1"), Type: ekstypes.SsoIdentityTypeSsoUser}, {Id: aws.String("u2"), Type: ekstypes.SsoIdentityTypeSsoUser}}},
				},
			}},
		}
	}
	for _, tt := range []struct {
		name, code, text string
		change           func(*awseks.CreateCapabilityInput)
	}{
		{"name", "InvalidParameterException", "The capability name parameter contains invalid characters. It should begin with letter or digit and can have any of the following characters: the set of Unicode letters, digits, hyphens and underscores.", func(in *awseks.CreateCapabilityInput) { in.CapabilityName = aws.String("a.b") }},
		{"trust", "InvalidParameterException", "The trust policy for the provided role is invalid. The policy must include sts:AssumeRole and sts:TagSession actions granting access to the AWS service capabilities.eks.amazonaws.com", func(in *awseks.CreateCapabilityInput) {
			in.RoleArn = aws.String(w.arn("role/untrusting"))
		}},
		{"no tags", "InvalidParameterException", "The trust policy for the provided role is invalid. The policy must include sts:AssumeRole and sts:TagSession actions granting access to the AWS service capabilities.eks.amazonaws.com", func(in *awseks.CreateCapabilityInput) {
			in.RoleArn = aws.String(w.arn("role/untaggable"))
		}},
		{"role", "InvalidParameterException", "The role " + w.arn("role/none") + " does not exist.", func(in *awseks.CreateCapabilityInput) { in.RoleArn = aws.String(w.arn("role/none")) }},
		{"no configuration", "InvalidParameterException", "The argoCd configuration is required for capabilities of type ARGOCD.", func(in *awseks.CreateCapabilityInput) { in.Configuration = nil }},
		{"configuration of another type", "InvalidParameterException", "The argoCd configuration is not supported for capabilities of type ACK.", func(in *awseks.CreateCapabilityInput) { in.Type = ekstypes.CapabilityTypeAck }},
		{"instance", "InvalidParameterException", "The idcInstanceArn arn:aws:iam::1:role/x is not a valid IAM Identity Center instance ARN.", func(in *awseks.CreateCapabilityInput) {
			in.Configuration.ArgoCd.AwsIdc.IdcInstanceArn = aws.String("arn:aws:iam::1:role/x")
		}},
		{"cluster", "ResourceNotFoundException", "No cluster found for name: none.", func(in *awseks.CreateCapabilityInput) { in.ClusterName = aws.String("none") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := in()
			tt.change(in)
			_, err := w.client.CreateCapability(ctx, in)
			wantError(t, err, tt.code, tt.text)
		})
	}

	made, err := w.client.CreateCapability(ctx, in())
	if err != nil || made.Capability.Status != ekstypes.CapabilityStatusCreating {
		t.Fatalf("CreateCapability: %+v, %v", made, err)
	}
	again, err := w.client.CreateCapability(ctx, in())
	if err != nil || *again.Capability.Arn != *made.Capability.Arn {
		t.Errorf("with the same token: %+v, %v", again, err)
	}
	twin := in()
	twin.CapabilityName = aws.String("second")
	_, err = w.client.CreateCapability(ctx, twin)
	wantError(t, err, "ResourceInUseException", "A capability of type ARGOCD already exists in cluster dev.")
	twin.CapabilityName, twin.ClientRequestToken = argo, aws.String("twice")
	_, err = w.client.CreateCapability(ctx, twin)
	wantError(t, err, "ResourceInUseException", "Capability already exists with name: argo")

	describe := func() *ekstypes.Capability {
		t.Helper()
		out, err := w.client.DescribeCapability(ctx, &awseks.DescribeCapabilityInput{ClusterName: dev, CapabilityName: argo})
		if err != nil {
			t.Fatal(err)
		}
		return out.Capability
	}
	got := describe()
	if got.Status != ekstypes.CapabilityStatusDegraded || len(got.Health.Issues) != 1 || *got.Configuration.ArgoCd.Namespace != "argocd" || *got.Configuration.ArgoCd.AwsIdc.IdcRegion != "us-east-1" {
		t.Errorf("described: %+v, %+v", got, got.Configuration.ArgoCd)
	}
	if notes := strings.Join(w.updateNotes(), "\n"); !strings.Contains(notes, "the capability argo is DEGRADED: Drydock runs no controller for ARGOCD") {
		t.Errorf("drydock why cluster says %s", notes)
	}
	associated, err := w.client.ListAssociatedAccessPolicies(ctx, &awseks.ListAssociatedAccessPoliciesInput{ClusterName: dev, PrincipalArn: got.RoleArn})
	if err != nil {
		t.Fatal(err)
	}
	scopes := map[string]ekstypes.AccessScope{}
	for _, p := range associated.AssociatedAccessPolicies {
		scopes[*p.PolicyArn] = *p.AccessScope
	}
	if diff := cmp.Diff(map[string]ekstypes.AccessScope{
		"arn:aws:eks::aws:cluster-access-policy/AmazonEKSArgoCDClusterPolicy": {Type: "cluster", Namespaces: []string{}},
		"arn:aws:eks::aws:cluster-access-policy/AmazonEKSArgoCDPolicy":        {Type: "namespace", Namespaces: []string{"argocd"}},
	}, scopes, cmp.AllowUnexported(ekstypes.AccessScope{})); diff != "" {
		t.Errorf("access policies (-want +got):\n%s", diff)
	}

	_, err = w.client.UpdateCapability(ctx, &awseks.UpdateCapabilityInput{ClusterName: dev, CapabilityName: argo})
	wantError(t, err, "InvalidParameterException", "At least one of roleArn, configuration and deletePropagationPolicy must be specified.")
	up, err := w.client.UpdateCapability(ctx, &awseks.UpdateCapabilityInput{ClusterName: dev, CapabilityName: argo, RoleArn: aws.String(w.arn("role/other")),
		Configuration: &ekstypes.UpdateCapabilityConfiguration{ArgoCd: &ekstypes.UpdateArgoCdConfig{RbacRoleMappings: &ekstypes.UpdateRoleMappings{
			AddOrUpdateRoleMappings: []ekstypes.ArgoCdRoleMapping{{Role: ekstypes.ArgoCdRoleViewer, Identities: []ekstypes.SsoIdentity{{Id: aws.String("g"), Type: ekstypes.SsoIdentityTypeSsoGroup}}}},
			RemoveRoleMappings:      []ekstypes.ArgoCdRoleMapping{{Role: ekstypes.ArgoCdRoleAdmin, Identities: []ekstypes.SsoIdentity{{Id: aws.String("u1"), Type: ekstypes.SsoIdentityTypeSsoUser}}}},
		}}}})
	if err != nil || up.Update.Type != ekstypes.UpdateTypeCapabilityUpdate || len(up.Update.Params) != 3 {
		t.Fatalf("UpdateCapability: %+v, %v", up, err)
	}
	done, err := w.client.DescribeUpdate(ctx, &awseks.DescribeUpdateInput{Name: dev, CapabilityName: argo, UpdateId: up.Update.Id})
	if err != nil || done.Update.Status != ekstypes.UpdateStatusSuccessful {
		t.Errorf("DescribeUpdate: %+v, %v", done, err)
	}
	_, err = w.client.DescribeUpdate(ctx, &awseks.DescribeUpdateInput{Name: dev, UpdateId: up.Update.Id})
	wantError(t, err, "ResourceNotFoundException", "No update found for ID: "+*up.Update.Id)
	ids, err := w.client.ListUpdates(ctx, &awseks.ListUpdatesInput{Name: dev, CapabilityName: argo})
	if err != nil || !cmp.Equal(ids.UpdateIds, []string{*up.Update.Id}) {
		t.Errorf("ListUpdates: %+v, %v", ids, err)
	}
	got = describe()
	roles := map[ekstypes.ArgoCdRole]string{}
	for _, m := range got.Configuration.ArgoCd.RbacRoleMappings {
		for _, id := range m.Identities {
			roles[m.Role] += *id.Id
		}
	}
	if diff := cmp.Diff(map[ekstypes.ArgoCdRole]string{"ADMIN": "u2", "VIEWER": "g"}, roles); diff != "" || *got.RoleArn != w.arn("role/other") {
		t.Errorf("role %s, mappings (-want +got):\n%s", *got.RoleArn, diff)
	}

	if _, err := w.client.TagResource(ctx, &awseks.TagResourceInput{ResourceArn: got.Arn, Tags: map[string]string{"c": "d"}}); err != nil {
		t.Error(err)
	}
	tags, err := w.client.ListTagsForResource(ctx, &awseks.ListTagsForResourceInput{ResourceArn: got.Arn})
	if err != nil || !cmp.Equal(tags.Tags, map[string]string{"a": "b", "c": "d"}) {
		t.Errorf("tags: %+v, %v", tags, err)
	}
	list, err := w.client.ListCapabilities(ctx, &awseks.ListCapabilitiesInput{ClusterName: dev})
	if err != nil || len(list.Capabilities) != 1 || *list.Capabilities[0].CapabilityName != "argo" {
		t.Errorf("ListCapabilities: %+v, %v", list, err)
	}
	_, err = w.client.DeleteCluster(ctx, &awseks.DeleteClusterInput{Name: dev})
	wantError(t, err, "ResourceInUseException", "Cluster has capabilities attached")
	gone, err := w.client.DeleteCapability(ctx, &awseks.DeleteCapabilityInput{ClusterName: dev, CapabilityName: argo})
	if err != nil || gone.Capability.Status != ekstypes.CapabilityStatusDeleting {
		t.Errorf("DeleteCapability: %+v, %v", gone, err)
	}
	_, err = w.client.DescribeCapability(ctx, &awseks.DescribeCapabilityInput{ClusterName: dev, CapabilityName: argo})
	wantError(t, err, "ResourceNotFoundException", "No capability found for name: argo.")
	_, err = w.client.DescribeUpdate(ctx, &awseks.DescribeUpdateInput{Name: dev, CapabilityName: argo, UpdateId: up.Update.Id})
	wantError(t, err, "ResourceNotFoundException", "No update found for ID: "+*up.Update.Id)
	if _, err := w.client.DescribeAccessEntry(ctx, &awseks.DescribeAccessEntryInput{ClusterName: dev, PrincipalArn: aws.String(w.arn("role/capability"))}); err != nil {
		t.Errorf("the access entry of the role: %v", err)
	}
	if _, err := w.client.DeleteCluster(ctx, &awseks.DeleteClusterInput{Name: dev}); err != nil {
		t.Error(err)
	}
}

// Policies of which AWS does not say what they allow are not accepted and ignored.
func TestAnUnpublishedAccessPolicyIsNotAssociated(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	w.iam.add(w.arn("role/job"), "AROAJOB")
	ctx, dev, role := t.Context(), aws.String("dev"), aws.String(w.arn("role/job"))
	if _, err := w.client.CreateAccessEntry(ctx, &awseks.CreateAccessEntryInput{ClusterName: dev, PrincipalArn: role}); err != nil {
		t.Fatal(err)
	}
	associate := func(policy string) error {
		_, err := w.client.AssociateAccessPolicy(ctx, &awseks.AssociateAccessPolicyInput{ClusterName: dev, PrincipalArn: role,
			PolicyArn: aws.String("arn:aws:eks::aws:cluster-access-policy/" + policy), AccessScope: &ekstypes.AccessScope{Type: ekstypes.AccessScopeTypeCluster}})
		return err
	}
	if err := associate("AmazonEMRJobPolicy"); !isCode(err, "NotImplemented") {
		t.Errorf("AmazonEMRJobPolicy: %v", err)
	}
	if err := associate("AmazonEKSSecretAdminPolicy"); err != nil {
		t.Errorf("AmazonEKSSecretAdminPolicy: %v", err)
	}
}
