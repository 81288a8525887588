// Package autostorage implements the block storage of EKS Auto Mode. Next to the control plane, it does for the driver
// ebs.csi.eks.amazonaws.com what the sidecars and the controller of the EBS CSI driver do: it creates volumes for claims
// and attaches them to nodes.
//
// A pass reads the cluster's objects and EC2's volumes, and takes the next step for each. Volumes have client tokens made
// from their names, so a pass can be repeated after a crash. As on AWS, EKS creates, attaches and changes volumes as the
// cluster role, in a session with the tag eks:eks-cluster-name, and describes and deletes them as its service-linked role.
// https://docs.aws.amazon.com/aws-managed-policy/latest/reference/AmazonEKSBlockStoragePolicy.html
package autostorage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// Driver is the name of the CSI driver.
const Driver = "ebs.csi.eks.amazonaws.com"

// Labels of nodes, which are the topology of volumes.
const (
	computeLabel = "eks.amazonaws.com/compute-type"
	computeAuto  = "auto"
)

// Finalizers and annotations of the sidecars that this package stands for.
// https://kubernetes-csi.github.io/docs/sidecar-containers.html
const (
	volumeFinalizer     = "external-provisioner.volume.kubernetes.io/finalizer"
	attachmentFinalizer = "external-attacher/ebs-csi-eks-amazonaws-com"

	provisionedBy = "pv.kubernetes.io/provisioned-by"
	provisionerOf = "volume.kubernetes.io/storage-provisioner"
	selectedNode  = "volume.kubernetes.io/selected-node"
	nodeID        = "csi.alpha.kubernetes.io/node-id"

	// volumeID is the EBS volume of an attachment, whose PersistentVolume may be deleted before the volume is detached.
	volumeID = Driver + "/volume-id"
)

// A Service provides volumes.
type Service struct{ *base.Service }

// New returns the part of EKS that is the block storage of EKS Auto Mode.
func New(b *base.Service) *Service { return &Service{b} }

// Follow provides the volumes of a cluster, until the session of its control plane ends or EKS Auto Mode is disabled.
func (s *Service) Follow(key store.Key, planeID string) {
	if s.Volumes == nil {
		return
	}
	ses, err := s.Sessions.Open(key, planeID)
	if err != nil {
		return // the next reconciliation opens it
	}
	c := s.of(key, ses)
	c.follower.Follow(ses, func(ctx context.Context) {
		s.Passes(ctx, key, ses, "volumes of EKS Auto Mode", c.wake, c.start, c.pass)
	})
}

func (s *Service) of(key store.Key, ses *plane.Session) *cluster {
	return plane.Value(ses, func(ses *plane.Session) *cluster {
		return &cluster{s: s, key: key, ses: ses, wake: make(chan struct{}, 1), made: map[types.UID]string{}, events: plane.Events{Session: ses, Component: Driver, Now: s.Now}}
	})
}

// A cluster is one whose volumes are provided.
type cluster struct {
	s        *Service
	key      store.Key
	ses      *plane.Session
	wake     chan struct{}
	events   plane.Events
	follower plane.Follower

	claims      plane.Watched[*corev1.PersistentVolumeClaim]
	volumes     plane.Watched[*corev1.PersistentVolume]
	classes     plane.Watched[*storagev1.StorageClass]
	attachments plane.Watched[*storagev1.VolumeAttachment]

	// made are volumes in EC2 that the cluster may not have as objects yet, by the UIDs of their claims.
	made map[types.UID]string
}

func (c *cluster) notify() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// start creates the CSIDriver, and watches the objects until ctx ends.
func (c *cluster) start(ctx context.Context) error {
	_, err := c.ses.Client.StorageV1().CSIDrivers().Create(ctx, &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: Driver, Labels: map[string]string{"app.kubernetes.io/managed-by": "eks"}},
		Spec:       storagev1.CSIDriverSpec{AttachRequired: new(true), PodInfoOnMount: new(false), VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}},
	}, metav1.CreateOptions{FieldManager: plane.FieldManager})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the CSIDriver: %w", err)
	}
	core, storage := c.ses.Client.CoreV1(), c.ses.Client.StorageV1()
	c.claims = plane.Watch(ctx, c.ses, &corev1.PersistentVolumeClaim{}, core.PersistentVolumeClaims(""), nil, c.notify)
	c.volumes = plane.Watch(ctx, c.ses, &corev1.PersistentVolume{}, core.PersistentVolumes(), nil, c.notify)
	c.classes = plane.Watch(ctx, c.ses, &storagev1.StorageClass{}, storage.StorageClasses(), nil, c.notify)
	c.attachments = plane.Watch(ctx, c.ses, &storagev1.VolumeAttachment{}, storage.VolumeAttachments(), nil, c.notify)
	if !cache.WaitForCacheSync(ctx.Done(), c.claims.Synced, c.volumes.Synced, c.classes.Synced, c.attachments.Synced) {
		return ctx.Err()
	}
	c.ses.Go(func() { c.pollSnapshots(ctx) })
	return nil
}

// A run is one pass.
type run struct {
	*cluster
	// ctx is for calls of the cluster, and svc the service-linked role's.
	ctx context.Context //nolint:containedctx // several callers in one pass
	svc context.Context //nolint:containedctx // several callers in one pass
	rec *record.Cluster
	// role returns the cluster role's session.
	role func() (context.Context, error)
}

