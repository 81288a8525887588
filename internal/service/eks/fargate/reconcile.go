package fargate

import (
	"context"
	"errors"
	"fmt"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/drydock-dev/drydock/internal/reconcile"
	"github.com/drydock-dev/drydock/internal/service/eks/access"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// drainStep is the interval between checks of the pods of a DELETING profile.
const drainStep = 200 * time.Millisecond

// noticeStep is the interval between checks of whether the API server calls Fargate's webhook.
const noticeStep = 20 * time.Millisecond

// planeWait limits how long a reconciliation waits for the control plane.
const planeWait = 10 * time.Second

// podWorkers is how many pods of a DELETING profile are deleted at the same time.
const podWorkers = 16

// Reconciler brings Fargate profiles into the state that their records
// describe.
func (s *Service) Reconciler() reconcile.Config {
	return reconcile.Config{
		Name: "eks/fargateprofile", Watcher: record.FargateProfiles.Watch(s.Store, store.Scope{}), Reconcile: s.reconcile, Hold: s.Hold(), Log: s.Log, Clock: s.Clock,
	}
}

// reconcile brings one Fargate profile a step closer to the state in its record.
func (s *Service) reconcile(ctx context.Context, key store.Key) (time.Duration, error) {
	p, err := record.FargateProfiles.Get(s.Store, key)
	if err != nil {
		return 0, store.IgnoreNotFound(err)
	}
	cluster, err := record.Clusters.Get(s.Store, key.Owner())
	if err != nil {
		return 0, store.IgnoreNotFound(err) // the cluster was reset
	}
	switch p.Profile.Status {
	case ekstypes.FargateProfileStatusCreating:
		err := s.letIn(ctx, key, &p, &cluster)
		if errors.Is(err, errWebhookUnnoticed) && s.Clock.Since(p.Since) < s.Timing.FargateProfileTimeout {
			return noticeStep, nil
		}
		if err != nil {
			return s.trouble(ctx, key, &p, err)
		}
		return s.activate(ctx, key, &p)
	case ekstypes.FargateProfileStatusActive:
		return s.keepWebhook(ctx, key, &cluster)
	case ekstypes.FargateProfileStatusDeleting:
		return s.remove(ctx, key, &p, &cluster)
	}
	return 0, nil
}

// letIn installs the webhook in a profile's cluster and admits its machines through aws-auth,
// unless access entries do that.
func (s *Service) letIn(ctx context.Context, key store.Key, p *record.FargateProfile, cluster *record.Cluster) error {
	ses, err := s.Sessions.Open(key.Owner(), cluster.Plane.ID)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, planeWait)
	defer cancel()
	if err := s.ensureWebhook(ctx, ses); err != nil || cluster.UsesAPI() {
		return err
	}
	return access.MapNodeRole(ctx, ses, p.Role.ARN, access.TypeFargateLinux)
}

// keepWebhook installs Fargate's webhook in the cluster of an ACTIVE profile, once per session.
// Profiles created by older Drydock releases, which put it elsewhere, lack it.
func (s *Service) keepWebhook(ctx context.Context, key store.Key, cluster *record.Cluster) (time.Duration, error) {
	if base.Usable(*cluster) != nil {
		return 0, nil // Fargate profiles are deleted with their cluster
	}
	ses, err := s.Sessions.Open(key.Owner(), cluster.Plane.ID)
	if err != nil || webhookOf(ses).put.Load() || webhookOf(ses).called.Load() {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, planeWait)
	defer cancel()
	return 0, s.putWebhook(ctx, ses)
}

// trouble retries a profile that cannot be created, or makes it CREATE_FAILED after a while. If it
// stayed CREATING, neither it nor its cluster could be deleted.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_FargateProfileIssue.html
func (s *Service) trouble(ctx context.Context, key store.Key, p *record.FargateProfile, cause error) (time.Duration, error) {
	if ctx.Err() != nil || s.Clock.Since(p.Since) < s.Timing.FargateProfileTimeout {
		return 0, cause
	}
	issue := ekstypes.FargateProfileIssue{Code: ekstypes.FargateProfileIssueCodeClusterUnreachable, Message: new(cause.Error()), ResourceIds: []string{p.Role.ARN}}
	var unreadable *access.UnreadableAuthError
	switch {
	case errors.As(cause, &unreadable):
		issue.Code = ekstypes.FargateProfileIssueCodeInternalFailure
	case apierrors.IsForbidden(cause), apierrors.IsUnauthorized(cause):
		issue.Code = ekstypes.FargateProfileIssueCodeAccessDenied
	}
	s.Log.Warn("the Fargate profile failed", "profile", key.String(), "err", cause)
	return 0, store.IgnoreNotFound(record.FargateProfiles.UpdateOne(ctx, s.Store, key, func(now *record.FargateProfile) error {
		if now.UUID == p.UUID && now.Profile.Status == ekstypes.FargateProfileStatusCreating {
			now.Profile.Status, now.Since = ekstypes.FargateProfileStatusCreateFailed, s.Clock.Now().UTC()
			now.Profile.Health = &ekstypes.FargateProfileHealth{Issues: []ekstypes.FargateProfileIssue{issue}}
		}
		return nil
	}))
}

