// Package capacity determines which pools of instances have capacity: all pools except those without capacity because of a
// fault (drydock fault). On-Demand Capacity Reservations keep their capacity even then.
package capacity

import (
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/instancetype"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
)

// Service handles the operations on Capacity Reservations, and knows which pools have capacity.
type Service struct {
	*resource.Core
	faults *fault.Set
}

// New returns the service on top of core. faults may be nil.
func New(core *resource.Core, faults *fault.Set) *Service { return &Service{core, faults} }

// Capacity types of a pool.
const (
	OnDemand = "on-demand"
	Spot     = "spot"
)

// Short returns the fault that leaves a pool without capacity, or nil.
func (s *Service) Short(sc resource.Scope, instanceType, zone string, isSpot bool) *fault.Fault {
	return s.faults.NoCapacity(sc.Account, sc.Region, instanceType, zone, TypeOf(isSpot))
}

// TypeOf returns the name of an instance's capacity type.
func TypeOf(isSpot bool) string {
	if isSpot {
		return Spot
	}
	return OnDemand
}

// Check returns an error if a pool has no capacity for a launch or start.
func (s *Service) Check(sc resource.Scope, instanceType, zone string, isSpot bool) error {
	f := s.Short(sc, instanceType, zone, isSpot)
	if f == nil {
		return nil
	}
	if isSpot {
		return fault.Because(ec2err.NoSpotCapacity(), f)
	}
	var others []string
	for _, z := range instancetype.OfferingZones(sc.Region, instanceType) {
		if s.Short(sc, instanceType, z, false) == nil {
			others = append(others, z)
		}
	}
	return fault.Because(ec2err.NoCapacity(instanceType, zone, others), f)
}
