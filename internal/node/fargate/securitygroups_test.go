package fargate

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/internal/store"
)

func TestSecurityGroupPolicies(t *testing.T) {
	selector := func(k, v string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{k: v}}
	}
	policy := func(pods, accounts *metav1.LabelSelector, groups ...string) (p SecurityGroupPolicy) {
		p.Spec.PodSelector, p.Spec.ServiceAccountSelector, p.Spec.SecurityGroups.GroupIDs = pods, accounts, groups
		return p
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"team": "a"}}}
	for _, tc := range []struct {
		name   string
		policy SecurityGroupPolicy
		want   bool
	}{
		{"by the pod", policy(selector("app", "web"), nil, "sg-1"), true},
		{"by another pod", policy(selector("app", "db"), nil, "sg-1"), false},
		{"by the service account", policy(nil, selector("team", "a"), "sg-1"), true},
		{"by both", policy(selector("app", "web"), selector("team", "a"), "sg-1"), true},
		{"by one of both", policy(selector("app", "web"), selector("team", "b"), "sg-1"), false},
		{"by all pods", policy(&metav1.LabelSelector{}, nil, "sg-1"), true},
		{"by nothing", policy(nil, nil, "sg-1"), false},
		{"without groups", policy(selector("app", "web"), nil), false},
		{"bad selector", policy(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like"}}}, nil, "sg-1"), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.policy.matches(pod, account); got != tc.want {
				t.Errorf("matches = %t", got)
			}
		})
	}
}

func TestPodsWithTheirOwnGroups(t *testing.T) {
	w := newWorld(t)
	w.policies = make([]SecurityGroupPolicy, 2)
	for i, groups := range [][]string{{"sg-b", "sg-a"}, {"sg-b"}} {
		w.policies[i].Spec.PodSelector = &metav1.LabelSelector{}
		w.policies[i].Spec.SecurityGroups.GroupIDs = groups
	}
	w.start()
	w.create("web", nil)
	w.bound("web")
	w.mu.Lock()
	if want := []string{"sg-a", "sg-b"}; !slices.Equal(w.groups, want) {
		t.Errorf("groups %v, want %v", w.groups, want)
	}
	w.badGroups = &GroupsError{"The security group 'sg-b' does not exist"}
	w.mu.Unlock()
	w.create("second", nil)
	w.eventually("second", "Warning FailedScheduling: Pod provisioning failed: The security group 'sg-b' does not exist")
	w.settles([4]int{1, 1, 1, 1})
}

// If a machine without an interface after a crash is refused one, the pod reports the reason, and is placed again
// with its security groups at that time.
func TestRefusedAfterACrash(t *testing.T) {
	for name, refused := range map[string]error{
		"groups": &GroupsError{"The security group 'sg-old' does not exist"},
		"quota":  &RefusedError{"NetworkInterfaceLimitExceeded: no more"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.badGroups = refused
			w.create("web", nil)
			m := podMachine{UID: "attempt", PodUID: "uid-web", Namespace: "shop", Pod: "web", Profile: "fp", Subnet: "subnet-a", Groups: []string{"sg-old"}}
			s := &Scheduler{cfg: Config{Account: "111122223333", Region: "us-east-1", Cluster: "dev"}}
			if err := w.store.Update(t.Context(), func(tx *store.Tx) error { return machines.Create(tx, s.key(m.PodUID), m) }); err != nil {
				t.Fatal(err)
			}
			w.start()
			w.eventually("web", "Warning FailedScheduling: Pod provisioning failed: "+refused.Error())
			w.settles([4]int{})
			w.mu.Lock()
			w.badGroups = nil
			w.mu.Unlock()
			w.bound("web")
			w.mu.Lock()
			defer w.mu.Unlock()
			if want := []string{"sg-1"}; !slices.Equal(w.groups, want) {
				t.Errorf("groups %v, want %v", w.groups, want)
			}
		})
	}
}
