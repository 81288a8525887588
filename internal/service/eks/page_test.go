package eks_test

import (
	"context"
	"encoding/base64"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// Every operation with pages accepts the tokens that it returned and no others, whether they are in
// base64 or not.
func TestPagesTakeTheirOwnTokens(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	name := aws.String("dev")
	role := w.arn("role/path/dev")
	if _, err := w.client.CreateAccessEntry(t.Context(), &awseks.CreateAccessEntryInput{ClusterName: name, PrincipalArn: &role}); err != nil {
		t.Fatal(err)
	}
	for operation, list := range map[string]func(context.Context, *int32, *string) error{
		"ListClusters": func(ctx context.Context, size *int32, token *string) error {
			_, err := w.client.ListClusters(ctx, &awseks.ListClustersInput{MaxResults: size, NextToken: token})
			return err
		},
		"ListNodegroups": func(ctx context.Context, size *int32, token *string) error {
			_, err := w.client.ListNodegroups(ctx, &awseks.ListNodegroupsInput{ClusterName: name, MaxResults: size, NextToken: token})
			return err
		},
		"ListFargateProfiles": func(ctx context.Context, size *int32, token *string) error {
			_, err := w.client.ListFargateProfiles(ctx, &awseks.ListFargateProfilesInput{ClusterName: name, MaxResults: size, NextToken: token})
			return err
		},
		"ListAddons": func(ctx context.Context, size *int32, token *string) error {
			_, err := w.client.ListAddons(ctx, &awseks.ListAddonsInput{ClusterName: name, MaxResults: size, NextToken: token})
			return err
		},
		"ListUpdates": func(ctx context.Context, size *int32, token *string) error {
			_, err := w.client.ListUpdates(ctx, &awseks.ListUpdatesInput{Name: name, MaxResults: size, NextToken: token})
			return err
		},
		"ListAccessEntries": func(ctx context.Context, size *int32, token *string) error {
			_, err := w.client.ListAccessEntries(ctx, &awseks.ListAccessEntriesInput{ClusterName: name, MaxResults: size, NextToken: token})
			return err
		},
		"ListAccessPolicies": func(ctx context.Context, size *int32, token *string) error {
			_, err := w.client.ListAccessPolicies(ctx, &awseks.ListAccessPoliciesInput{MaxResults: size, NextToken: token})
			return err
		},
		"ListAssociatedAccessPolicies": func(ctx context.Context, size *int32, token *string) error {
			_, err := w.client.ListAssociatedAccessPolicies(ctx, &awseks.ListAssociatedAccessPoliciesInput{ClusterName: name, PrincipalArn: &role, MaxResults: size, NextToken: token})
			return err
		},
		"ListPodIdentityAssociations": func(ctx context.Context, size *int32, token *string) error {
			_, err := w.client.ListPodIdentityAssociations(ctx, &awseks.ListPodIdentityAssociationsInput{ClusterName: name, MaxResults: size, NextToken: token})
			return err
		},
		"DescribeAddonVersions": func(ctx context.Context, size *int32, token *string) error {
			_, err := w.client.DescribeAddonVersions(ctx, &awseks.DescribeAddonVersionsInput{MaxResults: size, NextToken: token})
			return err
		},
		"ListInsights": func(ctx context.Context, size *int32, token *string) error {
			_, err := w.client.ListInsights(ctx, &awseks.ListInsightsInput{ClusterName: name, MaxResults: size, NextToken: token})
			return err
		},
		"DescribeClusterVersions": func(ctx context.Context, size *int32, token *string) error {
			_, err := w.client.DescribeClusterVersions(ctx, &awseks.DescribeClusterVersionsInput{MaxResults: size, NextToken: token})
			return err
		},
	} {
		t.Run(operation, func(t *testing.T) {
			if err := list(t.Context(), aws.Int32(1), nil); err != nil {
				t.Fatal(err)
			}
			for _, token := range []string{"garbage", "not base64!", base64.RawURLEncoding.EncodeToString([]byte("dev"))} {
				wantError(t, list(t.Context(), nil, &token), "InvalidParameterException", "Invalid nextToken")
			}
			for _, size := range []int32{0, 101} {
				wantError(t, list(t.Context(), &size, nil), "InvalidParameterException", "maxResults must be between 1 and 100")
			}
		})
	}
}
