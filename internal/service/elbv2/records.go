package elbv2

import (
	"strings"
	"time"

	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/store"
)

// What is stored, by ID:
//
//	loadBalancers  NAME
//	deletions         net/NAME/ID        deleted, but still has interfaces
//	targetGroups   NAME
//	targetSets     NAME               the targets of a group
//	listeners      net/NAME/ID/LISTENER
//	rules          net/NAME/ID/LISTENER/RULE
var (
	loadBalancers = store.NewCollection[loadBalancerRecord]("elbv2", "loadbalancer")
	deletions     = store.NewCollection[deletionRecord]("elbv2", "grave")
	targetGroups  = store.NewCollection[targetGroupRecord]("elbv2", "targetgroup")
	targetSets    = store.NewCollection[targetSetRecord]("elbv2", "targets")
	listeners     = store.NewCollection[listenerRecord]("elbv2", "listener", store.Same)
	rules         = store.NewCollection[ruleRecord]("elbv2", "rule")
)

type loadBalancerRecord struct {
	LB elbv2types.LoadBalancer
	// Attributes are the attributes that were changed.
	Attributes map[string]string `json:",omitempty"`
	// Addresses and Allocations are the requested ones, by subnet.
	Addresses   map[string]string `json:",omitempty"`
	Allocations map[string]string `json:",omitempty"`
	// Interfaces are the IDs of the network interfaces, by zone.
	Interfaces map[string]string `json:",omitempty"`
	Tags       tags              `json:",omitempty"`
}

func (r *loadBalancerRecord) arn() string  { return *r.LB.LoadBalancerArn }
func (r *loadBalancerRecord) name() string { return *r.LB.LoadBalancerName }
func (r *loadBalancerRecord) network() bool {
	return r.LB.Type == elbv2types.LoadBalancerTypeEnumNetwork
}
func (r *loadBalancerRecord) application() bool {
	return r.LB.Type == elbv2types.LoadBalancerTypeEnumApplication
}

// id is net/NAME/ID or app/NAME/ID.
func (r *loadBalancerRecord) id() string { return idOf("loadbalancer", r.arn()) }

func (r *loadBalancerRecord) subnets() []string {
	out := make([]string, 0, len(r.LB.AvailabilityZones))
	for _, z := range r.LB.AvailabilityZones {
		out = append(out, *z.SubnetId)
	}
	return out
}

type deletionRecord struct{ Died time.Time }

type targetGroupRecord struct {
	Group      elbv2types.TargetGroup
	Attributes map[string]string `json:",omitempty"`
	Tags       tags              `json:",omitempty"`
}

func (r *targetGroupRecord) arn() string  { return *r.Group.TargetGroupArn }
func (r *targetGroupRecord) name() string { return *r.Group.TargetGroupName }

// A targetSetRecord has all the targets of a group, at most a thousand.
type targetSetRecord struct{ Targets []targetRecord }

type targetRecord struct {
	ID   string
	Port int32
	Zone string `json:",omitempty"` // as in the request
}

type listenerRecord struct {
	Listener   elbv2types.Listener
	Attributes map[string]string `json:",omitempty"`
	// Certificates are the certificates other than the default one.
	Certificates []string `json:",omitempty"`
	// DefaultRule is the ID of the rule that represents the default actions.
	DefaultRule     string
	DefaultRuleTags tags `json:",omitempty"`
	Tags            tags `json:",omitempty"`
}

func (r *listenerRecord) arn() string { return *r.Listener.ListenerArn }

type ruleRecord struct {
	Rule elbv2types.Rule
	Tags tags `json:",omitempty"`
}

func (r *ruleRecord) arn() string { return *r.Rule.RuleArn }

// idOf returns the part after KIND/ in the resource of a load balancing ARN, or "" if the ARN is of
// another kind.
func idOf(kind, a string) string {
	p, err := arn.Parse(a)
	if err != nil || p.Service != "elasticloadbalancing" {
		return ""
	}
	id, ok := strings.CutPrefix(p.Resource, kind+"/")
	if !ok {
		return ""
	}
	return id
}

// part returns the nth part of an ID, or "".
func part(id string, n int) string {
	parts := strings.Split(id, "/")
	if n >= len(parts) {
		return ""
	}
	return parts[n]
}
