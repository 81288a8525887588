package eks_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A cluster and a node group are created, changed and removed while calls fail before or after
// taking effect and the service restarts in between. Whatever happens, both end up as requested,
// and nothing is left over.
func TestAnyCrashIsSurvived(t *testing.T) {
	seeds := []uint64{1, 2, 3, 4}
	if s := os.Getenv("EKS_CRASH_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seeds = []uint64{seed}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("EKS_CRASH_SEED=%d", seed), func(t *testing.T) { crash(t, seed) })
	}
}

func crash(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, seed))
	w := newWorld(t)
	disturb := func() {
		w.faults.mu.Lock()
		w.faults.rand, w.faults.left, w.faults.rate = rand.New(rand.NewPCG(seed, 7)), 4, 0.3
		w.faults.mu.Unlock()
		if r.IntN(2) == 0 {
			w.restart()
		}
	}
	dev, ng := aws.String("dev"), aws.String("ng")
	mode := []ekstypes.AuthenticationMode{ekstypes.AuthenticationModeApi, ekstypes.AuthenticationModeConfigMap}[r.IntN(2)]
	in := w.createInput("dev")
	in.AccessConfig = &ekstypes.CreateAccessConfigRequest{AuthenticationMode: mode}
	in.EncryptionConfig = encryptWith(goodKey)
	if _, err := w.client.CreateCluster(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	disturb()
	w.waitCluster("dev", ekstypes.ClusterStatusActive)
	if n := len(w.planes.owners); n != 1 {
		t.Errorf("%d control planes, want 1", n)
	}

	w.faults.calm()
	if _, err := w.client.CreateNodegroup(t.Context(), w.nodegroupInput("dev", "ng", 4)); err != nil {
		t.Fatal(err)
	}
	disturb()
	w.waitNodegroup("dev", "ng", ekstypes.NodegroupStatusActive)
	w.wantInstances(4)

	w.faults.calm()
	if _, err := w.client.UpdateNodegroupConfig(t.Context(), &awseks.UpdateNodegroupConfigInput{ClusterName: dev, NodegroupName: ng, ScalingConfig: &ekstypes.NodegroupScalingConfig{DesiredSize: aws.Int32(2)}}); err != nil {
		t.Fatal(err)
	}
	disturb()
	w.waitNodegroup("dev", "ng", ekstypes.NodegroupStatusActive)
	w.wantInstances(2)

	w.faults.calm()
	if _, err := w.client.DeleteNodegroup(t.Context(), &awseks.DeleteNodegroupInput{ClusterName: dev, NodegroupName: ng}); err != nil {
		t.Fatal(err)
	}
	disturb()
	w.waitNodegroupGone("dev", "ng")
	w.wantInstances(0)

	w.faults.calm()
	if _, err := w.client.DeleteCluster(t.Context(), &awseks.DeleteClusterInput{Name: dev}); err != nil {
		t.Fatal(err)
	}
	disturb()
	w.waitGone("dev")
	w.nothingLeft()
}

