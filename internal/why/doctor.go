package why

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/api/httpapi"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// Inventory lists what a diagnosis looks at in a cluster.
type Inventory interface {
	ListNodegroups(ctx context.Context, in *awseks.ListNodegroupsInput) (*awseks.ListNodegroupsOutput, error)
	ListAddons(ctx context.Context, in *awseks.ListAddonsInput) (*awseks.ListAddonsOutput, error)
	DescribeAddon(ctx context.Context, in *awseks.DescribeAddonInput) (*awseks.DescribeAddonOutput, error)
	ListFargateProfiles(ctx context.Context, in *awseks.ListFargateProfilesInput) (*awseks.ListFargateProfilesOutput, error)
	DescribeFargateProfile(ctx context.Context, in *awseks.DescribeFargateProfileInput) (*awseks.DescribeFargateProfileOutput, error)
	ListInsights(ctx context.Context, in *awseks.ListInsightsInput) (*awseks.ListInsightsOutput, error)
	DescribeInsight(ctx context.Context, in *awseks.DescribeInsightInput) (*awseks.DescribeInsightOutput, error)
	// Troubled returns pods that do not run, as NAMESPACE/NAME, and service accounts with roles, at most so many of each.
	Troubled(ctx context.Context, cluster string, most int) (pods, accounts []string, err error)
	// PodsOfNodes returns how many pods are on each node.
	PodsOfNodes(ctx context.Context, cluster string) ([]eks.NodePods, error)
	// PodsOfDNS returns how many pods the cluster's DNS has, ready or not.
	PodsOfDNS(ctx context.Context, cluster string) (int, error)
}

// mostDiagnosed is how many pods and service accounts are looked at.
const mostDiagnosed = 100

