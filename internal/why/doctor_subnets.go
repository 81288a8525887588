package why

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/reach"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// fewAddresses is how many free addresses AWS recommends at least for the subnets of a cluster; an update needs six.
// https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html
const (
	fewAddresses    = 16
	neededAddresses = 6
)

// A next node is one that does not exist: the next instance that a node group would launch in a subnet.
const (
	nextInstance  = "i-00000000000000000"
	nextInterface = "eni-00000000000000000"
)

// nextAddress is the public address of a next node, from a range reserved for documentation.
var nextAddress = netip.MustParseAddr("203.0.113.254")

// diagnoseSubnets looks at the subnets of the cluster: whether they have addresses left, and whether the next node of a node
// group and the next pod of a Fargate profile would reach what they need. Running nodes and pods do not show that: it has what it needs
// already.
func (x *Explainer) diagnoseSubnets(ctx context.Context, d *api.Diagnosis) error {
	c, err := x.cfg.EKS.DescribeCluster(ctx, &awseks.DescribeClusterInput{Name: &d.Cluster})
	if err != nil || c.Cluster.ResourcesVpcConfig == nil {
		return err
	}
	clusterGroup := aws.ToString(c.Cluster.ResourcesVpcConfig.ClusterSecurityGroupId)
	users := map[string][]string{} // of subnets
	for _, id := range c.Cluster.ResourcesVpcConfig.SubnetIds {
		users[id] = []string{"the cluster"}
	}
	list, err := x.cfg.Inventory.ListNodegroups(ctx, &awseks.ListNodegroupsInput{ClusterName: &d.Cluster})
	if err != nil {
		return err
	}
	var groups []*ekstypes.Nodegroup
	for _, name := range list.Nodegroups {
		out, err := x.cfg.EKS.DescribeNodegroup(ctx, &awseks.DescribeNodegroupInput{ClusterName: &d.Cluster, NodegroupName: &name})
		if err != nil {
			return err
		}
		groups = append(groups, out.Nodegroup)
		for _, id := range out.Nodegroup.Subnets {
			users[id] = append(users[id], "node group "+name)
		}
	}
	profiles, err := x.profiles(ctx, d.Cluster)
	if err != nil {
		return err
	}
	for _, p := range profiles {
		for _, id := range p.Subnets {
			users[id] = append(users[id], "Fargate profile "+aws.ToString(p.FargateProfileName))
		}
	}
	found, err := x.cfg.EC2.DescribeSubnets(awsapi.WithCall(ctx, &awsapi.Call{Account: d.Account, Region: d.Region, Service: "ec2"}), &awsec2.DescribeSubnetsInput{
		Filters: filter("vpc-id", aws.ToString(c.Cluster.ResourcesVpcConfig.VpcId)),
	})
	if err != nil {
		return err
	}
	x.diagnoseMissing(d, users, found.Subnets)
	for _, sn := range found.Subnets {
		id := aws.ToString(sn.SubnetId)
		if len(users[id]) == 0 {
			continue
		}
		d.Checked++
		if free := aws.ToInt32(sn.AvailableIpAddressCount); free < fewAddresses && !aws.ToBool(sn.Ipv6Native) { // their IPv6 addresses do not run out
			harm, text := api.HarmWarning, fmt.Sprintf("%d addresses are free, for nodes, pods and whatever else is there", free)
			if users[id][0] == "the cluster" {
				text += fmt.Sprintf("; an update of the cluster needs %d", neededAddresses)
				if free < neededAddresses {
					harm = api.HarmError
				}
			}
			find(d, harm, "addresses", id, text, []string{aws.ToString(sn.CidrBlock) + ", used by " + strings.Join(users[id], ", ")},
				oneSketch("add a subnet with more addresses, in the same zone, and use it in place of this one"))
		}
		for _, g := range groups {
			if !slices.Contains(g.Subnets, id) {
				continue
			}
			if err := x.diagnoseNextNode(ctx, d, g, &sn, clusterGroup); err != nil {
				return err
			}
		}
		for _, p := range profiles {
			if !slices.Contains(p.Subnets, id) {
				continue
			}
			if err := x.diagnoseNextPod(ctx, d, p, id, clusterGroup); err != nil {
				return err
			}
		}
	}
	return nil
}

// diagnoseMissing looks for subnets in use that are not among those of the VPC.
func (x *Explainer) diagnoseMissing(d *api.Diagnosis, users map[string][]string, found []ec2types.Subnet) {
	unknown := x.unknown(d.Account, func(g recording.Gap) bool { return g.Operation == "DescribeSubnets" && g.Code != recording.NotModelled })
	for _, id := range slices.Sorted(maps.Keys(users)) {
		if slices.ContainsFunc(found, func(sn ec2types.Subnet) bool { return aws.ToString(sn.SubnetId) == id }) {
			continue
		}
		used := []string{"used by " + strings.Join(users[id], ", ")}
		switch {
		case len(unknown) > 0:
			find(d, api.HarmUnknown, "addresses", id, "how many addresses are free, and what the next node or pod would reach, is unknown: "+unknown[0], used, nil)
		case x.cfg.IsTwin != nil && x.cfg.IsTwin(d.Account):
			find(d, api.HarmUnknown, "addresses", id, "the subnet was not read: it was deleted, or another account shares it", used, nil)
		default:
			find(d, api.HarmError, "addresses", id, "the subnet does not exist", used, nil)
		}
	}
}

