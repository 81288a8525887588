package cluster

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"

	"github.com/drydock-dev/drydock/internal/catalog/eksversions"
	"github.com/drydock-dev/drydock/internal/kube"
	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// A Rehearsal is the result of upgrading a copy of a cluster.
type Rehearsal struct {
	Cluster  string    `json:"cluster"`
	From     string    `json:"from"`
	To       string    `json:"to"`
	Findings []Finding `json:"findings"`
	// UpgradeMillis is how long the upgrade of the copy's control plane took.
	UpgradeMillis int64 `json:"upgradeMillis"`
	// Steps are the updates after that of the control plane, in their order.
	Steps []Step `json:"steps"`
	// Unknown says what Drydock does not know, and so could not rehearse.
	Unknown []string `json:"unknown,omitempty"`
	// Stubbed is how often each admission webhook would have been called. The copy calls none of them and lets all
	// requests pass.
	Stubbed map[string]int `json:"stubbed,omitempty"`
}

// A Step is the update of an add-on or of a node group.
type Step struct {
	Kind string `json:"kind"` // add-on or node-group
	Name string `json:"name"`
	From string `json:"from"`
	To   string `json:"to,omitempty"` // empty if it stays as it is
	Text string `json:"text"`         // what happened
	// Failed reports whether the update would fail.
	Failed bool `json:"failed,omitempty"`
}

// A Finding is something that an upgrade would break or leave behind.
type Finding struct {
	Check    string `json:"check"`    // such as pod-disruption-budget
	Severity string `json:"severity"` // error or warning
	Subject  string `json:"subject"`
	Text     string `json:"text"`
	Fix      string `json:"fix,omitempty"`
}

// The severities of findings. An error prevents the upgrade or breaks something.
const (
	SeverityError   = "error"
	SeverityWarning = "warning"
)

func (r *Rehearsal) found(check, severity, subject, fix, text string, args ...any) {
	text = strings.ReplaceAll(fmt.Sprintf(text, args...), "\n", " ") // a line of a table
	r.Findings = append(r.Findings, Finding{check, severity, subject, text, fix})
}

// Rehearse upgrades a copy of a cluster to the next Kubernetes version and reports what would break. The cluster
// itself does not change. If unknown is not empty, no nodes are replaced: it is the reason why Drydock cannot predict where
// evicted pods would go.
func (s *Service) Rehearse(ctx context.Context, name, unknown string) (Rehearsal, error) {
	key, rec, err := s.ActiveCluster(ctx, &name)
	if err != nil {
		return Rehearsal{}, err
	}
	from := *rec.Cluster.Version
	out := Rehearsal{Cluster: name, From: from, To: fmt.Sprintf("1.%d", eksversions.Number(from)+1), Findings: []Finding{}, Steps: []Step{}}
	if !offered(out.To) {
		return out, ekserr.InvalidRequest(name, "Cluster %s has the latest Kubernetes version, %s", name, from)
	}
	ev, err := s.gather(ctx, key, rec)
	if err != nil {
		return out, err
	}
	if ev.unknown != "" {
		return out, errNoAnswer(ev.unknown)
	}
	out.readInsights(ev)
	ses, err := s.Sessions.Open(key, rec.Plane.ID)
	if err != nil {
		return out, err
	}
	if err := out.checkWebhooks(ctx, ses.Client, s.Now()); err != nil {
		return out, err
	}
	out.checkSelfManaged(ev.nodes)
	s.rehearsing.Lock()
	defer s.rehearsing.Unlock()
	if ctx.Err() != nil {
		return out, context.Cause(ctx)
	}
	copied, err := s.ControlPlanes.Copy(ctx, rec.Plane.ID)
	if err != nil {
		return out, err
	}
	err = s.rehearseOn(ctx, key, rec, copied, unknown, &out)
	s.Sessions.Drop(copied)
	if released := s.ControlPlanes.Release(context.WithoutCancel(ctx), copied); err == nil {
		err = released
	}
	slices.SortStableFunc(out.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Check, b.Check), cmp.Compare(a.Subject, b.Subject))
	})
	return out, err
}

