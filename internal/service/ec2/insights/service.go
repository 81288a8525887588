// Package insights shows the stored network to package reach: it keeps a snapshot
// of each region that is asked for, and answers Reachability Analyzer's operations
// from it. Verdicts are package reach's.
package insights

import "github.com/drydock-dev/drydock/internal/service/ec2/resource"

// Service handles the operations of Reachability Analyzer.
type Service struct {
	*resource.Core
	reached snapshotCache
}

// New returns the service on top of core.
func New(core *resource.Core) *Service { return &Service{Core: core} }
