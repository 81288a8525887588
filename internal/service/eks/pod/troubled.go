package pod

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
