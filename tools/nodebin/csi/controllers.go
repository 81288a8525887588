package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/kubernetes-csi/csi-lib-utils/metrics"
	"github.com/kubernetes-csi/csi-lib-utils/rpc"
	"github.com/kubernetes-csi/csi-lib-utils/standardflags"
	"github.com/kubernetes-csi/external-attacher/v4/pkg/attacher"
	attachcontroller "github.com/kubernetes-csi/external-attacher/v4/pkg/controller"
	provisioncontroller "github.com/kubernetes-csi/external-provisioner/v6/pkg/controller"
	provisionfeatures "github.com/kubernetes-csi/external-provisioner/v6/pkg/features"
	resizecontroller "github.com/kubernetes-csi/external-resizer/v2/pkg/controller"
	resizecsi "github.com/kubernetes-csi/external-resizer/v2/pkg/csi"
	"github.com/kubernetes-csi/external-resizer/v2/pkg/modifier"
	"github.com/kubernetes-csi/external-resizer/v2/pkg/modifycontroller"
	"github.com/kubernetes-csi/external-resizer/v2/pkg/resizer"
	"github.com/kubernetes-csi/external-resizer/v2/pkg/util"
	snapshotscheme "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned/scheme"
	snapshotinformers "github.com/kubernetes-csi/external-snapshotter/client/v8/informers/externalversions"
	commoncontroller "github.com/kubernetes-csi/external-snapshotter/v8/pkg/common-controller"
	snapshotmetrics "github.com/kubernetes-csi/external-snapshotter/v8/pkg/metrics"
	sidecarcontroller "github.com/kubernetes-csi/external-snapshotter/v8/pkg/sidecar-controller"
	snapshotterapi "github.com/kubernetes-csi/external-snapshotter/v8/pkg/snapshotter"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	csitrans "k8s.io/csi-translation-lib"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// provision makes volumes for claims.
func provision(ctx context.Context, args []string) error {
	s := newSidecar(10*time.Second, 15*time.Minute, 100, "worker-threads")
	strict := s.fs.Bool("strict-topology", false, "pass only the selected node's topology")
	immediate := s.fs.Bool("immediate-topology", true, "pass all nodes' topology for immediate binding")
	if err := s.connect(ctx, args, true); err != nil {
		return err
	}
	s.disableAttributes()
	plugin, caps, err := provisioncontroller.GetDriverCapabilities(s.conn, callTime)
	if err != nil {
		return fmt.Errorf("the driver's capabilities: %w", err)
	}
	translator, inTree := csitrans.New(), ""
	if translator.IsMigratedCSIDriverByName(s.driver) {
		if inTree, err = translator.GetInTreeNameFromCSIName(s.driver); err != nil {
			return err
		}
	}
	factory := informers.NewSharedInformerFactory(s.client, provisioncontroller.ResyncPeriodOfCsiNodeInformer)
	claims := factory.Core().V1().PersistentVolumeClaims()
	id := strconv.FormatInt(time.Now().UnixMilli(), 10) + "-" + strconv.Itoa(rand.IntN(10000)) + "-" + s.driver
	made := provisioncontroller.NewCSIProvisioner(s.client, s.timeout, id, "pvc", -1, s.conn, s.snapshots, s.driver, plugin, caps, inTree, *strict, *immediate, translator,
		factory.Storage().V1().StorageClasses().Lister(), factory.Storage().V1().CSINodes().Lister(), factory.Core().V1().Nodes().Lister(), claims.Lister(),
		factory.Storage().V1().VolumeAttachments().Lister(), nil, s.extraCreateMetadata, s.defaultFSType, nil, false, true, provisioncontroller.NewInMemoryStore())
	options := []func(*controller.ProvisionController) error{
		controller.LeaderElection(false), // it is this program's
		controller.FailedProvisionThreshold(0), controller.FailedDeleteThreshold(0), controller.RateLimiter(s.limiter()), controller.Threadiness(s.workers),
		controller.CreateProvisionedPVLimiter(workqueue.DefaultTypedControllerRateLimiter[string]()), controller.ClaimsInformer(claims.Informer()),
		controller.RetryIntervalMax(s.retryMax), controller.AddFinalizer(true),
	}
	if inTree != "" {
		options = append(options, controller.AdditionalProvisionerNames([]string{inTree}))
	}
	ctrl := controller.NewProvisionController(ctx, s.client, s.driver, made, options...)
	cloning := provisioncontroller.NewCloningProtectionController(s.client, claims.Lister(), claims.Informer(),
		workqueue.NewTypedRateLimitingQueueWithConfig(s.limiter(), workqueue.TypedRateLimitingQueueConfig[string]{Name: "claims"}), caps)
	s.lead(ctx, s.driver, func(ctx context.Context) {
		factory.Start(ctx.Done())
		factory.WaitForCacheSync(ctx.Done())
		if cloning != nil {
			go cloning.Run(ctx, 1, nil)
		}
		ctrl.Run(ctx)
	})
	return nil
}

