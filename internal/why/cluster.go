package why

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/api/httpapi"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/reach"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// getWhyNodes explains the nodes of ?cluster=, or of its ?nodegroup=.
func (x *Explainer) getWhyNodes(w http.ResponseWriter, r *http.Request) {
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
	e, err := x.explainNodes(r.Context(), account, region, cluster, r.URL.Query().Get("nodegroup"))
	var ae smithy.APIError
	switch {
	case errors.As(err, &ae):
		group := r.URL.Query().Get("nodegroup")
		unknown := x.unknown(account, func(g recording.Gap) bool {
			return group != "" && g.Cluster == cluster && (g.Operation == "ListNodegroups" || g.Operation == "DescribeNodegroup" && (g.Subject == "" || g.Subject == cluster+"/"+group))
		})
		if len(unknown) > 0 {
			refuse(w, &unknownError{"node group " + group, unknown}, 0)
			return
		}
		http.Error(w, ae.ErrorMessage(), http.StatusNotFound)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		httpapi.Answer(w, e)
	}
}

func (x *Explainer) explainNodes(ctx context.Context, account, region, cluster, nodegroup string) (api.NodesExplanation, error) {
	out := api.NodesExplanation{Cluster: cluster, Nodegroup: nodegroup, Nodes: []api.NodeExplanation{}}
	ctx = awsapi.WithCall(ctx, &awsapi.Call{Account: account, Region: region, Service: "eks"})
	c, err := x.cfg.EKS.DescribeCluster(ctx, &awseks.DescribeClusterInput{Name: &cluster})
	if err != nil {
		return out, err
	}
	out.Status = string(c.Cluster.Status)
	if h := c.Cluster.Health; h != nil {
		for _, i := range h.Issues {
			out.Issues = append(out.Issues, fmt.Sprintf("%s: %s", i.Code, aws.ToString(i.Message)))
			out.Fixes = append(out.Fixes, x.keyFixes(&i, region, aws.ToString(c.Cluster.RoleArn))...)
		}
	}
	if nodegroup != "" {
		g, err := x.cfg.EKS.DescribeNodegroup(ctx, &awseks.DescribeNodegroupInput{ClusterName: &cluster, NodegroupName: &nodegroup})
		if err != nil {
			return out, err
		}
		out.Status, out.Issues, out.Fixes = string(g.Nodegroup.Status), nil, nil
		var issues []ekstypes.Issue
		if h := g.Nodegroup.Health; h != nil {
			issues = h.Issues
		}
		if len(issues) == 0 && (out.Status == string(ekstypes.NodegroupStatusCreating) || out.Status == string(ekstypes.NodegroupStatusUpdating)) {
			launch, err := x.cfg.EKS.NodegroupLaunchIssue(ctx, cluster, nodegroup)
			if err != nil {
				return out, err
			}
			if launch != nil {
				issues = append(issues, *launch)
			}
		}
		for i := range issues {
			out.Issues = append(out.Issues, fmt.Sprintf("%s: %s (%s)", issues[i].Code, aws.ToString(issues[i].Message), strings.Join(issues[i].ResourceIds, ", ")))
			for _, f := range x.issueFixes(ctx, account, region, &issues[i], g.Nodegroup) {
				if !slices.ContainsFunc(out.Fixes, func(o advice.Fix) bool { return o.Shell() == f.Shell() }) {
					out.Fixes = append(out.Fixes, f)
				}
			}
		}
	}
	if len(out.Issues) > 0 || nodegroup != "" && out.Status == string(ekstypes.NodegroupStatusCreating) {
		out.Notes = x.launchFaultNotes(account, region)
	}
	known := answers{} // a thousand nodes may fail in the same way
	for _, m := range x.cfg.Machines.Instances(account, region) {
		info, _ := x.cfg.Machines.Info(m.ID)
		of := m.Tags["eks:cluster-name"]
		if of == "" {
			of = info.Cluster
		}
		if of != cluster || nodegroup != "" && m.Tags["eks:nodegroup-name"] != nodegroup {
			continue
		}
		e, err := x.explainNode(account, region, m.ID, known)
		if err != nil {
			return out, err
		}
		x.missingCNI(ctx, &e, time.Now())
		x.ofTwin(&e)
		out.Nodes = append(out.Nodes, e)
	}
	out.Unknown = x.unknown(account, unreadInstances)
	if nodegroup != "" {
		notes, err := x.cfg.EKS.NodegroupUpdateNotes(ctx, cluster, nodegroup)
		out.Notes = slices.Concat(out.Notes, notes, x.unreadUpdates(account, cluster+"/"+nodegroup))
		return out, err
	}
	for _, id := range x.cfg.Machines.FargateOf(account, region, cluster) {
		e, err := x.explainNode(account, region, id, known)
		if err != nil {
			return out, err
		}
		e.Fargate = true
		out.Nodes = append(out.Nodes, e)
	}
	out.Notes = append(out.Notes, x.clusterFaultNotes(account, region, cluster)...)
	entries := x.unreadEntries(account, cluster)
	notes, err := x.cfg.EKS.UpdateNotes(ctx, cluster, len(entries) == 0)
	if err != nil {
		return out, err
	}
	out.Notes = slices.Concat(out.Notes, notes, x.unreadUpdates(account, cluster))
	if len(entries) > 0 {
		out.Notes = append(out.Notes, "who can log in is unknown: "+strings.Join(entries, "; "))
	}
	out.Endpoint, err = x.endpointAccess(ctx, account, region, cluster)
	return out, err
}

