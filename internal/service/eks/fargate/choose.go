package fargate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/catalog/fargatesizes"
	"github.com/drydock-dev/drydock/internal/glob"
	"github.com/drydock-dev/drydock/internal/service/eks/access"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/jsonpatch"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

const (
	// labelProfile is on every pod of a profile. Users set it on a pod to choose one of several
	// matching profiles.
	labelProfile = "eks.amazonaws.com/fargate-profile"
	// annotationComputeType keeps a pod off Fargate if its value is ec2.
	annotationComputeType = "eks.amazonaws.com/compute-type"
)

// A Choice is the Fargate profile that a pod would get if it were created now, and why the other
// profiles do not apply.
type Choice struct {
	// Profile is the name of the chosen profile, or "" if the pod does not run on Fargate.
	Profile string
	// Excluded says what keeps the pod off Fargate, whatever the profile.
	Excluded string
	// Profiles are all the cluster's profiles, in the order in which they are considered.
	Profiles []Candidate
}

// A Candidate is a profile that was considered.
type Candidate struct {
	Name   string
	Status string
	// Matches reports whether a selector matches and the profile is ACTIVE.
	Matches bool
	// Why says why the profile is not chosen. It is empty for the chosen one.
	Why string
	// Selectors are the profile's, in order.
	Selectors []Selector
}

// A Selector is a selector that was compared with a pod.
type Selector struct {
	Namespace string
	Labels    map[string]string
	Matches   bool
	// Why says what does not match.
	Why string
}

// ExplainFargate compares a pod with the Fargate profiles of a cluster.
func (s *Service) ExplainFargate(_ context.Context, account, region, cluster, namespace string, pod *corev1.Pod) (Choice, error) {
	return s.explain(store.Key{Account: account, Region: region, ID: cluster}, namespace, pod), nil
}

func (s *Service) explain(cluster store.Key, namespace string, pod *corev1.Pod) Choice {
	all := record.FargateProfiles.All(s.Store, cluster.AllBelow())
	profiles := make([]*ekstypes.FargateProfile, 0, len(all))
	for i := range all {
		profiles = append(profiles, &all[i].Value.Profile)
	}
	return choose(profiles, namespace, pod)
}

// choose picks one of the profiles, which are sorted by name: the one that the pod's label names,
// or else the first match, as EKS does.
// https://docs.aws.amazon.com/eks/latest/userguide/fargate-profile.html
func choose(profiles []*ekstypes.FargateProfile, namespace string, pod *corev1.Pod) Choice {
	out := Choice{Excluded: excluded(pod)}
	wanted, picky := pod.Labels[labelProfile]
	for _, p := range profiles {
		c := Candidate{Name: aws.ToString(p.FargateProfileName), Status: string(p.Status)}
		for _, sel := range p.Selectors {
			why := mismatch(sel, namespace, pod.Labels)
			c.Selectors = append(c.Selectors, Selector{Namespace: aws.ToString(sel.Namespace), Labels: sel.Labels, Matches: why == "", Why: why})
			c.Matches = c.Matches || why == ""
		}
		switch {
		case !c.Matches:
			c.Why = "no selector matches"
		case p.Status != ekstypes.FargateProfileStatusActive:
			c.Matches, c.Why = false, "it is "+string(p.Status)
		case picky && wanted != c.Name:
			c.Why = fmt.Sprintf("the pod's label %s asks for %q", labelProfile, wanted)
		case out.Excluded != "":
			c.Why = out.Excluded
		case out.Profile != "":
			c.Why = "several profiles match, and the first by name is used: " + out.Profile
		default:
			out.Profile = c.Name
		}
		out.Profiles = append(out.Profiles, c)
	}
	return out
}

