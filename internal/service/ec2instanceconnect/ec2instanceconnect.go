// Package ec2instanceconnect answers the EC2 Instance Connect API. SendSSHPublicKey makes a public key valid for logins to
// an instance for a minute: the instance's metadata service provides the key, and the instance's SSH server reads it there.
// OpenTunnel, which is a WebSocket rather than an API request, connects a client through an Instance Connect endpoint
// (tunnel.go).
//
// Keys are kept in memory only, since they expire after a minute. The package reaches EC2 and the network only through
// Config and Dial. Only the composition root imports it.
package ec2instanceconnect

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsconnect "github.com/aws/aws-sdk-go-v2/service/ec2instanceconnect"
	connecttypes "github.com/aws/aws-sdk-go-v2/service/ec2instanceconnect/types"
	"golang.org/x/crypto/ssh"
	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/module"
)

// keyLife is how long a key is valid.
// https://docs.aws.amazon.com/ec2-instance-connect/latest/APIReference/API_SendSSHPublicKey.html
const keyLife = time.Minute

// maxKeys is how many keys an instance can have at once. A further one replaces the oldest.
const maxKeys = 100

// EC2 is the part of EC2 that the service needs.
type EC2 interface {
	InstanceByID(account, region, id string) (ec2types.Instance, bool)
	GetSerialConsoleAccessStatus(ctx context.Context, in *awsec2.GetSerialConsoleAccessStatusInput) (*awsec2.GetSerialConsoleAccessStatusOutput, error)
	DescribeInstanceConnectEndpoints(ctx context.Context, in *awsec2.DescribeInstanceConnectEndpointsInput) (*awsec2.DescribeInstanceConnectEndpointsOutput, error)
}

// Config is what the service needs. EC2 is required, and for OpenTunnel also Calls and Authorize.
type Config struct {
	EC2 EC2
	// Calls identifies and records the callers of OpenTunnel.
	Calls Calls
	// Authorize authorizes a call on targets.
	Authorize func(ctx context.Context, call *awsapi.Call, in any, targets ...authz.Target) error
	Clock     clock.WithDelayedExecution // nil means the real clock
}

// Service answers the operations.
type Service struct {
	cfg          Config
	dial         Dial
	consoleInUse func(instanceID string) bool

	mu      sync.Mutex
	keys    map[string][]key // by instance ID
	serial  map[string][]key // the same for the serial console
	sent    map[login]sending
	tunnels map[*tunnel]bool // open tunnels
}

// A key is a public key that was sent to an instance.
type key struct {
	account, user, line string
	until               time.Time
}

// A login is a user of an instance.
type login struct{ instance, user string }

// A sending is when a user last got a key, and in which account.
type sending struct {
	account string
	at      time.Time
}

// remembered is how long the service remembers that a key was sent.
const remembered = time.Hour

// New returns the service.
func New(cfg Config) *Service {
	cfg.Clock = cmp.Or[clock.WithDelayedExecution](cfg.Clock, clock.RealClock{})
	return &Service{cfg: cfg, keys: map[string][]key{}, serial: map[string][]key{}, sent: map[login]sending{}, tunnels: map[*tunnel]bool{}}
}

// Module declares the service to the daemon. dial connects to instances. consoleInUse reports whether a session of an
// instance's serial console is open.
func (s *Service) Module(dial Dial, consoleInUse func(instanceID string) bool) module.Module {
	s.dial, s.consoleInUse = dial, consoleInUse
	return module.Module{Service: s.AWS(), Resolver: resolver{}, Run: s.run, Reset: s.reset}
}

// run ends the tunnels when the daemon stops.
func (s *Service) run(ctx context.Context) error {
	<-ctx.Done()
	s.endTunnels("")
	return nil
}

// reset ends the tunnels and removes the keys of an account, or of all accounts if account is empty.
func (s *Service) reset(_ context.Context, account string) error {
	s.endTunnels(account)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, keys := range []map[string][]key{s.keys, s.serial} {
		maps.DeleteFunc(keys, func(_ string, list []key) bool { return account == "" || list[0].account == account })
	}
	maps.DeleteFunc(s.sent, func(_ login, k sending) bool { return account == "" || k.account == account })
	return nil
}

// AWS returns the service's registration with the AWS API server.
func (s *Service) AWS() awsapi.Service {
	return awsapi.Service{
		Name:          "ec2-instance-connect",
		Handler:       s,
		Authorization: authorization,
		Operations: []awsapi.Operation{
			{Name: "SendSSHPublicKey", Members: "AvailabilityZone InstanceId InstanceOSUser SSHPublicKey"},
			{Name: "SendSerialConsoleSSHPublicKey", Members: "InstanceId SSHPublicKey SerialPort"},
		},
	}
}

// A resolver returns the target of SendSSHPublicKey with its condition key. EC2 resolves the instance itself.
type resolver struct{}

// Resource implements authz.Resolver.
func (resolver) Resource(context.Context, string, string, string, string) (authz.Resource, bool) {
	return authz.Resource{}, false
}

