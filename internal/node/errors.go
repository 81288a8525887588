package node

import (
	"errors"

	"github.com/drydock-dev/drydock/internal/advice"
)

// A Decision is what stands behind something that an instance was refused.
type Decision struct {
	// By says who decided: one of the By… constants.
	By string `json:"by"`
	// Code names the kind of refusal: ENI_SG_RULES_MISMATCH, AccessDenied, …
	Code string `json:"code,omitempty"`
	// Component is what refused, or is missing: sg-…, a policy's action, a role's ARN.
	Component string `json:"component,omitempty"`
	// Text explains it in a sentence, with the actual and the wanted values.
	Text string `json:"text"`
	// Connection is what was to be connected, if the network refused it: fixes are looked
	// for on request.
	Connection *Connection `json:"connection,omitempty"`
	// Subject is what the fixes are about, by kind; how it is fixed is looked for when
	// somebody asks.
	Subject *Subject `json:"subject,omitempty"`
	// Fixes are what else would each remove the reason.
	Fixes []advice.Fix `json:"fixes,omitempty"`
}

// A Subject is who wants what of whom.
type Subject struct {
	PlaneID string `json:"plane,omitempty"`   // of the cluster
	Cluster string `json:"cluster,omitempty"` // that refuses
	Named   string `json:"named,omitempty"`   // the cluster that user data names instead
	Role    string `json:"role,omitempty"`
}

// A Connection is one that an instance wanted to make.
type Connection struct {
	From string `json:"from"` // an instance, or the network interface of a machine of Fargate
	Host string `json:"host"`
	Port int    `json:"port"`
}

// These are the parties that decide.
const (
	ByNetwork    = "network"
	ByIAM        = "IAM"
	ByCluster    = "cluster"    // access entries and aws-auth
	ByKubernetes = "Kubernetes" // its authorizers, admission and rules
	ByImage      = "image"      // what the AMI has, or has not
	ByFault      = "fault"      // what is broken on purpose, by drydock fault
)

// A Refusal is an error as a program on the instance sees it, with the decision
// behind it, which no program there sees.
type Refusal struct {
	Err      error
	Decision Decision
}

func (e *Refusal) Error() string { return e.Err.Error() }
func (e *Refusal) Unwrap() error { return e.Err }

// DecisionOf returns the decision behind an error, or nil.
func DecisionOf(err error) *Decision {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return &r.Decision
	}
	return nil
}
