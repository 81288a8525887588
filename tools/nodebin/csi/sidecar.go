package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/kubernetes-csi/csi-lib-utils/config"
	"github.com/kubernetes-csi/csi-lib-utils/connection"
	"github.com/kubernetes-csi/csi-lib-utils/leaderelection"
	"github.com/kubernetes-csi/csi-lib-utils/metrics"
	"github.com/kubernetes-csi/csi-lib-utils/rpc"
	"github.com/kubernetes-csi/csi-lib-utils/standardflags"
	snapshots "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"
)

// callTime bounds calls of the driver that it answers at once.
const callTime = 10 * time.Second

// A sidecar is what the controllers have in common. The names of its flags, and their defaults, are upstream's.
type sidecar struct {
	fs                  *flag.FlagSet
	timeout, resync     time.Duration
	retryMin, retryMax  time.Duration
	workers             int
	extraCreateMetadata bool
	defaultFSType       string
	gates               map[string]bool

	cfg       *rest.Config
	client    kubernetes.Interface
	snapshots snapshots.Interface
	metrics   metrics.CSIMetricsManager
	conn      *grpc.ClientConn // of the driver
	driver    string           // its name
}

func newSidecar(timeout, resync time.Duration, workers int, workersFlag string) *sidecar {
	s := &sidecar{fs: flags()}
	standardflags.RegisterCommonFlags(s.fs)
	s.fs.DurationVar(&s.timeout, "timeout", timeout, "of a call of the driver")
	s.fs.DurationVar(&s.resync, "resync-period", resync, "how often all objects are looked at again")
	s.fs.DurationVar(&s.retryMin, "retry-interval-start", time.Second, "the first interval after a failure")
	s.fs.DurationVar(&s.retryMax, "retry-interval-max", 5*time.Minute, "the longest interval after failures")
	s.fs.IntVar(&s.workers, workersFlag, workers, "objects handled at once")
	s.fs.BoolVar(&s.extraCreateMetadata, "extra-create-metadata", false, "tell the driver the names of objects")
	s.fs.StringVar(&s.defaultFSType, "default-fstype", "", "the file system of volumes that name none")
	s.fs.Var(cliflag.NewMapStringBool(&s.gates), "feature-gates", "key=value pairs")
	return s
}

// connect parses the flags and connects to the cluster and, if toDriver is set, to the driver.
func (s *sidecar) connect(ctx context.Context, args []string, toDriver bool) error {
	if err := s.fs.Parse(args); err != nil {
		return err
	}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(s.gates); err != nil {
		return fmt.Errorf("--feature-gates: %w", err)
	}
	var err error
	if s.cfg, err = config.BuildConfig(standardflags.Configuration.KubeConfig, standardflags.Configuration); err != nil {
		return err
	}
	core := rest.CopyConfig(s.cfg)
	core.ContentType = runtime.ContentTypeProtobuf
	if s.client, err = kubernetes.NewForConfig(core); err != nil {
		return err
	}
	if s.snapshots, err = snapshots.NewForConfig(s.cfg); err != nil {
		return err
	}
	if !toDriver {
		return nil
	}
	s.metrics = metrics.NewCSIMetricsManager("")
	if s.conn, err = connection.Connect(ctx, standardflags.Configuration.CSIAddress, s.metrics, connection.OnConnectionLoss(connection.ExitOnConnectionLoss())); err != nil {
		return fmt.Errorf("connecting to the driver: %w", err)
	}
	if err := rpc.ProbeForever(ctx, s.conn, callTime); err != nil {
		return fmt.Errorf("the driver is not ready: %w", err)
	}
	call, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	s.driver, err = rpc.GetDriverName(call, s.conn)
	return err
}

// lead calls run while this process is the leader, or at once without leader election.
func (s *sidecar) lead(ctx context.Context, name string, run func(context.Context)) {
	leaderelection.RunWithLeaderElection(klog.NewContext(ctx, klog.Background()), s.cfg, standardflags.Configuration, run, strings.ReplaceAll(name, "/", "-"), http.NewServeMux(), true)
}

func (s *sidecar) limiter() workqueue.TypedRateLimiter[string] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[string](s.retryMin, s.retryMax)
}
