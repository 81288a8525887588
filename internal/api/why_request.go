package api

import (
	"fmt"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/policy"
)

// A RequestExplanation says why a request was denied at the time.
type RequestExplanation struct {
	RequestID string    `json:"requestId"`
	Time      time.Time `json:"time"`
	Account   string    `json:"account"`
	Region    string    `json:"region"`
	Principal string    `json:"principal"`
	Service   string    `json:"service"`
	Operation string    `json:"operation"`
	// Refused is false for a request that was allowed. No reasons are recorded for those.
	Refused bool `json:"refused"`
	// Fault is the deliberate fault that made it fail. There is no Explanation then.
	Fault *RequestFault `json:"fault,omitempty"`
	// Network is a connection that a program run as a pod could not make. There was no request then, and there is no
	// Explanation.
	Network *RequestNetwork `json:"network,omitempty"`
	// Explanation is the reasoning about the policies at that time, without OmittedStatements, which were too many to
	// keep.
	Explanation       policy.Explanation `json:"explanation"`
	OmittedStatements int                `json:"omittedStatements,omitempty"`
	// NoSuchRole says that the role to be assumed did not exist.
	NoSuchRole    bool                `json:"noSuchRole,omitempty"`
	ConditionKeys map[string][]string `json:"conditionKeys,omitempty"`
	// Suggestions are the smallest changes that would have allowed it.
	Suggestions []policy.Suggestion `json:"suggestions"`
	// Fixes are the commands that make these changes.
	Fixes []advice.Fix `json:"fixes,omitempty"`
	// Unknown lists which of the principal's policies could not be read from a twin's source. If it is not empty, whether
	// AWS would refuse the request is unknown.
	Unknown []string `json:"unknown,omitempty"`
	// Now is the decision of the current policies on the same request.
	Now *policy.Decision `json:"now,omitempty"`
}

// A RequestFault is a fault, set by drydock fault, that made a request fail.
type RequestFault struct {
	ID      string `json:"id"`
	Text    string `json:"text"`
	Code    string `json:"code"` // the answer that the caller got
	Message string `json:"message"`
	// Fixes end it.
	Fixes []advice.Fix `json:"fixes"`
}

// A RequestNetwork is a connection that drydock run --pod could not make.
type RequestNetwork struct {
	Cluster string `json:"cluster"`
	Pod     string `json:"pod"`    // NAMESPACE/NAME
	Target  string `json:"target"` // HOST:PORT
	Reason  Reason `json:"reason"`
}

func (n *RequestNetwork) text(e *RequestExplanation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "connection to %s, %s\nrequest   %s\nprincipal %s\npod       %s in cluster %s of %s\n\n",
		n.Target, e.Time.UTC().Format(time.RFC3339), e.RequestID, e.Principal, n.Pod, n.Cluster, e.Region)
	fmt.Fprintf(&b, "The connection failed: %s.\nby        %s %s %s\n", strings.TrimSuffix(n.Reason.Text, "."), n.Reason.By, n.Reason.Code, n.Reason.Component)
	b.WriteString(advice.Text("", n.Reason.Fixes))
	if n.Reason.Note != "" {
		b.WriteString("no fix: " + n.Reason.Note + "\n")
	}
	return b.String()
}

// Text renders the explanation for people.
func (e RequestExplanation) Text() string {
	if e.Network != nil {
		return e.Network.text(&e)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s of %s in %s, %s\n", e.Operation, e.Service, e.Region, e.Time.UTC().Format(time.RFC3339))
	fmt.Fprintf(&b, "request   %s\nprincipal %s\n", e.RequestID, e.Principal)
	d := e.Explanation.Decision
	if f := e.Fault; f != nil {
		fmt.Fprintf(&b, "answer    %s: %s\n\nIt failed because of %s.\n%s", f.Code, f.Message, f.Text, advice.Text("", f.Fixes))
		return b.String()
	}
	if !e.Refused {
		b.WriteString("\nNo policy refused it.\n")
		return b.String()
	}
	fmt.Fprintf(&b, "action    %s\nresource  %s\n\n%s", d.Action, d.Resource, e.Explanation)
	if e.OmittedStatements > 0 {
		fmt.Fprintf(&b, "%d more statements matched and were not recorded.\n", e.OmittedStatements)
	}
	if e.NoSuchRole {
		b.WriteString("There is no such role. STS gives the same answer as for a role whose trust policy does not name the caller.\n")
	}
	if len(d.UnknownKeys) > 0 {
		fmt.Fprintf(&b, "Drydock does not know the value of %s: conditions on it allow nothing, and deny.\n", strings.Join(d.UnknownKeys, ", "))
	}
	for i, s := range e.Suggestions {
		if i == 0 {
			b.WriteString("\nWhat would allow it:\n")
		} else {
			b.WriteString("or\n")
		}
		for line := range strings.Lines(s.String()) {
			b.WriteString("  " + strings.TrimRight(line, "\n") + "\n")
		}
	}
	if len(e.Fixes) > 0 {
		b.WriteString("\n" + advice.Text("", e.Fixes))
	}
	if len(e.Unknown) > 0 {
		b.WriteString("\nDrydock refused it, but whether AWS would is\n" + unknownText(e.Unknown))
	}
	switch {
	case e.Now == nil:
	case e.Now.Allowed:
		b.WriteString("\nCurrent policies would allow it.\n")
	default:
		b.WriteString("\nCurrent policies would still deny it.\n")
	}
	return b.String()
}
