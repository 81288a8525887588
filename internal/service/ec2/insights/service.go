// Package insights connects the stored network with package reach, which judges connectivity. It
// caches a snapshot of each region in use and answers Reachability Analyzer's operations from it.
package insights

import "github.com/drydock-dev/drydock/internal/service/ec2/resource"

// Service handles the operations of Reachability Analyzer.
type Service struct {
	*resource.Core
	reached snapshotCache
}

// New returns the service on top of core.
func New(core *resource.Core) *Service { return &Service{Core: core} }
