package pod

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/drydock-dev/drydock/internal/kube"
	"github.com/drydock-dev/drydock/internal/service/eks/podidentity"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
)

// Troubled returns pods of a cluster of the call's account and region that are not ready, and service accounts that have
// roles, as NAMESPACE/NAME and at most so many of each.
func (s *Service) Troubled(ctx context.Context, cluster string, most int) (pods, accounts []string, err error) {
	key, _, ses, err := s.Session(ctx, cluster)
	if err != nil {
		return nil, nil, err
	}
	all, err := ses.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "status.phase!=Succeeded"})
	if err != nil {
		return nil, nil, err
	}
	for i := range all.Items {
		p := &all.Items[i]
		if p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodFailed && !kube.PodReady(p) && len(pods) < most {
			pods = append(pods, p.Namespace+"/"+p.Name)
		}
	}
	list, err := ses.Client.CoreV1().ServiceAccounts("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, err
	}
	for i := range list.Items {
		if a := &list.Items[i]; a.Annotations[podidentity.AnnotationRole] != "" {
			accounts = append(accounts, a.Namespace+"/"+a.Name)
		}
	}
	for _, i := range record.PodIdentities.All(s.Store, key.AllBelow()) {
		accounts = append(accounts, *i.Value.Association.Namespace+"/"+*i.Value.Association.ServiceAccount)
	}
	slices.Sort(accounts)
	accounts = slices.Compact(accounts)
	return pods, accounts[:min(len(accounts), most)], nil
}

// NodePods is how many pods are on a node, and how many may be. Most is 0 if the node has not said so.
type NodePods struct {
	Node       string
	Pods, Most int64
}

// PodsOfNodes returns how many pods are on each node of a cluster of the call's account and region.
func (s *Service) PodsOfNodes(ctx context.Context, cluster string) ([]NodePods, error) {
	_, _, ses, err := s.Session(ctx, cluster)
	if err != nil {
		return nil, err
	}
	pods, err := ses.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "status.phase!=Succeeded,status.phase!=Failed"})
	if err != nil {
		return nil, err
	}
	on := map[string]int64{}
	for i := range pods.Items {
		on[pods.Items[i].Spec.NodeName]++
	}
	nodes, err := ses.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var out []NodePods
	for i := range nodes.Items {
		n := &nodes.Items[i]
		if n.Labels["eks.amazonaws.com/compute-type"] == "fargate" { // which is for one pod
			continue
		}
		out = append(out, NodePods{n.Name, on[n.Name], n.Status.Allocatable.Pods().Value()})
	}
	return out, nil
}

// PodsOfDNS counts the pods behind the Service at a cluster's DNS address, whether they are ready or not. Terminating pods do not
// count. It returns 0 if there is no such Service. The cluster is in the call's account and region.
func (s *Service) PodsOfDNS(ctx context.Context, cluster string) (int, error) {
	_, rec, ses, err := s.Session(ctx, cluster)
	if err != nil {
		return 0, err
	}
	services, err := ses.Client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	at := slices.IndexFunc(services.Items, func(s corev1.Service) bool { return s.Spec.ClusterIP == rec.DNSAddress() })
	if at < 0 {
		return 0, nil
	}
	dns := &services.Items[at]
	pods, err := ses.Client.CoreV1().Pods(dns.Namespace).List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(dns.Spec.Selector).String()})
	if err != nil {
		return 0, err
	}
	n := 0
	for i := range pods.Items {
		if p := &pods.Items[i]; p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			n++
		}
	}
	return n, nil
}
