package fargate

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
)

// A SecurityGroupPolicy gives the pods of a namespace security groups of their own.
// https://docs.aws.amazon.com/eks/latest/userguide/sg-pods-example-deployment.html
type SecurityGroupPolicy struct {
	Spec struct {
		PodSelector            *metav1.LabelSelector `json:"podSelector"`
		ServiceAccountSelector *metav1.LabelSelector `json:"serviceAccountSelector"`
		SecurityGroups         struct {
			GroupIDs []string `json:"groupIds"`
		} `json:"securityGroups"`
	} `json:"spec"`
}

// A GroupsError says why a pod cannot have the security groups of its policies.
type GroupsError struct{ Reason string }

func (e *GroupsError) Error() string { return e.Reason }

// ReadPolicies reads the SecurityGroupPolicies of a namespace.
func ReadPolicies(ctx context.Context, client rest.Interface, namespace string) ([]SecurityGroupPolicy, error) {
	raw, err := client.Get().AbsPath("/apis/vpcresources.k8s.aws/v1beta1/namespaces/"+namespace+"/securitygrouppolicies").
		SetHeader("Accept", "application/json").Do(ctx).Raw()
	if apierrors.IsNotFound(err) {
		return nil, nil // the CRD was deleted
	}
	if err != nil {
		return nil, fmt.Errorf("reading the SecurityGroupPolicies of %s: %w", namespace, err)
	}
	var list struct {
		Items []SecurityGroupPolicy `json:"items"`
	}
	return list.Items, json.Unmarshal(raw, &list)
}

// groups returns the security groups of a pod: those of all policies that match or, if none does, the cluster's.
func (s *Scheduler) groups(ctx context.Context, pod *corev1.Pod, cluster []string) ([]string, error) {
	if s.cfg.Policies == nil {
		return cluster, nil
	}
	policies, err := s.cfg.Policies(ctx, pod.Namespace)
	if err != nil || len(policies) == 0 {
		return cluster, err
	}
	account, err := s.cfg.Client.CoreV1().ServiceAccounts(pod.Namespace).Get(ctx, pod.Spec.ServiceAccountName, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	var out []string
	for i := range policies {
		if policies[i].matches(pod, account) {
			out = append(out, policies[i].Spec.SecurityGroups.GroupIDs...)
		}
	}
	if len(out) == 0 {
		return cluster, nil
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// matches reports whether all selectors of a policy match. A policy without a selector or without groups is invalid
// and matches nothing. https://github.com/aws/amazon-vpc-resource-controller-k8s/blob/master/pkg/utils/helper.go
func (p *SecurityGroupPolicy) matches(pod *corev1.Pod, account *corev1.ServiceAccount) bool {
	spec := &p.Spec
	if spec.PodSelector == nil && spec.ServiceAccountSelector == nil || len(spec.SecurityGroups.GroupIDs) == 0 {
		return false
	}
	selects := func(s *metav1.LabelSelector, of map[string]string) bool {
		if s == nil {
			return true
		}
		selector, err := metav1.LabelSelectorAsSelector(s)
		return err == nil && selector.Matches(labels.Set(of))
	}
	return selects(spec.PodSelector, pod.Labels) && selects(spec.ServiceAccountSelector, account.Labels)
}
