// Package fault defines the faults that users inject with `drydock fault`: which instances, zones, capacity pools,
// API operations and local services of a VPC currently fail, and how.
//
// A [Fault] is one such rule. A [Set] holds the rules in force; the code that has to fail consults it: the AWS API
// server, EC2's launches, the network of guests. The package is pure: it stores nothing and does nothing by itself.
// internal/fault/keeper keeps the rules in the store, and internal/app passes the Set on. Any package may import this
// one.
package fault

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// A Kind says what fails.
type Kind string

// The kinds of faults.
const (
	Terminate Kind = "terminate" // an instance is terminated although its user did not ask for it
	Stop      Kind = "stop"      // an instance is powered off
	Isolate   Kind = "isolate"   // nothing reaches an instance or leaves it
	Zone      Kind = "zone"      // an availability zone is out
	Capacity  Kind = "capacity"  // EC2 has no capacity
	Throttle  Kind = "throttle"  // calls of the API are throttled
	Latency   Kind = "latency"   // calls of the API take longer
	Error     Kind = "error"     // calls of the API fail
	IMDS      Kind = "imds"      // an instance's metadata service does not answer
	DNS       Kind = "dns"       // AmazonProvidedDNS does not answer
	Agent     Kind = "agent"     // an instance's agent of Systems Manager is killed again and again
	Kubelet   Kind = "kubelet"   // an instance's kubelet is killed again and again
	Disk      Kind = "disk"      // an instance's root volume is full

	ControlPlane  Kind = "control-plane"   // a cluster's control plane is down
	SlowAPIServer Kind = "slow-api-server" // a cluster's API server takes longer to answer
	EtcdFull      Kind = "etcd-full"       // a cluster's etcd database has reached its size limit
	ExpiredCA     Kind = "expired-ca"      // a cluster's certificate authority has expired
	Upgrade       Kind = "upgrade"         // changes of a cluster's version fail midway

	PlatformVersion Kind = "platform-version" // AWS moves a cluster to the next platform version
	EndOfSupport    Kind = "end-of-support"   // AWS upgrades a cluster because the support of its version has ended
	FargatePatch    Kind = "fargate-patch"    // AWS recycles the hosts of a cluster's Fargate pods
)

// Kinds returns all kinds.
func Kinds() []Kind {
	return []Kind{
		Terminate, Stop, Isolate, Zone, Capacity, Throttle, Latency, Error, IMDS, DNS, Agent, Kubelet, Disk,
		ControlPlane, SlowAPIServer, EtcdFull, ExpiredCA, Upgrade, PlatformVersion, EndOfSupport, FargatePatch,
	}
}

// Once reports whether a fault of this kind happens only once, so that it is in force only until then.
func (k Kind) Once() bool {
	return k == Terminate || k == Stop || k == PlatformVersion || k == EndOfSupport || k == FargatePatch
}

// Cluster reports whether a fault of this kind affects a cluster.
func (k Kind) Cluster() bool {
	switch k {
	case ControlPlane, SlowAPIServer, EtcdFull, ExpiredCA, Upgrade, PlatformVersion, EndOfSupport, FargatePatch:
		return true
	}
	return false
}

// API reports whether a fault of this kind affects calls of the API.
func (k Kind) API() bool { return k == Throttle || k == Latency || k == Error }