// disableAttributes turns VolumeAttributesClass off where the cluster does not have it.
func (s *sidecar) disableAttributes() {
	if has, err := provisionfeatures.IsVolumeAttributesClassV1Enabled(s.client.Discovery()); err == nil && !has {
		_ = utilfeature.DefaultMutableFeatureGate.Set(string(provisionfeatures.VolumeAttributesClass) + "=false") // the gate exists
	}
}

// attach attaches volumes to nodes.
func attach(ctx context.Context, args []string) error {
	s := newSidecar(15*time.Second, 10*time.Minute, 10, "worker-threads")
	again := s.fs.Duration("reconcile-sync", time.Minute, "how often attachments are compared with the driver's")
	if err := s.connect(ctx, args, true); err != nil {
		return err
	}
	call, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	caps, err := rpc.GetControllerCapabilities(call, s.conn)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(s.client, s.resync)
	storage, volumes := factory.Storage().V1(), factory.Core().V1().PersistentVolumes()
	handler := attachcontroller.NewCSIHandler(s.client, s.driver, attacher.NewAttacher(s.conn), attacher.NewVolumeLister(s.conn, 0), volumes.Lister(), storage.CSINodes().Lister(),
		storage.VolumeAttachments().Lister(), &s.timeout, caps[csi.ControllerServiceCapability_RPC_PUBLISH_READONLY],
		caps[csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER], csitrans.New(), s.defaultFSType)
	ctrl := attachcontroller.NewCSIAttachController(logger(), s.client, s.driver, handler, storage.VolumeAttachments(), volumes, s.limiter(), s.limiter(),
		caps[csi.ControllerServiceCapability_RPC_LIST_VOLUMES_PUBLISHED_NODES], *again)
	s.lead(ctx, "external-attacher-leader-"+s.driver, func(ctx context.Context) {
		factory.Start(ctx.Done())
		ctrl.Run(ctx, s.workers, nil)
	})
	return nil
}

// resize enlarges and changes volumes.
func resize(ctx context.Context, args []string) error {
	s := newSidecar(10*time.Second, 10*time.Minute, 10, "workers")
	inUse := s.fs.Bool("handle-volume-inuse-error", true, "wait while a volume is in use")
	metadata := s.fs.Bool("extra-modify-metadata", false, "tell the driver the names of objects")
	if err := s.connect(ctx, args, true); err != nil {
		return err
	}
	s.disableAttributes()
	client, err := resizecsi.New(ctx, standardflags.Configuration.CSIAddress, s.timeout, metrics.NewCSIMetricsManager(s.driver))
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(s.client, s.resync)
	larger, err := resizer.NewResizerFromClient(client, s.timeout, s.client, s.driver)
	if err != nil {
		return err
	}
	changed, err := modifier.NewModifierFromClient(client, s.timeout, s.client, factory, *metadata, s.driver)
	if err != nil && !errors.Is(err, modifier.ModifyNotSupportErr) {
		return err
	}
	ctrl := resizecontroller.NewResizeController(larger.Name(), larger, s.client, s.resync, factory, s.limiter(), *inUse, s.retryMax)
	var changes modifycontroller.ModifyController
	if err == nil && utilfeature.DefaultFeatureGate.Enabled(provisionfeatures.VolumeAttributesClass) {
		changes = modifycontroller.NewModifyController(changed.Name(), changed, s.client, s.resync, s.retryMax, *metadata, factory, s.limiter())
	}
	s.lead(ctx, "external-resizer-"+util.SanitizeName(larger.Name()), func(ctx context.Context) {
		factory.Start(ctx.Done())
		if changes != nil {
			go changes.Run(s.workers, ctx, nil)
		}
		go ctrl.Run(s.workers, ctx, nil)
		<-ctx.Done()
	})
	return nil
}