// Each kind of update of a cluster, except those of its version, ends as requested while calls fail before or after taking effect and the service restarts
// in between.
func TestEveryUpdateSurvivesAnyCrash(t *testing.T) {
	w := newWorld(t)
	ctx, dev := t.Context(), aws.String("dev")
	in := w.createInput("dev")
	in.AccessConfig = &ekstypes.CreateAccessConfigRequest{AuthenticationMode: ekstypes.AuthenticationModeConfigMap}
	if _, err := w.client.CreateCluster(ctx, in); err != nil {
		t.Fatal(err)
	}
	w.waitCluster("dev", ekstypes.ClusterStatusActive)
	config := func(in *awseks.UpdateClusterConfigInput) func() (*ekstypes.Update, error) {
		return func() (*ekstypes.Update, error) { return w.update(in) }
	}
	activate := func(which int) func() (*ekstypes.Update, error) {
		return func() (*ekstypes.Update, error) {
			list, err := w.client.ListCertificateAuthorities(ctx, &awseks.ListCertificateAuthoritiesInput{ClusterName: dev})
			if err != nil {
				return nil, err
			}
			out, err := w.client.ActivateCertificateAuthority(ctx, &awseks.ActivateCertificateAuthorityInput{ClusterName: dev, CertificateAuthorityId: list.CertificateAuthorities[which].Id})
			if err != nil {
				return nil, err
			}
			return out.Update, nil
		}
	}
	// setting waits until the control plane has EKS Auto Mode's setting or not, which is a moment after the update.
	setting := func(want bool) bool {
		w.eventually(func() error {
			if s := w.planes.setting(); (s != nil) != want {
				return fmt.Errorf("EKS Auto Mode's setting is %+v", s)
			}
			return nil
		})
		return true
	}
	subnets := w.waitCluster("dev", ekstypes.ClusterStatusActive).ResourcesVpcConfig.SubnetIds
	for i, u := range []struct {
		kind  ekstypes.UpdateType
		begin func() (*ekstypes.Update, error)
		ended func(*ekstypes.Cluster) bool
	}{
		{ekstypes.UpdateTypeEndpointAccessUpdate, config(&awseks.UpdateClusterConfigInput{ResourcesVpcConfig: &ekstypes.VpcConfigRequest{EndpointPrivateAccess: aws.Bool(true)}}),
			func(c *ekstypes.Cluster) bool { return c.ResourcesVpcConfig.EndpointPrivateAccess }},
		{ekstypes.UpdateTypeVpcConfigUpdate, config(&awseks.UpdateClusterConfigInput{ResourcesVpcConfig: &ekstypes.VpcConfigRequest{SubnetIds: subnets[:2]}}),
			func(c *ekstypes.Cluster) bool { return len(c.ResourcesVpcConfig.SubnetIds) == 2 }},
		{ekstypes.UpdateTypeLoggingUpdate, config(&awseks.UpdateClusterConfigInput{Logging: &ekstypes.Logging{ClusterLogging: []ekstypes.LogSetup{{Enabled: aws.Bool(true), Types: []ekstypes.LogType{ekstypes.LogTypeAudit}}}}}),
			func(c *ekstypes.Cluster) bool { return *c.Logging.ClusterLogging[0].Enabled }},
		{ekstypes.UpdateTypeAccessConfigUpdate, config(mode(ekstypes.AuthenticationModeApiAndConfigMap)),
			func(c *ekstypes.Cluster) bool {
				return c.AccessConfig.AuthenticationMode == ekstypes.AuthenticationModeApiAndConfigMap
			}},
		{ekstypes.UpdateTypeUpgradePolicyUpdate, config(&awseks.UpdateClusterConfigInput{UpgradePolicy: &ekstypes.UpgradePolicyRequest{SupportType: ekstypes.SupportTypeStandard}}),
			func(c *ekstypes.Cluster) bool { return c.UpgradePolicy.SupportType == ekstypes.SupportTypeStandard }},
		{ekstypes.UpdateTypeZonalShiftConfigUpdate, config(&awseks.UpdateClusterConfigInput{ZonalShiftConfig: &ekstypes.ZonalShiftConfigRequest{Enabled: aws.Bool(true)}}),
			func(c *ekstypes.Cluster) bool { return *c.ZonalShiftConfig.Enabled }},
		{ekstypes.UpdateTypeControlPlaneScalingConfigUpdate, config(&awseks.UpdateClusterConfigInput{ControlPlaneScalingConfig: &ekstypes.ControlPlaneScalingConfig{Tier: ekstypes.ProvisionedControlPlaneTierTierXl}}),
			func(c *ekstypes.Cluster) bool {
				return c.ControlPlaneScalingConfig.Tier == ekstypes.ProvisionedControlPlaneTierTierXl
			}},
		{ekstypes.UpdateTypeRemoteNetworkConfigUpdate, config(&awseks.UpdateClusterConfigInput{RemoteNetworkConfig: remote([]string{"192.168.0.0/24"}, nil)}),
			func(c *ekstypes.Cluster) bool { return c.RemoteNetworkConfig != nil }},
		{ekstypes.UpdateTypeAssociateIdentityProviderConfig, func() (*ekstypes.Update, error) {
			out, err := w.client.AssociateIdentityProviderConfig(ctx, &awseks.AssociateIdentityProviderConfigInput{ClusterName: dev, Oidc: &ekstypes.OidcIdentityProviderConfigRequest{
				IdentityProviderConfigName: aws.String("idp"), IssuerUrl: aws.String("https://idp.example.com"), ClientId: aws.String("kubernetes"),
			}})
			if err != nil {
				return nil, err
			}
			return out.Update, nil
		}, func(*ekstypes.Cluster) bool { return w.provider() != nil }},
		{ekstypes.UpdateTypeDisassociateIdentityProviderConfig, func() (*ekstypes.Update, error) {
			out, err := w.client.DisassociateIdentityProviderConfig(ctx, &awseks.DisassociateIdentityProviderConfigInput{ClusterName: dev, IdentityProviderConfig: &ekstypes.IdentityProviderConfig{Type: aws.String("oidc"), Name: aws.String("idp")}})
			if err != nil {
				return nil, err
			}
			return out.Update, nil
		}, func(*ekstypes.Cluster) bool { return w.provider() == nil }},
		{ekstypes.UpdateTypeAssociateEncryptionConfig, func() (*ekstypes.Update, error) {
			out, err := w.client.AssociateEncryptionConfig(ctx, &awseks.AssociateEncryptionConfigInput{ClusterName: dev, EncryptionConfig: encryptWith(goodKey)})
			if err != nil {
				return nil, err
			}
			return out.Update, nil
		}, func(c *ekstypes.Cluster) bool { return len(c.EncryptionConfig) == 1 }},
		{ekstypes.UpdateTypeCertificateAuthorityUpdate, func() (*ekstypes.Update, error) {
			out, err := w.client.CreateCertificateAuthority(ctx, &awseks.CreateCertificateAuthorityInput{ClusterName: dev})
			if err != nil {
				return nil, err
			}
			return out.Update, nil
		}, func(*ekstypes.Cluster) bool { return true }},
		{ekstypes.UpdateTypeCertificateAuthorityUpdate, activate(1), func(*ekstypes.Cluster) bool { return true }},
		{ekstypes.UpdateTypeAutoModeUpdate, config(autoMode(w, true)), func(c *ekstypes.Cluster) bool { return *c.ComputeConfig.Enabled && setting(true) }},
		{ekstypes.UpdateTypeAutoModeUpdate, config(autoMode(w, false)), func(c *ekstypes.Cluster) bool { return !*c.ComputeConfig.Enabled && setting(false) }},
		{ekstypes.UpdateTypeDeletionProtectionUpdate, config(&awseks.UpdateClusterConfigInput{DeletionProtection: aws.Bool(true)}),
			func(c *ekstypes.Cluster) bool { return *c.DeletionProtection }},
	} {
		t.Run(fmt.Sprintf("%d %s", i, u.kind), func(t *testing.T) {
			up, err := u.begin()
			if err != nil {
				t.Fatal(err)
			}
			w.faults.mu.Lock()
			w.faults.rand, w.faults.left, w.faults.rate = rand.New(rand.NewPCG(uint64(i), 7)), 4, 0.6
			w.faults.mu.Unlock()
			w.restart()
			c := w.waitCluster("dev", ekstypes.ClusterStatusActive)
			w.faults.calm()
			got, err := w.client.DescribeUpdate(ctx, &awseks.DescribeUpdateInput{Name: dev, UpdateId: up.Id})
			if err != nil {
				t.Fatal(err)
			}
			if got.Update.Type != u.kind || got.Update.Status != ekstypes.UpdateStatusSuccessful {
				t.Errorf("update %s, cluster %s", asJSON(got.Update), asJSON(c))
			}
			if !u.ended(c) {
				t.Errorf("cluster %s", asJSON(c))
			}
		})
	}
	list, err := w.client.ListUpdates(ctx, &awseks.ListUpdatesInput{Name: dev})
	if err != nil || len(list.UpdateIds) != 16 {
		t.Errorf("%d updates, %v", len(list.UpdateIds), err)
	}
}

