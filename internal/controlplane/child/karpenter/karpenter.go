// Package karpenter runs the controllers of EKS Auto Mode for one cluster: upstream Karpenter's, with a cloud provider
// that asks EKS to launch and terminate instances, and the controller of NodeClasses.
//
// Only controlplane/child imports it. It is the only package that imports sigs.k8s.io/karpenter.
package karpenter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeoverlay"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/options"

	"github.com/drydock-dev/drydock/internal/automode"
)

// Config is what the controllers need. All fields are required.
type Config struct {
	REST    *rest.Config
	Setting automode.Setting
	// EKS sends a call to EKS. An error means that EKS did not answer.
	EKS func(context.Context, automode.Call) (automode.Answer, error)
	Log logr.Logger
}

// Register makes the types and labels of EKS Auto Mode known to Kubernetes' client and to Karpenter, in the whole process.
// It must be called once, before anything else in the process starts: their registries are not guarded.
func Register() {
	metav1.AddToGroupVersion(scheme.Scheme, groupVersion)
	scheme.Scheme.AddKnownTypes(groupVersion, &NodeClass{}, &NodeClassList{})
	karpv1.WellKnownLabels = karpv1.WellKnownLabels.Union(wellKnownLabels())
	karpv1.RestrictedLabelDomains = karpv1.RestrictedLabelDomains.Insert(group)
}

// Run installs the types and built-in objects of EKS Auto Mode and runs its controllers until ctx ends. It may be called
// again afterwards.
func Run(ctx context.Context, cfg Config) error {
	ctx = log.IntoContext(ctx, cfg.Log)
	ctx = options.ToContext(ctx, settings())
	log.SetLogger(cfg.Log)
	if err := install(ctx, cfg.REST); err != nil {
		return err
	}
	mgr, err := prepare(ctx, cfg)
	if err != nil {
		return err
	}
	if err := mgr.Start(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("Karpenter's controllers: %w", err)
	}
	return nil
}

// prepare returns a manager with all controllers.
func prepare(ctx context.Context, cfg Config) (manager.Manager, error) {
	rc := rest.CopyConfig(cfg.REST)
	rc.QPS, rc.Burst, rc.UserAgent = 200, 300, "karpenter"
	rc.ContentType, rc.AcceptContentTypes = "", "" // custom resources have no protobuf form
	mgr, err := manager.New(rc, manager.Options{
		Logger: cfg.Log, Scheme: scheme.Scheme,
		Metrics:                server.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
		BaseContext: func() context.Context {
			return options.ToContext(log.IntoContext(context.Background(), cfg.Log), settings())
		},
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
			&coordinationv1.Lease{}: {Field: fields.SelectorFromSet(fields.Set{"metadata.namespace": corev1.NamespaceNodeLease})},
		}},
		// After a change of the setting, controllers start again in the same process.
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		return nil, fmt.Errorf("the manager of Karpenter's controllers: %w", err)
	}
	if err := index(ctx, mgr); err != nil {
		return nil, err
	}
	provider := newProvider(cfg, mgr.GetClient())
	clk := clock.RealClock{}
	//lint:ignore SA1019 Karpenter needs this kind
	recorder := events.NewRecorder(mgr.GetEventRecorderFor("karpenter"))
	overlays := nodeoverlay.NewInstanceTypeStore()
	all := controllers.NewControllers(ctx, mgr, clk, mgr.GetClient(), recorder, provider, provider, state.NewCluster(clk, mgr.GetClient(), provider), overlays)
	for _, c := range append(all, &nodeClasses{provider: provider, client: mgr.GetClient()}, &lifetimes{client: mgr.GetClient(), clock: clk}, &builtIns{provider: provider, client: mgr.GetClient()}) {
		if err := c.Register(ctx, mgr); err != nil {
			return nil, fmt.Errorf("registering Karpenter's controllers: %w", err)
		}
	}
	return mgr, nil
}

// settings are Karpenter's, with the features that EKS Auto Mode has.
// https://docs.aws.amazon.com/eks/latest/userguide/auto-change.html
func settings() *options.Options {
	gates := options.DefaultFeatureGates()
	gates.NodeRepair, gates.StaticCapacity, gates.ReservedCapacity = true, true, false
	return &options.Options{
		KubeClientQPS: 200, KubeClientBurst: 300, CPURequests: 1000,
		DisableLeaderElection: true, DisableControllerWarmup: true, DisableClusterStateObservability: true, IgnoreDRARequests: true,
		// Karpenter's default is a second. Nothing here takes as long.
		BatchMaxDuration: 10 * time.Second, BatchIdleDuration: 100 * time.Millisecond,
		PreferencePolicy: options.PreferencePolicyRespect, MinValuesPolicy: options.MinValuesPolicyStrict,
		FeatureGates: gates,
	}
}

// index adds the indexes that Karpenter's own operator adds.
func index(ctx context.Context, mgr manager.Manager) error {
	add := func(o client.Object, field string, value func(client.Object) string) error {
		return mgr.GetFieldIndexer().IndexField(ctx, o, field, func(o client.Object) []string { return []string{value(o)} })
	}
	claim := func(ref func(*karpv1.NodeClassReference) string) func(client.Object) string {
		return func(o client.Object) string { return ref(o.(*karpv1.NodeClaim).Spec.NodeClassRef) }
	}
	pool := func(ref func(*karpv1.NodeClassReference) string) func(client.Object) string {
		return func(o client.Object) string { return ref(o.(*karpv1.NodePool).Spec.Template.Spec.NodeClassRef) }
	}
	errs := []error{
		add(&corev1.Pod{}, "spec.nodeName", func(o client.Object) string { return o.(*corev1.Pod).Spec.NodeName }),
		add(&corev1.Node{}, "spec.providerID", func(o client.Object) string { return o.(*corev1.Node).Spec.ProviderID }),
		add(&storagev1.VolumeAttachment{}, "spec.nodeName", func(o client.Object) string { return o.(*storagev1.VolumeAttachment).Spec.NodeName }),
		add(&karpv1.NodeClaim{}, "status.providerID", func(o client.Object) string { return o.(*karpv1.NodeClaim).Status.ProviderID }),
	}
	for field, ref := range map[string]func(*karpv1.NodeClassReference) string{
		"group": func(r *karpv1.NodeClassReference) string { return r.Group },
		"kind":  func(r *karpv1.NodeClassReference) string { return r.Kind },
		"name":  func(r *karpv1.NodeClassReference) string { return r.Name },
	} {
		errs = append(errs, add(&karpv1.NodeClaim{}, "spec.nodeClassRef."+field, claim(ref)), add(&karpv1.NodePool{}, "spec.template.spec.nodeClassRef."+field, pool(ref)))
	}
	return errors.Join(errs...)
}
