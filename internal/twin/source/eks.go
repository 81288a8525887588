package source

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	"golang.org/x/sync/errgroup"

	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// ofEKS is an operation of EKS.
func ofEKS[In, Out any](name string, call func(context.Context, *In, ...func(*awseks.Options)) (*Out, error)) operation[In, Out, awseks.Options] {
	return operation[In, Out, awseks.Options]{service: "eks", name: name, call: call}
}

// readClusters reads the clusters that were asked for, or all.
func (r *reader) readClusters(ctx context.Context) error {
	names := r.opt.Clusters
	if len(names) == 0 {
		pages, err := ask(ctx, r, ofEKS("ListClusters", r.eks.ListClusters), &awseks.ListClustersInput{}, "")
		if err != nil {
			return err
		}
		for _, p := range pages {
			names = append(names, p.Clusters...)
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(4)
	for _, name := range names {
		g.Go(func() error { return r.readCluster(ctx, name) })
	}
	return g.Wait()
}

// readCluster reads a cluster and everything in it.
func (r *reader) readCluster(ctx context.Context, name string) error {
	c := r.eks
	about, err := ask(ctx, r, ofEKS("DescribeCluster", c.DescribeCluster), &awseks.DescribeClusterInput{Name: &name}, name)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	parts(g, ctx, r, name, ofEKS("ListNodegroups", c.ListNodegroups), &awseks.ListNodegroupsInput{ClusterName: &name}, func(out *awseks.ListNodegroupsOutput) []string { return out.Nodegroups },
		func(ctx context.Context, part string) error {
			if err := describe(ctx, r, ofEKS("DescribeNodegroup", c.DescribeNodegroup), &awseks.DescribeNodegroupInput{ClusterName: &name, NodegroupName: &part}, name+"/"+part); err != nil {
				return err
			}
			return r.readUpdates(ctx, awseks.ListUpdatesInput{Name: &name, NodegroupName: &part})
		})
	parts(g, ctx, r, name, ofEKS("ListAddons", c.ListAddons), &awseks.ListAddonsInput{ClusterName: &name}, func(out *awseks.ListAddonsOutput) []string { return out.Addons },
		func(ctx context.Context, part string) error {
			if err := describe(ctx, r, ofEKS("DescribeAddon", c.DescribeAddon), &awseks.DescribeAddonInput{ClusterName: &name, AddonName: &part}, name+"/"+part); err != nil {
				return err
			}
			return r.readUpdates(ctx, awseks.ListUpdatesInput{Name: &name, AddonName: &part})
		})
	parts(g, ctx, r, name, ofEKS("ListFargateProfiles", c.ListFargateProfiles), &awseks.ListFargateProfilesInput{ClusterName: &name}, func(out *awseks.ListFargateProfilesOutput) []string { return out.FargateProfileNames },
		func(ctx context.Context, part string) error {
			return describe(ctx, r, ofEKS("DescribeFargateProfile", c.DescribeFargateProfile), &awseks.DescribeFargateProfileInput{ClusterName: &name, FargateProfileName: &part}, name+"/"+part)
		})
	parts(g, ctx, r, name, ofEKS("ListPodIdentityAssociations", c.ListPodIdentityAssociations), &awseks.ListPodIdentityAssociationsInput{ClusterName: &name}, func(out *awseks.ListPodIdentityAssociationsOutput) []string {
		return mapped(out.Associations, func(a ekstypes.PodIdentityAssociationSummary) string { return aws.ToString(a.AssociationId) })
	}, func(ctx context.Context, part string) error {
		return describe(ctx, r, ofEKS("DescribePodIdentityAssociation", c.DescribePodIdentityAssociation), &awseks.DescribePodIdentityAssociationInput{ClusterName: &name, AssociationId: &part}, name+"/"+part)
	})
	parts(g, ctx, r, name, ofEKS("ListIdentityProviderConfigs", c.ListIdentityProviderConfigs), &awseks.ListIdentityProviderConfigsInput{ClusterName: &name}, func(out *awseks.ListIdentityProviderConfigsOutput) []string {
		return mapped(out.IdentityProviderConfigs, func(p ekstypes.IdentityProviderConfig) string { return aws.ToString(p.Name) })
	}, func(ctx context.Context, part string) error {
		return describe(ctx, r, ofEKS("DescribeIdentityProviderConfig", c.DescribeIdentityProviderConfig), &awseks.DescribeIdentityProviderConfigInput{ClusterName: &name, IdentityProviderConfig: &ekstypes.IdentityProviderConfig{Type: aws.String("oidc"), Name: &part}}, name+"/"+part)
	})
	parts(g, ctx, r, name, ofEKS("ListCapabilities", c.ListCapabilities), &awseks.ListCapabilitiesInput{ClusterName: &name}, func(out *awseks.ListCapabilitiesOutput) []string {
		return mapped(out.Capabilities, func(c ekstypes.CapabilitySummary) string { return aws.ToString(c.CapabilityName) })
	}, func(ctx context.Context, part string) error {
		if err := describe(ctx, r, ofEKS("DescribeCapability", c.DescribeCapability), &awseks.DescribeCapabilityInput{ClusterName: &name, CapabilityName: &part}, name+"/"+part); err != nil {
			return err
		}
		return r.readUpdates(ctx, awseks.ListUpdatesInput{Name: &name, CapabilityName: &part})
	})
	parts(g, ctx, r, name, ofEKS("ListInsights", c.ListInsights), &awseks.ListInsightsInput{ClusterName: &name}, func(out *awseks.ListInsightsOutput) []string {
		return mapped(out.Insights, func(i ekstypes.InsightSummary) string { return aws.ToString(i.Id) })
	}, func(ctx context.Context, part string) error {
		return describe(ctx, r, ofEKS("DescribeInsight", c.DescribeInsight), &awseks.DescribeInsightInput{ClusterName: &name, Id: &part}, name+"/"+part)
	})
	g.Go(func() error { return r.readUpdates(ctx, awseks.ListUpdatesInput{Name: &name}) })
	if len(about) > 0 && about[0].Cluster != nil {
		if a := about[0].Cluster.AccessConfig; a == nil || a.AuthenticationMode != ekstypes.AuthenticationModeConfigMap {
			r.readEntries(g, ctx, name)
		}
		if !r.opt.NoKubernetes {
			g.Go(func() error { return r.readKubernetes(ctx, about[0].Cluster) })
		}
	}
	return g.Wait()
}

// mostUpdates is how many updates of a cluster, or of a part of it, are read.
const mostUpdates = 20

// readUpdates reads the updates of a cluster, or of a part of it.
func (r *reader) readUpdates(ctx context.Context, in awseks.ListUpdatesInput) error {
	subject := *in.Name
	for _, part := range []*string{in.NodegroupName, in.AddonName, in.CapabilityName} {
		if part != nil {
			subject += "/" + *part
		}
	}
	in.MaxResults = aws.Int32(mostUpdates)
	list := ofEKS("ListUpdates", r.eks.ListUpdates)
	list.onePage = true
	list.trim = func(pages []*awseks.ListUpdatesOutput) *recording.Gap {
		if p := pages[0]; p.NextToken == nil && len(p.UpdateIds) <= mostUpdates {
			return nil
		}
		return &recording.Gap{Service: "eks", Operation: "ListUpdates", Cluster: *in.Name, Subject: subject, Code: recording.NotAsked, Message: fmt.Sprintf("only the first %d updates of %s were read", mostUpdates, subject)}
	}
	pages, err := ask(ctx, r, list, &in, subject)
	if err != nil {
		return err
	}
	for _, p := range pages {
		for _, id := range p.UpdateIds[:min(len(p.UpdateIds), mostUpdates)] {
			err := describe(ctx, r, ofEKS("DescribeUpdate", r.eks.DescribeUpdate), &awseks.DescribeUpdateInput{
				Name: in.Name, NodegroupName: in.NodegroupName, AddonName: in.AddonName, CapabilityName: in.CapabilityName, UpdateId: &id,
			}, subject)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// readEntries reads the access entries of a cluster. EKS refuses the questions for a cluster without them.
func (r *reader) readEntries(g *errgroup.Group, ctx context.Context, cluster string) {
	c := r.eks
	parts(g, ctx, r, cluster, ofEKS("ListAccessEntries", c.ListAccessEntries), &awseks.ListAccessEntriesInput{ClusterName: &cluster}, func(out *awseks.ListAccessEntriesOutput) []string { return out.AccessEntries },
		func(ctx context.Context, part string) error {
			if err := describe(ctx, r, ofEKS("DescribeAccessEntry", c.DescribeAccessEntry), &awseks.DescribeAccessEntryInput{ClusterName: &cluster, PrincipalArn: &part}, cluster+"/"+part); err != nil {
				return err
			}
			return describe(ctx, r, ofEKS("ListAssociatedAccessPolicies", c.ListAssociatedAccessPolicies), &awseks.ListAssociatedAccessPoliciesInput{ClusterName: &cluster, PrincipalArn: &part}, cluster+"/"+part)
		})
}

func mapped[T any](in []T, of func(T) string) []string {
	var out []string
	for _, v := range in {
		out = append(out, of(v))
	}
	return out
}

// parts lists the parts of a cluster and describes each of them. Gaps are about CLUSTER or CLUSTER/PART.
func parts[In, Out any](g *errgroup.Group, ctx context.Context, r *reader, cluster string, list operation[In, Out, awseks.Options], in *In, names func(*Out) []string, each func(ctx context.Context, part string) error) {
	g.Go(func() error {
		pages, err := ask(ctx, r, list, in, cluster)
		if err != nil {
			return err
		}
		for _, p := range pages {
			for _, name := range names(p) {
				if err := each(ctx, name); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// describe asks a question whose answer is only recorded.
func describe[In, Out, O any](ctx context.Context, r *reader, op operation[In, Out, O], in *In, subject string) error {
	_, err := ask(ctx, r, op, in, subject)
	return err
}

// ofScaling is an operation of Auto Scaling.
func ofScaling[In, Out any](name string, call func(context.Context, *In, ...func(*awsautoscaling.Options)) (*Out, error)) operation[In, Out, awsautoscaling.Options] {
	return operation[In, Out, awsautoscaling.Options]{service: "autoscaling", name: name, call: call}
}

// readScaling reads the Auto Scaling groups with what changes their sizes, and with their last activities.
func (r *reader) readScaling(ctx context.Context) error {
	groups, err := ask(ctx, r, ofScaling("DescribeAutoScalingGroups", r.scaling.DescribeAutoScalingGroups), &awsautoscaling.DescribeAutoScalingGroupsInput{}, "")
	if err != nil {
		return err
	}
	configurations := ofScaling("DescribeLaunchConfigurations", r.scaling.DescribeLaunchConfigurations)
	configurations.redact = func(out *awsautoscaling.DescribeLaunchConfigurationsOutput) (found bool) {
		for i := range out.LaunchConfigurations {
			found = redactBase64(&out.LaunchConfigurations[i].UserData) || found
		}
		return found
	}
	if err := describe(ctx, r, configurations, &awsautoscaling.DescribeLaunchConfigurationsInput{}, ""); err != nil {
		return err
	}
	if err := describe(ctx, r, ofScaling("DescribePolicies", r.scaling.DescribePolicies), &awsautoscaling.DescribePoliciesInput{}, ""); err != nil {
		return err
	}
	if err := describe(ctx, r, ofScaling("DescribeScheduledActions", r.scaling.DescribeScheduledActions), &awsautoscaling.DescribeScheduledActionsInput{}, ""); err != nil {
		return err
	}
	hooks, activities := ofScaling("DescribeLifecycleHooks", r.scaling.DescribeLifecycleHooks), ofScaling("DescribeScalingActivities", r.scaling.DescribeScalingActivities)
	// The last hundred are enough to see why launches fail. Six weeks of a busy group are tens of thousands.
	activities.onePage = true
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for _, page := range groups {
		for _, group := range page.AutoScalingGroups {
			name := aws.ToString(group.AutoScalingGroupName)
			g.Go(func() error {
				_, err := ask(ctx, r, activities, &awsautoscaling.DescribeScalingActivitiesInput{AutoScalingGroupName: &name, MaxRecords: aws.Int32(100)}, name)
				return err
			})
			g.Go(func() error {
				_, err := ask(ctx, r, hooks, &awsautoscaling.DescribeLifecycleHooksInput{AutoScalingGroupName: &name}, name)
				return err
			})
		}
	}
	return g.Wait()
}

// readParameters reads the names of parameters. Their values are never read.
func (r *reader) readParameters(ctx context.Context) error {
	return describe(ctx, r, operation[awsssm.DescribeParametersInput, awsssm.DescribeParametersOutput, awsssm.Options]{service: "ssm", name: "DescribeParameters", call: r.ssm.DescribeParameters}, &awsssm.DescribeParametersInput{MaxResults: aws.Int32(50)}, "")
}

// readAgents reads which SSM agents are connected.
func (r *reader) readAgents(ctx context.Context) error {
	_, err := ask(ctx, r, operation[awsssm.DescribeInstanceInformationInput, awsssm.DescribeInstanceInformationOutput, awsssm.Options]{service: "ssm", name: "DescribeInstanceInformation", call: r.ssm.DescribeInstanceInformation}, &awsssm.DescribeInstanceInformationInput{}, "")
	return err
}
