package why

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// unreadInstances reports whether a gap means that instances may exist of which a twin knows nothing.
func unreadInstances(g recording.Gap) bool { return g.Operation == "DescribeInstances" }

// notForPods are the services whose answers only show what happened, or on which neither nodes nor pods depend. Policies of an
// organization may deny anything, but members can seldom read them: only a question about a request depends on them.
var notForPods = []string{"autoscaling", "ssm", "servicequotas", "kms", recording.ELB, recording.ELBv2, recording.Organizations}

// unknownNode returns what a node's steps depend on and the source did not return. No step depends on a masked value in an object
// of Kubernetes. What only decides about later steps than
// the one that fails does not matter.
func (x *Explainer) unknownNode(e *api.NodeExplanation) []string {
	order := node.Steps()
	at := len(order)
	if failed := e.FirstFailed(); failed != nil && !e.Ready {
		at = slices.Index(order, failed.Name)
	}
	admitted := at >= slices.Index(order, node.StepIdentity) // whether it gets as far as the cluster's own decisions
	return x.unknown(e.Account, func(g recording.Gap) bool {
		switch {
		case g.Service == recording.Kubernetes:
			return g.Code != recording.Redacted && admitted && g.Cluster == e.Cluster && decidesNodes(g)
		case g.Service == "route53" && g.Code == recording.NotModelled:
			return blamesNetwork(e, g.Subject)
		case g.Service == "route53":
			return x.zonesDecide(g, e.Account, x.vpcOf(e.Instance), hostsOfEKS(e.Region))
		case g.Service == "eks":
			switch g.Operation {
			case "ListClusters", "DescribeCluster":
				return e.Cluster == "" || g.Cluster == "" || g.Cluster == e.Cluster
			case "ListAccessEntries", "DescribeAccessEntry", // verdicts count the others, too
				"ListPodIdentityAssociations", "DescribePodIdentityAssociation": // of aws-node
				return admitted && g.Cluster == e.Cluster
			}
			return false
		case slices.Contains(notForPods, g.Service) || g.Service == "ecr" || g.Operation == "GetConsoleOutput":
			return false // they only show what happened, or are not needed to join
		case g.Subject == e.Instance || e.Role != "" && g.Subject == e.Role:
			return true
		case blocksPublicAccess(g):
			return x.leavesThrough(e, g.Subject)
		case g.Service == "ec2" && (g.Subject != "" || strings.Contains(g.Operation, "TransitGateway")):
			return blamesNetwork(e, g.Subject)
		case g.Subject != "":
			return false
		case g.Service == "iam" && e.Role == "": // it has none, or does not run yet; those of instances are always kept
			return g.Code != recording.NotAsked
		case g.Service == "iam":
			return !x.readAlone(e.Role)
		case g.Service == "ec2":
			return !slices.Contains(notForNodes, g.Operation)
		}
		return true
	})
}

// notForNodes are reads of EC2 on which no verdict about a node or a pod depends.
var notForNodes = []string{"DescribeSecurityGroupRules", "DescribeVolumes", "DescribeLaunchTemplates", "DescribeLaunchTemplateVersions", "GetConsoleOutput"}

// blamesNetwork reports whether a node fails because of the network, and the reason names a resource, if one is given.
func blamesNetwork(e *api.NodeExplanation, resource string) bool {
	return !e.Ready && blames(e.FirstFailed(), resource)
}

// blames reports whether a step fails because of the network, and the reason names a resource, if one is given.
func blames(failed *api.Step, resource string) bool {
	return failed != nil && failed.Reason != nil && failed.Reason.By == node.ByNetwork && strings.Contains(failed.Reason.Component+" "+failed.Reason.Text, resource)
}

// leavesThrough reports whether a node reaches what a node needs through an internet gateway and a subnet: its own, or that of a
// NAT gateway or another appliance on the way.
func (x *Explainer) leavesThrough(e *api.NodeExplanation, subnet string) bool {
	ctx := awsapi.WithCall(context.Background(), &awsapi.Call{Account: e.Account, Region: e.Region, Service: "eks"})
	s, networkErr := x.cfg.Network(ctx, e.Account, e.Region)
	hosts, err := x.hostsOfNode(ctx, e.Account, e.Region, []node.Step{{Cluster: e.Cluster}})
	if networkErr != nil || err != nil {
		return true
	}
	return slices.ContainsFunc(hosts, func(h string) bool {
		text, err := json.Marshal(s.CheckName(need(e.Instance, h, 443).Flow, h))
		return err != nil || strings.Contains(string(text), "igw-") && strings.Contains(string(text), subnet)
	})
}

// decidesNodes reports whether a node's way depends on the Kubernetes objects that a gap is about.
func decidesNodes(g recording.Gap) bool {
	kind, _, _ := strings.Cut(g.Resource, ".")
	if namespace, _, ok := strings.Cut(g.Subject, "/"); ok && namespace != "kube-system" {
		return false
	}
	return kind == "" || slices.Contains([]string{"nodes", "configmaps", "daemonsets", "pods", "serviceaccounts", "clusterroles", "clusterrolebindings", "roles", "rolebindings"}, kind)
}