// excluded says what keeps a pod off Fargate, whatever the profile.
func excluded(pod *corev1.Pod) string {
	// The CoreDNS add-on copies its setting computeType, spelled Fargate, to this annotation.
	if v, ok := pod.Annotations[annotationComputeType]; ok && !strings.EqualFold(v, "fargate") {
		return fmt.Sprintf("the pod's annotation %s is %q", annotationComputeType, v)
	}
	if pod.Spec.NodeName != "" {
		return "the pod is already bound to a node"
	}
	// Fargate leaves these to the default scheduler, as seen in clusters that run DaemonSets in a
	// namespace that a profile selects as a whole.
	if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == "DaemonSet" {
		return "the pod belongs to a DaemonSet"
	}
	return ""
}

// mismatch says why a selector does not match, or "" if it does.
func mismatch(sel ekstypes.FargateProfileSelector, namespace string, labels map[string]string) string {
	if !glob.Match(aws.ToString(sel.Namespace), namespace) {
		return fmt.Sprintf("namespace %q is not %q", namespace, aws.ToString(sel.Namespace))
	}
	for _, k := range slices.Sorted(maps.Keys(sel.Labels)) {
		if v := sel.Labels[k]; !hasLabel(labels, k, v) {
			if have, ok := labels[k]; ok {
				return fmt.Sprintf("label %s is %q, not %q", k, have, v)
			}
			return fmt.Sprintf("the pod has no label %s=%s", k, v)
		}
	}
	return ""
}

// hasLabel reports whether a label matches a pair, in which both parts may have
// wildcards.
// https://docs.aws.amazon.com/eks/latest/userguide/fargate-profile.html#fargate-profile-wildcards
func hasLabel(labels map[string]string, key, value string) bool {
	if have, ok := labels[key]; ok && glob.Match(value, have) {
		return true
	}
	for k, v := range labels {
		if glob.Match(key, k) && glob.Match(value, v) {
			return true
		}
	}
	return false
}

// scheduler is the name of Fargate's scheduler.
const scheduler = "fargate-scheduler"

const (
	annotationCapacity = "CapacityProvisioned"
	annotationLogging  = "Logging"
	// loggingDisabled is the initial value. Fargate's scheduler replaces it if the cluster
	// configures logging.
	loggingDisabled = "LoggingDisabled: LOGGING_CONFIGMAP_NOT_FOUND"

	nodeCriticalClass    = "system-node-critical"
	nodeCriticalPriority = 2000001000
)

// MutateFargatePod returns the JSON patch that puts a new pod on Fargate if a profile matches, or
// nil if the pod is not for Fargate or already names Fargate's scheduler.
func (s *Service) MutateFargatePod(_ context.Context, planeID, namespace string, pod *corev1.Pod) ([]byte, error) {
	key, rec, err := s.ClusterByPlane(planeID)
	if err != nil {
		return nil, nil // the control plane belongs to no cluster
	}
	if ses, err := s.Sessions.Open(key, rec.Plane.ID); err == nil {
		webhookOf(ses).called.Store(true)
	}
	if pod.Spec.SchedulerName == scheduler {
		return nil, nil
	}
	choice := s.explain(key, namespace, pod)
	if choice.Profile == "" {
		return nil, nil
	}
	ops := []jsonpatch.Operation{
		jsonpatch.SetEntry("/metadata/labels", &pod.Labels, labelProfile, choice.Profile),
		jsonpatch.SetEntry("/metadata/annotations", &pod.Annotations, annotationLogging, loggingDisabled),
	}
	if size, ok := fargatesizes.For(&pod.Spec); ok {
		ops = append(ops, jsonpatch.SetEntry("/metadata/annotations", &pod.Annotations, annotationCapacity, size.String()))
	}
	// The priority must match the class: admission has already computed it from another one.
	ops = append(ops,
		jsonpatch.Add("/spec/schedulerName", scheduler),
		jsonpatch.Add("/spec/priorityClassName", nodeCriticalClass),
		jsonpatch.Add("/spec/priority", nodeCriticalPriority),
	)
	return jsonpatch.Encode(ops, nil)
}

