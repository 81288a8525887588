package eks_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"
)

const podsService = "pods.eks.amazonaws.com"

// associate creates an association of role/pod.
func (w *world) associate(namespace, account string) *ekstypes.PodIdentityAssociation {
	w.Helper()
	w.iam.add(w.arn("role/pod"), "AROAPOD", podsService)
	out, err := w.client.CreatePodIdentityAssociation(w.Context(), &awseks.CreatePodIdentityAssociationInput{
		ClusterName: aws.String("dev"), Namespace: &namespace, ServiceAccount: &account, RoleArn: aws.String(w.arn("role/pod")),
	})
	if err != nil {
		w.Fatal(err)
	}
	return out.Association
}

func TestPodIdentityAssociationLife(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeConfigMap) // associations do not depend on the authentication mode
	w.iam.add(w.arn("role/pod"), "AROAPOD", podsService)
	w.iam.add(w.arn("role/pod2"), "AROAPOD2", podsService)
	dev := aws.String("dev")
	in := &awseks.CreatePodIdentityAssociationInput{
		ClusterName: dev, Namespace: aws.String("shop"), ServiceAccount: aws.String("cart"), RoleArn: aws.String(w.arn("role/pod")),
		ClientRequestToken: aws.String("t"), Tags: map[string]string{"a": "b"},
	}
	made, err := w.client.CreatePodIdentityAssociation(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	a := made.Association
	if !regexp.MustCompile(`^a-[a-z0-9]{17}$`).MatchString(*a.AssociationId) {
		t.Errorf("association ID = %s", *a.AssociationId)
	}
	if want := "arn:aws:eks:us-east-1:" + w.account + ":podidentityassociation/dev/" + *a.AssociationId; *a.AssociationArn != want {
		t.Errorf("ARN = %s, want %s", *a.AssociationArn, want)
	}
	if *a.DisableSessionTags || a.ExternalId != nil || a.TargetRoleArn != nil || a.Tags["a"] != "b" {
		t.Errorf("association = %+v", a)
	}
	again, err := w.client.CreatePodIdentityAssociation(t.Context(), in)
	if err != nil || *again.Association.AssociationId != *a.AssociationId {
		t.Errorf("with the same token: %v, %v", again, err)
	}
	in.ClientRequestToken = nil
	_, err = w.client.CreatePodIdentityAssociation(t.Context(), in)
	wantError(t, err, "ResourceInUseException", "Association already exists: "+*a.AssociationId)
	other := w.associate("kube-system", "aws-node")

	t.Run("list", func(t *testing.T) {
		for _, tt := range []struct {
			name, namespace, account string
			want                     []string
		}{
			{"all", "", "", []string{"aws-node", "cart"}},
			{"namespace", "shop", "", []string{"cart"}},
			{"service account", "", "aws-node", []string{"aws-node"}},
			{"neither", "shop", "aws-node", nil},
		} {
			t.Run(tt.name, func(t *testing.T) {
				in := &awseks.ListPodIdentityAssociationsInput{ClusterName: dev, MaxResults: aws.Int32(1)}
				if tt.namespace != "" {
					in.Namespace = &tt.namespace
				}
				if tt.account != "" {
					in.ServiceAccount = &tt.account
				}
				var got []string
				for p := awseks.NewListPodIdentityAssociationsPaginator(w.client, in); p.HasMorePages(); {
					out, err := p.NextPage(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					for _, a := range out.Associations {
						got = append(got, *a.ServiceAccount)
					}
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		}
	})

	update := &awseks.UpdatePodIdentityAssociationInput{ClusterName: dev, AssociationId: a.AssociationId, RoleArn: aws.String(w.arn("role/pod2")), TargetRoleArn: aws.String("arn:aws:iam::999999999999:role/far"), DisableSessionTags: aws.Bool(true)}
	if _, err := w.client.UpdatePodIdentityAssociation(t.Context(), update); err != nil {
		t.Fatal(err)
	}
	got, err := w.client.DescribePodIdentityAssociation(t.Context(), &awseks.DescribePodIdentityAssociationInput{ClusterName: dev, AssociationId: a.AssociationId})
	if err != nil {
		t.Fatal(err)
	}
	if u := got.Association; *u.RoleArn != w.arn("role/pod2") || *u.TargetRoleArn != *update.TargetRoleArn || u.ExternalId == nil || !*u.DisableSessionTags {
		t.Errorf("updated = %+v", u)
	}
	update = &awseks.UpdatePodIdentityAssociationInput{ClusterName: dev, AssociationId: a.AssociationId, TargetRoleArn: aws.String("")}
	if out, err := w.client.UpdatePodIdentityAssociation(t.Context(), update); err != nil || out.Association.TargetRoleArn != nil || out.Association.ExternalId != nil {
		t.Errorf("without a target: %+v, %v", out, err)
	}

	_, err = w.client.UpdatePodIdentityAssociation(t.Context(), &awseks.UpdatePodIdentityAssociationInput{ClusterName: dev, AssociationId: a.AssociationId})
	wantError(t, err, "InvalidParameterException", "You must change at least one of roleArn, targetRoleArn, disableSessionTags and policy.")

	if _, err := w.client.TagResource(t.Context(), &awseks.TagResourceInput{ResourceArn: a.AssociationArn, Tags: map[string]string{"c": "d"}}); err != nil {
		t.Error(err)
	}
	tags, err := w.client.ListTagsForResource(t.Context(), &awseks.ListTagsForResourceInput{ResourceArn: a.AssociationArn})
	if diff := cmp.Diff(map[string]string{"a": "b", "c": "d"}, tags.Tags); err != nil || diff != "" {
		t.Errorf("%v, tags (-want +got):\n%s", err, diff)
	}

	gone := &awseks.DeletePodIdentityAssociationInput{ClusterName: dev, AssociationId: a.AssociationId}
	if out, err := w.client.DeletePodIdentityAssociation(t.Context(), gone); err != nil || *out.Association.ServiceAccount != "cart" {
		t.Errorf("%+v, %v", out, err)
	}
	_, err = w.client.DeletePodIdentityAssociation(t.Context(), gone)
	wantError(t, err, "ResourceNotFoundException", "No association found for id: "+*a.AssociationId)

	// The remaining associations are deleted with the cluster.
	if _, err := w.client.DeleteCluster(t.Context(), &awseks.DeleteClusterInput{Name: dev}); err != nil {
		t.Fatal(err)
	}
	w.waitGone("dev")
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	_, err = w.client.DescribePodIdentityAssociation(t.Context(), &awseks.DescribePodIdentityAssociationInput{ClusterName: dev, AssociationId: other.AssociationId})
	wantError(t, err, "ResourceNotFoundException", "No association found for id: "+*other.AssociationId)
}

func TestPodIdentityAssociationRefusals(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	w.iam.add(w.arn("role/pod"), "AROAPOD", podsService)
	for _, tt := range []struct {
		name          string
		change        func(*awseks.CreatePodIdentityAssociationInput)
		code, message string
	}{
		{"no cluster", func(in *awseks.CreatePodIdentityAssociationInput) { in.ClusterName = aws.String("none") },
			"ResourceNotFoundException", "No cluster found for name: none."},
		{"no role", func(in *awseks.CreatePodIdentityAssociationInput) { in.RoleArn = aws.String(w.arn("role/none")) },
			"InvalidParameterException", "Role provided in the request does not exist."},
		{"a role for instances", func(in *awseks.CreatePodIdentityAssociationInput) { in.RoleArn = aws.String(w.arn("role/node")) },
			"InvalidParameterException", "Trust policy of the role provided is invalid. Follow the official documentation to resolve the issue."},
		{"another account's role", func(in *awseks.CreatePodIdentityAssociationInput) {
			in.RoleArn = aws.String("arn:aws:iam::999999999999:role/pod")
		},
			"AccessDeniedException", "Cross-account pass role is not allowed."},
		{"a user", func(in *awseks.CreatePodIdentityAssociationInput) { in.RoleArn = aws.String(w.arn("user/jane")) },
			"InvalidParameterException", "The roleArn " + w.arn("user/jane") + " is not a valid IAM role ARN"},
		{"a target that is none", func(in *awseks.CreatePodIdentityAssociationInput) { in.TargetRoleArn = aws.String("far") },
			"InvalidParameterException", "The targetRoleArn far is not a valid IAM role ARN"},
		{"a namespace with a slash", func(in *awseks.CreatePodIdentityAssociationInput) { in.Namespace = aws.String("a/b") },
			"InvalidParameterException", "The parameter namespace contains invalid characters. It should conform to the regular expression ^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"},
		{"a long service account", func(in *awseks.CreatePodIdentityAssociationInput) {
			in.ServiceAccount = aws.String(strings.Repeat("a", 254))
		},
			"InvalidParameterException", `The parameter serviceAccount contains invalid characters. It should conform to the regular expression ^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`},
		{"a reserved tag", func(in *awseks.CreatePodIdentityAssociationInput) { in.Tags = map[string]string{"aws:x": ""} },
			"InvalidParameterException", "Tag keys that start with aws: are reserved for AWS use."},
		{"a policy with session tags", func(in *awseks.CreatePodIdentityAssociationInput) { in.Policy = aws.String(`{}`) },
			"InvalidParameterException", "When policy is specified, disableSessionTags must be set to true"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := &awseks.CreatePodIdentityAssociationInput{
				ClusterName: aws.String("dev"), Namespace: aws.String("shop"), ServiceAccount: aws.String("cart"), RoleArn: aws.String(w.arn("role/pod")),
			}
			tt.change(in)
			_, err := w.client.CreatePodIdentityAssociation(t.Context(), in)
			wantError(t, err, tt.code, tt.message)
		})
	}
	_, err := w.client.DeletePodIdentityAssociation(t.Context(), &awseks.DeletePodIdentityAssociationInput{ClusterName: aws.String("dev"), AssociationId: aws.String("a-1")})
	wantError(t, err, "InvalidParameterException", "The parameter associationId should be 19 characters long.")
}
