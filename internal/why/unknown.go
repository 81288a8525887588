package why

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/catalog/addons"
	"github.com/drydock-dev/drydock/internal/elbnet"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/reach"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// What the source of a twin did not tell makes verdicts unknown. The functions below return the reasons, and none if
// the verdict holds whatever the missing answers are.

// unknown returns what is missing of a twin, as far as it is relevant.
func (x *Explainer) unknown(account string, relevant func(recording.Gap) bool) []string {
	if x.cfg.Gaps == nil {
		return nil
	}
	var out []string
	for _, g := range x.cfg.Gaps(account) {
		if g.Code == recording.NotCopied {
			continue // what is known of it does not matter to anything else
		}
		if text := g.String(); relevant(g) && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out
}

// unreadInstances reports whether a gap means that instances may exist of which a twin knows nothing.
func unreadInstances(g recording.Gap) bool { return g.Operation == "DescribeInstances" }

// An unknownError says that a question cannot be answered because the source of a twin did not tell something.
type unknownError struct {
	what    string
	reasons []string
}

func (e *unknownError) Error() string {
	return e.what + " is unknown: " + strings.Join(e.reasons, "; ")
}

// refuse answers a request with an error: with status, or with StatusUnknown if it is an unknownError.
func refuse(w http.ResponseWriter, err error, status int) {
	if _, ok := errors.AsType[*unknownError](err); ok {
		status = api.StatusUnknown
	}
	http.Error(w, err.Error(), status)
}

// filters are the operations that only tell what may pass at an interface or at the border of a subnet. What another
// filter blocks stays blocked, whatever these would have answered.
var filters = map[string][]string{
	"DescribeSecurityGroups": {reach.CodeGroupMismatch, reach.CodeGroupNoRules, reach.CodeGroupReferences},
	"DescribeNetworkAcls":    {reach.CodeACL},
}

// notTheNetwork are the operations of EC2 that tell nothing about reachability. The rules of security groups are also
// in the answer to DescribeSecurityGroups.
var notTheNetwork = []string{"DescribeSecurityGroupRules", "DescribeInstanceAttribute", "DescribeVolumes", "DescribeImages", "DescribeLaunchTemplates", "DescribeLaunchTemplateVersions", "GetConsoleOutput"}

// unknownReach returns what a verdict about a connection depends on and the source did not tell. name is the
// destination, if it is a host name. If the connection is certainly blocked, but perhaps by more than v says, it removes
// the explanations that are not certain and returns what is missing as also.
func (x *Explainer) unknownReach(account, name string, s *reach.Snapshot, v *reach.Verdict) (out, also []string) {
	known := x.knownBlocks(account, v)
	text, err := json.Marshal(v)
	if err != nil {
		return []string{err.Error()}, nil
	}
	code := ""
	if len(v.Explanations) > 0 {
		code = v.Explanations[0].Code
	}
	out = x.unknown(account, func(g recording.Gap) bool {
		switch {
		case g.Service == "route53":
			return name != "" && namesDepend(g, name, string(text), s.InterfaceOf(v.Flow.From))
		case g.Service != "ec2" || slices.Contains(notTheNetwork, g.Operation):
			return false
		case g.Operation == "DescribeVpcAttribute":
			return name != ""
		case g.Code == recording.NotModelled && g.Operation == "DescribeRouteTables":
			// Only if the path ends at the route that cannot be followed.
			return strings.Contains(string(text), g.Subject) && (code == reach.CodeBadStateRoute || code == reach.CodeUnsupported || code == reach.CodeNoDestination)
		case g.Code == recording.NotModelled && g.Operation == "SearchTransitGatewayRoutes":
			return strings.Contains(string(text), g.Subject) && (code == reach.CodeTransitBadRoute || code == reach.CodeTransitNoRoute)
		case g.Code == recording.NotModelled && g.Operation == "DescribeTransitGateways": // references to groups
			return strings.Contains(string(text), g.Subject) && slices.Contains(filters["DescribeSecurityGroups"], code)
		case blocksPublicAccess(g):
			return strings.Contains(string(text), "igw-") && (isIn(s.InterfaceOf(v.Flow.From), g.Subject) || isIn(s.InterfaceOf(v.Flow.To), g.Subject) || strings.Contains(string(text), g.Subject))
		case g.Subject != "":
			return strings.Contains(string(text), g.Subject)
		case strings.Contains(g.Operation, "TransitGateway"):
			from, to := s.InterfaceOf(v.Flow.From), s.InterfaceOf(v.Flow.To)
			return strings.Contains(string(text), "tgw-") || from != nil && to != nil && from.VPC != to.VPC
		}
		if _, filter := filters[g.Operation]; filter && len(known) > 0 {
			also = append(also, g.String())
			return false
		}
		return true
	})
	out = append(out, x.unknownBalancer(account, name, s, v, string(text))...)
	if len(out) == 0 && len(also) > 0 {
		v.Explanations = known
	}
	if x.cfg.Gaps != nil && x.cfg.IsTwin(account) && code == reach.CodeName && !strings.Contains(string(text), "private hosted zone") {
		out = append(out, "public zones are not imported, so "+name+" may exist")
	}
	return out, also
}

// blocksPublicAccess reports whether a gap is about a subnet with VPC Block Public Access, whose internet gateway lets less pass
// than its routes say.
func blocksPublicAccess(g recording.Gap) bool {
	return g.Code == recording.NotModelled && g.Operation == "DescribeSubnets"
}

// isIn reports whether an interface, if there is one, is in a subnet.
func isIn(e *reach.Interface, subnet string) bool { return e != nil && e.Subnet == subnet }

// namesDepend reports whether what a name resolves to depends on a gap of Route 53. text is the verdict, and from the interface
// that asks, or nil.
func namesDepend(g recording.Gap, name, text string, from *reach.Interface) bool {
	switch {
	case g.Operation == "ListHostedZonesByVPC" && g.Code == recording.NotModelled: // another owner's zone
		return strings.Contains(text, g.Message)
	case g.Operation == "ListHostedZonesByVPC":
		return from != nil && from.VPC == g.Subject
	case g.Subject == "": // a private zone may have any name
		return true
	}
	return within(name, strings.TrimSuffix(strings.TrimPrefix(g.Subject, "*."), "."))
}

// balancing are the operations that tell where a load balancer sends a connection.
var balancing = []string{"DescribeListeners", "DescribeRules", "DescribeTargetGroups", "DescribeTargetHealth"}

// unknownBalancer returns what the source did not tell of the load balancer that a connection goes to. text is the verdict as
// JSON.
func (x *Explainer) unknownBalancer(account, name string, s *reach.Snapshot, v *reach.Verdict, text string) []string {
	to := s.InterfaceOf(v.Flow.To)
	named := reach.IsBalancerName(name)
	known := strings.Contains(text, `"loadBalancer":`) || to != nil && s.LoadBalancerOf(to.ID) != nil
	if !known && !named && (to == nil || to.Requester != elbnet.Requester) {
		return nil
	}
	reached := strings.Contains(text, `"kind":"`+reach.KindLoadBalancer+`"`)
	out := x.unknown(account, func(g recording.Gap) bool {
		return (g.Service == recording.ELB || g.Service == recording.ELBv2) && (!known && g.Operation == "DescribeLoadBalancers" || reached && slices.Contains(balancing, g.Operation))
	})
	if len(out) == 0 && !known && named && x.cfg.Gaps != nil && x.cfg.IsTwin(account) {
		out = append(out, name+" is not the name of a load balancer of the account in this region, so its addresses are unknown")
	}
	return out
}

// knownBlocks returns the explanations of filters that the source did tell.
func (x *Explainer) knownBlocks(account string, v *reach.Verdict) []reach.Explanation {
	if x.cfg.Gaps == nil || v.Reachable {
		return nil
	}
	all := x.cfg.Gaps(account)
	var out []reach.Explanation
	for _, e := range v.Explanations {
		for operation, codes := range filters {
			if slices.Contains(codes, e.Code) && !slices.ContainsFunc(all, func(g recording.Gap) bool { return g.Operation == operation }) {
				out = append(out, e)
			}
		}
	}
	return out
}

// unknownPolicies returns what is missing of the policies of principals, given by their ARNs.
func (x *Explainer) unknownPolicies(account string, principals ...string) []string {
	return x.unknown(account, func(g recording.Gap) bool {
		switch {
		case g.Service != "iam" || g.Operation == "GetOpenIDConnectProvider" || g.Operation == "ListOpenIDConnectProviders":
			return false
		case g.Subject != "":
			return slices.Contains(principals, g.Subject)
		}
		return len(principals) == 0 || slices.ContainsFunc(principals, func(p string) bool { return !x.readAlone(p) })
	})
}

// readAlone reports whether a role was read although not all entities of IAM were: then it was read by itself.
func (x *Explainer) readAlone(roleARN string) bool {
	_, err := x.cfg.IAM.RoleByARN(context.Background(), roleARN)
	return err == nil
}

// unknownRequest returns what a decision about a request depends on and the source did not tell. An explicit deny
// holds, whatever other policies say.
func (x *Explainer) unknownRequest(account, service, principal string, d policy.Decision) []string {
	if d.ExplicitDeny {
		return nil
	}
	return append(x.unknownPolicies(account, principal), x.unknown(account, func(g recording.Gap) bool {
		return g.Service == service && (service == "kms" || service == "ecr") || // whose resources have policies
			g.Service == recording.Organizations && d.Allowed
	})...)
}

// notForPods are the services whose answers only show what happened, or on which neither nodes nor pods depend. Policies of an
// organization may deny anything, but members can seldom read them: only a question about a request depends on them.
var notForPods = []string{"autoscaling", "ssm", "servicequotas", "kms", recording.ELB, recording.ELBv2, recording.Organizations}

// unknownNode returns what a node's steps depend on and the source did not tell. No step depends on a masked value in an object
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

// decidingPods are the kinds of objects that decide about every pod. The others in podNeeds decide only about a pod that fails
// for lack of one: by a part of their names in its messages.
var (
	decidingPods = []string{"pods", "namespaces", "serviceaccounts", "limitranges", "resourcequotas", "priorityclasses", "runtimeclasses"}
	podNeeds     = map[string]string{
		"secrets": "secret", "configmaps": "configmap", "persistentvolumeclaims": "persistentvolume", "persistentvolumes": "persistentvolume", "storageclasses": "storageclass",
		"csidrivers": "csi", "csinodes": "csi", "deviceclasses": "deviceclass", "resourceclaims": "resourceclaim",
	}
)

// decidesPods reports whether a pod's way to the step that fails, if one does, depends on the Kubernetes objects that a gap is about.
func decidesPods(g recording.Gap, failed *api.Step, object string) bool {
	kind, _, _ := strings.Cut(g.Resource, ".")
	switch {
	case g.Subject != "" && g.Subject == object, g.Subject == "" && kind == "":
		return true
	case failed != nil && (failed.Name == podScheduling || failed.Name == podNode) && decidesNodes(g):
		return true // whose nodes are missing, or not ready
	case failed != nil && podNeeds[kind] != "":
		said := failed.Evidence
		if failed.Reason != nil {
			said += " " + failed.Reason.Component + " " + failed.Reason.Text
		}
		return strings.Contains(strings.ReplaceAll(strings.ToLower(said), " ", ""), podNeeds[kind])
	}
	namespace, _, _ := strings.Cut(object, "/")
	of := g.Subject == "" || kind != "pods" && strings.HasPrefix(g.Subject, namespace+"/") || kind == "namespaces" && g.Subject == namespace
	return of && slices.Contains(decidingPods, kind)
}

// eksDecidesPods reports whether a pod's way to the step that fails, if one does, depends on an operation of EKS.
func eksDecidesPods(g recording.Gap, e *api.PodExplanation, failed *api.Step) bool {
	at := ""
	if failed != nil {
		at = failed.Name
	}
	switch g.Operation {
	case "ListIdentityProviderConfigs", "DescribeIdentityProviderConfig": // of users
		return false
	case "ListFargateProfiles", "DescribeFargateProfile":
		return e.Node == ""
	case "ListNodegroups", "DescribeNodegroup", "ListAccessEntries", "DescribeAccessEntry", "ListAssociatedAccessPolicies":
		return at == podScheduling || at == podNode
	case "ListAddons", "DescribeAddon":
		return at == podNode || at == podAddress || at == podIdentity
	case "ListPodIdentityAssociations", "DescribePodIdentityAssociation":
		return !slices.Contains([]string{podAdmission, podScheduling, podImage, podConfiguration}, at)
	}
	return true // ListClusters, DescribeCluster
}

// unknownMaker returns what the source did not tell of pods and of the controllers that make them, so that a pod that is not in
// the twin may exist.
func (x *Explainer) unknownMaker(e *api.PodExplanation) []string {
	return append(x.notCopied(e), x.unknown(e.Account, func(g recording.Gap) bool {
		kind, _, _ := strings.Cut(g.Resource, ".")
		return g.Service == recording.Kubernetes && g.Code != recording.Redacted && g.Cluster == e.Cluster && (g.Subject == "" || g.Subject == e.Namespace+"/"+e.Pod) &&
			(kind == "" || slices.Contains([]string{"pods", "namespaces", "deployments", "replicasets", "statefulsets", "daemonsets", "jobs", "cronjobs", "replicationcontrollers"}, kind))
	})...)
}

// notCopied says if a pod was read, but is not in the twin.
func (x *Explainer) notCopied(e *api.PodExplanation) []string {
	if x.cfg.Gaps == nil {
		return nil
	}
	for _, g := range x.cfg.Gaps(e.Account) {
		if g.Code == recording.NotCopied && g.Cluster == e.Cluster && (g.Subject == "" || g.Subject == e.Namespace+"/"+e.Pod) {
			return []string{g.Message}
		}
	}
	return nil
}

// unknownPod returns what a pod's steps depend on and the source did not tell. pod is nil if none was created.
func (x *Explainer) unknownPod(e *api.PodExplanation, pod *corev1.Pod) []string {
	failed := e.FirstFailed()
	out := x.unknown(e.Account, func(g recording.Gap) bool {
		switch g.Service {
		case recording.Kubernetes:
			return g.Code != recording.Redacted && g.Cluster == e.Cluster && decidesPods(g, failed, e.Namespace+"/"+e.Pod)
		case "eks":
			return (g.Cluster == "" || g.Cluster == e.Cluster) && eksDecidesPods(g, e, failed)
		case "ecr":
			return imageFails(e)
		case "route53":
			if g.Code == recording.NotModelled {
				return blames(failed, g.Subject)
			}
			return (failed == nil || failed.Name != podAdmission && failed.Name != podConfiguration) && x.zonesDecide(g, e.Account, "", append(hostsOfEKS(e.Region), registriesOf(pod)...))
		}
		if slices.Contains(notForPods, g.Service) {
			return false
		}
		// What no cluster or instance uses was not asked for, and is not used by pods either.
		return g.Subject == "" && g.Code != recording.NotAsked && !slices.Contains(notForNodes, g.Operation)
	})
	if imageFails(e) && x.cfg.IsTwin != nil && x.cfg.IsTwin(e.Account) && failed.Reason != nil && strings.Contains(failed.Reason.Code, "NotFound") {
		out = append(out, "images of ECR are not imported, so the image may exist")
	}
	return out
}

// hostsOfEKS are the hosts whose addresses decide about nodes and pods, but for the endpoint of the cluster.
func hostsOfEKS(region string) []string {
	at := "." + region + ".amazonaws.com"
	return []string{"ec2" + at, "eks" + at, "eks-auth." + region + ".api.aws", "sts" + at, "api.ecr" + at, addons.Registry(region), "prod-" + region + "-starport-layer-bucket.s3" + at}
}

// registriesOf are the hosts of the registries of a pod's images.
func registriesOf(pod *corev1.Pod) []string {
	var out []string
	if pod == nil {
		return nil
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		host, _, named := strings.Cut(c.Image, "/")
		if !named || !strings.ContainsAny(host, ".:") {
			host = "registry-1.docker.io"
		}
		host, _, _ = strings.Cut(host, ":")
		out = append(out, host)
	}
	return out
}

// vpcOf returns the VPC of an instance, or "" if it is not known.
func (x *Explainer) vpcOf(instance string) string {
	if m, err := x.cfg.Machines.Instance(instance); err == nil {
		return m.VPCID
	}
	return ""
}

// zonesDecide reports whether a refused read of Route 53 decides what some names, or the endpoint of a cluster, resolve to in a VPC,
// or in any if it is not known. Which zones answer in a VPC, whoever owns them, is also in the answer to
// ListHostedZonesByVPC.
func (x *Explainer) zonesDecide(g recording.Gap, account, vpc string, names []string) bool {
	switch {
	case g.Operation == "ListHostedZonesByVPC":
		return vpc == "" || g.Subject == vpc
	case g.Subject == "":
		return slices.ContainsFunc(x.cfg.Gaps(account), func(o recording.Gap) bool {
			return o.Operation == "ListHostedZonesByVPC" && o.Code != recording.NotModelled && (vpc == "" || o.Subject == vpc)
		})
	}
	zone := strings.TrimSuffix(strings.TrimPrefix(g.Subject, "*."), ".")
	return zone == "amazonaws.com" || zone == "com" || strings.HasSuffix(zone, "eks.amazonaws.com") || slices.ContainsFunc(names, func(n string) bool { return within(n, zone) })
}

// within reports whether a name is in a zone.
func within(name, zone string) bool {
	name = strings.TrimSuffix(name, ".")
	return name == zone || strings.HasSuffix(name, "."+zone)
}

func imageFails(e *api.PodExplanation) bool {
	f := e.FirstFailed()
	return f != nil && f.Name == node.StepPodImage
}

// unknownServiceAccount returns what the chain from a service account to its roles depends on and the source did not tell.
func (x *Explainer) unknownServiceAccount(e *api.ServiceAccountExplanation, sa *eks.ServiceAccountIdentity) []string {
	roles := []string{sa.RoleARN}
	if sa.Association != nil {
		roles = []string{sa.Association.RoleARN, sa.Association.TargetRoleARN}
	}
	roles = slices.DeleteFunc(roles, func(r string) bool { return r == "" })
	return x.unknown(e.Account, func(g recording.Gap) bool {
		switch g.Service {
		case "iam":
			switch {
			case g.Operation == "GetOpenIDConnectProvider" || g.Operation == "ListOpenIDConnectProviders":
				return true
			case g.Subject != "":
				return slices.Contains(roles, g.Subject)
			}
			return slices.ContainsFunc(roles, func(r string) bool { return !x.readAlone(r) })
		case "eks":
			return g.Cluster == "" || g.Cluster == e.Cluster && g.Operation != "DescribeNodegroup" && g.Operation != "ListNodegroups"
		case recording.Kubernetes:
			return g.Code != recording.Redacted && g.Cluster == e.Cluster && (g.Resource == "" || g.Resource == "serviceaccounts" && (g.Subject == "" || g.Subject == e.Namespace+"/"+e.ServiceAccount))
		}
		return false
	})
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
	for _, found := range userDataHost.FindAllStringSubmatch(string(m.UserData), -1) {
		host := found[1]
		_, _, ours := x.cfg.PlaneAt(host + found[2])
		text := "user data asks " + host + ", which is outside of the twin"
		if !ours && !slices.Contains(localHosts, strings.ToLower(host)) && !twinHost.MatchString(host) && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	for _, value := range userDataValue.FindAllString(string(m.UserData), -1) {
		if text := "user data reads " + value + ", which the import does not copy"; !slices.Contains(out, text) {
			out = append(out, text)
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
		e.Disagreement = "Drydock predicts that the node is Ready, and it was not: something that Drydock does not know keeps it out"
	case failed != nil && !e.Ready && was:
		e.Disagreement = "Drydock predicts that the node fails at " + failed.Name + ", and it was Ready: either it would not join again, or Drydock is wrong"
	}
}

// unknownProfile returns what the launches of a Fargate profile with a role depend on and the source did not tell.
func (x *Explainer) unknownProfile(d *api.Diagnosis, role string) []string {
	return append(x.unknownPolicies(d.Account, role), x.unknown(d.Account, func(g recording.Gap) bool {
		switch {
		case g.Cluster != d.Cluster || g.Code == recording.Redacted:
			return false
		case g.Service == recording.Kubernetes: // aws-auth
			return g.Subject == "" && (g.Resource == "" || g.Resource == "configmaps") || g.Subject == "kube-system/aws-auth"
		}
		return g.Operation == "ListAccessEntries" || g.Operation == "DescribeAccessEntry" && g.Subject == d.Cluster+"/"+role
	})...)
}

// What the rehearsal of an upgrade looks at: controllers create evicted pods again, the placing kinds decide whether a pod can be
// created and scheduled, and the others are only looked at.
var (
	controllers = []string{"deployments", "replicasets", "statefulsets", "replicationcontrollers", "jobs", "daemonsets"}
	placing     = []string{
		"nodes", "pods", "namespaces", "serviceaccounts", "limitranges", "resourcequotas", "priorityclasses", "runtimeclasses", "poddisruptionbudgets",
		"persistentvolumeclaims", "persistentvolumes", "storageclasses", "csinodes", "csidrivers", "resourceclaims", "resourceclaimtemplates", "resourceslices", "deviceclasses",
	}
	upgraded = []string{"services", "configmaps", "clusterroles", "clusterrolebindings", "roles", "rolebindings", "validatingwebhookconfigurations", "mutatingwebhookconfigurations", "customresourcedefinitions"}
)

// UnknownOfUpgrade returns what the source of a twin did not tell and the rehearsal of a cluster's upgrade looks at.
func (x *Explainer) UnknownOfUpgrade(account, cluster string) []string {
	return x.unknown(account, func(g recording.Gap) bool {
		if g.Cluster != cluster || g.Code == recording.Redacted {
			return false
		}
		if g.Service == "eks" {
			return slices.Contains([]string{"ListNodegroups", "DescribeNodegroup", "ListAddons", "DescribeAddon"}, g.Operation)
		}
		kind, _, _ := strings.Cut(g.Resource, ".")
		return kind == "" || slices.Contains(slices.Concat(controllers, placing, upgraded), kind)
	})
}

// UnknownMoves returns why it is unknown where pods of a twin's cluster go that are evicted, or "" if it is known.
func (x *Explainer) UnknownMoves(account, cluster string) string {
	reasons := x.unknown(account, func(g recording.Gap) bool {
		kind, _, _ := strings.Cut(g.Resource, ".")
		return g.Service == recording.Kubernetes && g.Cluster == cluster && g.Code != recording.Redacted &&
			(kind == "" || slices.Contains(controllers, kind) || g.Subject == "" && slices.Contains(placing, kind))
	})
	return strings.Join(reasons[:min(1, len(reasons))], "")
}
