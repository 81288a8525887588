package eks_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/testkit"
)

func TestAConnectedCluster(t *testing.T) {
	w := newWorld(t, withClock)
	w.iam.add(w.arn("role/agent"), "AROAAGENT", "ssm.amazonaws.com")
	ctx, far := t.Context(), aws.String("far")
	in := func() *awseks.RegisterClusterInput {
		return &awseks.RegisterClusterInput{Name: far, Tags: map[string]string{"a": "b"}, ConnectorConfig: &ekstypes.ConnectorConfigRequest{
			Provider: ekstypes.ConnectorConfigProviderGke, RoleArn: aws.String(w.arn("role/agent")),
		}}
	}
	for _, tt := range []struct {
		name, code, text string
		change           func(*awseks.RegisterClusterInput)
	}{
		{"name", "InvalidParameterException", "The cluster name parameter contains invalid characters. It should begin with letter or digit and can have any of the following characters: the set of Unicode letters, digits, hyphens and underscores.", func(in *awseks.RegisterClusterInput) { in.Name = aws.String("a.b") }},
		{"trust", "InvalidRequestException", "Nonexistent role or missing ssm service principal in trust policy: " + w.arn("role/cluster"), func(in *awseks.RegisterClusterInput) {
			in.ConnectorConfig.RoleArn = aws.String(w.arn("role/cluster"))
		}},
		{"no role", "InvalidRequestException", "Nonexistent role or missing ssm service principal in trust policy: " + w.arn("role/none"), func(in *awseks.RegisterClusterInput) { in.ConnectorConfig.RoleArn = aws.String(w.arn("role/none")) }},
		{"provider", "InvalidParameterException", "Invalid provider: MOON", func(in *awseks.RegisterClusterInput) { in.ConnectorConfig.Provider = "MOON" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := in()
			tt.change(in)
			_, err := w.client.RegisterCluster(ctx, in)
			wantError(t, err, tt.code, tt.text)
		})
	}

	first := in()
	first.ClientRequestToken = aws.String("t")
	made, err := w.client.RegisterCluster(ctx, first)
	if err != nil {
		t.Fatal(err)
	}
	c := made.Cluster
	if *c.Arn != "arn:aws:eks:us-east-1:"+w.account+":cluster/far" || c.Status != ekstypes.ClusterStatusPending || len(*c.ConnectorConfig.ActivationCode) != 20 || c.ConnectorConfig.ActivationExpiry.Sub(*c.CreatedAt) != 72*time.Hour {
		t.Errorf("RegisterCluster answered %+v, %+v", c, c.ConnectorConfig)
	}
	if diff := cmp.Diff([]string{"AWSServiceRoleForAmazonEKSConnector"}, w.serviceRoles); diff != "" {
		t.Errorf("service-linked roles (-want +got):\n%s", diff)
	}
	again, err := w.client.RegisterCluster(ctx, first)
	if err != nil || *again.Cluster.ConnectorConfig.ActivationCode != *c.ConnectorConfig.ActivationCode {
		t.Errorf("with the same token: %+v, %v", again, err)
	}
	_, err = w.client.RegisterCluster(ctx, in())
	wantError(t, err, "ResourceInUseException", "Cluster already exists with name: far")
	_, err = w.client.CreateCluster(ctx, w.createInput("far"))
	wantError(t, err, "ResourceInUseException", "Cluster already exists with name: far")

	got, err := w.client.DescribeCluster(ctx, &awseks.DescribeClusterInput{Name: far})
	if err != nil || got.Cluster.ConnectorConfig.ActivationCode != nil || *got.Cluster.ConnectorConfig.ActivationId != *c.ConnectorConfig.ActivationId || *got.Cluster.ConnectorConfig.Provider != "GKE" {
		t.Errorf("DescribeCluster: %+v, %v", got, err)
	}
	notes, err := w.svc.UpdateNotes(awsapi.WithCall(ctx, &awsapi.Call{Account: w.account, Region: testkit.Region, Service: "eks"}), "far", true)
	if err != nil || len(notes) != 1 || !strings.HasPrefix(notes[0], "cluster far is a connected cluster. It stays PENDING") {
		t.Errorf("notes %q, %v", notes, err)
	}
	list := func(include ...string) []string {
		t.Helper()
		out, err := w.client.ListClusters(ctx, &awseks.ListClustersInput{Include: include})
		if err != nil {
			t.Fatal(err)
		}
		return out.Clusters
	}
	if got := list(); len(got) != 0 {
		t.Errorf("listed without include: %v", got)
	}
	if got := list("all"); len(got) != 1 || got[0] != "far" {
		t.Errorf("listed: %v", got)
	}
	if _, err := w.client.TagResource(ctx, &awseks.TagResourceInput{ResourceArn: c.Arn, Tags: map[string]string{"c": "d"}}); err != nil {
		t.Error(err)
	}
	tags, err := w.client.ListTagsForResource(ctx, &awseks.ListTagsForResourceInput{ResourceArn: c.Arn})
	if diff := cmp.Diff(map[string]string{"a": "b", "c": "d"}, tags.Tags); err != nil || diff != "" {
		t.Errorf("%v, tags (-want +got):\n%s", err, diff)
	}
	const not = "Cluster far is a connected cluster. This operation is not supported for connected clusters."
	_, err = w.client.DeleteCluster(ctx, &awseks.DeleteClusterInput{Name: far})
	wantError(t, err, "InvalidRequestException", not)
	_, err = w.client.ListNodegroups(ctx, &awseks.ListNodegroupsInput{ClusterName: far})
	wantError(t, err, "InvalidRequestException", not)

	w.fake.Step(72 * time.Hour)
	if got := list("all"); len(got) != 0 {
		t.Errorf("listed after the activation has expired: %v", got)
	}
	gone := &awseks.DeregisterClusterInput{Name: far}
	if out, err := w.client.DeregisterCluster(ctx, gone); err != nil || *out.Cluster.Name != "far" {
		t.Errorf("%+v, %v", out, err)
	}
	_, err = w.client.DeregisterCluster(ctx, gone)
	wantError(t, err, "ResourceNotFoundException", "No cluster found for name: far.")
	if _, err := w.client.RegisterCluster(ctx, in()); err != nil {
		t.Errorf("registered again: %v", err)
	}
}

