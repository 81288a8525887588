package fargate

import (
	"context"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/service/eks/access"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// A Block is why a profile launches nothing: in the words of Fargate's scheduler, and as
// one of the Blocked… causes.
type Block struct{ Reason, Cause string }

// Why a profile launches nothing.
const (
	BlockedSelectors = "NoSelectorMatches" // the pod's labels or namespace are not the profile's
	BlockedTrust     = "RoleNotTrusting"   // the pod execution role does not exist, or does not trust Fargate
	BlockedMapping   = "RoleNotMapped"     // the cluster does not know the role as that of nodes
)

func (b *Block) Error() string { return b.Reason }

// [seen] terraform-aws-modules/terraform-aws-eks#2912 and others
const (
	blockedByAssume = "Failed to assume PodExecutionRole; Please make sure the role exists and trusts the eks-fargate-pods.amazonaws.com service principal"
	blockedByAuth   = "Pod execution role is not found in auth config or does not have all required permissions for launching fargate pods."
)

// A Launch is what Fargate needs to know about a profile to launch a pod.
type Launch struct {
	RoleARN string
	Subnets []string
}

// FargateProfileARN returns the ARN of a profile.
func (s *Service) FargateProfileARN(account, region, cluster, profile string) (string, error) {
	p, err := record.FargateProfiles.Get(s.Store, store.Key{Account: account, Region: region, ID: cluster}.Below(profile))
	return aws.ToString(p.Profile.FargateProfileArn), err
}

// FargateLaunch returns how to launch a pod of a profile. The error is a *Block if the profile's
// role does not allow it. The role is checked for each pod, because roles, trust policies and
// aws-auth change.
//
// The error is also a *Block if no selector of the profile matches. Admission does not touch a pod
// that already names Fargate's scheduler, so its profile label may come from its author.
func (s *Service) FargateLaunch(ctx context.Context, account, region, clusterName, profile string, pod *corev1.Pod) (Launch, error) {
	cluster := store.Key{Account: account, Region: region, ID: clusterName}
	p, err := record.FargateProfiles.Get(s.Store, cluster.Below(profile))
	if err != nil {
		return Launch{}, err
	}
	rec, err := record.Clusters.Get(s.Store, cluster)
	if err != nil {
		return Launch{}, err
	}
	if !slices.ContainsFunc(p.Profile.Selectors, func(sel ekstypes.FargateProfileSelector) bool {
		return mismatch(sel, pod.Namespace, pod.Labels) == ""
	}) {
		// from memory
		return Launch{}, &Block{"Misconfigured Fargate Profile: pod does not match any selector of fargate profile " + profile, BlockedSelectors}
	}
	block := func(why, cause string) error {
		return &Block{"Misconfigured Fargate Profile: fargate profile " + profile + " blocked for new launches due to: " + why, cause}
	}
	id, err := s.Identity(ctx, p.Role.ARN)
	if errors.Is(err, base.ErrNoIdentity) {
		return Launch{}, block(blockedByAssume, BlockedTrust)
	}
	if err != nil {
		return Launch{}, err
	}
	if !trustsFargate(id, *p.Profile.FargateProfileArn) {
		return Launch{}, block(blockedByAssume, BlockedTrust)
	}
	to, err := s.access.MapPrincipal(ctx, cluster, rec, awsapi.Principal{
		Type: awsapi.AssumedRole, Account: cluster.Account, RoleARN: p.Role.ARN, UserID: id.ID + ":fargate",
		ARN: arn.New("sts", "", cluster.Account, "assumed-role/"+access.RoleName(p.Role.ARN)+"/fargate"),
	})
	switch {
	case errors.Is(err, access.ErrUnauthenticated):
		return Launch{}, block(blockedByAuth, BlockedMapping)
	case err != nil:
		return Launch{}, err
	case !access.IsNode(to):
		return Launch{}, block(blockedByAuth, BlockedMapping)
	}
	return Launch{RoleARN: p.Role.ARN, Subnets: p.Profile.Subnets}, nil
}

// A Cluster is what Fargate machines need to know about their cluster.
type Cluster struct {
	Version               string // such as 1.36
	Endpoint              string // https:// and the AWS host name
	CA                    []byte // PEM
	ServiceCIDR, IPFamily string
	SecurityGroup         string // the cluster security group
}

// FargateCluster returns the facts about a cluster that its Fargate machines need.
func (s *Service) FargateCluster(_ context.Context, account, region, name string) (Cluster, error) {
	rec, err := record.Clusters.Get(s.Store, store.Key{Account: account, Region: region, ID: name})
	if err != nil {
		return Cluster{}, err
	}
	out := Cluster{
		Version: aws.ToString(rec.Cluster.Version), Endpoint: "https://" + rec.Plane.AWSHost, CA: rec.Plane.CAPEM,
		SecurityGroup: aws.ToString(rec.Cluster.ResourcesVpcConfig.ClusterSecurityGroupId),
	}
	if n := rec.Cluster.KubernetesNetworkConfig; n != nil {
		out.ServiceCIDR, out.IPFamily = aws.ToString(n.ServiceIpv4Cidr), string(n.IpFamily)
	}
	return out, nil
}

// FargateClusters returns the clusters that have Fargate profiles. The IDs of the keys are the
// cluster names.
func (s *Service) FargateClusters() (map[store.Key]bool, error) {
	out := map[store.Key]bool{}
	for _, p := range record.FargateProfiles.All(s.Store, store.Scope{}) {
		out[p.Key.Owner()] = true
	}
	return out, nil
}

// FargateRole returns the pod execution role of a profile, and reports whether an access entry
// admits it to the cluster.
func (s *Service) FargateRole(_ context.Context, account, region, cluster, profile string) (role string, byEntry bool, err error) {
	key := store.Key{Account: account, Region: region, ID: cluster}
	rec, err := record.Clusters.Get(s.Store, key)
	if err != nil {
		return "", false, err
	}
	p, err := record.FargateProfiles.Get(s.Store, key.Below(profile))
	return p.Role.ARN, rec.UsesAPI(), err
}
