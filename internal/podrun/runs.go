// Package podrun runs programs on this machine as pods of simulated nodes, for `drydock run --pod`: with the pod's
// variables and tokens, and on its network. To such a program the daemon is the AWS endpoint, the node's EKS Pod
// Identity Agent and the instance metadata service, as far as the pod's network can reach them. Connections that
// fail are recorded for `drydock why`.
//
// The CLI starts the program, and all of the program's connections come through the CLI's process. Only app imports
// this package.
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
	// Services returns the services that have an endpoint. AWS serves them, and OIDC serves the issuers of clusters.
	Services  func() []awsapi.Service
	AWS, OIDC http.Handler
	// Origins records where the programs' connections to AWS come from, and Listeners where runs listen.
	Origins   *compute.Origins
	Listeners *Listeners
	Journal   Journal
	Log       *slog.Logger
}

// EC2 is the part of the EC2 service that is needed here.
type EC2 interface {
	InstanceByID(account, region, id string) (ec2types.Instance, bool)
}

// EKS is the part of the EKS service that is needed here.
type EKS interface {
	PodProgram(ctx context.Context, cluster, namespace, name, container string) (eks.PodProgram, error)
	IssuePodToken(ctx context.Context, p *eks.PodProgram, t eks.PodToken) (token string, expires time.Time, err error)
	PodFacts(ctx context.Context, cluster, namespace, name string) (eks.PodFacts, error)
	PodNames(ctx context.Context, cluster string, running bool, most int64) ([]string, error)
	PodIdentityAgentRuns(ctx context.Context, planeID, nodeName string) (bool, error)
	// TryAddon returns an error if an add-on could not be installed.
	TryAddon(ctx context.Context, cluster, name string) error
}

// Machines are those on which pods are.
type Machines interface {
	Running(id string) (machine.Instance, bool)
	// Reach decides about a connection of a machine, and returns where it comes from.
	Reach(ctx context.Context, in machine.Instance, host string, port int) (compute.Origin, error)
	// DialEndpoint connects a machine to a cluster's endpoint.
	DialEndpoint(ctx context.Context, in machine.Instance, host string, port int) (net.Conn, error)
	// AssumeForPod changes a pod's token into credentials, as the EKS Pod Identity Agent does.
	AssumeForPod(ctx context.Context, in machine.Instance, cluster, token string) (*eksauth.AssumeRoleForPodIdentityOutput, error)
	// Metadata connects to a machine's metadata service from that many hops away.
	Metadata(id string, hops int) http.RoundTripper
}

// ControlPlanes are the clusters' control planes.
type ControlPlanes interface {
	// ByHost returns the control plane with the given AWS endpoint name.
	ByHost(host string) (controlplane.Plane, bool)
	// AWSHost returns the AWS host name of an endpoint.
	AWSHost(planeID string) string
}

// Explainer is `drydock why`.
type Explainer interface {
	// OnlyCluster returns the named cluster, or the region's only one.
	OnlyCluster(ctx context.Context, account, region, name string) (string, error)
	// FindNode returns the machine behind a node.
	FindNode(account, region, name string) (string, bool)
	// FailingStep returns the first step at which a pod fails, or nil.
	FailingStep(ctx context.Context, cluster, namespace, name string) *api.Step
}

// Journal records decisions.
type Journal interface {
	Append(e journal.Entry)
	Query(f journal.Filter) iter.Seq2[journal.Entry, error]
}

// Runs are the commands on this machine that run as pods. Each lasts as long as its `drydock run --pod` listens. Its
// connections come through that process, which presents the run's secret.
type Runs struct {
	cfg Config

	mu       sync.Mutex
	bySecret map[string]*podRun
	conns    map[string]podConn // by remote address
	requests uint64             // that came to listeners
}

// Listeners are the addresses at which runs listen. Requests to AWS may be signed for these addresses. The zero value
// has none.
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

// New returns Runs without any run.
func New(cfg Config) *Runs {
	if cfg.Listeners == nil {
		cfg.Listeners = new(Listeners)
	}
	return &Runs{cfg: cfg, bySecret: map[string]*podRun{}, conns: map[string]podConn{}}
}

// Handle serves the pages of `drydock run --pod`.
func (rs *Runs) Handle(mux *http.ServeMux) {
	mux.HandleFunc("POST /_drydock/pod-runs", rs.postPodRun)
	mux.HandleFunc("POST /_drydock/pod-runs/end", rs.postPodRunEnd)
	mux.HandleFunc("GET /_drydock/pods", rs.getPods)
}
