package child

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"
	awsprovider "k8s.io/cloud-provider-aws/pkg/providers/v1"
	"k8s.io/cloud-provider/controllers/service"
	servicehelper "k8s.io/cloud-provider/service/helpers"
	"k8s.io/component-base/metrics/prometheus/controllers"
	"k8s.io/controller-manager/pkg/clientbuilder"
	"k8s.io/klog/v2"

	"github.com/drydock-dev/drydock/internal/controlplane/launch"
)

const (
	// cloudRetry is how long to wait after a temporary failure.
	cloudRetry = 2 * time.Second
	// cloudWorkers is how many services are processed concurrently. The default of AWS's cloud controller manager is
	// one.
	cloudWorkers = 4
)

// runCloudController runs the service controller of Kubernetes with the AWS cloud provider, as EKS's control plane
// does, starting with the first service that needs a load balancer. Until then it only costs one watch without
// events.
//
// Both are upstream's own. They find AWS through the environment of this process, as the SDK does. That is safe
// because nothing else in it calls AWS.
func runCloudController(ctx context.Context, daemon *daemonClient, loopback *rest.Config) error {
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(rest.CopyConfig(loopback), "service-controller"))
	if err != nil {
		return err
	}
	if err := waitForLoadBalancer(ctx, client); err != nil {
		return ignoreCanceled(ctx, err)
	}
	ctx, end := context.WithCancel(ctx) // what this run starts ends with it
	defer end()
	var about launch.Cloud
	for {
		var err error
		// Missing credentials are left to upstream's first call, which reports them in an event.
		if about, err = askForCloud(ctx, daemon); err == nil || about.Cluster != "" {
			break
		}
		klog.ErrorS(err, "Asking for the cluster's cloud")
		if err := pause(ctx, cloudRetry); err != nil {
			return ignoreCanceled(ctx, err)
		}
	}
	stop, err := serveCredentials(ctx, daemon, about)
	if err != nil {
		return err
	}
	defer stop()
	cloud, err := cloudprovider.GetCloudProvider(awsprovider.ProviderName, strings.NewReader(cloudConfig(about)))
	if err != nil {
		return fmt.Errorf("the AWS cloud provider: %w", err)
	}
	cloud.Initialize(clientbuilder.SimpleControllerClientBuilder{ClientConfig: loopback}, ctx.Done())
	factory := informers.NewSharedInformerFactory(client, 0)
	if user, ok := cloud.(cloudprovider.InformerUser); ok {
		user.SetInformers(factory)
	}
	controller, err := service.New(cloud, client, factory.Core().V1().Services(), factory.Core().V1().Nodes(), about.Cluster, utilfeature.DefaultFeatureGate)
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	controller.Run(ctx, cloudWorkers, controllers.NewControllerManagerMetrics("service-controller"))
	return nil
}

func ignoreCanceled(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// waitForLoadBalancer returns when there is a service of type LoadBalancer, or one that used to be and still needs to
// be cleaned up.
func waitForLoadBalancer(ctx context.Context, client kubernetes.Interface) error {
	// A watch of load balancers does not show a service whose type had already changed when this process started, but
	// that still has the finalizer. Only listing finds it.
	all, err := client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range all.Items {
		s := &all.Items[i]
		if s.Spec.Type == corev1.ServiceTypeLoadBalancer || servicehelper.HasLBFinalizer(s) {
			return nil
		}
	}
	only := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.type", string(corev1.ServiceTypeLoadBalancer)).String(), ResourceVersion: all.ResourceVersion}
	for {
		found, err := watchFor(ctx, client, only)
		if found || ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil { // the resource version is too old, or the API server is busy
			klog.V(2).InfoS("Watching for load balancers", "err", err)
			only.ResourceVersion = ""
		}
		if err := pause(ctx, cloudRetry); err != nil {
			return err
		}
	}
}

func watchFor(ctx context.Context, client kubernetes.Interface, opts metav1.ListOptions) (bool, error) {
	w, err := client.CoreV1().Services("").Watch(ctx, opts)
	if err != nil {
		return false, err
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		switch e.Type {
		case watch.Added, watch.Modified:
			return true, nil
		case watch.Error:
			return false, errors.New("the watch ended with an error")
		}
	}
	return false, nil // the API server ends watches after a while
}

// cloudConfig returns the provider's configuration for a control plane that runs outside of the nodes' account.
func cloudConfig(c launch.Cloud) string {
	return fmt.Sprintf("[Global]\nRegion=%s\nVPC=%s\nSubnetID=%s\nKubernetesClusterID=%s\n", c.Region, c.VPC, c.Subnet, c.Cluster)
}

// askForCloud returns what the daemon knows about this plane's cloud. If only the credentials are missing, it returns an
// error together with the rest.
func askForCloud(ctx context.Context, daemon *daemonClient) (launch.Cloud, error) {
	var out launch.Cloud
	if err := daemon.call(ctx, launch.CloudPath, 10*time.Second, &out); err != nil {
		return out, err
	}
	if out.Problem != "" {
		return out, errors.New(out.Problem)
	}
	return out, nil
}

// serveCredentials lets the AWS SDK in this process fetch the cluster role's credentials as in a container, again
// before they expire, and sets the daemon as its endpoint. Only this process knows the token that is needed to fetch
// them.
func serveCredentials(ctx context.Context, daemon *daemonClient, about launch.Cloud) (stop func(), err error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	token := rand.Text()
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != token {
			http.Error(w, `{"code":"AccessDenied","message":"the caller did not authenticate"}`, http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		now, err := askForCloud(r.Context(), daemon)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(w).Encode(map[string]string{"code": "ClusterRole", "message": err.Error()})
			return
		}
		_ = json.NewEncoder(w).Encode(now.Credentials) // an error means that the SDK has disconnected
	})}
	go func() { _ = server.Serve(l) }() // stop ends it
	for name, value := range map[string]string{
		"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://" + l.Addr().String() + "/",
		"AWS_CONTAINER_AUTHORIZATION_TOKEN":  token,
		"AWS_ENDPOINT_URL":                   about.Endpoint,
		"AWS_REGION":                         about.Region,
		"AWS_EC2_METADATA_DISABLED":          "true",
		// The user's own settings do not apply to the control plane.
		"AWS_CONFIG_FILE":             os.DevNull,
		"AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
	} {
		if err := os.Setenv(name, value); err != nil {
			server.Close()
			return nil, err
		}
	}
	return func() { server.Close() }, nil
}
