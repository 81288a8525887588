package cluster

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/internal/catalog/eksversions"
	"github.com/drydock-dev/drydock/internal/service/eks/autonodes"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
	"github.com/drydock-dev/drydock/internal/store"
)

// rollbackEvidence is the current state of a cluster, as far as only its insights about a rollback depend on it. It has its own
// unknown, so that an upgrade does not depend on it.
type rollbackEvidence struct {
	// newer are the resources that the previous version does not serve and of which the cluster has objects.
	newer []string
	// fields are the uses of fields that the previous version drops. fieldsIncomplete is true if not all objects were looked at.
	fields           []fieldUse
	fieldsIncomplete bool
	// Of a cluster with EKS Auto Mode, pools are the node pools, budgets the pod disruption budgets, and kept the names of pods
	// that must not be disrupted, with their namespaces. podsIncomplete is true if not all pods were looked at.
	pools          []unstructured.Unstructured
	budgets        []policyv1.PodDisruptionBudget
	kept           []types.NamespacedName
	podsIncomplete bool
	// unknown says why the control plane did not answer, or is empty.
	unknown string
}

// gatherRollback adds what insights about a rollback need, if the cluster can be rolled back.
func (s *Service) gatherRollback(ctx context.Context, key store.Key, ev *evidence) {
	if ev.rollback() == nil {
		return
	}
	ev.forRollback = &rollbackEvidence{unknown: ev.unknown}
	if ev.unknown != "" {
		return
	}
	if err := s.askForRollback(ctx, key, ev); err != nil {
		ev.forRollback.unknown = err.Error()
	}
}

func (s *Service) askForRollback(ctx context.Context, key store.Key, ev *evidence) error {
	ctx, cancel := context.WithTimeout(ctx, rollbackWait)
	defer cancel()
	ses, err := s.Sessions.Open(key, ev.cluster.Plane.ID)
	if err != nil {
		return err
	}
	back := ev.forRollback
	current, _ := eksversions.Lookup(*ev.cluster.Cluster.Version)
	for _, uri := range current.Introduces {
		used, err := ses.Objects.Any(ctx, resourceAt(uri))
		if err != nil {
			return err
		}
		if used {
			back.newer = append(back.newer, uri)
		}
	}
	paths, auto := pathsOf(current.IntroducesFields), autonodes.Enabled(&ev.cluster.Cluster)
	if auto {
		if _, ok := paths[podsURI]; !ok {
			paths[podsURI] = nil // pods are listed even if they have no newer fields
		}
		if back.pools, err = ses.Objects.List(ctx, autonodes.NodePools); err != nil {
			return err
		}
		budgets, err := ses.Client.PolicyV1().PodDisruptionBudgets(metav1.NamespaceAll).List(ctx, metav1.ListOptions{Limit: 500})
		if err != nil {
			return err
		}
		back.budgets = budgets.Items
	}
	for uri, paths := range paths {
		list, err := ses.Objects.List(ctx, resourceAt(uri))
		tooMany := errors.Is(err, plane.ErrTooMany)
		if err != nil && !tooMany {
			return err
		}
		if len(paths) > 0 {
			back.fields = append(back.fields, usesOf(uri, list, paths)...)
			back.fieldsIncomplete = back.fieldsIncomplete || tooMany
		}
		if auto && uri == podsURI {
			back.podsIncomplete = tooMany
			if back.kept, err = keptPods(list, ev.nodes, ev.now); err != nil {
				return err
			}
		}
	}
	slices.SortFunc(back.fields, func(a, b fieldUse) int { return strings.Compare(a.uri+" "+a.path, b.uri+" "+b.path) })
	return nil
}

// doNotDisrupt is the annotation of pods and nodes that Karpenter does not disrupt voluntarily.
// https://karpenter.sh/docs/concepts/disruption/#controls
const doNotDisrupt = "karpenter.sh/do-not-disrupt"

// keptPods returns the pods on nodes of EKS Auto Mode that must not be disrupted.
func keptPods(pods []unstructured.Unstructured, nodes []*corev1.Node, now time.Time) ([]types.NamespacedName, error) {
	auto := map[string]bool{}
	for _, n := range nodes {
		auto[n.Name] = n.Labels[labelCompute] == computeAuto
	}
	var kept []types.NamespacedName
	for i := range pods {
		if pods[i].GetAnnotations()[doNotDisrupt] == "" {
			continue
		}
		var p corev1.Pod
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(pods[i].Object, &p); err != nil {
			return nil, err
		}
		if auto[p.Spec.NodeName] && isKept(&p, now) {
			kept = append(kept, types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
		}
	}
	return kept, nil
}

// isKept reports whether Karpenter does not disrupt a pod. The annotation is "true", or how long it applies after the
// pod's start.
func isKept(p *corev1.Pod, now time.Time) bool {
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed || p.DeletionTimestamp != nil {
		return false
	}
	value := p.Annotations[doNotDisrupt]
	d, err := time.ParseDuration(value)
	return value == "true" || err == nil && d > 0 && (p.Status.StartTime == nil || now.Sub(p.Status.StartTime.Time) < d)
}