// A Fault is one thing that is broken deliberately. Its kind determines which fields are used, see Check.
type Fault struct {
	ID      string    `json:"id"` // F-0123abcd
	Kind    Kind      `json:"kind"`
	Account string    `json:"account"`
	Region  string    `json:"region"`
	Since   time.Time `json:"since"`
	// Until is when the fault ends by itself. If it is zero, the fault lasts until it is cleared. A Terminate or Stop
	// happens at that time.
	Until time.Time `json:"until,omitzero"`

	// Instance is the target of Terminate, Stop, Isolate, IMDS, Agent, Kubelet and Disk, and of DNS unless VPC is set.
	Instance string `json:"instance,omitempty"`
	VPC      string `json:"vpc,omitempty"`
	// Cluster is the name of the cluster that is the target.
	Cluster string `json:"cluster,omitempty"`
	// Zone is the name of a zone for Zone, and a pattern for Capacity.
	Zone string `json:"zone,omitempty"`
	// InstanceType and CapacityType are patterns for Capacity: m5.*, spot. An empty pattern means any.
	InstanceType string `json:"instanceType,omitempty"`
	CapacityType string `json:"capacityType,omitempty"`

	// Operation is a pattern of SERVICE:OPERATION, as in IAM policies.
	Operation string `json:"operation,omitempty"`
	// Principal is a pattern of the ARN of the caller, or of its role. Empty means all.
	Principal string `json:"principal,omitempty"`
	// Percent is how many percent of the calls fail; 0 means all.
	Percent float64 `json:"percent,omitempty"`
	// Count is how many calls fail before the fault is over; 0 means no limit. Used is how many have failed.
	Count int64 `json:"count,omitempty"`
	Used  int64 `json:"used,omitempty"`
	// Delay is how much longer a call takes, or a request to an API server.
	Delay time.Duration `json:"delay,omitempty"`
	// Code, Message and Status are those of the error. Empty means those of the service's internal failure.
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	Status  int    `json:"status,omitempty"`
}

// Limits of a fault's fields.
const (
	// MaxPerRegion is how many faults an account may have in a region.
	MaxPerRegion = 256
	// MaxDelay is the longest Delay.
	MaxDelay = 5 * time.Minute
	// MaxAPIServerDelay is the longest Delay of SlowAPIServer. API servers give up on a request after a minute.
	MaxAPIServerDelay = 30 * time.Second

	maxPattern = 256
	maxMessage = 1024
	letters    = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789."
)

// A part is a field of a fault: required for some kinds, optional for others.
type part struct {
	name     string
	set      bool
	required []Kind
	possible []Kind
}

// Check reports what is wrong with a fault as the user describes it.
func (f *Fault) Check() error {
	if !slices.Contains(Kinds(), f.Kind) {
		return fmt.Errorf("%q is not a kind of fault", f.Kind)
	}
	api := []Kind{Throttle, Latency, Error}
	for _, p := range []part{
		{"instance", f.Instance != "", []Kind{Terminate, Stop, Isolate, IMDS, Agent, Kubelet, Disk}, []Kind{DNS}},
		{"VPC", f.VPC != "", nil, []Kind{DNS}},
		{"cluster", f.Cluster != "", slices.DeleteFunc(Kinds(), func(k Kind) bool { return !k.Cluster() }), nil},
		{"zone", f.Zone != "", []Kind{Zone}, []Kind{Capacity}},
		{"instance type", f.InstanceType != "", nil, []Kind{Capacity}},
		{"capacity type", f.CapacityType != "", nil, []Kind{Capacity}},
		{"operation", f.Operation != "", api, nil},
		{"principal", f.Principal != "", nil, api},
		{"percentage", f.Percent != 0, nil, api},
		{"count", f.Count != 0, nil, api},
		{"delay", f.Delay != 0, []Kind{Latency, SlowAPIServer}, nil},
		{"error code", f.Code != "", nil, []Kind{Error}},
		{"error message", f.Message != "", nil, []Kind{Error}},
		{"HTTP status", f.Status != 0, nil, []Kind{Error}},
	} {
		switch required := slices.Contains(p.required, f.Kind); {
		case required && !p.set:
			return fmt.Errorf("a fault of kind %s needs: %s", f.Kind, p.name)
		case p.set && !required && !slices.Contains(p.possible, f.Kind):
			return fmt.Errorf("a fault of kind %s has no %s", f.Kind, p.name)
		}
	}
	if f.Kind == DNS && (f.Instance == "") == (f.VPC == "") {
		return errors.New("a fault of kind dns needs an instance or a VPC")
	}
	switch {
	case f.Percent < 0 || f.Percent > 100:
		return errors.New("a percentage must be greater than 0 and at most 100")
	case f.Count < 0:
		return errors.New("a count must be at least 1")
	case f.Delay < 0 || f.Delay > MaxDelay:
		return fmt.Errorf("a delay must be at most %v", MaxDelay)
	case f.Kind == SlowAPIServer && f.Delay > MaxAPIServerDelay:
		return fmt.Errorf("a delay of an API server must be at most %v", MaxAPIServerDelay)
	case f.Status != 0 && (f.Status < 400 || f.Status > 599):
		return errors.New("the HTTP status of an error must be from 400 to 599")
	case f.Kind.API() && !strings.Contains(f.Operation, ":"):
		return fmt.Errorf("%q is not SERVICE:OPERATION, as in ec2:RunInstances or ec2:Describe*", f.Operation)
	case strings.Trim(f.Code, letters) != "":
		return fmt.Errorf("the error code %q may only have letters, digits and dots", f.Code)
	case len(f.Message) > maxMessage || !printable(f.Message):
		return fmt.Errorf("an error message must be printable text of at most %d characters", maxMessage)
	}
	for _, pattern := range []string{f.Instance, f.VPC, f.Cluster, f.Zone, f.InstanceType, f.CapacityType, f.Operation, f.Principal, f.Code} {
		if len(pattern) > maxPattern || !printable(pattern) {
			return fmt.Errorf("%.20q is not printable text of at most %d characters", pattern, maxPattern)
		}
	}
	return nil
}

