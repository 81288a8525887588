package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/internal/catalog/addons"
	"github.com/drydock-dev/drydock/internal/catalog/eksversions"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/eks/autonodes"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// evidenceWait is how long a request waits for the control plane's answers, and rollbackWait how long for those that only
// insights about a rollback need: they come from many lists, of up to 10,000 objects each.
const evidenceWait, rollbackWait = 5 * time.Second, 20 * time.Second

// evidence is the current state of a cluster, as far as its insights depend on it.
type evidence struct {
	cluster record.Cluster
	now     time.Time
	nodes   []*corev1.Node
	// proxy is the minor version of kube-proxy, or 0 if the cluster has none.
	proxy  int
	addons []record.Addon
	issues []ekstypes.ClusterIssue
	uses   []plane.APIUse // of deprecated APIs
	// forRollback is what insights about a rollback need, or nil if it was not gathered.
	forRollback *rollbackEvidence
	// source are the insights of the cluster that this one is a copy of, if they were read.
	source *record.SourceInsights
	// unknown says why the control plane did not answer, or is empty.
	unknown string
}

func (s *Service) gather(ctx context.Context, key store.Key, rec record.Cluster) (*evidence, error) {
	ev := &evidence{cluster: rec, now: s.Now()}
	for _, a := range record.Addons.All(s.Store, key.AllBelow()) {
		ev.addons = append(ev.addons, a.Value)
	}
	if h := rec.Cluster.Health; h != nil {
		ev.issues = slices.Clone(h.Issues)
	}
	issue, err := s.networkIssue(s.AsService(ctx, key.Account, key.Region), rec)
	if err != nil {
		return nil, err
	}
	if issue != nil {
		ev.issues = append(ev.issues, *issue)
	}
	if ev.uses, err = s.ControlPlanes.DeprecatedUse(rec.Plane.ID); err != nil {
		return nil, err
	}
	if rec.Source != nil {
		stored, err := record.ClusterInsights.Get(s.Store, key.Below("insights"))
		if store.IgnoreNotFound(err) != nil {
			return nil, err
		}
		ev.source = stored.Source
	}
	if err := s.askPlane(ctx, key, ev); err != nil {
		ev.unknown = err.Error()
	}
	return ev, nil
}