// A webhook is the state of Fargate's webhook in one cluster.
type webhook struct {
	put    atomic.Bool // it is installed in the cluster
	called atomic.Bool // the API server has called it
}

func webhookOf(ses *plane.Session) *webhook {
	return plane.Value(ses, func(*plane.Session) *webhook { return &webhook{} })
}

// errWebhookUnnoticed means that the API server does not call Fargate's webhook yet.
var errWebhookUnnoticed = errors.New("the API server does not call Fargate's webhook yet")

// ensureWebhook installs Fargate's webhook in a cluster and returns nil once the API server calls
// it. Only then does an ACTIVE profile get every pod that matches. To trigger a call, it creates a
// pod as a dry run.
func (s *Service) ensureWebhook(ctx context.Context, ses *plane.Session) error {
	if err := s.putWebhook(ctx, ses); err != nil {
		return err
	}
	if webhookOf(ses).called.Load() {
		return nil
	}
	_, err := ses.Client.CoreV1().Pods(metav1.NamespaceSystem).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "fargate-webhook-"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "none", Image: "none"}}},
	}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case webhookOf(ses).called.Load(): // another admission plugin refused the pod
		return nil
	case err != nil:
		return fmt.Errorf("%w: %w", errWebhookUnnoticed, err)
	}
	return errWebhookUnnoticed
}

// putWebhook installs Fargate's webhook if it is missing. After that, the API server may not know
// it for a moment.
func (s *Service) putWebhook(ctx context.Context, ses *plane.Session) error {
	_, err := ses.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(ctx, s.ControlPlanes.FargateWebhook(), metav1.CreateOptions{})
	switch {
	case err == nil:
		webhookOf(ses).called.Store(false)
	case !apierrors.IsAlreadyExists(err):
		return fmt.Errorf("creating Fargate's webhook: %w", err)
	}
	webhookOf(ses).put.Store(true)
	return nil
}

// A Block is why a profile launches nothing: in the words of Fargate's scheduler, and as
// one of the Blocked… causes.
type Block struct{ Reason, Cause string }

// Why a profile launches nothing.
const (
	BlockedSelectors = "NoSelectorMatches" // the pod's labels or namespace are not the profile's
	BlockedTrust     = "RoleNotTrusting"   // the pod execution role does not exist, or does not trust Fargate
	BlockedMapping   = "RoleNotMapped"     // the cluster does not know the role as that of nodes
)

func (b *Block) Error() string { return b.Reason }

// [seen] terraform-aws-modules/terraform-aws-eks#2912 and others
const (
	blockedByAssume = "Failed to assume PodExecutionRole; Please make sure the role exists and trusts the eks-fargate-pods.amazonaws.com service principal"
	blockedByAuth   = "Pod execution role is not found in auth config or does not have all required permissions for launching fargate pods."
)

// A Launch is what Fargate needs to know about a profile to launch a pod.
type Launch struct {
	RoleARN string
	Subnets []string
	Tags    map[string]string // of the profile
}

// FargateProfileARN returns the ARN of a profile.
func (s *Service) FargateProfileARN(account, region, cluster, profile string) (string, error) {
	p, err := record.FargateProfiles.Get(s.Store, store.Key{Account: account, Region: region, ID: cluster}.Below(profile))
	return aws.ToString(p.Profile.FargateProfileArn), err
}

