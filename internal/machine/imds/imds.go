// Package imds is the instance metadata service: what answers at 169.254.169.254
// inside an instance, versions 1 and 2, per instance. It hands out what EC2 knows
// of the instance, its role's credentials and a signed identity document, and
// refuses as IMDS does: without a token where tokens are required, from behind
// too many hops, or altogether where the endpoint is disabled.
//
// It knows instances by a [Source] and no AWS service. A guest reaches it by
// [Service.Handler]; what runs in this process by [Service.Transport]. internal/compute
// and the runtimes of internal/node may import it.
//
// AWS deviations: all dated versions have the same categories; the identity
// document's three signatures are all made with one RSA key of the installation
// ([Service.Certificate]), where AWS signs one of them with DSA;
// identity-credentials has no credentials, as no service of Drydock takes them.
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

// A Source knows instances. Its methods are called from many goroutines; Instance,
// for every request, must be quick.
type Source interface {
	// Instance returns what is true of an instance now; ErrNotRunning if it does
	// not run.
	Instance(ctx context.Context, instanceID string) (Instance, error)
	// Interfaces returns the network interfaces of a running instance.
	Interfaces(ctx context.Context, instanceID string) ([]Interface, error)
	// Credentials issues new credentials of the instance's role. A *RoleError
	// says why EC2 may not have them.
	Credentials(ctx context.Context, instanceID string) (Credentials, error)
}

// ErrNotRunning is a Source's answer for an instance that is not there.
var ErrNotRunning = errors.New("the instance is not running")

// A RoleError is shown in the place of credentials, with status 200, as IMDS does.
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
	// HopLimit is how many network hops the answer to a token request survives:
	// HttpPutResponseHopLimit. 0 counts as 1.
	HopLimit int
	Tags     bool // InstanceMetadataTags enabled
}

// An Instance holds what its metadata reports: the machine's current state, and facts
// that only the metadata has. Strings may be empty, addresses zero: the categories are
// then missing.
type Instance struct {
	machine.Instance
	Options Options

	LaunchIndex            int
	SecurityGroups         []string // names
	PublicKey              string   // as authorized_keys has it
	Hypervisor             string   // nitro, xen
	RootDevice             string   // /dev/xvda
	Volumes                []string
	ProfileID              string
	RoleName               string
	PlacementGroup, HostID string

	// SpotAction is terminate, stop or hibernate once EC2 announced to take a
	// spot instance back, at SpotActionTime.
	SpotAction     string
	SpotActionTime time.Time
	// Rebalance is when EC2 recommended to replace a spot instance.
	Rebalance time.Time
	// TargetState is what an Auto Scaling group wants the instance to become:
	// InService, Standby, Terminated, Detached. nil: it is in no group.
	TargetState func(ctx context.Context) (string, error)
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
	PublicIPs        map[netip.Addr]netip.Addr // public to private
	IPv6s            []netip.Addr
	IPv4Prefixes     []string
	IPv6Prefixes     []string
	SecurityGroupIDs []string
	SecurityGroups   []string // names
}

// Config is what the service needs. Source, Secret and Identity are required.
type Config struct {
	Source Source
	// Secret keys the tokens. It belongs to the installation and stays, so that
	// tokens outlive the daemon.
	Secret []byte
	// Identity returns what identity documents are signed with, which belongs to
	// the installation and stays as well. It is asked when it is first needed.
	Identity func(ctx context.Context) (Identity, error)
	Clock    clock.PassiveClock // nil: the real one
	Log      *slog.Logger       // nil: slog.Default
}

// Service answers for all instances.
type Service struct {
	source   Source
	identity func(context.Context) (Identity, error)
	tokens   tokens
	clock    clock.PassiveClock
	log      *slog.Logger

	mu          sync.Mutex
	credentials map[string]*held // by instance ID
}

// New returns the service.
func New(cfg Config) *Service {
	s := &Service{
		source: cfg.Source, identity: cfg.Identity, tokens: newTokens(cfg.Secret), clock: cfg.Clock, log: cfg.Log,
		credentials: map[string]*held{},
	}
	if s.clock == nil {
		s.clock = clock.RealClock{}
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	return s
}

// Certificate returns the PEM of the certificate that identity documents are
// verified with: what AWS publishes per region.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/regions-certs.html
func (s *Service) Certificate(ctx context.Context) ([]byte, error) {
	id, err := s.identity(ctx)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: id.Certificate.Raw}), nil
}

// Forget drops what is held of an instance that stopped.
func (s *Service) Forget(instanceID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.credentials, instanceID)
}
