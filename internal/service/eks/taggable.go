package eks

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"

	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// taggable is what the Resource Groups Tagging API knows of EKS.
func (s *Service) taggable() module.Tagging {
	st := s.clusters.Store
	return module.Tagging{
		Resources: func(account, region string) []module.Resource {
			out := module.Resources(st, record.Clusters, account, region, func(_ store.Key, r *record.Cluster) (string, map[string]string) {
				return aws.ToString(r.Cluster.Arn), r.Cluster.Tags
			})
			out = append(out, module.Resources(st, record.ConnectedClusters, account, region, func(_ store.Key, r *record.ConnectedCluster) (string, map[string]string) {
				return aws.ToString(r.Cluster.Arn), r.Cluster.Tags
			})...)
			out = append(out, module.Resources(st, record.Subscriptions, account, region, func(_ store.Key, r *record.Subscription) (string, map[string]string) {
				return aws.ToString(r.Subscription.Arn), r.Subscription.Tags
			})...)
			out = append(out, module.Resources(st, record.Nodegroups, account, region, func(_ store.Key, r *record.Nodegroup) (string, map[string]string) {
				return aws.ToString(r.Nodegroup.NodegroupArn), r.Nodegroup.Tags
			})...)
			out = append(out, module.Resources(st, record.Addons, account, region, func(_ store.Key, r *record.Addon) (string, map[string]string) {
				return aws.ToString(r.Addon.AddonArn), r.Addon.Tags
			})...)
			out = append(out, module.Resources(st, record.FargateProfiles, account, region, func(_ store.Key, r *record.FargateProfile) (string, map[string]string) {
				return aws.ToString(r.Profile.FargateProfileArn), r.Profile.Tags
			})...)
			out = append(out, module.Resources(st, record.AccessEntries, account, region, func(_ store.Key, r *record.AccessEntry) (string, map[string]string) {
				return aws.ToString(r.Entry.AccessEntryArn), r.Entry.Tags
			})...)
			out = append(out, module.Resources(st, record.IdentityProviders, account, region, func(_ store.Key, r *record.IdentityProvider) (string, map[string]string) {
				return aws.ToString(r.Config.IdentityProviderConfigArn), r.Config.Tags
			})...)
			out = append(out, module.Resources(st, record.Capabilities, account, region, func(_ store.Key, r *record.Capability) (string, map[string]string) {
				return aws.ToString(r.Capability.Arn), r.Capability.Tags
			})...)
			return append(out, module.Resources(st, record.PodIdentities, account, region, func(_ store.Key, r *record.PodIdentity) (string, map[string]string) {
				return aws.ToString(r.Association.AssociationArn), r.Association.Tags
			})...)
		},
		Put: func(arn string, tags map[string]string) any {
			return &awseks.TagResourceInput{ResourceArn: &arn, Tags: tags}
		},
		Remove: func(arn string, keys []string) any {
			return &awseks.UntagResourceInput{ResourceArn: &arn, TagKeys: keys}
		},
	}
}