// endpointAccess returns whether this machine reaches a cluster's endpoint.
func (x *Explainer) endpointAccess(ctx context.Context, account, region, cluster string) (*api.EndpointAccess, error) {
	endpoints, err := x.cfg.EKS.APIEndpoints(ctx, account, region)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(endpoints, func(e eks.APIEndpoint) bool { return strings.HasSuffix(e.ARN, ":cluster/"+cluster) })
	if i < 0 {
		return nil, nil // it has none yet
	}
	e, client := &endpoints[i], x.cfg.ClientAddress
	if !client.IsValid() {
		client = reach.Client
	}
	out := &api.EndpointAccess{Host: e.Host, Public: e.Public, Private: e.Private, PublicCIDRs: e.PublicCIDRs, ClientAddress: client.String()}
	out.Reachable = e.Public && (len(e.PublicCIDRs) == 0 || slices.ContainsFunc(e.PublicCIDRs, func(c string) bool {
		p, err := netip.ParsePrefix(c)
		return err == nil && p.Contains(client)
	}))
	s, err := x.cfg.Network(ctx, account, region)
	if err != nil {
		return nil, err
	}
	for _, a := range s.Resolve(reach.Addr(client), strings.ToLower(e.Host)).Addresses {
		out.Addresses = append(out.Addresses, a.String())
	}
	return out, nil
}

// issueFixes returns the commands that resolve an issue of a node group, given the current state of the world.
func (x *Explainer) issueFixes(ctx context.Context, account, region string, issue *ekstypes.Issue, g *ekstypes.Nodegroup) []advice.Fix {
	if issue.Code == ekstypes.NodegroupIssueCodeInstanceLimitExceeded {
		need, known := x.vcpus(ctx, account, region, g, int(aws.ToInt32(g.ScalingConfig.DesiredSize)))
		changes, commands := need.raise(region)
		judge := func(changes []advice.Change) error {
			return errors.Join(need.fits(changes), x.mayLaunch(account, region, g))
		}
		switch {
		case known && g.Status == ekstypes.NodegroupStatusCreateFailed: // this status is final
			return advice.Try(judge, append(changes, advice.Change{Kind: advice.ReplaceNodegroup, Resource: aws.ToString(g.NodegroupName)}), slices.Concat(commands, remake(g, region))...)
		case known && len(changes) > 0:
			return advice.Try(judge, changes, commands...)
		case known:
			return nil // the Auto Scaling group tries again by itself
		}
	}
	return nodegroupFixes(issue, g, region)
}

