package why

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/fargate"
	"github.com/drydock-dev/drydock/internal/service/eks"
)

// profiles returns the Fargate profiles of a cluster.
func (x *Explainer) profiles(ctx context.Context, cluster string) ([]*ekstypes.FargateProfile, error) {
	list, err := x.cfg.Inventory.ListFargateProfiles(ctx, &awseks.ListFargateProfilesInput{ClusterName: &cluster})
	if err != nil {
		return nil, err
	}
	var out []*ekstypes.FargateProfile
	for _, name := range list.FargateProfileNames {
		p, err := x.cfg.Inventory.DescribeFargateProfile(ctx, &awseks.DescribeFargateProfileInput{ClusterName: &cluster, FargateProfileName: &name})
		if err != nil {
			return nil, err
		}
		out = append(out, p.FargateProfile)
	}
	return out, nil
}

// diagnoseProfiles looks at what EKS says of each Fargate profile, and whether it would launch a pod that it selects.
func (x *Explainer) diagnoseProfiles(ctx context.Context, d *api.Diagnosis) error {
	profiles, err := x.profiles(ctx, d.Cluster)
	if err != nil {
		return err
	}
	for _, p := range profiles {
		d.Checked += 2
		name := aws.ToString(p.FargateProfileName)
		if h := p.Health; h != nil {
			for _, i := range h.Issues {
				find(d, api.HarmError, "fargate-profile", name, fmt.Sprintf("%s: %s", i.Code, aws.ToString(i.Message)), nil, nil)
			}
		}
		if p.Status != ekstypes.FargateProfileStatusActive || len(p.Selectors) == 0 {
			continue
		}
		pod := selected(p)
		_, err := x.cfg.EKS.FargateLaunch(ctx, d.Account, d.Region, d.Cluster, name, pod)
		block, ok := errors.AsType[*eks.FargateBlock](err)
		switch {
		case err == nil:
			continue
		case !ok:
			return err
		}
		if unknown := x.unknownProfile(d, aws.ToString(p.PodExecutionRoleArn)); len(unknown) > 0 {
			find(d, api.HarmUnknown, "fargate-profile", name, "whether it would launch a pod is unknown: "+unknown[0], nil, nil)
			continue
		}
		why := &api.Reason{Text: block.Reason}
		x.fargateBlock(ctx, why, d.Account, d.Region, d.Cluster, pod)
		find(d, api.HarmError, "fargate-profile", name, "no new pod would be launched: "+why.Text, []string{"it takes pods of " + takes(p)}, why.Fixes)
	}
	return nil
}

// selected returns a pod that a profile's first selector takes. An asterisk stands for any text, so an x matches it.
func selected(p *ekstypes.FargateProfile) *corev1.Pod {
	sel := p.Selectors[0]
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: anyText(aws.ToString(sel.Namespace)), Labels: map[string]string{fargate.LabelProfile: aws.ToString(p.FargateProfileName)}}}
	for key, value := range sel.Labels {
		pod.Labels[anyText(key)] = anyText(value)
	}
	return pod
}

func anyText(pattern string) string { return strings.NewReplacer("*", "x", "?", "x").Replace(pattern) }

// takes says which pods a profile selects.
func takes(p *ekstypes.FargateProfile) string {
	var out []string
	for _, sel := range p.Selectors {
		s := "namespace " + aws.ToString(sel.Namespace)
		if len(sel.Labels) > 0 {
			var labels []string
			for key, value := range sel.Labels {
				labels = append(labels, key+"="+value)
			}
			slices.Sort(labels)
			s += " with " + strings.Join(labels, ", ")
		}
		out = append(out, s)
	}
	return strings.Join(out, "; ")
}

// diagnoseNextPod looks at whether the next pod of a Fargate profile would get an address in a subnet, and reach the cluster and
// the registries from it. Such a pod has no public address.
// https://docs.aws.amazon.com/eks/latest/userguide/fargate.html
func (x *Explainer) diagnoseNextPod(ctx context.Context, d *api.Diagnosis, p *ekstypes.FargateProfile, subnet, clusterGroup string) error {
	hosts, err := x.hostsOfNode(ctx, d.Account, d.Region, []node.Step{{Cluster: d.Cluster}})
	if err != nil {
		return err
	}
	hosts = slices.DeleteFunc(hosts, func(h string) bool { return strings.HasPrefix(h, "ec2.") }) // only the kubelets of instances ask EC2
	return x.diagnoseNext(ctx, d, &nextMachine{check: "next-pod", who: "the next pod of Fargate profile " + aws.ToString(p.FargateProfileName), subnet: subnet, groups: []string{clusterGroup}}, hosts)
}
