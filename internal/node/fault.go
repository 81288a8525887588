package node

import "github.com/drydock-dev/drydock/internal/fault"

// FaultDecision returns a fault as the decision behind a failure of an instance.
func FaultDecision(f *fault.Fault, what string) Decision {
	return Decision{By: ByFault, Code: string(f.Kind), Component: f.ID, Text: what + ": " + f.Why()}
}
