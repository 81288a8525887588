package eks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/drydock-dev/drydock/internal/reconcile"
	"github.com/drydock-dev/drydock/internal/store"
)

// fargateDrainStep is how often the pods of a DELETING profile are looked at.
const fargateDrainStep = 200 * time.Millisecond

// fargateNoticeStep is how often it is asked whether the API server has noticed
// Fargate's webhook.
const fargateNoticeStep = 20 * time.Millisecond

// fargatePlaneWait is how long a control plane may take over what a profile's
// reconciliation asks of it.
const fargatePlaneWait = 10 * time.Second

// fargatePodWorkers is how many pods of a DELETING profile are deleted at once.
const fargatePodWorkers = 16

// fargateReconciler brings Fargate profiles to what their records say.
func (s *Service) fargateReconciler() reconcile.Config {
	return reconcile.Config{
		Name: "eks/fargateprofile", Watcher: fargateProfiles.Watch(s.store, store.Scope{}), Reconcile: s.reconcileFargateProfile, Log: s.log,
	}
}

// reconcileFargateProfile brings one Fargate profile a step nearer to what its
// record says.
func (s *Service) reconcileFargateProfile(ctx context.Context, key store.Key) (time.Duration, error) {
	p, err := fargateProfiles.Get(s.store, key)
	if err != nil {
		return 0, store.IgnoreNotFound(err)
	}
	cluster, err := clusters.Get(s.store, clusterOf(key))
	if err != nil {
		return 0, store.IgnoreNotFound(err) // reset; nothing to do it with
	}
	switch p.Profile.Status {
	case ekstypes.FargateProfileStatusCreating:
		err := s.letFargateIn(ctx, key, &p, &cluster)
		if errors.Is(err, errWebhookUnnoticed) && s.clock.Since(p.Since) < s.cfg.Timing.FargateProfileTimeout {
			return fargateNoticeStep, nil
		}
		if err != nil {
			return s.fargateTrouble(ctx, key, &p, err)
		}
		return s.createFargateProfile(ctx, key, &p)
	case ekstypes.FargateProfileStatusActive:
		return s.keepFargateWebhook(ctx, key, &cluster)
	case ekstypes.FargateProfileStatusDeleting:
		return s.removeFargateProfile(ctx, key, &p, &cluster)
	}
	return 0, nil
}

// letFargateIn lets a profile's machines into its cluster, where access entries do not,
// and has the cluster ask which pods are Fargate's.
func (s *Service) letFargateIn(ctx context.Context, key store.Key, p *fargateProfileRecord, cluster *clusterRecord) error {
	ses, err := s.sessions.open(clusterOf(key), cluster.Plane.ID)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, fargatePlaneWait)
	defer cancel()
	if err := s.ensureFargateWebhook(ctx, ses); err != nil || cluster.usesAPI() {
		return err
	}
	return mapNodeRole(ctx, ses, p.Role.ARN, typeFargateLinux)
}

// keepFargateWebhook puts Fargate's webhook into the cluster of an ACTIVE profile, once in
// a session: where the profile was made by a Drydock that put it elsewhere, it has none.
func (s *Service) keepFargateWebhook(ctx context.Context, key store.Key, cluster *clusterRecord) (time.Duration, error) {
	if usable(*cluster) != nil {
		return 0, nil // what a cluster has goes with it
	}
	ses, err := s.sessions.open(clusterOf(key), cluster.Plane.ID)
	if err != nil || fargateWebhookOf(ses).put.Load() || fargateWebhookOf(ses).called.Load() {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, fargatePlaneWait)
	defer cancel()
	return 0, s.putFargateWebhook(ctx, ses)
}

// fargateTrouble has a profile that cannot be made tried again, or makes it
// CREATE_FAILED: a CREATING one could not even be deleted, nor its cluster.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_FargateProfileIssue.html
func (s *Service) fargateTrouble(ctx context.Context, key store.Key, p *fargateProfileRecord, cause error) (time.Duration, error) {
	if ctx.Err() != nil || s.clock.Since(p.Since) < s.cfg.Timing.FargateProfileTimeout {
		return 0, cause
	}
	issue := ekstypes.FargateProfileIssue{Code: ekstypes.FargateProfileIssueCodeClusterUnreachable, Message: new(cause.Error()), ResourceIds: []string{p.Role.ARN}}
	var unreadable *unreadableAuthError
	switch {
	case errors.As(cause, &unreadable):
		issue.Code = ekstypes.FargateProfileIssueCodeInternalFailure
	case apierrors.IsForbidden(cause), apierrors.IsUnauthorized(cause):
		issue.Code = ekstypes.FargateProfileIssueCodeAccessDenied
	}
	s.log.Warn("the Fargate profile failed", "profile", key.String(), "err", cause)
	return 0, store.IgnoreNotFound(fargateProfiles.UpdateOne(ctx, s.store, key, func(now *fargateProfileRecord) error {
		if now.UUID == p.UUID && now.Profile.Status == ekstypes.FargateProfileStatusCreating {
			now.Profile.Status, now.Since = ekstypes.FargateProfileStatusCreateFailed, s.clock.Now().UTC()
			now.Profile.Health = &ekstypes.FargateProfileHealth{Issues: []ekstypes.FargateProfileIssue{issue}}
		}
		return nil
	}))
}