// Targets implements authz.Targeter.
func (resolver) Targets(_ context.Context, _ *awsapi.Call, in any) ([]authz.Target, bool) {
	send, ok := in.(*awsconnect.SendSSHPublicKeyInput)
	if !ok {
		return nil, false
	}
	return []authz.Target{{Type: "instance", ID: *send.InstanceId, Keys: map[string][]string{"ec2:osuser": {*send.InstanceOSUser}}}}, true
}

// The texts of these errors are those of the API reference.
// https://docs.aws.amazon.com/ec2-instance-connect/latest/APIReference/API_SendSerialConsoleSSHPublicKey.html

func errNotFound() error {
	return &connecttypes.EC2InstanceNotFoundException{Message: aws.String("The specified instance was not found.")}
}

func errState() error {
	return &connecttypes.EC2InstanceStateInvalidException{Message: aws.String("Unable to connect because the instance is not in a valid state. Connecting to a stopped or terminated instance is not supported. If the instance is stopped, start your instance, and try to connect again.")}
}

func errArgs(text string) error {
	return &connecttypes.InvalidArgsException{Message: aws.String(text)}
}

// running returns an instance of the caller's account. It returns an error if the instance is not running.
func (s *Service) running(ctx context.Context, id string) (ec2types.Instance, error) {
	call := awsapi.CallFrom(ctx)
	i, ok := s.cfg.EC2.InstanceByID(call.Account, call.Region, id)
	if !ok || i.State == nil {
		return i, errNotFound()
	}
	if i.State.Name != ec2types.InstanceStateNameRunning {
		return i, errState()
	}
	return i, nil
}

// publicKey checks a key and returns its line for authorized_keys.
func publicKey(text *string) (string, error) {
	k, comment, options, rest, err := ssh.ParseAuthorizedKey([]byte(aws.ToString(text)))
	if err != nil || len(options) > 0 || len(strings.TrimSpace(string(rest))) > 0 || k.Type() != ssh.KeyAlgoRSA && k.Type() != ssh.KeyAlgoED25519 {
		return "", errArgs("Invalid SSH public key") // from memory
	}
	return strings.TrimSpace(strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k))) + " " + comment), nil
}

// SendSSHPublicKey lets a key log in to an instance as a user for a minute.
func (s *Service) SendSSHPublicKey(ctx context.Context, in *awsconnect.SendSSHPublicKeyInput) (*awsconnect.SendSSHPublicKeyOutput, error) {
	i, err := s.running(ctx, *in.InstanceId)
	if err != nil {
		return nil, err
	}
	if zone := aws.ToString(in.AvailabilityZone); zone != "" && (i.Placement == nil || aws.ToString(i.Placement.AvailabilityZone) != zone) {
		return nil, errNotFound()
	}
	line, err := publicKey(in.SSHPublicKey)
	if err != nil {
		return nil, err
	}
	now := s.cfg.Clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.sent, func(_ login, k sending) bool { return now.Sub(k.at) > remembered })
	s.sent[login{*in.InstanceId, *in.InstanceOSUser}] = sending{awsapi.CallFrom(ctx).Account, now}
	add(s.keys, *in.InstanceId, key{awsapi.CallFrom(ctx).Account, *in.InstanceOSUser, line, now.Add(keyLife)}, now)
	return &awsconnect.SendSSHPublicKeyOutput{RequestId: aws.String(awsapi.CallFrom(ctx).RequestID), Success: true}, nil
}

// add adds a key to those of an instance, and removes all that have expired.
func add(keys map[string][]key, instanceID string, k key, now time.Time) {
	for id := range keys {
		valid(keys, id, now)
	}
	list := keys[instanceID]
	keys[instanceID] = append(list[max(0, len(list)-maxKeys+1):], k)
}

// valid removes the keys of an instance that have expired, and returns the others.
func valid(keys map[string][]key, instanceID string, now time.Time) []key {
	list := slices.DeleteFunc(keys[instanceID], func(k key) bool { return !now.Before(k.until) })
	if keys[instanceID] = list; len(list) == 0 {
		delete(keys, instanceID)
	}
	return list
}

// Keys returns the keys that may log in to an instance now, by user.
func (s *Service) Keys(instanceID string) map[string][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out map[string][]string
	for _, k := range valid(s.keys, instanceID, s.cfg.Clock.Now()) {
		if out == nil {
			out = map[string][]string{}
		}
		out[k.user] = append(out[k.user], k.line)
	}
	return out
}

// LastKey returns how long ago a user of an instance last got a key, if that was in the last hour, and how long the key is
// still valid.
func (s *Service) LastKey(instanceID, user string) (age, left time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, ok := s.sent[login{instanceID, user}]
	age = s.cfg.Clock.Since(last.at)
	return age, max(keyLife-age, 0), ok && age <= remembered
}

// authorization corrects the service authorization reference.
var authorization = awsapi.Authorization{
	Owners: map[string]string{"instance": "ec2", "instance-connect-endpoint": "ec2"},
}