// diagnoseNextNode looks at what the next node of a node group would reach from a subnet.
func (x *Explainer) diagnoseNextNode(ctx context.Context, d *api.Diagnosis, g *ekstypes.Nodegroup, sn *ec2types.Subnet, clusterGroup string) error {
	next := nextMachine{check: "next-node", who: "the next node of node group " + aws.ToString(g.NodegroupName), subnet: aws.ToString(sn.SubnetId), public: aws.ToBool(sn.MapPublicIpOnLaunch)}
	var ok bool
	if next.groups, ok = x.nextGroups(d, g, clusterGroup); !ok {
		find(d, api.HarmUnknown, next.check, next.subnet, "what "+next.who+" reaches is unknown: its launch template names the security groups, and none of its nodes runs", nil, nil)
		return nil
	}
	hosts, err := x.hostsOfNode(ctx, d.Account, d.Region, []node.Step{{Cluster: d.Cluster}})
	if err != nil {
		return err
	}
	return x.diagnoseNext(ctx, d, &next, hosts)
}

// A nextMachine does not exist: it is the next one in a subnet, with security groups.
type nextMachine struct {
	check, who, subnet string
	groups             []string
	public             bool // has a public address
}

// diagnoseNext looks at whether a machine would reach hosts.
func (x *Explainer) diagnoseNext(ctx context.Context, d *api.Diagnosis, next *nextMachine, hosts []string) error {
	s, err := x.cfg.Network(ctx, d.Account, d.Region)
	if err != nil {
		return err
	}
	s, ok := withNextNode(s, next.subnet, next.groups, next.public)
	if !ok {
		return nil // the subnet has no address left, as another finding says
	}
	q := advice.Connection{Through: x.through(ctx, d.Account, d.Region)}
	for _, h := range hosts {
		q.Needs = append(q.Needs, need(nextInstance, h, 443))
	}
	d.Checked += len(hosts)
	blocked := map[string][]string{} // hosts, by the reason
	for _, n := range q.Needs {
		v := s.CheckName(n.Flow, n.Name)
		if unknown, _ := x.unknownReach(d.Account, n.Name, s, v); len(unknown) > 0 {
			find(d, api.HarmUnknown, next.check, next.subnet, "whether "+next.who+" reaches "+n.Name+" is unknown: "+unknown[0], nil, nil)
			continue
		}
		if !v.Reachable && len(v.Explanations) > 0 {
			blocked[v.Explanations[0].Text] = append(blocked[v.Explanations[0].Text], n.Name)
		}
	}
	if len(blocked) == 0 {
		return nil
	}
	fixes := slices.DeleteFunc(advice.Network(s, q).Fixes, func(f advice.Fix) bool {
		return strings.Contains(f.Shell(), nextInstance) || strings.Contains(f.Shell(), nextInterface)
	})
	var evidence []string
	for _, why := range slices.Sorted(maps.Keys(blocked)) {
		evidence = append(evidence, strings.ReplaceAll(strings.Join(blocked[why], ", ")+": "+why, nextAddress.String(), "its public address"))
	}
	find(d, api.HarmError, next.check, next.subnet, next.who+" cannot reach what it needs; running nodes and pods may not be affected", evidence, fixes)
	return nil
}

// nextGroups returns the security groups of the next node of a node group: those of its nodes, or those that EKS gives it. It
// returns false if its launch template decides, and it has no node.
// https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html#launch-template-security-groups
func (x *Explainer) nextGroups(d *api.Diagnosis, g *ekstypes.Nodegroup, clusterGroup string) ([]string, bool) {
	for _, m := range x.cfg.Machines.Instances(d.Account, d.Region) {
		if m.Tags["eks:cluster-name"] == d.Cluster && m.Tags["eks:nodegroup-name"] == aws.ToString(g.NodegroupName) && len(m.Interfaces) > 0 {
			return m.Interfaces[0].SecurityGroupIDs, true
		}
	}
	if g.LaunchTemplate != nil {
		return nil, false
	}
	groups := []string{clusterGroup}
	if r := g.Resources; r != nil && r.RemoteAccessSecurityGroup != nil {
		groups = append(groups, *r.RemoteAccessSecurityGroup)
	}
	return groups, true
}

// withNextNode returns the network with a node more in a subnet, or false if there is no such subnet or no room in it.
func withNextNode(s *reach.Snapshot, subnet string, groups []string, public bool) (*reach.Snapshot, bool) {
	sn, ok := s.Get(subnet).(*reach.Subnet)
	if !ok {
		return nil, false
	}
	e := &reach.Interface{ID: nextInterface, VPC: sn.VPC, Subnet: sn.ID, Zone: sn.Zone, Type: "interface", Instance: nextInstance, Attached: true, Primary: true, Groups: groups}
	for _, block := range sn.CIDRs {
		if !block.Addr().Is4() {
			continue
		}
		a := block.Masked().Addr()
		for range 4 { // AWS keeps the first four
			a = a.Next()
		}
		for ; block.Contains(a.Next()); a = a.Next() { // and the last
			if s.InterfaceAt(sn.VPC, a) == nil {
				e.Addresses = []reach.Address{{Private: a}}
				break
			}
		}
	}
	if len(e.Addresses) == 0 {
		return nil, false
	}
	if public {
		e.Addresses[0].Public = nextAddress
	}
	draft := s.Edit()
	draft.Put(&reach.Instance{ID: nextInstance, State: "running"})
	draft.Put(e)
	return draft.Snapshot(), true
}