// getDoctor looks at everything in ?cluster=. With ?settled=true, it looks only at the nodes while some are on their way.
func (x *Explainer) getDoctor(w http.ResponseWriter, r *http.Request) {
	account, region, err := httpapi.Place(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	cluster, err := x.OnlyCluster(r.Context(), account, region, r.URL.Query().Get("cluster"))
	if err != nil {
		refuse(w, err, http.StatusBadRequest)
		return
	}
	d, err := x.diagnose(r.Context(), account, region, cluster, r.URL.Query().Get("settled") == "true")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	httpapi.Answer(w, d)
}

func (x *Explainer) diagnose(ctx context.Context, account, region, cluster string, settled bool) (api.Diagnosis, error) {
	d := api.Diagnosis{Account: account, Region: region, Cluster: cluster, Findings: []api.Ill{}}
	nodes, err := x.explainNodes(ctx, account, region, cluster, "")
	if err != nil {
		return d, err
	}
	d.Status = nodes.Status
	ctx = awsapi.WithCall(ctx, &awsapi.Call{Account: account, Region: region, Service: "eks"})
	if nodes.Status != string(ekstypes.ClusterStatusActive) && nodes.Status != string(ekstypes.ClusterStatusUpdating) {
		d.Settling = nodes.Status == string(ekstypes.ClusterStatusCreating)
		return d, nil
	}
	diagnoseCluster(&d, &nodes)
	for i := range nodes.Nodes {
		diagnoseNode(&d, &nodes.Nodes[i])
	}
	if !d.Settling {
		if d.Settling, err = x.booting(ctx, account); err != nil {
			return d, err
		}
	}
	if settled && d.Settling {
		return d, nil
	}
	for _, part := range []func(context.Context, *api.Diagnosis) error{x.diagnoseNodegroups, x.diagnoseSubnets, x.diagnoseDensity, x.diagnoseAddons, x.diagnoseProfiles, x.diagnoseAccess, x.diagnoseDNS, x.diagnoseInsights, x.diagnosePods, x.diagnoseGaps} {
		if err := part(ctx, &d); err != nil {
			return d, err
		}
	}
	d.Sort()
	return d, nil
}

// booting reports whether instances of a twin, which start when its clusters have been copied, have not yet run their user data. Until then,
// it is not known of all of them which clusters they join.
func (x *Explainer) booting(ctx context.Context, account string) (bool, error) {
	if x.cfg.IsTwin == nil || !x.cfg.IsTwin(account) {
		return false, nil
	}
	out, err := x.cfg.EC2.DescribeInstances(ctx, &awsec2.DescribeInstancesInput{Filters: []ec2types.Filter{{Name: aws.String("instance-state-name"), Values: []string{string(ec2types.InstanceStateNameRunning)}}}})
	if err != nil {
		return false, err
	}
	for _, r := range out.Reservations {
		for _, i := range r.Instances {
			if info, on := x.cfg.Machines.Info(aws.ToString(i.InstanceId)); !on || info.Phase == node.PhaseBooting && info.Problem == "" {
				return true, nil
			}
		}
	}
	return false, nil
}

func find(d *api.Diagnosis, harm, check, subject, text string, evidence []string, fixes []advice.Fix) {
	d.Findings = append(d.Findings, api.Ill{Harm: harm, Check: check, Subject: subject, Text: text, Evidence: evidence, Fixes: fixes})
}

// diagnoseCluster looks at what EKS says of the cluster, and at its endpoint.
func diagnoseCluster(d *api.Diagnosis, e *api.NodesExplanation) {
	d.Checked += 2
	for _, i := range e.Issues {
		find(d, api.HarmError, "cluster", d.Cluster, i, nil, e.Fixes)
	}
	if a := e.Endpoint; a != nil && a.Public && (len(a.PublicCIDRs) == 0 || slices.Contains(a.PublicCIDRs, "0.0.0.0/0") || slices.Contains(a.PublicCIDRs, "::/0")) {
		find(d, api.HarmWarning, "public-access", d.Cluster, "the API server accepts connections from the whole internet", nil, oneSketch("name the networks that need it in place of CIDR",
			"aws eks update-cluster-config --name "+d.Cluster+" --resources-vpc-config publicAccessCidrs=CIDR,endpointPrivateAccess=true --region "+d.Region))
	}
}

func diagnoseNode(d *api.Diagnosis, n *api.NodeExplanation) {
	d.Checked++
	failed := n.FirstFailed()
	switch {
	case len(n.Unknown) > 0:
		for _, u := range n.Unknown {
			find(d, api.HarmUnknown, "node", n.Instance, u, n.Observed, nil)
		}
	case failed != nil:
		text, fixes := failed.Name+" fails: "+failed.Evidence, []advice.Fix(nil)
		evidence := n.Observed
		if r := failed.Reason; r != nil {
			text, fixes = failed.Name+" fails because of "+strings.TrimSuffix(r.By+", "+r.Code, ", ")+": "+r.Text, r.Fixes
			evidence = append([]string{failed.Evidence}, evidence...)
		}
		harm := api.HarmError
		if n.Ready {
			harm = api.HarmWarning
		}
		find(d, harm, "node", n.Instance, text, evidence, fixes)
	case !n.Ready && n.State == "running":
		d.Settling = true
	}
	for _, s := range n.Steps {
		if s.State == api.StepWarning && s.Reason != nil {
			find(d, api.HarmWarning, "node", n.Instance, s.Name+": "+s.Reason.Text, []string{s.Evidence}, s.Reason.Fixes)
		}
	}
	if n.Disagreement != "" {
		find(d, api.HarmWarning, "prediction", n.Instance, n.Disagreement, n.Observed, nil)
	}
}

func (x *Explainer) diagnoseNodegroups(ctx context.Context, d *api.Diagnosis) error {
	groups, err := x.cfg.Inventory.ListNodegroups(ctx, &awseks.ListNodegroupsInput{ClusterName: &d.Cluster})
	if err != nil {
		return err
	}
	limits := x.unknown(d.Account, func(g recording.Gap) bool {
		return g.Operation == "ListServiceQuotas" && (g.Subject == "" || g.Subject == "ec2")
	})
	if len(limits) > 0 && len(groups.Nodegroups) > 0 {
		find(d, api.HarmUnknown, "quota", d.Cluster, "whether quotas have room for the node groups is unknown: "+limits[0], nil, nil)
	}
	for _, name := range groups.Nodegroups {
		d.Checked++
		out, err := x.cfg.EKS.DescribeNodegroup(ctx, &awseks.DescribeNodegroupInput{ClusterName: &d.Cluster, NodegroupName: &name})
		if err != nil {
			return err
		}
		if sc := out.Nodegroup.ScalingConfig; sc != nil {
			if n, ok := x.vcpus(ctx, d.Account, d.Region, out.Nodegroup, int(aws.ToInt32(sc.MaxSize))); ok && n.missing > 0 && len(limits) == 0 {
				if changes, commands := n.raise(d.Region); len(changes) > 0 {
					find(d, api.HarmWarning, "quota", name, fmt.Sprintf("the group may grow to %d nodes, but the quota %s has room for %d more of them", aws.ToInt32(sc.MaxSize), n.use.Code, max(n.use.Room(), 0)),
						[]string{fmt.Sprintf("%d of %d vCPUs are in use", n.use.Running, n.use.Limit)}, advice.Try(n.fits, changes, commands...))
				}
			}
		}
		if h := out.Nodegroup.Health; h != nil {
			for i := range h.Issues {
				find(d, api.HarmError, "node-group", name, fmt.Sprintf("%s: %s", h.Issues[i].Code, aws.ToString(h.Issues[i].Message)), nil, x.issueFixes(ctx, d.Account, d.Region, &h.Issues[i], out.Nodegroup))
			}
		}
	}
	return nil
}

func (x *Explainer) diagnoseAddons(ctx context.Context, d *api.Diagnosis) error {
	addons, err := x.cfg.Inventory.ListAddons(ctx, &awseks.ListAddonsInput{ClusterName: &d.Cluster})
	if err != nil {
		return err
	}
	for _, name := range addons.Addons {
		d.Checked++
		out, err := x.cfg.Inventory.DescribeAddon(ctx, &awseks.DescribeAddonInput{ClusterName: &d.Cluster, AddonName: &name})
		if err != nil {
			return err
		}
		if h := out.Addon.Health; h != nil {
			for _, i := range h.Issues {
				find(d, api.HarmError, "add-on", name, fmt.Sprintf("%s: %s", i.Code, aws.ToString(i.Message)), nil, nil)
			}
		}
	}
	return nil
}

// diagnoseDensity looks for nodes that have as many pods as they may have.
func (x *Explainer) diagnoseDensity(ctx context.Context, d *api.Diagnosis) error {
	nodes, err := x.cfg.Inventory.PodsOfNodes(ctx, d.Cluster)
	if err != nil {
		return err
	}
	d.Checked += len(nodes)
	for _, n := range nodes {
		if n.Most > 0 && n.Pods >= n.Most {
			find(d, api.HarmWarning, "pod-density", n.Node, fmt.Sprintf("%d of %d pods are on the node: no other one fits, whatever CPU and memory are left", n.Pods, n.Most),
				nil, oneSketch("use an instance type with more network interfaces, or prefix delegation, or more nodes"))
		}
	}
	return nil
}

// diagnoseInsights looks at EKS's insights: version skew, deprecated APIs, add-ons that do not fit.
func (x *Explainer) diagnoseInsights(ctx context.Context, d *api.Diagnosis) error {
	insights, err := x.cfg.Inventory.ListInsights(ctx, &awseks.ListInsightsInput{ClusterName: &d.Cluster})
	if err != nil {
		return err
	}
	for _, i := range insights.Insights {
		d.Checked++
		harm := map[ekstypes.InsightStatusValue]string{ekstypes.InsightStatusValueError: api.HarmError, ekstypes.InsightStatusValueWarning: api.HarmWarning}[i.InsightStatus.Status]
		if harm == "" {
			continue
		}
		out, err := x.cfg.Inventory.DescribeInsight(ctx, &awseks.DescribeInsightInput{ClusterName: &d.Cluster, Id: i.Id})
		if err != nil {
			return err
		}
		var evidence []string
		for _, r := range out.Insight.Resources {
			said := aws.ToString(r.KubernetesResourceUri) + aws.ToString(r.Arn)
			if r.InsightStatus != nil {
				said += ": " + aws.ToString(r.InsightStatus.Reason)
			}
			evidence = append(evidence, said)
		}
		if s := out.Insight.CategorySpecificSummary; s != nil {
			for _, api := range s.DeprecationDetails {
				for _, c := range api.ClientStats {
					evidence = append(evidence, fmt.Sprintf("%s: %s made %d requests in the last 30 days; use %s", aws.ToString(api.Usage), aws.ToString(c.UserAgent), c.NumberOfRequestsLast30Days, aws.ToString(api.ReplacedWith)))
				}
			}
		}
		find(d, harm, "insight", aws.ToString(i.Name), aws.ToString(i.InsightStatus.Reason)+" "+aws.ToString(out.Insight.Recommendation), evidence, nil)
	}
	return nil
}

// diagnosePods looks at the pods that do not run, and at the chains from service accounts to their roles.
func (x *Explainer) diagnosePods(ctx context.Context, d *api.Diagnosis) error {
	pods, accounts, err := x.cfg.Inventory.Troubled(ctx, d.Cluster, mostDiagnosed)
	if err != nil {
		return err
	}
	d.Checked += len(pods) + len(accounts)
	lost := x.lostNodes(d.Account, d.Region, d.Cluster)
	for _, p := range pods {
		namespace, name, _ := strings.Cut(p, "/")
		facts, err := x.cfg.EKS.PodFacts(ctx, d.Cluster, namespace, name)
		var gone smithy.APIError
		if errors.As(err, &gone) {
			continue
		}
		if err != nil {
			return err
		}
		if facts.Pod == nil {
			continue
		}
		e, err := x.explain(ctx, &facts, namespace, name)
		if err != nil {
			return err
		}
		unknown := x.unknownPod(&e, facts.Pod, lost)
		switch failed := e.FirstFailed(); {
		case failed == nil:
		case len(unknown) > 0:
			find(d, api.HarmUnknown, "pod", p, unknown[0], nil, nil)
		case failed.Reason != nil:
			find(d, api.HarmError, "pod", p, failed.Name+" fails because of "+strings.TrimSuffix(failed.Reason.By+", "+failed.Reason.Code, ", ")+": "+failed.Reason.Text, append([]string{failed.Evidence}, e.Notes...), failed.Reason.Fixes)
		default:
			find(d, api.HarmError, "pod", p, failed.Name+" fails: "+failed.Evidence, e.Notes, nil)
		}
	}
	for _, a := range accounts {
		namespace, name, _ := strings.Cut(a, "/")
		sa, err := x.cfg.EKS.ServiceAccountIdentity(ctx, d.Cluster, namespace, name)
		var gone smithy.APIError
		if errors.As(err, &gone) {
			continue
		}
		if err != nil {
			return err
		}
		e := x.explainServiceAccount(ctx, &sa)
		broken := e.Broken()
		if broken == nil {
			continue
		}
		if unknown := x.unknownServiceAccount(&e, &sa); len(unknown) > 0 {
			find(d, api.HarmUnknown, "service-account", a, unknown[0], nil, nil)
			continue
		}
		find(d, api.HarmError, "service-account", a, broken.Name+" "+broken.Says, append(broken.Details, broken.Error), broken.Fixes)
	}
	return nil
}

// checksOf are the checks that see nothing of what an operation of EKS, or a list of Kubernetes objects, did not return.
var checksOf = map[string]string{
	"ListNodegroups": "node-group", "DescribeNodegroup": "node-group", "ListAddons": "add-on", "DescribeAddon": "add-on", "ListFargateProfiles": "fargate-profile", "DescribeFargateProfile": "fargate-profile",
	"ListPodIdentityAssociations": "service-account", "DescribePodIdentityAssociation": "service-account", "ListAccessEntries": "access-entry", "DescribeAccessEntry": "access-entry", "ListAssociatedAccessPolicies": "access-entry",
	"ListInsights": "insight", "DescribeInsight": "insight",
	"": "objects", "nodes": "node", "pods": "pod", "serviceaccounts": "service-account", "configmaps": "aws-auth",
}

// diagnoseGaps says which parts of the cluster could not be read from a twin's source, so that nothing was found there.
func (x *Explainer) diagnoseGaps(_ context.Context, d *api.Diagnosis) error {
	x.unknown(d.Account, func(g recording.Gap) bool {
		about := g.Operation
		if g.Service == recording.Kubernetes {
			about = g.Resource
		}
		check, ok := checksOf[about]
		if unreadInstances(g) {
			find(d, api.HarmUnknown, "node", d.Cluster, g.String(), nil, nil)
		}
		if ok && g.Cluster == d.Cluster && (g.Service == "eks" || g.Service == recording.Kubernetes && g.Subject == "" && g.Code != recording.Redacted) {
			find(d, api.HarmUnknown, check, cmp.Or(g.Subject, d.Cluster), g.String(), nil, nil)
		}
		return false
	})
	return nil
}