// askPlane reads what only the cluster's control plane knows.
func (s *Service) askPlane(ctx context.Context, key store.Key, ev *evidence) error {
	ctx, cancel := context.WithTimeout(ctx, evidenceWait)
	defer cancel()
	ses, err := s.Sessions.Open(key, ev.cluster.Plane.ID)
	if err != nil {
		return err
	}
	nodes := ses.Nodes()
	select {
	case <-nodes.Synced:
	case <-ctx.Done():
		return plane.ErrNoAnswer
	}
	ev.nodes = nodes.All()
	slices.SortFunc(ev.nodes, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	proxy, err := ses.Client.AppsV1().DaemonSets(metav1.NamespaceSystem).Get(ctx, "kube-proxy", metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return err
	default:
		for _, c := range proxy.Spec.Template.Spec.Containers {
			if c.Name == "kube-proxy" {
				ev.proxy = minorOf(imageTag(c.Image))
			}
		}
	}
	return nil
}

// rollback returns the upgrade that can be rolled back, or nil.
func (e *evidence) rollback() *record.Upgrade {
	if last := e.cluster.Upgraded; last != nil && e.now.Sub(last.At) <= rollbackWindow {
		return last
	}
	return nil
}

// imageTag returns the tag of an image, or "" if it has none. The registry may have a port, and a digest may follow
// the tag.
func imageTag(image string) string {
	image, _, _ = strings.Cut(image, "@")
	_, tag, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	return tag
}

// minorOf returns N of v1.N.P…, or 0.
func minorOf(version string) int {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 || parts[0] != "1" {
		return 0
	}
	n, _ := strconv.Atoi(parts[1])
	return n
}

func nodeMinor(n *corev1.Node) int { return minorOf(n.Status.NodeInfo.KubeletVersion) }

// insights returns the insights of a cluster: how ready it is for the next version and, if it can be rolled back and the
// evidence for that was gathered, for the one before. The names, descriptions and reasons of PASSING insights about upgrades
// are EKS's, [seen] in recorded outputs of list-insights; other reasons are from memory unless they are marked.
// https://docs.aws.amazon.com/eks/latest/userguide/cluster-insights.html
func (e *evidence) insights() []ekstypes.Insight {
	var out []ekstypes.Insight
	number := eksversions.Number(*e.cluster.Cluster.Version)
	if next := fmt.Sprintf("1.%d", number+1); offered(next) {
		out = append(out, e.readiness(ekstypes.CategoryUpgradeReadiness, next)...)
	}
	if last := e.rollback(); last != nil && e.forRollback != nil {
		out = append(out, e.readiness(ekstypes.CategoryRollbackReadiness, last.From)...)
	}
	return e.withSource(append(out, e.deprecations()...))
}

// withSource adds the insights of a copy's source that do not depend on the state of the copy: use of deprecated APIs, which only AWS
// has seen, and what Drydock does not check. Versions that the copy has reached by now are left out.
func (e *evidence) withSource(all []ekstypes.Insight) []ekstypes.Insight {
	if e.source == nil {
		return all
	}
	for _, theirs := range e.source.Insights {
		version := aws.ToString(theirs.KubernetesVersion)
		if version != "" && eksversions.Number(version) <= eksversions.Number(*e.cluster.Cluster.Version) {
			continue
		}
		at := slices.IndexFunc(all, func(i ekstypes.Insight) bool {
			return i.Category == theirs.Category && aws.ToString(i.KubernetesVersion) == version && *i.Name == *theirs.Name
		})
		switch {
		case at < 0:
			all = append(all, theirs)
		case strings.HasPrefix(*theirs.Name, deprecationsName) && all[at].InsightStatus.Status == ekstypes.InsightStatusValuePassing: // otherwise somebody has used it here
			all[at] = theirs
		}
	}
	return all
}

const docs = "https://docs.aws.amazon.com/eks/latest/userguide/"

// insight returns an insight with a finding.
func (e *evidence) insight(category ekstypes.Category, version, name, description, recommendation string, found finding) ekstypes.Insight {
	if found.resources == nil {
		found.resources = []ekstypes.InsightResourceDetail{}
	}
	return ekstypes.Insight{
		Id:                      new(ids.Derived(e.cluster.UID, string(category), version, name)),
		Name:                    &name,
		Category:                category,
		KubernetesVersion:       &version,
		Description:             &description,
		Recommendation:          &recommendation,
		InsightStatus:           &ekstypes.InsightStatus{Status: found.status, Reason: &found.reason},
		Resources:               found.resources,
		CategorySpecificSummary: &found.summary,
		LastRefreshTime:         &e.now,
	}
}

func offered(version string) bool {
	_, ok := eksversions.Lookup(version)
	return ok
}

// readiness returns the insights about changing to a version.
func (e *evidence) readiness(category ekstypes.Category, version string) []ekstypes.Insight {
	what := "upgrade"
	if category == ekstypes.CategoryRollbackReadiness {
		what = "rollback"
	}
	make := func(name, description, recommendation, doc string, found finding) ekstypes.Insight {
		i := e.insight(category, version, name, description, recommendation, found)
		i.AdditionalInfo = map[string]string{"EKS documentation": doc}
		return i
	}
	out := []ekstypes.Insight{
		make("Kubelet version skew",
			fmt.Sprintf("Checks for kubelet versions of worker nodes in the cluster to see if %s would cause non compliance with supported Kubernetes kubelet version skew policy.", what),
			"Upgrade your worker nodes to match the Kubernetes version of your cluster control plane.", docs+"kubernetes-versions.html", e.kubelets(version)),
		make("kube-proxy version skew",
			fmt.Sprintf("Checks version of kube-proxy in cluster to see if %s would cause non compliance with supported Kubernetes kube-proxy version skew policy.", what),
			"Upgrade kube-proxy to match the Kubernetes version of your cluster control plane.", docs+"managing-kube-proxy.html", e.kubeProxy(version)),
		make("EKS add-on version compatibility",
			"Checks version of installed EKS add-ons to ensure they are compatible with the next version of Kubernetes. ", // EKS's own blank
			"Update the add-ons to a version that is compatible with the Kubernetes version.", docs+"updating-an-add-on.html", e.addonVersions(category, version)),
		make("Cluster health issues",
			"Checks for any cluster health issues that prevent successful upgrade to the next Kubernetes version on EKS.",
			"Resolve the health issues of the cluster.", docs+"troubleshooting.html#cluster-health-status", e.health()),
	}
	if category == ekstypes.CategoryUpgradeReadiness {
		out = append(out, make("Amazon Linux 2 compatibility",
			"Checks if any nodes in the cluster are running Amazon Linux 2. Support for Amazon Linux 2 on Amazon EKS will end on November 26, 2025. Additionally, Amazon EKS will not release Amazon Linux 2 AMIs for Kubernetes version 1.33 and higher",
			"Migrate the nodes to Amazon Linux 2023 or Bottlerocket.", docs+"eks-ami-deprecation-faqs.html", e.amazonLinux2()))
	}
	out[0].AdditionalInfo = map[string]string{ // [seen] aws/aws-cli, awscli/examples/eks/describe-insight.rst
		"Kubelet version skew policy":   "https://kubernetes.io/releases/version-skew-policy/#kubelet",
		"Updating a managed node group": docs + "update-managed-node-group.html",
	}
	if category == ekstypes.CategoryRollbackReadiness && autonodes.Enabled(&e.cluster.Cluster) {
		out = append(out, make("EKS Auto Mode node disruption", // our own name
			"Checks for disruption controls that block or delay the rollback of EKS Auto Mode nodes.",
			"Adjust the disruption budgets of node pools, remove karpenter.sh/do-not-disrupt from nodes and pods, and adjust pod disruption budgets.", docs+"rollback-automode.html", e.disruption()))
	}
	if category == ekstypes.CategoryRollbackReadiness {
		// The name is from memory.
		out = append(out, make("Kubernetes API usage compatibility",
			"Checks for objects of Kubernetes APIs that the previous version of Kubernetes does not serve, and for fields of objects that it drops from new objects. The status of objects and ResourceSlices are not checked for such fields.",
			"Delete the objects before the rollback, or they remain in etcd where nothing can read them. Remove these fields before the rollback; new objects lose them.", docs+"rollback-cluster.html", e.newerAPIs(version)))
	}
	return out
}

// A finding is the result of one check.
type finding struct {
	status    ekstypes.InsightStatusValue
	reason    string
	resources []ekstypes.InsightResourceDetail
	summary   ekstypes.InsightCategorySpecificSummary
}

// worsen adds a resource that a check objects to.
func (f *finding) worsen(status ekstypes.InsightStatusValue, reason string, resource ekstypes.InsightResourceDetail) {
	resource.InsightStatus = &ekstypes.InsightStatus{Status: status, Reason: &reason}
	f.resources = append(f.resources, resource)
	if f.status != ekstypes.InsightStatusValueError {
		f.status, f.reason = status, reason
	}
}

func passing(reason string) finding {
	return finding{status: ekstypes.InsightStatusValuePassing, reason: reason}
}

// skew judges the minor version of a program that talks to an API server of a version.
func skew(what string, minor int, version string) (ekstypes.InsightStatusValue, string) {
	server := eksversions.Number(version)
	switch {
	case minor > server:
		return ekstypes.InsightStatusValueError, fmt.Sprintf("%s version 1.%d is newer than Kubernetes version %s.", what, minor, version)
	case server-minor > kubeletSkew:
		return ekstypes.InsightStatusValueError, fmt.Sprintf("%s version 1.%d is more than %d minor versions older than Kubernetes version %s.", what, minor, kubeletSkew, version)
	case server-minor == kubeletSkew:
		return ekstypes.InsightStatusValueWarning, fmt.Sprintf("%s version 1.%d is %d minor versions older than Kubernetes version %s, the most that is supported.", what, minor, kubeletSkew, version)
	}
	return ekstypes.InsightStatusValuePassing, ""
}

func (e *evidence) kubelets(version string) finding {
	if e.unknown != "" {
		return finding{status: ekstypes.InsightStatusValueUnknown, reason: e.unknown}
	}
	f := passing("Node kubelet versions match the cluster control plane version.")
	for _, n := range e.nodes {
		minor := nodeMinor(n)
		if minor > eksversions.Number(version) && n.Labels[labelCompute] == computeAuto {
			continue // EKS rolls it back itself
		}
		if status, reason := skew("kubelet", minor, version); minor > 0 && status != ekstypes.InsightStatusValuePassing {
			f.worsen(status, reason, detailOf(nodesResource, "", n.Name))
		}
	}
	return f
}

// amazonLinux2 checks whether nodes run Amazon Linux 2. The texts are [seen] in recorded outputs of list-insights, all for
// the target version 1.33. That EKS has this insight for later versions, too, is an assumption.
func (e *evidence) amazonLinux2() finding {
	if e.unknown != "" {
		return finding{status: ekstypes.InsightStatusValueUnknown, reason: e.unknown}
	}
	f := passing("No Amazon Linux 2 nodes detected.")
	for _, n := range e.nodes {
		if n.Status.NodeInfo.OSImage == "Amazon Linux 2" {
			f.worsen(ekstypes.InsightStatusValueError, "The cluster contains legacy Amazon Linux 2 (AL2) nodes. Migrate Amazon Linux 2 node groups to Amazon Linux 2023 before November 26, 2025 or before upgrading to EKS 1.33.",
				detailOf(nodesResource, "", n.Name))
		}
	}
	return f
}

// disruption checks what keeps Karpenter from replacing nodes of EKS Auto Mode in a rollback. The annotation of a node
// prevents its replacement, and that of a pod delays it.
// https://docs.aws.amazon.com/eks/latest/userguide/rollback-automode.html
// https://aws.amazon.com/blogs/containers/announcing-amazon-eks-rollback-for-safe-and-reliable-management-of-cluster-upgrades/
func (e *evidence) disruption() finding {
	if e.forRollback.unknown != "" {
		return finding{status: ekstypes.InsightStatusValueUnknown, reason: e.forRollback.unknown}
	}
	f := passing("Nothing blocks the replacement of EKS Auto Mode nodes.")
	for i := range e.forRollback.budgets {
		b := &e.forRollback.budgets[i]
		if b.Spec.MaxUnavailable != nil && b.Spec.MaxUnavailable.String() == "0" {
			f.worsen(ekstypes.InsightStatusValueWarning, "The pod disruption budget "+b.Namespace+"/"+b.Name+" allows no unavailable pods.", detailOf(policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets"), b.Namespace, b.Name))
		}
	}
	for _, p := range e.forRollback.kept {
		f.worsen(ekstypes.InsightStatusValueWarning, "The pod "+p.String()+" has the annotation "+doNotDisrupt+".", detailOf(podsResource, p.Namespace, p.Name))
	}
	for i := range e.forRollback.pools {
		if autonodes.NeverDrifts(&e.forRollback.pools[i]) {
			name := e.forRollback.pools[i].GetName()
			f.worsen(ekstypes.InsightStatusValueError, "A disruption budget of the node pool "+name+" allows no node to drift.", detailOf(autonodes.NodePools, "", name))
		}
	}
	for _, n := range e.nodes {
		if n.Labels[labelCompute] == computeAuto && n.Annotations[doNotDisrupt] == "true" {
			f.worsen(ekstypes.InsightStatusValueError, "The node "+n.Name+" has the annotation "+doNotDisrupt+".", detailOf(nodesResource, "", n.Name))
		}
	}
	if e.forRollback.podsIncomplete {
		f.reason += " Not all pods were checked, because there are too many."
	}
	return f
}

func (e *evidence) kubeProxy(version string) finding {
	if e.unknown != "" {
		return finding{status: ekstypes.InsightStatusValueUnknown, reason: e.unknown}
	}
	f := passing("kube-proxy versions match the cluster control plane version.")
	if status, reason := skew("kube-proxy", e.proxy, version); e.proxy > 0 && status != ekstypes.InsightStatusValuePassing {
		f.worsen(status, reason, detailOf(appsv1.SchemeGroupVersion.WithResource("daemonsets"), metav1.NamespaceSystem, "kube-proxy"))
	}
	return f
}

// addonVersions checks which add-ons have a version for the Kubernetes version. kube-proxy is
// updated after the control plane, so kubeProxy checks its version skew instead.
func (e *evidence) addonVersions(category ekstypes.Category, version string) finding {
	f := passing("All installed EKS add-on versions are compatible with next Kubernetes version.")
	if category == ekstypes.CategoryRollbackReadiness {
		f = passing("All installed EKS add-on versions are compatible with Kubernetes version " + version + ".")
	}
	for _, a := range e.addons {
		name, has := aws.ToString(a.Addon.AddonName), aws.ToString(a.Addon.AddonVersion)
		known, ok := addons.Lookup(name)
		if !ok || name == "kube-proxy" {
			continue
		}
		if v := known.Version(has); v == nil || slices.Contains(v.Kubernetes, version) {
			continue
		}
		compatible := []string{}
		for _, v := range known.Versions {
			if slices.Contains(v.Kubernetes, version) {
				compatible = append(compatible, v.Version)
			}
		}
		f.summary.AddonCompatibilityDetails = append(f.summary.AddonCompatibilityDetails, ekstypes.AddonCompatibilityDetail{Name: &name, CompatibleVersions: compatible})
		f.worsen(ekstypes.InsightStatusValueError, fmt.Sprintf("Version %s of add-on %s is not compatible with Kubernetes version %s.", has, name, version),
			ekstypes.InsightResourceDetail{Arn: a.Addon.AddonArn})
	}
	return f
}

// newerAPIs checks whether a cluster has objects that a server of an older version would not serve, or fields that it would
// not keep.
func (e *evidence) newerAPIs(version string) finding {
	if e.forRollback.unknown != "" {
		return finding{status: ekstypes.InsightStatusValueUnknown, reason: e.forRollback.unknown}
	}
	f := passing("The cluster has no objects of APIs that Kubernetes version " + version + " does not serve.")
	for _, uri := range e.forRollback.newer {
		f.worsen(ekstypes.InsightStatusValueError, fmt.Sprintf("The cluster has objects of %s, which Kubernetes version %s does not serve.", uri, version),
			ekstypes.InsightResourceDetail{KubernetesResourceUri: &uri})
	}
	for _, u := range e.forRollback.fields { // that EKS warns of fields, instead of making the insight an ERROR, is an assumption
		f.worsen(ekstypes.InsightStatusValueWarning, fmt.Sprintf("%s uses the field %s, which Kubernetes version %s does not support.", u.uri, u.path, version),
			ekstypes.InsightResourceDetail{KubernetesResourceUri: &u.uri})
	}
	if e.forRollback.fieldsIncomplete {
		f.reason += " Not all objects were checked for newer fields, because there are too many."
	}
	return f
}

func (e *evidence) health() finding {
	f := passing("No cluster health issues detected.")
	for _, i := range e.issues {
		f.worsen(ekstypes.InsightStatusValueError, aws.ToString(i.Message), ekstypes.InsightResourceDetail{Arn: e.cluster.Cluster.Arn})
	}
	return f
}