// activate makes a profile ACTIVE once its machines are admitted.
func (s *Service) activate(ctx context.Context, key store.Key, p *record.FargateProfile) (time.Duration, error) {
	if wait := p.Since.Add(s.Timing.FargateProfileCreating).Sub(s.Clock.Now()); wait > 0 {
		return wait, nil
	}
	return 0, store.IgnoreNotFound(record.FargateProfiles.UpdateOne(ctx, s.Store, key, func(now *record.FargateProfile) error {
		if now.UUID == p.UUID && now.Profile.Status == ekstypes.FargateProfileStatusCreating {
			now.Profile.Status, now.Since = ekstypes.FargateProfileStatusActive, s.Clock.Now().UTC()
		}
		return nil
	}))
}

// remove deletes the pods of a DELETING profile, then its machines' access to the cluster, then its
// record. A DELETING profile gets no new pods.
func (s *Service) remove(ctx context.Context, key store.Key, p *record.FargateProfile, cluster *record.Cluster) (time.Duration, error) {
	patient := s.Clock.Since(p.Since) < s.Timing.NodeDrain // an unreachable control plane must not block a deletion forever
	left := 0
	ses, err := s.Sessions.Open(key.Owner(), cluster.Plane.ID)
	if err == nil {
		left, err = s.deletePods(ctx, ses, p.Name())
	}
	if err != nil && patient {
		return 0, err
	}
	if s.FargateMachines != nil {
		left += s.FargateMachines(key.Account, key.Region, key.Owner().ID, p.Name())
	}
	if left > 0 && patient {
		return drainStep, nil
	}
	if wait := p.Since.Add(s.Timing.FargateProfileDeleting).Sub(s.Clock.Now()); wait > 0 {
		return wait, nil
	}
	heir := findHeir(s.Store, key, p)
	if heir == nil && cluster.UsesConfigMap() && ses != nil {
		waited, cancel := context.WithTimeout(ctx, planeWait)
		defer cancel()
		if err := access.UnmapNodeRole(waited, ses, p.Role.ARN, access.TypeFargateLinux); err != nil && patient {
			return 0, err
		}
	}
	return 0, s.Store.Update(ctx, func(tx *store.Tx) error {
		now, err := record.FargateProfiles.Get(tx, key)
		if err != nil || now.UUID != p.UUID {
			return store.IgnoreNotFound(err)
		}
		heir := findHeir(tx, key, p)
		record.FargateProfiles.Delete(tx, key)
		if !now.AccessEntryMade {
			return nil
		}
		return access.Dismiss(tx, record.FargateProfiles, key.Owner(), now.Role, heir, func(o *record.FargateProfile) *bool { return &o.AccessEntryMade })
	})
}

// findHeir returns another profile of the cluster with the same role, or nil if there is no such
// profile. Only one profile changes at a time, so the heir is not about to be deleted.
func findHeir(r store.Reader, key store.Key, p *record.FargateProfile) *store.Key {
	return record.Other(r, record.FargateProfiles, key, func(o *record.FargateProfile) bool { return o.Role == p.Role })
}

// deletePods deletes the remaining pods of a profile and returns how many there were.
func (s *Service) deletePods(ctx context.Context, ses *plane.Session, profile string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, planeWait)
	defer cancel()
	list, err := ses.Client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		LabelSelector: labels.Set{labelProfile: profile}.String(),
	})
	if err != nil {
		return 0, fmt.Errorf("listing the pods of Fargate profile %s: %w", profile, err)
	}
	left := 0
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(podWorkers)
	for i := range list.Items {
		pod := &list.Items[i]
		if pod.Spec.SchedulerName != scheduler { // a user has set the label
			continue
		}
		left++
		if pod.DeletionTimestamp != nil {
			continue
		}
		g.Go(func() error {
			err := ses.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}})
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				return fmt.Errorf("deleting pod %s/%s: %w", pod.Namespace, pod.Name, err)
			}
			return nil
		})
	}
	return left, g.Wait()
}
