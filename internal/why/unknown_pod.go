package why

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

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
	if slices.Contains(onlyShown, g.Operation) {
		return false
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

// unknownMaker returns what the source did not return of pods and of the controllers that make them, so that a pod that is not in
// the twin may exist.
func (x *Explainer) unknownMaker(e *api.PodExplanation) []string {
	out := append(x.notCopied(e), x.lostNodes(e.Account, e.Region, e.Cluster)()...) // Kubernetes deletes the pods of lost nodes
	return append(out, x.unknown(e.Account, func(g recording.Gap) bool {
		if unreadInstances(g) {
			return true
		}
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

// unknownPod returns what a pod's steps depend on and the source did not return. pod is nil if none was created. lost are the unknowns
// of the cluster's nodes, as lostNodes returns them.
func (x *Explainer) unknownPod(e *api.PodExplanation, pod *corev1.Pod, lost func() []string) []string {
	failed := e.FirstFailed()
	if failed != nil && (failed.Name == podScheduling || failed.Name == podNode) {
		if out := lost(); len(out) > 0 {
			return out
		}
	}
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

// lostNodes returns what the source of a twin did not return of nodes that are not ready in the twin only for that reason, so that no pod
// can be scheduled to them. It looks only once, and only if it is called.
func (x *Explainer) lostNodes(account, region, cluster string) func() []string {
	return sync.OnceValue(func() []string {
		if x.cfg.IsTwin == nil || !x.cfg.IsTwin(account) {
			return nil
		}
		var out []string
		known := answers{}
		for _, m := range x.cfg.Machines.Instances(account, region) {
			info, _ := x.cfg.Machines.Info(m.ID)
			if of := cmp.Or(m.Tags["eks:cluster-name"], info.Cluster); of != "" && of != cluster {
				continue
			}
			if o, ok := x.cfg.Observed(account, m.ID); ok && o.NodesRead && (o.Node == nil || o.Node.Ready != "True") {
				continue // it took no pods at the source either
			}
			e, err := x.explainNode(account, region, m.ID, known)
			if err != nil || e.Ready {
				continue
			}
			for _, u := range append(x.unknownNode(&e), x.unknownHosts(&e)...) {
				if !slices.Contains(out, u) {
					out = append(out, u)
				}
			}
		}
		return out
	})
}

func imageFails(e *api.PodExplanation) bool {
	f := e.FirstFailed()
	return f != nil && f.Name == node.StepPodImage
}

// unknownServiceAccount returns what the chain from a service account to its roles depends on and the source did not return.
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
			return g.Cluster == "" || g.Cluster == e.Cluster && g.Operation != "DescribeNodegroup" && g.Operation != "ListNodegroups" && !slices.Contains(onlyShown, g.Operation)
		case recording.Kubernetes:
			return g.Code != recording.Redacted && g.Cluster == e.Cluster && (g.Resource == "" || g.Resource == "serviceaccounts" && (g.Subject == "" || g.Subject == e.Namespace+"/"+e.ServiceAccount))
		}
		return false
	})
}

// unknownProfile returns what the launches of a Fargate profile with a role depend on and the source did not return.
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
