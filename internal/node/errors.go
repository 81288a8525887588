package node

import (
	"errors"

	"github.com/drydock-dev/drydock/internal/advice"
)

// A Decision is the reason why an instance was refused something.
type Decision struct {
	// By is the part that decided: one of the By… constants.
	By string `json:"by"`
	// Code is the kind of refusal: ENI_SG_RULES_MISMATCH, AccessDenied, …
	Code string `json:"code,omitempty"`
	// Component is what refused, or is missing: sg-…, a policy's action, a role's ARN.
	Component string `json:"component,omitempty"`
	// Text explains it in a sentence, with the actual and the required values.
	Text string `json:"text"`
	// Connection is the refused connection, if the network refused. Fixes are searched for on request.
	Connection *Connection `json:"connection,omitempty"`
	// Subject describes what the fixes are about. Fixes are searched for on request.
	Subject *Subject `json:"subject,omitempty"`
	// Fixes are alternatives that would each remove the reason.
	Fixes []advice.Fix `json:"fixes,omitempty"`
}

// A Subject says which role wants access to which cluster.
type Subject struct {
	PlaneID string `json:"plane,omitempty"`   // of the cluster
	Cluster string `json:"cluster,omitempty"` // the cluster that refuses
	Named   string `json:"named,omitempty"`   // the cluster that user data names instead
	Role    string `json:"role,omitempty"`
	// Instance is the one whose user data is wrong.
	Instance string `json:"instance,omitempty"`
	// Auto says that the instance is a node of EKS Auto Mode.
	Auto bool `json:"auto,omitempty"`
	// Fargate says that it is a machine of AWS Fargate.
	Fargate bool `json:"fargate,omitempty"`
}

// A Connection is a connection that an instance tried to make.
type Connection struct {
	From string `json:"from"` // an instance, or the network interface of a Fargate machine
	Host string `json:"host"`
	Port int    `json:"port"`
}

// The parts that decide.
const (
	ByNetwork    = "network"
	ByIAM        = "IAM"
	ByCluster    = "cluster"    // access entries and aws-auth
	ByKubernetes = "Kubernetes" // the cluster's authorizers, admission and rules
	ByImage      = "image"      // the AMI's contents
	ByRegistry   = "registry"   // the registry does not have an image
	ByFault      = "fault"      // a deliberate fault, set by drydock fault
)

// A Refusal is an error as a program on the instance sees it, with the decision behind it, which programs there do
// not see.
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
