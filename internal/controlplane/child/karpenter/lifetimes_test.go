package karpenter

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// No node lives longer than 21 days, of which the time for draining is part.
func TestTheLongestLifeOfANode(t *testing.T) {
	scheme := runtime.NewScheme()
	gv := schema.GroupVersion{Group: "karpenter.sh", Version: "v1"}
	scheme.AddKnownTypes(gv, &karpv1.NodeClaim{}, &karpv1.NodeClaimList{})
	metav1.AddToGroupVersion(scheme, gv)
	const day = 24 * time.Hour
	born := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name  string
		grace time.Duration // 0 means none
		life  time.Duration
	}{{"without a time for draining", 0, 21 * day}, {"with one", 2 * day, 19 * day}, {"with a longer one than its life", 30 * day, 0}} {
		t.Run(tt.name, func(t *testing.T) {
			claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "n", CreationTimestamp: metav1.Time{Time: born}}}
			if tt.grace > 0 {
				claim.Spec.TerminationGracePeriod = &metav1.Duration{Duration: tt.grace}
			}
			now := clocktesting.NewFakeClock(born)
			c := &lifetimes{client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(claim).Build(), clock: now}
			reconciled := func() time.Duration {
				t.Helper()
				res, err := c.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(claim)})
				if err != nil {
					t.Fatal(err)
				}
				return res.RequeueAfter
			}
			if tt.life > 0 {
				if left := reconciled(); left != tt.life {
					t.Errorf("looked at again after %v, want %v", left, tt.life)
				}
				now.Step(tt.life)
			}
			reconciled()
			if err := c.client.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); !apierrors.IsNotFound(err) {
				t.Errorf("at the end of its life: %v", err)
			}
		})
	}
}
