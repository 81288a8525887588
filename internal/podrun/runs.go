// Package podrun runs programs of this machine as pods of simulated nodes, for `drydock run
// --pod`: with the pod's variables and tokens, and on its network. To such a program the
// daemon is the AWS endpoint, the EKS Pod Identity Agent of the node and the instance
// metadata service, as far as the pod's network lets it; what it does not reach is kept
// for `drydock why`.
//
// The program itself is started by the CLI, through whose process all its connections
// come. Only app imports this package.
package podrun

import (
	"context"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/compute"
	"github.com/drydock-dev/drydock/internal/controlplane"
	"github.com/drydock-dev/drydock/internal/journal"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/service/eksauth"
)

// Config is what Runs need.
type Config struct {
	EC2           EC2
	EKS           EKS
	Machines      Machines
	ControlPlanes ControlPlanes
	Why           Explainer
	// Services are those that have an endpoint, and AWS is what answers them; OIDC answers
	// for the issuers of clusters.
	Services  func() []awsapi.Service
	AWS, OIDC http.Handler
	// Origins learns where the connections of programs to AWS come from, and Listeners where
	// runs listen.
	Origins   *compute.Origins
	Listeners *Listeners
	Journal   Journal
	Log       *slog.Logger
}

// EC2 is what is asked of the service of that name.
type EC2 interface {
	InstanceByID(account, region, id string) (ec2types.Instance, bool)
}

// EKS is what is asked of the service of that name.
type EKS interface {
	PodProgram(ctx context.Context, cluster, namespace, name, container string) (eks.PodProgram, error)
	IssuePodToken(ctx context.Context, p *eks.PodProgram, t eks.PodToken) (token string, expires time.Time, err error)
	PodFacts(ctx context.Context, cluster, namespace, name string) (eks.PodFacts, error)
	PodNames(ctx context.Context, cluster string, running bool, most int64) ([]string, error)
	PodIdentityAgentRuns(ctx context.Context, planeID, nodeName string) (bool, error)
}

// Machines are those on which pods are.
type Machines interface {
	Running(id string) (machine.Instance, bool)
	// Reach decides a connection of a machine, and tells where it comes from.
	Reach(ctx context.Context, in machine.Instance, host string, port int) (compute.Origin, error)
	// DialEndpoint connects a machine with a cluster's endpoint.
	DialEndpoint(ctx context.Context, in machine.Instance, host string, port int) (net.Conn, error)
	// AssumeForPod changes a pod's token into credentials, as the EKS Pod Identity Agent does.
	AssumeForPod(ctx context.Context, in machine.Instance, cluster, token string) (*eksauth.AssumeRoleForPodIdentityOutput, error)
	// Metadata connects to a machine's metadata service from that many hops away.
	Metadata(id string, hops int) http.RoundTripper
}

// ControlPlanes are those of clusters.
type ControlPlanes interface {
	// ByHost is the one behind AWS's name of an endpoint.
	ByHost(host string) (controlplane.Plane, bool)
	// AWSHost returns the host name that AWS has for an endpoint.
	AWSHost(planeID string) string
}

// Explainer is `drydock why`.
type Explainer interface {
	// OnlyCluster is the named cluster, or the only one of the region.
	OnlyCluster(ctx context.Context, account, region, name string) (string, error)
	// FindNode is the machine behind a node.
	FindNode(account, region, name string) (string, bool)
	// FailingStep is the first at which a pod fails, or nil.
	FailingStep(ctx context.Context, cluster, namespace, name string) *api.Step
}

// Journal keeps what was decided.
type Journal interface {
	Append(e journal.Entry)
	Query(f journal.Filter) iter.Seq2[journal.Entry, error]
}

// Runs are the commands of this machine that run as pods, for as long as `drydock run
// --pod` of each listens. Their connections come through that process, which shows the
// run's secret.
type Runs struct {
	cfg Config

	mu       sync.Mutex
	bySecret map[string]*podRun
	conns    map[string]podConn // by remote address
	requests uint64             // that came to listeners
}

// Listeners are the addresses at which runs listen. AWS's tokens are then signed for their
// names. The zero value has none.
type Listeners struct {
	mu  sync.Mutex
	all map[string]int
}

// Has reports whether a run listens at an address.
func (l *Listeners) Has(address string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all[address] > 0
}

// count adds n runs at an address.
func (l *Listeners) count(address string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = map[string]int{}
	}
	if l.all[address] += n; l.all[address] == 0 {
		delete(l.all, address)
	}
}

// New returns Runs of nothing yet.
func New(cfg Config) *Runs {
	if cfg.Listeners == nil {
		cfg.Listeners = new(Listeners)
	}
	return &Runs{cfg: cfg, bySecret: map[string]*podRun{}, conns: map[string]podConn{}}
}

// Handle answers the pages of `drydock run --pod`.
func (rs *Runs) Handle(mux *http.ServeMux) {
	mux.HandleFunc("POST /_drydock/pod-runs", rs.postPodRun)
	mux.HandleFunc("POST /_drydock/pod-runs/end", rs.postPodRunEnd)
	mux.HandleFunc("GET /_drydock/pods", rs.getPods)
}