// readInsights adds findings from the cluster's insights.
func (r *Rehearsal) readInsights(ev *evidence) {
	for _, group := range ev.nodegroupsBehind(r.To) {
		r.found("node-group", SeverityError, group, "", "its kubelets are more than %d minor versions older than Kubernetes %s; EKS refuses the upgrade, even if forced", kubeletSkew, r.To)
	}
	for _, i := range ev.insights() {
		severity := SeverityWarning
		switch i.InsightStatus.Status {
		case ekstypes.InsightStatusValueError:
			severity = SeverityError
		case ekstypes.InsightStatusValueWarning:
		case ekstypes.InsightStatusValueUnknown:
			reason := cmp.Or(*i.InsightStatus.Reason, "the insight "+*i.Name+" is UNKNOWN") // EKS may give none
			if i.Category == ekstypes.CategoryUpgradeReadiness && !slices.Contains(r.Unknown, reason) {
				r.Unknown = append(r.Unknown, reason)
			}
			continue
		default:
			continue
		}
		if i.Category != ekstypes.CategoryUpgradeReadiness {
			continue
		}
		for _, d := range i.CategorySpecificSummary.DeprecationDetails {
			for _, c := range d.ClientStats {
				r.found("deprecated-api", severity, *d.Usage, "use "+*d.ReplacedWith, "removed in Kubernetes %s; %s made %d requests in the last 30 days",
					*d.StopServingVersion, *c.UserAgent, c.NumberOfRequestsLast30Days)
			}
		}
		check := strings.ToLower(strings.ReplaceAll(*i.Name, " ", "-"))
		for _, res := range i.Resources {
			r.found(check, severity, cmp.Or(aws.ToString(res.KubernetesResourceUri), aws.ToString(res.Arn)), *i.Recommendation, "%s", *res.InsightStatus.Reason)
		}
	}
}

// rehearseOn upgrades the copy: its control plane, then the add-ons, then the node groups.
func (s *Service) rehearseOn(ctx context.Context, key store.Key, rec record.Cluster, id, unknown string, out *Rehearsal) error {
	if err := s.ControlPlanes.WaitReady(ctx, id); err != nil {
		return err
	}
	ses, err := s.Sessions.Get(id)
	if err != nil {
		return err
	}
	stop, err := s.actAsKubelets(ctx, ses.Client)
	if err != nil {
		return err
	}
	defer stop()
	before, err := servedResources(ses.Client.Discovery())
	if err != nil {
		return err
	}
	for _, crd := range s.ControlPlanes.Unconverted(id) {
		out.found("conversion-webhook", SeverityWarning, crd, "", "the copy does not call its conversion webhook, so the rehearsal does not show whether its objects can be converted")
	}
	began := s.Clock.Now()
	if err := s.ControlPlanes.Upgrade(ctx, id, out.To); err != nil {
		out.found("upgrade", SeverityError, out.Cluster, "", "the upgrade failed: %v", err)
		return nil
	}
	out.UpgradeMillis = s.Clock.Since(began).Milliseconds()
	after, err := servedResources(ses.Client.Discovery())
	if err != nil {
		return err
	}
	for _, api := range before {
		if !slices.Contains(after, api) {
			out.found("removed-api", SeverityError, api, "", "Kubernetes %s does not serve it", out.To)
		}
	}
	if err := out.drain(ctx, ses.Client); err != nil {
		return err
	}
	rec.Cluster.Version = &out.To
	if err := s.rehearseAddons(ctx, key, rec, ses, out); err != nil {
		return err
	}
	if err := s.rehearseNodegroups(ctx, key, &rec, ses, unknown, out); err != nil {
		return err
	}
	out.Stubbed = s.ControlPlanes.StubbedCalls(id)
	return nil
}

// servedResources lists the paths of an API server's resources.
func servedResources(client discovery.DiscoveryInterface) ([]string, error) {
	_, lists, err := client.ServerGroupsAndResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) { // a copy cannot reach aggregated API servers
		return nil, err
	}
	var out []string
	for _, l := range lists {
		for _, r := range l.APIResources {
			if !strings.Contains(r.Name, "/") {
				out = append(out, l.GroupVersion+" "+r.Name)
			}
		}
	}
	return out, nil
}

