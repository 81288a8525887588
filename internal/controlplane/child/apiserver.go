package child

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/waitgroup"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	genericapiserver "k8s.io/apiserver/pkg/server"
	encryptionconfigcontroller "k8s.io/apiserver/pkg/server/options/encryptionconfig/controller"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/compatibility"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"

	"github.com/drydock-dev/drydock/internal/controlplane/launch"
)

// webhookCacheTTL is how long an answer of the token webhook is cached.
const webhookCacheTTL = time.Second

// encryptionPoll is how often the API server compares its EncryptionConfiguration with the file. There is no flag for
// it, and the default is a minute.
const encryptionPoll = 500 * time.Millisecond

type apiServer struct {
	run      func(context.Context) error
	loopback *rest.Config
	// leaving is set when another process has replaced this one, so that clients reconnect.
	leaving atomic.Bool
	// requests counts the requests in progress, except watches and the like.
	requests *waitgroup.SafeWaitGroup
}

// newAPIServer prepares a kube-apiserver on listener. It does what app.Run of the API server's command does, but
// changes the version.
func newAPIServer(ctx context.Context, cfg launch.Config, listener net.Listener, logs *logs) (*apiServer, error) {
	opts := options.NewServerRunOptions()
	if err := parse(opts.Flags(), apiServerArgs(cfg)); err != nil {
		return nil, err
	}
	encryptionconfigcontroller.EncryptionConfigFileChangePollDuration = encryptionPoll
	opts.SecureServing.Listener = listener
	opts.SecureServing.BindPort = listener.Addr().(*net.TCPAddr).Port
	opts.SecureServing.BindAddress = net.IPv4(127, 0, 0, 1)
	// This is a second cache around the webhook's own, and has no flag. With its default of 10 seconds, a removed
	// access entry would still let people in for that long.
	opts.Authentication.TokenSuccessCacheTTL = webhookCacheTTL

	completedOptions, err := opts.Complete(ctx)
	if err != nil {
		return nil, err
	}
	if errs := completedOptions.Validate(); len(errs) != 0 {
		return nil, utilerrors.NewAggregate(errs)
	}
	config, err := app.NewConfig(completedOptions)
	if err != nil {
		return nil, err
	}
	speakPlainly(&config.KubeAPIs.Extra.KubeletClientConfig.Lookup, config.KubeAPIs.ControlPlane.ProxyTransport)
	version := eksVersion{config.Aggregator.GenericConfig.EffectiveVersion, cfg.GitVersion}
	config.KubeAPIs.ControlPlane.Generic.EffectiveVersion = version
	config.ApiExtensions.GenericConfig.EffectiveVersion = version
	config.Aggregator.GenericConfig.EffectiveVersion = version
	if err := logs.audit(config.KubeAPIs.ControlPlane.Generic, &config.ApiExtensions.GenericConfig.Config, &config.Aggregator.GenericConfig.Config); err != nil {
		return nil, err
	}
	api := &apiServer{requests: config.Aggregator.GenericConfig.NonLongRunningRequestWaitGroup}
	build := config.Aggregator.GenericConfig.BuildHandlerChainFunc
	config.Aggregator.GenericConfig.BuildHandlerChainFunc = func(h http.Handler, c *genericapiserver.Config) http.Handler {
		return api.sendingAway(build(failing(h, &logs.faults), c))
	}
	completed, err := config.Complete()
	if err != nil {
		return nil, err
	}
	server, err := app.CreateServerChain(completed)
	if err != nil {
		return nil, err
	}
	prepared, err := server.PrepareRun()
	if err != nil {
		return nil, err
	}
	api.run, api.loopback = prepared.Run, server.GenericAPIServer.LoopbackClientConfig
	return api, nil
}

const (
	// leaveTime is how long the API server keeps answering requests after another process has replaced it, so that busy
	// clients switch connections between two requests.
	leaveTime = 300 * time.Millisecond
	// lastFlush is how long it then stays to send its last answers, and to notify idle clients that it is closing.
	lastFlush = 50 * time.Millisecond
)