// printable reports whether a text can be part of an error in every protocol.
func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// Target returns what fails, for people: i-…, us-east-1a, ec2:Describe*.
func (f *Fault) Target() string {
	switch f.Kind {
	case Capacity:
		var parts []string
		for _, p := range []string{f.InstanceType, f.Zone, f.CapacityType} {
			if p != "" && p != "*" {
				parts = append(parts, p)
			}
		}
		if len(parts) == 0 {
			return "all instances"
		}
		return strings.Join(parts, " ")
	case Zone:
		return f.Zone
	case Throttle, Latency, Error:
		return f.Operation
	}
	return cmp.Or(f.Cluster, f.VPC, f.Instance)
}

// Details describes the rest of the fault for people.
func (f *Fault) Details() string {
	var out []string
	add := func(ok bool, format string, args ...any) {
		if ok {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	add(f.Delay > 0, "+%v", f.Delay)
	add(f.Code != "", "%s", f.Code)
	add(f.Status != 0, "HTTP %d", f.Status)
	add(f.Percent > 0 && f.Percent < 100, "%g%% of the calls", f.Percent)
	add(f.Count > 0, "%d of %d calls", f.Used, f.Count)
	add(f.Principal != "", "of %s", f.Principal)
	return strings.Join(out, ", ")
}

// Why describes the fault as a cause.
func (f *Fault) Why() string {
	return fmt.Sprintf("fault %s (%s %s) set by drydock fault", f.ID, f.Kind, f.Target())
}

// Fix returns the command that ends it.
func (f *Fault) Fix() string {
	return "drydock fault clear " + f.ID + " --region " + f.Region + accountFlag(f.Account)
}

func accountFlag(account string) string {
	if account == "" || account == "000000000000" {
		return ""
	}
	return " --account " + account
}

// A Cause is an error with the fault behind it. Clients see only Err.
type Cause struct {
	Err   error
	Fault Fault
}

// Because returns err with the fault behind it.
func Because(err error, f *Fault) error { return &Cause{Err: err, Fault: *f} }

func (c *Cause) Error() string { return c.Err.Error() }

// Unwrap returns the error that clients see.
func (c *Cause) Unwrap() error { return c.Err }

// Of returns the fault behind an error, or nil.
func Of(err error) *Fault {
	if c, ok := errors.AsType[*Cause](err); ok {
		return &c.Fault
	}
	return nil
}
