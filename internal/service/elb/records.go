package elb

import (
	"strings"
	"time"

	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"

	"github.com/drydock-dev/drydock/internal/store"
)

var (
	loadBalancers = store.NewCollection[loadBalancerRecord]("elb", "loadbalancer") // by name
	deletions     = store.NewCollection[deletionRecord]("elb", "grave")            // deleted load balancers that still have interfaces, by UID
)

type loadBalancerRecord struct {
	// UID distinguishes a load balancer from later ones with the same name.
	UID           string
	Name, DNSName string
	Internal      bool `json:",omitempty"`
	VPC           string
	Subnets       []string // subnets in different zones
	Zones         []string // zones of the subnets
	Groups        []string
	Created       time.Time
	Listeners     []listenerRecord                     `json:",omitempty"` // by port
	Backends      map[int32][]string                   `json:",omitempty"` // names of policies, by instance port
	Policies      []elbtypes.PolicyDescription         `json:",omitempty"`
	LBCookies     []elbtypes.LBCookieStickinessPolicy  `json:",omitempty"`
	AppCookies    []elbtypes.AppCookieStickinessPolicy `json:",omitempty"`
	Instances     []string                             `json:",omitempty"`
	HealthCheck   elbtypes.HealthCheck
	Attributes    elbtypes.LoadBalancerAttributes
	// Interfaces are the IDs of the network interfaces, by zone.
	Interfaces map[string]string `json:",omitempty"`
	Tags       map[string]string `json:",omitempty"`
}

// policy reports whether the load balancer has a policy with a name.
func (r *loadBalancerRecord) policy(name string) bool {
	for _, p := range r.Policies {
		if text(p.PolicyName) == name {
			return true
		}
	}
	for _, p := range r.LBCookies {
		if text(p.PolicyName) == name {
			return true
		}
	}
	for _, p := range r.AppCookies {
		if text(p.PolicyName) == name {
			return true
		}
	}
	return false
}

type listenerRecord struct {
	Listener elbtypes.Listener
	Policies []string `json:",omitempty"`
}

type deletionRecord struct{ Died time.Time }

// scheme returns the load balancer's scheme: internal or internet-facing.
func (r *loadBalancerRecord) scheme() string {
	if r.Internal {
		return "internal"
	}
	return "internet-facing"
}

// secure reports whether a protocol needs a certificate.
func secure(protocol string) bool {
	p := strings.ToUpper(protocol)
	return p == "HTTPS" || p == "SSL"
}