// Some changes are complete as soon as they are stored. If storing one fails, nothing has changed. If it succeeds, the change is
// still there after a restart, and a client that repeats its request changes nothing more, except modifiedAt.
func TestStoredChangesSurviveARestart(t *testing.T) {
	var failing atomic.Bool
	w := newWorld(t, withClock, func(w *world) {
		w.serverLog = testkit.Log(t, "the disk failed")
		w.disk = &store.Config{Dir: t.TempDir(), BeforeCommit: func(context.Context) error {
			if failing.Load() {
				return errors.New("the disk failed")
			}
			return nil
		}}
	})
	ctx, dev, far, ack := t.Context(), aws.String("dev"), aws.String("far"), aws.String("ack")
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	w.iam.add(w.arn("role/capability"), "AROACAP", "capabilities.eks.amazonaws.com")
	w.iam.add(w.arn("role/other"), "AROAOTHER", "capabilities.eks.amazonaws.com")
	w.iam.add(w.arn("role/pod"), "AROAPOD", podsService)
	w.iam.add(w.arn("role/agent"), "AROAAGENT", "ssm.amazonaws.com")
	role, policy := aws.String(w.arn("role/path/dev")), aws.String(viewPolicy)
	var association, subscription *string // IDs
	// state is what all operations that describe show.
	state := func() string {
		t.Helper()
		var all []any
		for _, p := range testkit.Must(w.client.ListAccessEntries(ctx, &awseks.ListAccessEntriesInput{ClusterName: dev}))(t).AccessEntries {
			all = append(all, testkit.Must(w.client.DescribeAccessEntry(ctx, &awseks.DescribeAccessEntryInput{ClusterName: dev, PrincipalArn: &p}))(t).AccessEntry,
				testkit.Must(w.client.ListAssociatedAccessPolicies(ctx, &awseks.ListAssociatedAccessPoliciesInput{ClusterName: dev, PrincipalArn: &p}))(t).AssociatedAccessPolicies)
		}
		for _, a := range testkit.Must(w.client.ListPodIdentityAssociations(ctx, &awseks.ListPodIdentityAssociationsInput{ClusterName: dev}))(t).Associations {
			association = a.AssociationId
			all = append(all, testkit.Must(w.client.DescribePodIdentityAssociation(ctx, &awseks.DescribePodIdentityAssociationInput{ClusterName: dev, AssociationId: a.AssociationId}))(t).Association)
		}
		for _, c := range testkit.Must(w.client.ListCapabilities(ctx, &awseks.ListCapabilitiesInput{ClusterName: dev}))(t).Capabilities {
			all = append(all, testkit.Must(w.client.DescribeCapability(ctx, &awseks.DescribeCapabilityInput{ClusterName: dev, CapabilityName: c.CapabilityName}))(t).Capability,
				testkit.Must(w.client.ListUpdates(ctx, &awseks.ListUpdatesInput{Name: dev, CapabilityName: c.CapabilityName}))(t).UpdateIds)
		}
		for _, c := range testkit.Must(w.client.ListClusters(ctx, &awseks.ListClustersInput{Include: []string{"all"}}))(t).Clusters {
			all = append(all, testkit.Must(w.client.DescribeCluster(ctx, &awseks.DescribeClusterInput{Name: &c}))(t).Cluster)
		}
		for _, s := range testkit.Must(w.client.ListEksAnywhereSubscriptions(ctx, &awseks.ListEksAnywhereSubscriptionsInput{}))(t).Subscriptions {
			subscription = s.Id
			all = append(all, s)
		}
		return asJSON(all)
	}
	const gone = "ResourceNotFoundException"
	modifiedAt := regexp.MustCompile(`"ModifiedAt": ".*"`)
	type change struct {
		name     string
		make     func() error
		repeated string // the error of a repeated request
		touches  bool   // a repeated request sets modifiedAt
	}
	for _, of := range []struct {
		name    string
		changes []change
	}{
		{"access entries", []change{
			{"create an access entry", func() error {
				_, err := w.client.CreateAccessEntry(ctx, &awseks.CreateAccessEntryInput{ClusterName: dev, PrincipalArn: role, KubernetesGroups: []string{"devs"}, ClientRequestToken: aws.String("entry")})
				return err
			}, "", false},
			{"associate an access policy", func() error {
				_, err := w.client.AssociateAccessPolicy(ctx, &awseks.AssociateAccessPolicyInput{ClusterName: dev, PrincipalArn: role, PolicyArn: policy, AccessScope: &ekstypes.AccessScope{Type: ekstypes.AccessScopeTypeCluster}})
				return err
			}, "", true},
			{"update an access entry", func() error {
				_, err := w.client.UpdateAccessEntry(ctx, &awseks.UpdateAccessEntryInput{ClusterName: dev, PrincipalArn: role, KubernetesGroups: []string{"ops"}})
				return err
			}, "", true},
			{"disassociate an access policy", func() error {
				_, err := w.client.DisassociateAccessPolicy(ctx, &awseks.DisassociateAccessPolicyInput{ClusterName: dev, PrincipalArn: role, PolicyArn: policy})
				return err
			}, gone, false},
			{"delete an access entry", func() error {
				_, err := w.client.DeleteAccessEntry(ctx, &awseks.DeleteAccessEntryInput{ClusterName: dev, PrincipalArn: role})
				return err
			}, gone, false},
		}},
		{"Pod Identity associations", []change{
			{"create a Pod Identity association", func() error {
				_, err := w.client.CreatePodIdentityAssociation(ctx, &awseks.CreatePodIdentityAssociationInput{ClusterName: dev, Namespace: aws.String("shop"), ServiceAccount: aws.String("cart"), RoleArn: aws.String(w.arn("role/pod")), ClientRequestToken: aws.String("association")})
				return err
			}, "", false},
			{"update a Pod Identity association", func() error {
				_, err := w.client.UpdatePodIdentityAssociation(ctx, &awseks.UpdatePodIdentityAssociationInput{ClusterName: dev, AssociationId: association, TargetRoleArn: aws.String("arn:aws:iam::999999999999:role/far")})
				return err
			}, "", true},
			{"delete a Pod Identity association", func() error {
				_, err := w.client.DeletePodIdentityAssociation(ctx, &awseks.DeletePodIdentityAssociationInput{ClusterName: dev, AssociationId: association})
				return err
			}, gone, false},
		}},
		{"capabilities", []change{
			{"create a capability", func() error {
				_, err := w.client.CreateCapability(ctx, &awseks.CreateCapabilityInput{ClusterName: dev, CapabilityName: ack, Type: ekstypes.CapabilityTypeAck, RoleArn: aws.String(w.arn("role/capability")), DeletePropagationPolicy: ekstypes.CapabilityDeletePropagationPolicyRetain, ClientRequestToken: aws.String("capability")})
				return err
			}, "", false},
			{"update a capability", func() error {
				_, err := w.client.UpdateCapability(ctx, &awseks.UpdateCapabilityInput{ClusterName: dev, CapabilityName: ack, RoleArn: aws.String(w.arn("role/other")), ClientRequestToken: aws.String("update")})
				return err
			}, "", false},
			{"delete a capability", func() error {
				_, err := w.client.DeleteCapability(ctx, &awseks.DeleteCapabilityInput{ClusterName: dev, CapabilityName: ack})
				return err
			}, gone, false},
		}},
		{"registered clusters", []change{
			{"register a cluster", func() error {
				_, err := w.client.RegisterCluster(ctx, &awseks.RegisterClusterInput{Name: far, ClientRequestToken: aws.String("far"), ConnectorConfig: &ekstypes.ConnectorConfigRequest{Provider: ekstypes.ConnectorConfigProviderGke, RoleArn: aws.String(w.arn("role/agent"))}})
				return err
			}, "", false},
			{"deregister a cluster", func() error {
				_, err := w.client.DeregisterCluster(ctx, &awseks.DeregisterClusterInput{Name: far})
				return err
			}, gone, false},
		}},
		{"subscriptions", []change{
			{"begin a subscription", func() error {
				_, err := w.client.CreateEksAnywhereSubscription(ctx, &awseks.CreateEksAnywhereSubscriptionInput{Name: aws.String("edge"), Term: &ekstypes.EksAnywhereSubscriptionTerm{Duration: 12}, ClientRequestToken: aws.String("subscription")})
				return err
			}, "", false},
			{"renew a subscription", func() error {
				_, err := w.client.UpdateEksAnywhereSubscription(ctx, &awseks.UpdateEksAnywhereSubscriptionInput{Id: subscription, AutoRenew: true})
				return err
			}, "", false},
			{"do not renew a subscription", func() error {
				_, err := w.client.UpdateEksAnywhereSubscription(ctx, &awseks.UpdateEksAnywhereSubscriptionInput{Id: subscription})
				return err
			}, "", false},
			{"delete a subscription", func() error {
				_, err := w.client.DeleteEksAnywhereSubscription(ctx, &awseks.DeleteEksAnywhereSubscriptionInput{Id: subscription})
				return err
			}, gone, false},
		}},
	} {
		t.Run(of.name, func(t *testing.T) {
			for _, c := range of.changes {
				if c.name == "delete a subscription" { // only one that has ended can be deleted
					w.fake = clocktesting.NewFakeClock(w.fake.Now().AddDate(1, 0, 0)) // setting one with tickers takes long
					w.reopen()
				}
				before := state()
				failing.Store(true)
				err := c.make()
				failing.Store(false)
				if !isCode(err, "InternalFailure") {
					t.Fatalf("%s, while the disk fails: %v", c.name, err)
				}
				if diff := cmp.Diff(before, state()); diff != "" {
					t.Errorf("%s, while the disk fails (-want +got):\n%s", c.name, diff)
				}
				if err := c.make(); err != nil {
					t.Fatalf("%s: %v", c.name, err)
				}
				after := state()
				if after == before {
					t.Fatalf("%s: nothing has changed", c.name)
				}
				w.reopen()
				if diff := cmp.Diff(after, state()); diff != "" {
					t.Errorf("%s, after a restart (-want +got):\n%s", c.name, diff)
				}
				w.fake.Step(time.Second) // so that a repeated change has another time
				if err := c.make(); !isCode(err, c.repeated) || err != nil && c.repeated == "" {
					t.Errorf("%s, repeated: %v, want %q", c.name, err, c.repeated)
				}
				again := state()
				if c.touches {
					again, after = modifiedAt.ReplaceAllString(again, ""), modifiedAt.ReplaceAllString(after, "")
				}
				if diff := cmp.Diff(after, again); diff != "" {
					t.Errorf("%s, repeated (-want +got):\n%s", c.name, diff)
				}
			}
		})
	}
}

// provider returns the OIDC provider of the only control plane, or nil.
func (w *world) provider() *ekstypes.OidcIdentityProviderConfig {
	pl, _ := w.planes.only()
	w.planes.mu.Lock()
	defer w.planes.mu.Unlock()
	return w.planes.providers[pl.ID]
}

func (f *faults) calm() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left = 0
}

func (w *world) wantInstances(n int) {
	w.Helper()
	testkit.Eventually(w, 20*time.Second, func() error {
		if got := len(w.ec2.running()); got != n {
			return fmt.Errorf("%d instances run, want %d", got, n)
		}
		return nil
	})
}
