package eks_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// An unreadable record must not look like a missing resource, because Terraform would create the
// resource again. Lists leave it out.
func TestUnreadableRecordsAreNotMissingResources(t *testing.T) {
	w := newWorld(t, func(w *world) { w.serverLog = testkit.Log(w, "request failed") })
	w.cluster("good", ekstypes.AuthenticationModeApi)
	ctx := t.Context()
	damage := func(typ, id string) {
		t.Helper()
		k := store.Key{Account: w.account, Region: "us-east-1", ID: id}
		err := w.server.Store.Update(ctx, func(tx *store.Tx) error {
			return store.NewCollection[string]("eks", typ).Put(tx, k, "not an object")
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	damage("cluster", "bad")
	for _, typ := range []string{"nodegroup", "fargateprofile", "addon", "update"} {
		damage(typ, "good/bad")
	}
	damage("accessentry", "good/"+w.arn("role/bad"))

	name, bad := aws.String("good"), aws.String("bad")
	calls := map[string]func() error{
		"DescribeCluster": func() error {
			_, err := w.client.DescribeCluster(ctx, &awseks.DescribeClusterInput{Name: bad})
			return err
		},
		"DeleteCluster": func() error {
			_, err := w.client.DeleteCluster(ctx, &awseks.DeleteClusterInput{Name: bad})
			return err
		},
		"CreateCluster": func() error {
			_, err := w.client.CreateCluster(ctx, w.createInput("bad"))
			return err
		},
		"DescribeNodegroup": func() error {
			_, err := w.client.DescribeNodegroup(ctx, &awseks.DescribeNodegroupInput{ClusterName: name, NodegroupName: bad})
			return err
		},
		"DescribeFargateProfile": func() error {
			_, err := w.client.DescribeFargateProfile(ctx, &awseks.DescribeFargateProfileInput{ClusterName: name, FargateProfileName: bad})
			return err
		},
		"DescribeAddon": func() error {
			_, err := w.client.DescribeAddon(ctx, &awseks.DescribeAddonInput{ClusterName: name, AddonName: bad})
			return err
		},
		"DescribeUpdate": func() error {
			_, err := w.client.DescribeUpdate(ctx, &awseks.DescribeUpdateInput{Name: name, UpdateId: bad})
			return err
		},
		"DescribeAccessEntry": func() error {
			_, err := w.client.DescribeAccessEntry(ctx, &awseks.DescribeAccessEntryInput{ClusterName: name, PrincipalArn: aws.String(w.arn("role/bad"))})
			return err
		},
		"ListAssociatedAccessPolicies": func() error {
			_, err := w.client.ListAssociatedAccessPolicies(ctx, &awseks.ListAssociatedAccessPoliciesInput{ClusterName: name, PrincipalArn: aws.String(w.arn("role/bad"))})
			return err
		},
		"DeleteAccessEntry": func() error {
			_, err := w.client.DeleteAccessEntry(ctx, &awseks.DeleteAccessEntryInput{ClusterName: name, PrincipalArn: aws.String(w.arn("role/bad"))})
			return err
		},
	}
	for what, call := range calls {
		var api smithy.APIError
		if err := call(); !errors.As(err, &api) || api.ErrorCode() != "InternalFailure" {
			t.Errorf("%s: %v, want an internal failure", what, err)
		}
	}
	clusters, err := w.client.ListClusters(ctx, &awseks.ListClustersInput{})
	if err != nil || !slices.Equal(clusters.Clusters, []string{"good"}) {
		t.Errorf("ListClusters: %v, %v", clusters, err)
	}
	groups, err := w.client.ListNodegroups(ctx, &awseks.ListNodegroupsInput{ClusterName: name})
	if err != nil || len(groups.Nodegroups) != 0 {
		t.Errorf("ListNodegroups: %v, %v", groups, err)
	}
	if n := len(w.server.Store.Unreadable()); n != 6 {
		t.Errorf("the store counts %d unreadable records, want 6: %v", n, w.server.Store.Unreadable())
	}
}