// snapshot makes snapshots of volumes for the contents that the snapshot controller makes.
func snapshot(ctx context.Context, args []string) error {
	s := newSidecar(time.Minute, 15*time.Minute, 10, "worker-threads")
	if err := s.connect(ctx, args, true); err != nil {
		return err
	}
	if err := s.awaitSnapshotAPI(ctx); err != nil {
		return err
	}
	if err := snapshotscheme.AddToScheme(scheme.Scheme); err != nil { // for events
		return err
	}
	factory := snapshotinformers.NewSharedInformerFactory(s.snapshots, s.resync)
	ctrl := sidecarcontroller.NewCSISnapshotSideCarController(s.snapshots, s.client, s.driver, factory.Snapshot().V1().VolumeSnapshotContents(), factory.Snapshot().V1().VolumeSnapshotClasses(),
		snapshotterapi.NewSnapshotter(s.conn), nil, s.timeout, s.resync, "snapshot", -1, "groupsnapshot", -1, s.extraCreateMetadata, s.limiter(), false, nil, nil, s.limiter())
	s.lead(ctx, "external-snapshotter-leader-"+s.driver, func(ctx context.Context) {
		factory.Start(ctx.Done())
		var wg sync.WaitGroup
		ctrl.Run(s.workers, ctx.Done(), &wg)
	})
	return nil
}

// awaitSnapshotAPI waits until the cluster has the kinds of snapshots, which come with another add-on. Upstream's sidecar logs
// errors until then.
func (s *sidecar) awaitSnapshotAPI(ctx context.Context) error {
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		_, err := s.snapshots.SnapshotV1().VolumeSnapshotContents().List(ctx, metav1.ListOptions{Limit: 1})
		if err == nil {
			return nil
		}
		logger().V(4).Info("waiting for the snapshot API", "err", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// controlSnapshots binds snapshots and their contents.
func controlSnapshots(ctx context.Context, args []string) error {
	s := newSidecar(time.Minute, 15*time.Minute, 10, "worker-threads")
	if err := s.connect(ctx, args, false); err != nil {
		return err
	}
	if err := s.awaitSnapshotAPI(ctx); err != nil {
		return err
	}
	if err := snapshotscheme.AddToScheme(scheme.Scheme); err != nil { // for events
		return err
	}
	factory, core := snapshotinformers.NewSharedInformerFactory(s.snapshots, s.resync), informers.NewSharedInformerFactory(s.client, s.resync)
	api := factory.Snapshot().V1()
	ctrl := commoncontroller.NewCSISnapshotCommonController(s.snapshots, s.client, api.VolumeSnapshots(), api.VolumeSnapshotContents(), api.VolumeSnapshotClasses(), nil, nil, nil,
		core.Core().V1().PersistentVolumeClaims(), core.Core().V1().PersistentVolumes(), nil, snapshotmetrics.NewMetricsManager(), s.resync,
		s.limiter(), s.limiter(), s.limiter(), s.limiter(), false, true, false)
	s.lead(ctx, "snapshot-controller-leader", func(ctx context.Context) {
		factory.Start(ctx.Done())
		core.Start(ctx.Done())
		var wg sync.WaitGroup
		ctrl.Run(s.workers, ctx.Done(), &wg)
	})
	return nil
}