// pass takes the next step of each claim, volume, attachment and snapshot. It goes on after a failure of one, which its object
// gets as an event or in its status.
func (c *cluster) pass(ctx context.Context, rec *record.Cluster) error {
	r := &run{cluster: c, ctx: ctx, rec: rec, svc: c.s.AsService(ctx, c.key.Account, c.key.Region)}
	r.role = sync.OnceValues(func() (context.Context, error) { return c.s.AsClusterRole(ctx, c.key, rec) })
	var errs []error
	claims := map[types.UID]bool{}
	for _, claim := range c.claims.All() {
		claims[claim.UID] = true
		if class := r.classOf(claim); class != nil {
			errs = append(errs, r.provision(claim, class))
		}
	}
	for uid, id := range c.made {
		if !claims[uid] {
			errs = append(errs, r.abandon(uid, id))
		}
	}
	for _, v := range c.volumes.All() {
		if v.Spec.CSI != nil && v.Spec.CSI.Driver == Driver {
			errs = append(errs, r.reclaim(v), r.expand(v))
		}
	}
	for _, a := range c.attachments.All() {
		if a.Spec.Attacher == Driver {
			errs = append(errs, r.attach(a))
		}
	}
	errs = append(errs, r.snapshots()...)
	soon := false
	errs = slices.DeleteFunc(errs, func(err error) bool {
		soon = soon || errors.Is(err, base.ErrSoon)
		return err == nil || errors.Is(err, base.ErrSoon)
	})
	if len(errs) == 0 && soon {
		return base.ErrSoon
	}
	if soon {
		errs = append(errs, base.ErrSoon)
	}
	return errors.Join(errs...)
}

// Disable stops providing the volumes of a cluster whose EKS Auto Mode is disabled, and whose nodes have been terminated. The
// volumes stay in EC2 and in the cluster; only the attachments to nodes that no longer exist are removed. Follow starts again.
func (s *Service) Disable(ctx context.Context, key store.Key, ses *plane.Session) error {
	if s.Volumes == nil {
		return nil
	}
	c := s.of(key, ses)
	c.follower.Stop()
	clear(c.made)
	all, err := ses.Client.StorageV1().VolumeAttachments().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing volume attachments: %w", err)
	}
	var errs []error
	for i := range all.Items {
		if a := &all.Items[i]; a.Spec.Attacher == Driver {
			errs = append(errs, c.setFinalizer(ctx, a, attachmentFinalizer, false, nil))
			if err := ses.Client.StorageV1().VolumeAttachments().Delete(ctx, a.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				errs = append(errs, err)
			}
		}
	}
	if err := ses.Client.StorageV1().CSIDrivers().Delete(ctx, Driver, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// setFinalizer adds or removes a finalizer of a volume or an attachment, and adds annotations.
func (c *cluster) setFinalizer(ctx context.Context, o metav1.Object, name string, on bool, annotations map[string]string) error {
	if slices.Contains(o.GetFinalizers(), name) == on && len(annotations) == 0 {
		return nil
	}
	next := slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(f string) bool { return f == name })
	if on {
		next = append(next, name)
	}
	change := map[string]any{"finalizers": next, "resourceVersion": o.GetResourceVersion()}
	if len(annotations) > 0 {
		change["annotations"] = annotations
	}
	return c.patch(ctx, o, map[string]any{"metadata": change})
}

// patch changes a claim, a volume or an attachment, or its status. It is not an error if the object is gone.
func (c *cluster) patch(ctx context.Context, o metav1.Object, change map[string]any, subresource ...string) error {
	b, err := json.Marshal(change)
	if err != nil {
		return err
	}
	switch o.(type) {
	case *corev1.PersistentVolumeClaim:
		_, err = c.ses.Client.CoreV1().PersistentVolumeClaims(o.GetNamespace()).Patch(ctx, o.GetName(), types.MergePatchType, b, metav1.PatchOptions{}, subresource...)
	case *corev1.PersistentVolume:
		_, err = c.ses.Client.CoreV1().PersistentVolumes().Patch(ctx, o.GetName(), types.MergePatchType, b, metav1.PatchOptions{}, subresource...)
	case *storagev1.VolumeAttachment:
		_, err = c.ses.Client.StorageV1().VolumeAttachments().Patch(ctx, o.GetName(), types.MergePatchType, b, metav1.PatchOptions{}, subresource...)
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// refTo refers to a claim or a volume in an event.
func refTo(o metav1.Object) corev1.ObjectReference {
	ref := corev1.ObjectReference{Kind: "PersistentVolume", APIVersion: "v1", Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion()}
	if o.GetNamespace() != "" {
		ref.Kind = "PersistentVolumeClaim"
	}
	return ref
}

// event records an event about a claim or a volume, and begin the one that something begins; see [plane.Events].
func (r *run) event(o metav1.Object, typ, reason, message string) {
	r.events.Record(r.ctx, refTo(o), typ, reason, message)
}

func (r *run) begin(o metav1.Object, reason, message, failure string) {
	r.events.Begin(r.ctx, refTo(o), reason, message, failure)
}

// nodeNamed returns a node of EKS Auto Mode, or nil.
func (r *run) nodeNamed(name string) *corev1.Node {
	for _, n := range r.ses.Nodes().All() {
		if n.Name == name && n.Labels[computeLabel] == computeAuto {
			return n
		}
	}
	return nil
}

// status returns an error of the CSI driver as its sidecars word it.
func status(code, format string, args ...any) error {
	return fmt.Errorf("rpc error: code = %s desc = %s", code, strings.TrimSpace(fmt.Sprintf(format, args...)))
}

func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