// FargateLaunch returns how to launch a pod of a profile. The error is a *Block if the profile's
// role does not allow it. The role is checked for each pod, because roles, trust policies and
// aws-auth change.
//
// The error is also a *Block if no selector of the profile matches. Admission does not touch a pod
// that already names Fargate's scheduler, so its profile label may come from its author.
func (s *Service) FargateLaunch(ctx context.Context, account, region, clusterName, profile string, pod *corev1.Pod) (Launch, error) {
	cluster := store.Key{Account: account, Region: region, ID: clusterName}
	p, err := record.FargateProfiles.Get(s.Store, cluster.Below(profile))
	if err != nil {
		return Launch{}, err
	}
	rec, err := record.Clusters.Get(s.Store, cluster)
	if err != nil {
		return Launch{}, err
	}
	if !slices.ContainsFunc(p.Profile.Selectors, func(sel ekstypes.FargateProfileSelector) bool {
		return mismatch(sel, pod.Namespace, pod.Labels) == ""
	}) {
		// from memory
		return Launch{}, &Block{"Misconfigured Fargate Profile: pod does not match any selector of fargate profile " + profile, BlockedSelectors}
	}
	block := func(why, cause string) error {
		return &Block{"Misconfigured Fargate Profile: fargate profile " + profile + " blocked for new launches due to: " + why, cause}
	}
	id, err := s.Identity(ctx, p.Role.ARN)
	if errors.Is(err, base.ErrNoIdentity) {
		return Launch{}, block(blockedByAssume, BlockedTrust)
	}
	if err != nil {
		return Launch{}, err
	}
	if !trustsFargate(id, *p.Profile.FargateProfileArn) {
		return Launch{}, block(blockedByAssume, BlockedTrust)
	}
	to, err := s.access.MapPrincipal(ctx, cluster, rec, awsapi.Principal{
		Type: awsapi.AssumedRole, Account: cluster.Account, RoleARN: p.Role.ARN, UserID: id.ID + ":fargate",
		ARN: arn.New("sts", "", cluster.Account, "assumed-role/"+access.RoleName(p.Role.ARN)+"/fargate"),
	})
	switch {
	case errors.Is(err, access.ErrUnauthenticated):
		return Launch{}, block(blockedByAuth, BlockedMapping)
	case err != nil:
		return Launch{}, err
	case !access.IsNode(to):
		return Launch{}, block(blockedByAuth, BlockedMapping)
	}
	return Launch{RoleARN: p.Role.ARN, Subnets: p.Profile.Subnets, Tags: p.Profile.Tags}, nil
}

// A Cluster is what Fargate machines need to know about their cluster.
type Cluster struct {
	Version               string // such as 1.36
	Endpoint              string // https:// and the AWS host name
	CA                    []byte // PEM
	ServiceCIDR, IPFamily string
	SecurityGroup         string // the cluster security group
}

// FargateCluster returns the facts about a cluster that its Fargate machines need.
func (s *Service) FargateCluster(_ context.Context, account, region, name string) (Cluster, error) {
	rec, err := record.Clusters.Get(s.Store, store.Key{Account: account, Region: region, ID: name})
	if err != nil {
		return Cluster{}, err
	}
	out := Cluster{
		Version: aws.ToString(rec.Cluster.Version), Endpoint: "https://" + rec.Plane.AWSHost, CA: rec.Plane.CAPEM,
		SecurityGroup: aws.ToString(rec.Cluster.ResourcesVpcConfig.ClusterSecurityGroupId),
	}
	if n := rec.Cluster.KubernetesNetworkConfig; n != nil {
		out.ServiceCIDR, out.IPFamily = rec.ServiceCIDR(), string(n.IpFamily)
	}
	return out, nil
}

// FargateClusters returns the clusters that have Fargate profiles. The IDs of the keys are the
// cluster names.
func (s *Service) FargateClusters() (map[store.Key]bool, error) {
	out := map[store.Key]bool{}
	for _, p := range record.FargateProfiles.All(s.Store, store.Scope{}) {
		out[p.Key.Owner()] = true
	}
	return out, nil
}

// FargateRole returns the pod execution role of a profile, and reports whether an access entry
// admits it to the cluster.
func (s *Service) FargateRole(_ context.Context, account, region, cluster, profile string) (role string, byEntry bool, err error) {
	key := store.Key{Account: account, Region: region, ID: cluster}
	rec, err := record.Clusters.Get(s.Store, key)
	if err != nil {
		return "", false, err
	}
	p, err := record.FargateProfiles.Get(s.Store, key.Below(profile))
	return p.Role.ARN, rec.UsesAPI(), err
}