// sendingAway makes a server that is leaving close each connection after an answer. In HTTP/2 it sends a GOAWAY frame:
// requests in progress are completed, and the client sends further ones on a new connection.
func (a *apiServer) sendingAway(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.leaving.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// retire returns when all requests have been answered and all clients have been asked to reconnect. stop ends the
// server. Watches end with the process.
func (a *apiServer) retire(ctx context.Context, stop func()) {
	a.leaving.Store(true)
	_ = pause(ctx, leaveTime)
	stop()
	_ = pause(ctx, lastFlush) // the server refuses further requests from here on
	a.requests.Wait()
	_ = pause(ctx, lastFlush)
}

func apiServerArgs(cfg launch.Config) []string {
	files := launch.Files(cfg.Dir)
	args := []string{
		"--etcd-servers=" + strings.Join(cfg.Etcd.Endpoints, ","),
		"--etcd-prefix=" + cfg.Etcd.Prefix,
		// The API server would compact the whole of etcd, which it shares with other clusters and with Drydock
		// itself. The daemon compacts instead.
		"--etcd-compaction-interval=0",
		"--event-ttl=" + cmp.Or(cfg.Settings.EventTTL, "60m"),

		"--tls-cert-file=" + files.Serving(),
		"--tls-private-key-file=" + files.Serving(),
		"--external-hostname=" + cfg.AWSHost,
		"--service-cluster-ip-range=" + cfg.ServiceCIDR,
		// The addresses of the service "kubernetes" are the cluster's network interfaces, which this process does not
		// know.
		"--endpoint-reconciler-type=none",

		"--authentication-config=" + files.Authentication(),
		"--client-ca-file=" + files.CA(),
		"--authentication-token-webhook-config-file=" + files.TokenWebhook(),
		"--authentication-token-webhook-version=v1",
		"--authentication-token-webhook-cache-ttl=" + webhookCacheTTL.String(),
		"--authorization-config=" + files.Authorization(),

		"--service-account-issuer=" + cfg.Issuer,
		"--service-account-jwks-uri=" + cfg.Issuer + "/keys",
		"--service-account-key-file=" + files.ServiceAccountKey(),
		"--service-account-signing-key-file=" + files.ServiceAccountKey(),
		// Tokens that ask for no audience get this one, as on EKS.
		"--api-audiences=https://kubernetes.default.svc",

		"--requestheader-client-ca-file=" + files.FrontProxyCA(),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + files.FrontProxy(),
		"--proxy-client-key-file=" + files.FrontProxy(),
		"--enable-aggregator-routing=true",

		"--kubelet-client-certificate=" + files.KubeletClient(),
		"--kubelet-client-key=" + files.KubeletClient(),
		"--kubelet-preferred-address-types=InternalIP,Hostname,InternalDNS,ExternalDNS,ExternalIP",
		"--egress-selector-config-file=" + files.Egress(),
		"--encryption-provider-config=" + files.Encryption(),
		"--encryption-provider-config-automatic-reload=true",

		// https://docs.aws.amazon.com/eks/latest/userguide/platform-versions.html lists EKS's plugins. Those of the
		// list that are missing here are on by default.
		"--enable-admission-plugins=NodeRestriction,ExtendedResourceToleration",
		"--admission-control-config-file=" + files.Admission(),
		"--allow-privileged=true",

		"--max-requests-inflight=1600",
		"--max-mutating-requests-inflight=800",
		"--profiling=false",
		"--shutdown-delay-duration=0s",
	}
	if ports := cfg.Settings.NodePorts; ports != "" {
		args = append(args, "--service-node-port-range="+ports)
	}
	if cfg.Version != "1.33" {
		// EKS has served these beta APIs since 1.31 and 1.33.
		// https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions-standard.html
		//
		// AWS deviation: not in 1.33, because these controllers of a later version would need the stable APIs.
		args = append(args, "--runtime-config=storage.k8s.io/v1beta1=true,resource.k8s.io/v1beta1=true,resource.k8s.io/v1beta2=true")
	}
	for flag, value := range map[string]string{
		"--etcd-cafile":   cfg.Etcd.CAFile,
		"--etcd-certfile": cfg.Etcd.CertFile,
		"--etcd-keyfile":  cfg.Etcd.KeyFile,
	} {
		if value != "" {
			args = append(args, flag+"="+value)
		}
	}
	return args
}

// eksVersion is an effective version with which /version reports EKS's build of the emulated minor version instead of
// the program's own.
type eksVersion struct {
	compatibility.EffectiveVersion
	gitVersion string
}

// Info implements compatibility.EffectiveVersion.
func (v eksVersion) Info() *apimachineryversion.Info {
	info := v.EffectiveVersion.Info()
	if info == nil {
		return nil
	}
	info.Major, info.Minor = info.EmulationMajor, info.EmulationMinor
	info.GitVersion = v.gitVersion
	info.GitTreeState = "clean"
	return info
}