// ofTwin completes the explanation of a node of a twin.
func (x *Explainer) ofTwin(e *api.NodeExplanation) {
	e.Unknown = append(x.unknownNode(e), x.unknownHosts(e)...)
	x.observe(e)
}

var (
	// userDataHost matches the hosts that user data asks.
	userDataHost = regexp.MustCompile(`https?://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(:\d+)?`)
	// userDataValue matches what user data reads of AWS and the import does not copy.
	userDataValue = regexp.MustCompile(`s3://[A-Za-z0-9._/-]+|\bssm get-parameters?(-by-path)?\b|\bsecretsmanager get-secret-value\b`)
	// twinHost matches the hosts of AWS that answer in a twin as they do at its source.
	twinHost = regexp.MustCompile(`^(.+\.)?(ec2|eks|eks-auth|sts|iam|kms|autoscaling|elasticloadbalancing|ecr)(\.[a-z0-9-]+)*\.(amazonaws\.com|api\.aws)$`)
	// localHosts are those of the instance itself.
	localHosts = []string{"169.254.169.254", "[fd00:ec2::254]", "localhost", "127.0.0.1"}
)

// unknownHosts returns the hosts outside of the twin that a node's user data asks, and the values that it reads and the twin lacks,
// if the node fails because of its user data: what they answer is unknown.
func (x *Explainer) unknownHosts(e *api.NodeExplanation) []string {
	failed := e.FirstFailed()
	if x.cfg.IsTwin == nil || !x.cfg.IsTwin(e.Account) || e.Ready || failed == nil || !slices.Contains([]string{node.StepScript, node.StepBootstrap}, failed.Name) {
		return nil
	}
	m, err := x.cfg.Machines.Instance(e.Instance)
	if err != nil {
		return nil
	}
	var out []string
	text := string(unzipped(m.UserData))
	for _, found := range userDataHost.FindAllStringSubmatch(text, -1) {
		host := found[1]
		_, _, ours := x.cfg.PlaneAt(host + found[2])
		asks := "user data asks " + host + ", which is outside of the twin"
		if !ours && !slices.Contains(localHosts, strings.ToLower(host)) && !twinHost.MatchString(host) && !slices.Contains(out, asks) {
			out = append(out, asks)
		}
	}
	for _, value := range userDataValue.FindAllString(text, -1) {
		if reads := "user data reads " + value + ", which the import does not copy"; !slices.Contains(out, reads) {
			out = append(out, reads)
		}
	}
	return out
}

// observe adds to the explanation of a twin's node what AWS showed of it, and says whether that differs.
func (x *Explainer) observe(e *api.NodeExplanation) {
	if x.cfg.Observed == nil {
		return
	}
	o, ok := x.cfg.Observed(e.Account, e.Instance)
	if !ok {
		return
	}
	e.Observed = append(e.Observed, "EC2: "+strings.TrimSuffix(o.State+" ("+o.Reason+")", " ()"))
	switch {
	case o.Node != nil:
		e.Observed = append(e.Observed, strings.TrimRight("Kubernetes: node "+o.Node.Name+" has Ready="+o.Node.Ready+" "+o.Node.Reason+" "+o.Node.Message, " "))
	case o.NodesRead:
		e.Observed = append(e.Observed, "Kubernetes: no node")
	}
	for _, a := range o.Activities {
		e.Observed = append(e.Observed, "Auto Scaling: "+a)
	}
	if o.Agent != "" {
		e.Observed = append(e.Observed, "Systems Manager: agent "+o.Agent)
	}
	if lines := strings.Split(strings.TrimSpace(o.Console), "\n"); !e.Ready && lines[0] != "" {
		e.Observed = append(e.Observed, "console: "+strings.Join(lines[max(0, len(lines)-3):], "\n         "))
	}
	if !o.NodesRead || o.State != "running" || len(e.Unknown) > 0 {
		return
	}
	was := o.Node != nil && o.Node.Ready == "True"
	switch failed := e.FirstFailed(); {
	case e.Ready && !was:
		e.Disagreement = "Drydock predicts that the node is Ready, and it was not: " + x.changedSince(e.Account) + "something that Drydock does not know keeps it out"
	case failed != nil && !e.Ready && was:
		e.Disagreement = "Drydock predicts that the node fails at " + failed.Name + ", and it was Ready: " + x.changedSince(e.Account) + "it would not join again, or Drydock is wrong"
	}
}

// changedSince begins the reasons of a disagreement in a twin in which something was changed.
func (x *Explainer) changedSince(account string) string {
	if x.cfg.Changed != nil && x.cfg.Changed(account) {
		return "either because of a change in the twin, or because "
	}
	return ""
}