// createFargateProfile makes a profile ACTIVE whose machines are let in.
func (s *Service) createFargateProfile(ctx context.Context, key store.Key, p *fargateProfileRecord) (time.Duration, error) {
	if wait := p.Since.Add(s.cfg.Timing.FargateProfileCreating).Sub(s.clock.Now()); wait > 0 {
		return wait, nil
	}
	return 0, store.IgnoreNotFound(fargateProfiles.UpdateOne(ctx, s.store, key, func(now *fargateProfileRecord) error {
		if now.UUID == p.UUID && now.Profile.Status == ekstypes.FargateProfileStatusCreating {
			now.Profile.Status, now.Since = ekstypes.FargateProfileStatusActive, s.clock.Now().UTC()
		}
		return nil
	}))
}

// removeFargateProfile deletes the pods of a DELETING profile, then what let their
// machines into the cluster, then its record. From the moment it is DELETING no new
// pod gets it.
func (s *Service) removeFargateProfile(ctx context.Context, key store.Key, p *fargateProfileRecord, cluster *clusterRecord) (time.Duration, error) {
	patient := s.clock.Since(p.Since) < s.cfg.Timing.NodeDrain // a dead control plane holds up no deletion for ever
	left := 0
	ses, err := s.sessions.open(clusterOf(key), cluster.Plane.ID)
	if err == nil {
		left, err = s.deleteFargatePods(ctx, ses, p.name())
	}
	if err != nil && patient {
		return 0, err
	}
	if s.cfg.FargateMachines != nil {
		n, err := s.cfg.FargateMachines(key.Account, key.Region, clusterOf(key).ID, p.name())
		if err != nil {
			return 0, err
		}
		left += n
	}
	if left > 0 && patient {
		return fargateDrainStep, nil
	}
	if wait := p.Since.Add(s.cfg.Timing.FargateProfileDeleting).Sub(s.clock.Now()); wait > 0 {
		return wait, nil
	}
	heir, err := fargateHeir(s.store, key, p)
	if err != nil {
		return 0, err
	}
	if heir == nil && cluster.usesConfigMap() && ses != nil {
		waited, cancel := context.WithTimeout(ctx, fargatePlaneWait)
		defer cancel()
		if err := unmapNodeRole(waited, ses, p.Role.ARN, typeFargateLinux); err != nil && patient {
			return 0, err
		}
	}
	return 0, s.store.Update(ctx, func(tx *store.Tx) error {
		now, err := fargateProfiles.Get(tx, key)
		if err != nil || now.UUID != p.UUID {
			return store.IgnoreNotFound(err)
		}
		heir, err := fargateHeir(tx, key, p)
		if err != nil {
			return err
		}
		fargateProfiles.Delete(tx, key)
		switch {
		case !now.AccessEntryMade:
		case heir != nil: // its machines come in by the entry, and it removes it
			return fargateProfiles.Update(tx, *heir, func(o *fargateProfileRecord) error { o.AccessEntryMade = true; return nil })
		default:
			accessEntries.Delete(tx, below(clusterOf(key), now.Role.ARN))
		}
		return nil
	})
}

// fargateHeir returns another profile of the cluster with the same role; nil: none.
// Only one profile changes at a time, so all others stay.
func fargateHeir(r store.Reader, key store.Key, p *fargateProfileRecord) (*store.Key, error) {
	others, err := fargateProfiles.List(r, allBelow(clusterOf(key)))
	i := slices.IndexFunc(others, func(o store.Item[fargateProfileRecord]) bool { return o.Key != key && o.Value.Role == p.Role })
	if i < 0 {
		return nil, err
	}
	return &others[i].Key, nil
}

// deleteFargatePods deletes what is left of a profile's pods and says how many are.
func (s *Service) deleteFargatePods(ctx context.Context, ses *session, profile string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, fargatePlaneWait)
	defer cancel()
	list, err := ses.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		LabelSelector: labels.Set{labelFargateProfile: profile}.String(),
	})
	if err != nil {
		return 0, fmt.Errorf("listing the pods of Fargate profile %s: %w", profile, err)
	}
	left := 0
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(fargatePodWorkers)
	for i := range list.Items {
		pod := &list.Items[i]
		if pod.Spec.SchedulerName != fargateScheduler { // somebody's label
			continue
		}
		left++
		if pod.DeletionTimestamp != nil {
			continue
		}
		g.Go(func() error {
			err := ses.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}})
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				return fmt.Errorf("deleting pod %s/%s: %w", pod.Namespace, pod.Name, err)
			}
			return nil
		})
	}
	return left, g.Wait()
}