func TestASubscriptionOfEKSAnywhere(t *testing.T) {
	w := newWorld(t, withClock)
	ctx := t.Context()
	in := func() *awseks.CreateEksAnywhereSubscriptionInput {
		return &awseks.CreateEksAnywhereSubscriptionInput{Name: aws.String("edge"), Term: &ekstypes.EksAnywhereSubscriptionTerm{Duration: 12}, Tags: map[string]string{"a": "b"}}
	}
	for _, tt := range []struct {
		name, text string
		change     func(*awseks.CreateEksAnywhereSubscriptionInput)
	}{
		{"name", "The name parameter is invalid. It must start with an alphabetic character.", func(in *awseks.CreateEksAnywhereSubscriptionInput) { in.Name = aws.String("1edge") }},
		{"duration", "Invalid term duration: 24. Valid values are 12 and 36.", func(in *awseks.CreateEksAnywhereSubscriptionInput) { in.Term.Duration = 24 }},
		{"unit", "Invalid term unit: YEARS. The only valid value is MONTHS.", func(in *awseks.CreateEksAnywhereSubscriptionInput) { in.Term.Unit = "YEARS" }},
		{"licenses", "Invalid licenseQuantity: 101. Valid values are between 1 and 100.", func(in *awseks.CreateEksAnywhereSubscriptionInput) { in.LicenseQuantity = 101 }},
		{"type", "Invalid licenseType: Node. The only valid value is Cluster.", func(in *awseks.CreateEksAnywhereSubscriptionInput) { in.LicenseType = "Node" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := in()
			tt.change(in)
			_, err := w.client.CreateEksAnywhereSubscription(ctx, in)
			wantError(t, err, "InvalidParameterException", tt.text)
		})
	}
	made, err := w.client.CreateEksAnywhereSubscription(ctx, in())
	if err != nil {
		t.Fatal(err)
	}
	id := made.Subscription.Id
	if s := made.Subscription; *s.Status != "CREATING" || s.LicenseQuantity != 1 || !s.ExpirationDate.Equal(s.CreatedAt.AddDate(0, 12, 0)) || s.AutoRenew {
		t.Errorf("created %+v", s)
	}
	_, err = w.client.CreateEksAnywhereSubscription(ctx, in())
	wantError(t, err, "ResourceInUseException", "Subscription already exists with name: edge")
	get := func(status string) *ekstypes.EksAnywhereSubscription {
		t.Helper()
		out, err := w.client.DescribeEksAnywhereSubscription(ctx, &awseks.DescribeEksAnywhereSubscriptionInput{Id: id})
		if err != nil {
			t.Fatal(err)
		}
		if *out.Subscription.Status != status {
			t.Errorf("status %s, want %s", *out.Subscription.Status, status)
		}
		list, err := w.client.ListEksAnywhereSubscriptions(ctx, &awseks.ListEksAnywhereSubscriptionsInput{IncludeStatus: []ekstypes.EksAnywhereSubscriptionStatus{ekstypes.EksAnywhereSubscriptionStatus(status)}})
		if err != nil || len(list.Subscriptions) != 1 {
			t.Errorf("listed as %s: %+v, %v", status, list, err)
		}
		return out.Subscription
	}
	get("ACTIVE")
	drop := &awseks.DeleteEksAnywhereSubscriptionInput{Id: id}
	_, err = w.client.DeleteEksAnywhereSubscription(ctx, drop)
	wantError(t, err, "InvalidRequestException", "Subscription "+*id+" is active. Only expired or inactive subscriptions can be deleted.")
	renew := func(on bool) error {
		_, err := w.client.UpdateEksAnywhereSubscription(ctx, &awseks.UpdateEksAnywhereSubscriptionInput{Id: id, AutoRenew: on})
		return err
	}
	if err := renew(true); err != nil {
		t.Fatal(err)
	}
	w.fake.SetTime(made.Subscription.CreatedAt.AddDate(0, 30, 0))
	if s := get("ACTIVE"); !s.EffectiveDate.Equal(made.Subscription.CreatedAt.AddDate(0, 24, 0)) {
		t.Errorf("the term after two renewals began at %v", s.EffectiveDate)
	}
	if err := renew(false); err != nil {
		t.Fatal(err)
	}
	w.fake.SetTime(made.Subscription.CreatedAt.AddDate(0, 36, 0))
	get("EXPIRED")
	wantError(t, renew(true), "InvalidRequestException", "Subscription "+*id+" has expired and cannot be updated.")
	tags, err := w.client.ListTagsForResource(ctx, &awseks.ListTagsForResourceInput{ResourceArn: made.Subscription.Arn})
	if err != nil || tags.Tags["a"] != "b" {
		t.Errorf("tags %v, %v", tags, err)
	}
	if _, err := w.client.DeleteEksAnywhereSubscription(ctx, drop); err != nil {
		t.Error(err)
	}
	_, err = w.client.DescribeEksAnywhereSubscription(ctx, &awseks.DescribeEksAnywhereSubscriptionInput{Id: id})
	wantError(t, err, "ResourceNotFoundException", "No subscription found for id: "+*id)
}
