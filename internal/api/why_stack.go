package api

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A StackExplanation describes the state of a stack: its resources in the order in which the last operation processed
// them, and why some of them failed.
type StackExplanation struct {
	Stack   string `json:"stack"`
	ARN     string `json:"arn"`
	Account string `json:"account"`
	Region  string `json:"region"`
	Status  string `json:"status"`
	Reason  string `json:"statusReason,omitempty"`
	// Principal makes the calls that create and change resources: the stack's role, or the caller.
	Principal string `json:"principal"`
	// Healthy says that the last operation succeeded.
	Healthy bool `json:"healthy"`
	// Steps are the resources. Those that an update did not touch are left out.
	Steps     []Step          `json:"steps"`
	Resources []StackResource `json:"resources"`
	// Failures are the resources that failed, the first one first.
	Failures []StackFailure `json:"failures,omitempty"`
	Notes    []string       `json:"notes,omitempty"`
}

// A StackResource is a resource of a stack.
type StackResource struct {
	LogicalID  string   `json:"logicalId"`
	PhysicalID string   `json:"physicalId,omitempty"`
	Type       string   `json:"type"`
	DependsOn  []string `json:"dependsOn,omitempty"`
	// Status is empty if no operation has reached the resource.
	Status string `json:"status,omitempty"`
	Reason string `json:"statusReason,omitempty"`
}

// A StackFailure is a resource that failed, with the evidence.
type StackFailure struct {
	LogicalID  string    `json:"logicalId"`
	PhysicalID string    `json:"physicalId,omitempty"`
	Type       string    `json:"type"`
	Status     string    `json:"status"`
	Reason     string    `json:"statusReason"` // as in the stack's events
	Time       time.Time `json:"time"`
	// Call is the call that was refused. If a policy or a fault refused it, Request explains why.
	Call    *StackCall          `json:"call,omitempty"`
	Request *RequestExplanation `json:"request,omitempty"`
	// Nodes are the resource's instances.
	Nodes []NodeExplanation `json:"nodes,omitempty"`
	// Stack is the nested stack.
	Stack *StackExplanation `json:"stack,omitempty"`
}

// A StackCall is a call that CloudFormation made for a stack, and the error that it returned.
type StackCall struct {
	RequestID string `json:"requestId"`
	Service   string `json:"service"`
	Operation string `json:"operation"`
	Code      string `json:"code"`
	Message   string `json:"message"`
}

// shownAtMost is the number of resources above which Text leaves some of them out.
const shownAtMost = 20

// Text renders the chain of resources. For a large stack it shows only those that are not complete, and the dependencies
// of those that failed.
func (e *StackExplanation) Text() string {
	title := "stack " + e.Stack + " in " + e.Region + ", as " + e.Principal
	steps, notes := e.Steps, slices.Clone(e.Notes)
	if len(steps) > shownAtMost {
		wanted := map[string]bool{}
		for _, s := range steps {
			if s.State != StepOK {
				wanted[s.Name] = true
				for _, r := range e.Resources {
					for _, d := range r.DependsOn {
						wanted[d] = wanted[d] || r.LogicalID == s.Name && s.State == StepFailed
					}
				}
			}
		}
		all := len(steps)
		steps = slices.DeleteFunc(slices.Clone(steps), func(s Step) bool { return !wanted[s.Name] })
		if hidden := all - len(steps); hidden > 0 {
			notes = append(notes, fmt.Sprintf("%d more resources are complete; --output json lists them", hidden))
		}
	}
	return chainText(title, steps, notes, e.Verdict())
}

// Chain returns the steps, and reports whether the stack is healthy.
func (e *StackExplanation) Chain() ([]Step, bool) { return e.Steps, e.Healthy }

// Verdict summarizes the state of the stack.
func (e *StackExplanation) Verdict() string {
	out := e.Status
	if r := strings.TrimSpace(e.Reason); r != "" && r != "User Initiated" {
		out += ": " + r
	}
	out = strings.TrimSuffix(out, ".") + "."
	var waiting []string
	for _, s := range e.Steps {
		if s.State == StepPending && strings.HasPrefix(s.Evidence, StackWorking) {
			waiting = append(waiting, s.Name)
		}
	}
	switch {
	case len(e.Failures) > 0 && !e.Healthy:
		out += " First failed: " + e.Failures[0].LogicalID + "."
	case len(waiting) > 0:
		out += " In progress: " + strings.Join(waiting, ", ") + "."
	}
	return out
}

// StackWorking begins the evidence of a resource that is being worked on.
const StackWorking = "in progress"
