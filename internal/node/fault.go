package node

import (
	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/fault"
)

// FaultDecision is a fault as what stands behind something that an instance suffers.
func FaultDecision(f *fault.Fault, what string) Decision {
	return Decision{By: ByFault, Code: string(f.Kind), Component: f.ID, Text: what + ": " + f.Why(), Fixes: advice.Each(f.Fix())}
}
