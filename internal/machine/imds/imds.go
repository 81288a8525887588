// Package imds is the instance metadata service, versions 1 and 2, which answers at 169.254.169.254 inside each
// instance. It returns what EC2 knows about the instance, its role's credentials and a signed identity document. Like
// IMDS, it refuses requests without a token if tokens are required, requests from behind too many hops, and all
// requests if the endpoint is disabled.
//
// It gets instances from a [Source] and depends on no AWS service. A guest reaches it through [Service.Handler], code
// in this process through [Service.Transport]. internal/compute and the runtimes of internal/node may import it.
//
// AWS deviations: all dated versions have the same categories; the identity document's three signatures are all made
// with one RSA key of the installation ([Service.Certificate]), where AWS signs one of them with DSA;
// identity-credentials has no credentials, as no service of Drydock accepts them.
package imds

import (
	"context"
	"encoding/pem"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/machine"
)

// A Source provides instances. Its methods are called from many goroutines. Instance is called for every request and
// must be quick.
type Source interface {
	// Instance returns the current state of an instance, or ErrNotRunning if it does not run.
	Instance(ctx context.Context, instanceID string) (Instance, error)
	// Interfaces returns the network interfaces of a running instance.
	Interfaces(ctx context.Context, instanceID string) ([]Interface, error)
	// Credentials issues new credentials of the instance's role, for requests of IMDSv1 or IMDSv2 as version says. A
	// *RoleError says why EC2 cannot get them.
	Credentials(ctx context.Context, instanceID string, version int) (Credentials, error)
}

// ErrNotRunning is returned by a Source for an instance that does not exist or is not running.
var ErrNotRunning = errors.New("the instance is not running")

// A RoleError is shown in place of credentials, with status 200, as in IMDS.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_iam-ec2.html#troubleshoot_iam-ec2_errors-info-doc
type RoleError struct {
	Code    string // AssumeRoleUnauthorizedAccess, InstanceProfileNotFound
	Message string
}

func (e *RoleError) Error() string { return e.Code + ": " + e.Message }

// Credentials are temporary credentials of a role.
type Credentials struct {
	AccessKeyID, SecretAccessKey, SessionToken string
	Expiration                                 time.Time
}

// Options are an instance's metadata options.
type Options struct {
	Disabled       bool // HttpEndpoint disabled
	TokensRequired bool // HttpTokens required
	// HopLimit is how many network hops the answer to a token request survives: HttpPutResponseHopLimit. 0 counts as
	// 1.
	HopLimit int
	Tags     bool // InstanceMetadataTags enabled
}

// An Instance holds what its metadata reports: the machine's current state, and facts that only the metadata has. If
// a string is empty or an address is zero, its category is missing.
type Instance struct {
	machine.Instance
	Options Options

	LaunchIndex            int
	SecurityGroups         []string // names
	PublicKey              string   // in the format of authorized_keys
	Hypervisor             string   // nitro, xen
	RootDevice             string   // /dev/xvda
	Volumes                []string
	ProfileID              string
	RoleName               string
	PlacementGroup, HostID string
	Partition              int32 // number of the partition in the placement group, 0 if there is none

	// SpotAction is terminate, stop or hibernate once EC2 has announced that it will interrupt a Spot Instance at
	// SpotActionTime.
	SpotAction     string
	SpotActionTime time.Time
	// Rebalance is when EC2 recommended to replace a Spot Instance.
	Rebalance time.Time
	// TargetState is the state that an Auto Scaling group wants for the instance: InService, Standby, Terminated,
	// Detached. Nil means that it is in no group.
	TargetState func(ctx context.Context) (string, error)
	// ActiveKeys are the public keys that EC2 Instance Connect has sent, by user.
	ActiveKeys map[string][]string

	version int // of the metadata service that the request uses: 2 if it has a token
}

// An Interface is a network interface of an instance.
type Interface struct {
	ID, MAC          string
	DeviceNumber     int
	NetworkCard      int
	OwnerID          string
	SubnetID, VPCID  string
	SubnetCIDR       string
	SubnetIPv6CIDRs  []string
	VPCCIDRs         []string // the primary one first
	VPCIPv6CIDRs     []string
	LocalHostname    string
	PublicHostname   string
	PrivateIPs       []netip.Addr              // the primary one first
	PublicIPs        map[netip.Addr]netip.Addr // from public to private
	IPv6s            []netip.Addr
	IPv4Prefixes     []string
	IPv6Prefixes     []string
	SecurityGroupIDs []string
	SecurityGroups   []string // names
}

// Config is what the service needs. Source, Secret and Identity are required.
type Config struct {
	Source Source
	// Secret is the key of the tokens. It belongs to the installation and never changes, so that tokens survive a
	// restart of the daemon.
	Secret []byte
	// Identity returns what signs identity documents, which also belongs to the installation and never changes. It is
	// called when first needed.
	Identity func(ctx context.Context) (Identity, error)
	Clock    clock.PassiveClock // nil means the real clock
	Log      *slog.Logger       // nil means slog.Default
}

// Service serves the metadata of all instances.
type Service struct {
	source   Source
	identity func(context.Context) (Identity, error)
	tokens   tokens
	clock    clock.PassiveClock
	log      *slog.Logger

	mu          sync.Mutex
	credentials map[holder]*held
}

// New returns the service.
func New(cfg Config) *Service {
	s := &Service{
		source: cfg.Source, identity: cfg.Identity, tokens: newTokens(cfg.Secret), clock: cfg.Clock, log: cfg.Log,
		credentials: map[holder]*held{},
	}
	if s.clock == nil {
		s.clock = clock.RealClock{}
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	return s
}

// Certificate returns the PEM of the certificate with which identity documents are verified. AWS publishes one per
// region. https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/regions-certs.html
func (s *Service) Certificate(ctx context.Context) ([]byte, error) {
	id, err := s.identity(ctx)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: id.Certificate.Raw}), nil
}

// Forget drops what is cached about an instance that has stopped.
func (s *Service) Forget(instanceID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for version := 1; version <= 2; version++ {
		delete(s.credentials, holder{instanceID, version})
	}
}
