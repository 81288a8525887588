package karpenter

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/drydock-dev/drydock/internal/automode"
)

const (
	// lookAgain is how often what a NodeClass selects is looked up again, and soon is the same for one that is not ready.
	lookAgain, soon = time.Minute, 5 * time.Second
	// maxLifetime is how long a node may live, whatever its NodePool says.
	// https://docs.aws.amazon.com/eks/latest/userguide/automode.html
	maxLifetime = 21 * 24 * time.Hour
)

// nodeClasses is the controller of NodeClasses: it finds what they select and reports whether nodes can be launched.
type nodeClasses struct {
	provider *provider
	client   client.Client
}

// Register implements controller.Controller of Karpenter.
func (c *nodeClasses) Register(_ context.Context, m manager.Manager) error {
	return builder.ControllerManagedBy(m).Named("nodeclass").For(&NodeClass{}).
		Watches(&karpv1.NodeClaim{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
			claim := o.(*karpv1.NodeClaim)
			if claim.DeletionTimestamp == nil { // a NodeClass is deleted after its last NodeClaim
				return nil
			}
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: claim.Spec.NodeClassRef.Name}}}
		})).Complete(c)
}

// Reconcile implements reconcile.Reconciler.
func (c *nodeClasses) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	nc := &NodeClass{}
	if err := c.client.Get(ctx, req.NamespacedName, nc); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if err := c.provider.stillEnabled(ctx); err != nil {
		return reconcile.Result{}, err
	}
	if nc.DeletionTimestamp != nil {
		return c.finalize(ctx, nc)
	}
	stored := nc.DeepCopyObject().(*NodeClass)
	controllerutil.AddFinalizer(nc, finalizer)
	nc.Annotations = merged(nc.Annotations, map[string]string{annotationHash: nc.hash(), annotationHashVersion: hashVersion})
	if !equality.Semantic.DeepEqual(stored, nc) {
		if err := c.client.Patch(ctx, nc, client.MergeFrom(stored)); err != nil {
			return reconcile.Result{}, ignoreConflict(err)
		}
		stored = nc.DeepCopyObject().(*NodeClass)
	}
	answer, err := c.provider.cfg.EKS(ctx, automode.Call{Resolve: nc.asked()})
	if err := failure(answer, err); err != nil {
		return reconcile.Result{}, err
	}
	r := answer.Resolved
	nc.Status.Subnets, nc.Status.SecurityGroups, nc.Status.InstanceProfile = r.Subnets, r.SecurityGroups, r.InstanceProfile
	if no := nc.unsupported(); len(no) > 0 {
		if r.Problems == nil {
			r.Problems = map[string]automode.Problem{}
		}
		r.Problems[validated] = automode.Problem{Reason: "NotImplemented", Message: "Drydock does not support " + strings.Join(no, ", ")}
	}
	again := lookAgain
	for _, t := range []string{automode.SubnetsReady, automode.SecurityGroupsReady, automode.InstanceProfileReady, validated} {
		if problem, ok := r.Problems[t]; ok {
			nc.StatusConditions().SetFalse(t, problem.Reason, problem.Message)
			again = soon
		} else {
			nc.StatusConditions().SetTrue(t)
		}
	}
	if !equality.Semantic.DeepEqual(stored.Status, nc.Status) {
		if err := c.client.Status().Patch(ctx, nc, client.MergeFrom(stored)); err != nil {
			return reconcile.Result{}, ignoreConflict(err)
		}
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// finalize removes the instance profile of a NodeClass when no NodeClaim uses it any more.
func (c *nodeClasses) finalize(ctx context.Context, nc *NodeClass) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(nc, finalizer) {
		return reconcile.Result{}, nil
	}
	var claims karpv1.NodeClaimList
	if err := c.client.List(ctx, &claims, client.MatchingFields{"spec.nodeClassRef.name": nc.Name}); err != nil {
		return reconcile.Result{}, err
	}
	if len(claims.Items) > 0 {
		return reconcile.Result{RequeueAfter: soon}, nil
	}
	answer, err := c.provider.cfg.EKS(ctx, automode.Call{Forget: nc.asked()})
	if err := failure(answer, err); err != nil {
		return reconcile.Result{}, err
	}
	stored := nc.DeepCopyObject().(*NodeClass)
	controllerutil.RemoveFinalizer(nc, finalizer)
	return reconcile.Result{}, client.IgnoreNotFound(ignoreConflict(c.client.Patch(ctx, nc, client.MergeFrom(stored))))
}

// ignoreConflict returns nil for a conflict: the change that caused it is reconciled next.
func ignoreConflict(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}

func merged(a, b map[string]string) map[string]string {
	out := maps.Clone(a)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, b)
	return out
}

// lifetimes deletes NodeClaims at the end of the longest life that EKS allows. Karpenter itself ends them when they
// expire, which a NodePool can set to a later time or to never.
type lifetimes struct {
	client client.Client
	clock  clock.Clock
}

// Register implements controller.Controller of Karpenter.
func (c *lifetimes) Register(_ context.Context, m manager.Manager) error {
	return builder.ControllerManagedBy(m).Named("nodeclaim.lifetime").For(&karpv1.NodeClaim{}).Complete(c)
}

// Reconcile implements reconcile.Reconciler.
func (c *lifetimes) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	claim := &karpv1.NodeClaim{}
	if err := c.client.Get(ctx, req.NamespacedName, claim); err != nil || claim.DeletionTimestamp != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	// The time for draining is part of the life.
	end := claim.CreationTimestamp.Add(maxLifetime)
	if g := claim.Spec.TerminationGracePeriod; g != nil {
		end = end.Add(-min(g.Duration, maxLifetime))
	}
	if left := end.Sub(c.clock.Now()); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	if err := c.client.Delete(ctx, claim); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(fmt.Errorf("ending the life of NodeClaim %s: %w", claim.Name, err))
	}
	return reconcile.Result{}, nil
}