// remake returns the commands that delete a node group and create it again.
func remake(g *ekstypes.Nodegroup, region string) []string {
	of := " --cluster-name " + aws.ToString(g.ClusterName) + " --nodegroup-name " + aws.ToString(g.NodegroupName)
	at := " --region " + region
	size := g.ScalingConfig
	create := fmt.Sprintf("aws eks create-nodegroup%s --node-role %s --subnets %s --ami-type %s --capacity-type %s --scaling-config minSize=%d,maxSize=%d,desiredSize=%d",
		of, aws.ToString(g.NodeRole), strings.Join(g.Subnets, " "), g.AmiType, g.CapacityType, aws.ToInt32(size.MinSize), aws.ToInt32(size.MaxSize), aws.ToInt32(size.DesiredSize))
	if len(g.InstanceTypes) > 0 {
		create += " --instance-types " + strings.Join(g.InstanceTypes, " ")
	}
	if t := g.LaunchTemplate; t != nil {
		create += " --launch-template id=" + aws.ToString(t.Id) + ",version=" + aws.ToString(t.Version)
	} else if g.DiskSize != nil {
		create += fmt.Sprintf(" --disk-size %d", *g.DiskSize)
	}
	for _, more := range []struct {
		flag  string
		pairs map[string]string
	}{{" --labels ", g.Labels}, {" --tags ", g.Tags}} {
		if len(more.pairs) > 0 {
			text, err := json.Marshal(more.pairs)
			if err != nil { // strings always encode
				panic(err)
			}
			create += more.flag + quoted(string(text))
		}
	}
	if len(g.Taints) > 0 {
		create += " --taints"
		for _, t := range g.Taints {
			create += fmt.Sprintf(" key=%s,value=%s,effect=%s", aws.ToString(t.Key), aws.ToString(t.Value), t.Effect)
		}
	}
	return []string{"aws eks delete-nodegroup" + of + at, "aws eks wait nodegroup-deleted" + of + at, create + at}
}

// nodegroupFixes returns the commands that resolve an issue of a node group, or that tell more about it if its nodes do
// not: https://docs.aws.amazon.com/eks/latest/APIReference/API_Issue.html
func nodegroupFixes(issue *ekstypes.Issue, g *ekstypes.Nodegroup, region string) []advice.Fix {
	at := " --region " + region
	again := "aws eks delete-nodegroup --cluster-name " + aws.ToString(g.ClusterName) + " --nodegroup-name " + aws.ToString(g.NodegroupName) + at
	remade := oneSketch("what the node group was made of is gone; delete it, and create it again with what there is", again)
	switch issue.Code {
	case ekstypes.NodegroupIssueCodeAutoScalingGroupNotFound, ekstypes.NodegroupIssueCodeEc2LaunchTemplateNotFound, ekstypes.NodegroupIssueCodeEc2SecurityGroupNotFound,
		ekstypes.NodegroupIssueCodeEc2SubnetNotFound, ekstypes.NodegroupIssueCodeIamInstanceProfileNotFound:
		return remade
	case ekstypes.NodegroupIssueCodeEc2LaunchTemplateInvalidConfiguration, ekstypes.NodegroupIssueCodeAmiIdNotFound:
		if t := g.LaunchTemplate; t != nil {
			return oneSketch("correct the file template.json before its version is made; then create the node group again with that version",
				"aws ec2 describe-launch-template-versions --launch-template-id "+aws.ToString(t.Id)+" --versions "+aws.ToString(t.Version)+" --query 'LaunchTemplateVersions[0].LaunchTemplateData'"+at+" > template.json",
				"aws ec2 create-launch-template-version --launch-template-id "+aws.ToString(t.Id)+" --source-version "+aws.ToString(t.Version)+" --launch-template-data file://template.json"+at,
				again)
		}
		return remade
	case ekstypes.NodegroupIssueCodeIamNodeRoleNotFound:
		_, role, _ := strings.Cut(aws.ToString(g.NodeRole), ":role/")
		return oneSketch("the new role has another ID and no policies: attach the policies of nodes (https://docs.aws.amazon.com/eks/latest/userguide/create-node-role.html), add it to the group's instance profile, and create its access entry again; drydock why node shows which is missing",
			"aws iam create-role --role-name "+path.Base(role)+
				` --assume-role-policy-document '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}'`)
	case ekstypes.NodegroupIssueCodeInsufficientFreeAddresses:
		return oneSketch("create the node group in subnets with free addresses, or free some; these have so many",
			"aws ec2 describe-subnets --query 'Subnets[].[SubnetId,CidrBlock,AvailableIpAddressCount]' --subnet-ids "+strings.Join(g.Subnets, " ")+at)
	case ekstypes.NodegroupIssueCodeInstanceLimitExceeded:
		return oneSketch("have the quota raised that counts these instances (aws service-quotas request-service-quota-increase)", "aws service-quotas list-service-quotas --service-code ec2"+at)
	case ekstypes.NodegroupIssueCodeAsgInstanceLaunchFailures, ekstypes.NodegroupIssueCodeAutoScalingGroupInvalidConfiguration:
		if r := g.Resources; r != nil && len(r.AutoScalingGroups) > 0 {
			return oneSketch("the Auto Scaling group says why it launches nothing",
				"aws autoscaling describe-scaling-activities --max-items 5 --auto-scaling-group-name "+aws.ToString(r.AutoScalingGroups[0].Name)+at)
		}
	}
	return nil
}
