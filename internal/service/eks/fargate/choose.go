package fargate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// ExplainFargate holds a pod against the Fargate profiles of a cluster.
func (s *Service) ExplainFargate(_ context.Context, account, region, cluster, namespace string, pod *corev1.Pod) (Choice, error) {
	return s.explain(store.Key{Account: account, Region: region, ID: cluster}, namespace, pod)
}

func (s *Service) explain(cluster store.Key, namespace string, pod *corev1.Pod) (Choice, error) {
	all := record.FargateProfiles.All(s.Store, record.AllBelow(cluster))
	profiles := make([]*ekstypes.FargateProfile, 0, len(all))
	for i := range all {
		profiles = append(profiles, &all[i].Value.Profile)
	}
	return choose(profiles, namespace, pod), nil
}

// choose chooses among profiles sorted by name: the first that matches, which
// is EKS's rule, or the one that the pod's label names.
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

// mismatch says why a selector does not match, empty if it does.
func mismatch(sel ekstypes.FargateProfileSelector, namespace string, labels map[string]string) string {
	if !wildcardMatch(aws.ToString(sel.Namespace), namespace) {
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
func hasLabel(labels map[string]string, key, value string) bool {
	if have, ok := labels[key]; ok && wildcardMatch(value, have) {
		return true
	}
	for k, v := range labels {
		if wildcardMatch(key, k) && wildcardMatch(value, v) {
			return true
		}
	}
	return false
}

// wildcardMatch matches * with any characters and ? with one. It goes back to the last *
// only, so that its time is bounded by the product of two short texts.
// https://docs.aws.amazon.com/eks/latest/userguide/fargate-profile.html#fargate-profile-wildcards
func wildcardMatch(pattern, s string) bool {
	p, i := 0, 0
	star, from := -1, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, i
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == s[i]):
			p++
			i++
		case star >= 0:
			from++
			p, i = star+1, from
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}