// drain tries to evict each pod that a pod disruption budget protects, as an update of its node group would. The
// evictions are dry runs.
func (r *Rehearsal) drain(ctx context.Context, client kubernetes.Interface) error {
	budgets, err := client.PolicyV1().PodDisruptionBudgets("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range budgets.Items {
		b := &budgets.Items[i]
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil {
			continue
		}
		pods, err := client.CoreV1().Pods(b.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
		if err != nil {
			return err
		}
		var held []string
		reason, operated := "", ""
		for _, p := range pods.Items {
			operated = cmp.Or(operated, kube.Operated(&p))
			if p.Spec.NodeName == "" || p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
				continue
			}
			err := client.CoreV1().Pods(p.Namespace).EvictV1(ctx, &policyv1.Eviction{
				ObjectMeta:    metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace},
				DeleteOptions: &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}},
			})
			switch {
			case err == nil, apierrors.IsNotFound(err):
			case apierrors.IsTooManyRequests(err), apierrors.IsInternalError(err): // the latter if several budgets protect the pod
				held, reason = append(held, p.Name), err.Error()
			default:
				return err
			}
		}
		switch {
		case len(held) > 0 && operated != "":
			r.Unknown = append(r.Unknown, fmt.Sprintf("whether node groups can drain pod %s, which budget %s/%s protects, is unknown: the operator of %s does not run on the copy", shortList(held), b.Namespace, b.Name, operated))
		case len(held) > 0:
			r.found("pod-disruption-budget", SeverityError, b.Namespace+"/"+b.Name, "add replicas, relax the budget, or update node groups with --force",
				"node groups cannot drain pod %s: %s", shortList(held), reason)
		}
	}
	return nil
}

func shortList(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// checkWebhooks adds findings for admission webhooks that cannot be called.
func (r *Rehearsal) checkWebhooks(ctx context.Context, client kubernetes.Interface, now time.Time) error {
	check := func(kind, config, name string, c admissionregistrationv1.WebhookClientConfig, policy *admissionregistrationv1.FailurePolicyType) error {
		problem, err := webhookProblem(ctx, client, c, now)
		if err != nil || problem == "" {
			return err
		}
		severity, effect := SeverityError, "requests that it matches are refused"
		if policy != nil && *policy == admissionregistrationv1.Ignore {
			severity, effect = SeverityWarning, "it is skipped"
		}
		r.found("webhook", severity, kind+" "+config+": "+name, "", "%s; %s", problem, effect)
		return nil
	}
	validating, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, o := range validating.Items {
		for _, w := range o.Webhooks {
			if err := check("validating", o.Name, w.Name, w.ClientConfig, w.FailurePolicy); err != nil {
				return err
			}
		}
	}
	mutating, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, o := range mutating.Items {
		for _, w := range o.Webhooks {
			if err := check("mutating", o.Name, w.Name, w.ClientConfig, w.FailurePolicy); err != nil {
				return err
			}
		}
	}
	return nil
}

// webhookProblem returns why a webhook's service cannot be called, or "" if it can.
func webhookProblem(ctx context.Context, client kubernetes.Interface, c admissionregistrationv1.WebhookClientConfig, now time.Time) (string, error) {
	if c.Service == nil {
		return "", nil
	}
	var last time.Time // when the last one expires; the webhook may use any certificate that is still valid
	for block, rest := pem.Decode(c.CABundle); block != nil; block, rest = pem.Decode(rest) {
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil && cert.NotAfter.After(last) {
			last = cert.NotAfter
		}
	}
	if !last.IsZero() && now.After(last) {
		return "its CA bundle expired at " + last.Format(time.RFC3339), nil
	}
	name := c.Service.Namespace + "/" + c.Service.Name
	service, err := client.CoreV1().Services(c.Service.Namespace).Get(ctx, c.Service.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "its service " + name + " does not exist", nil
	} else if err != nil {
		return "", err
	}
	if service.Spec.Type == corev1.ServiceTypeExternalName { // such a service has no endpoints
		return "", nil
	}
	slicesOf, err := client.DiscoveryV1().EndpointSlices(c.Service.Namespace).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + c.Service.Name})
	if err != nil {
		return "", err
	}
	for _, slice := range slicesOf.Items {
		for _, e := range slice.Endpoints {
			if e.Conditions.Ready == nil || *e.Conditions.Ready {
				return "", nil
			}
		}
	}
	return "its service " + name + " has no ready endpoints", nil
}
