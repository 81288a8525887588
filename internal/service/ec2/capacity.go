package ec2

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/catalog/prices"
	"github.com/drydock-dev/drydock/internal/catalog/regions"
	"github.com/drydock-dev/drydock/internal/store"
)

// The capacity types of a pool.
const (
	onDemand = "on-demand"
	spot     = "spot"
)

// A CapacityPool is where instances come from: a type in a zone, on demand or
// Spot. "*" in a part stands for any characters.
type CapacityPool struct {
	InstanceType string // m5.large, m5.*
	Zone         string // us-east-1a
	CapacityType string // on-demand, spot
}

func (p CapacityPool) id() string { return p.InstanceType + "/" + p.Zone + "/" + p.CapacityType }

func (p CapacityPool) matches(instanceType, zone, capacityType string) bool {
	return compilePattern(p.InstanceType).match(instanceType) && compilePattern(p.Zone).match(zone) && compilePattern(p.CapacityType).match(capacityType)
}

// A capacityFaultRecord says that a pool has no capacity.
type capacityFaultRecord struct{ Pool CapacityPool }

// SetCapacityFault takes a pool's capacity away until ClearCapacityFaults: new
// launches from it fail with InsufficientInstanceCapacity. An empty part of the
// pool means all of them.
func (s *Service) SetCapacityFault(ctx context.Context, account, region string, pool CapacityPool) error {
	pool, err := parseCapacityPool(region, pool)
	if err != nil {
		return err
	}
	return s.store.Update(ctx, func(tx *store.Tx) error {
		return capacityFaults.Put(tx, scope{account, region}.key(pool.id()), capacityFaultRecord{pool})
	})
}

func parseCapacityPool(region string, pool CapacityPool) (CapacityPool, error) {
	r, ok := regions.Lookup(region)
	if !ok {
		return pool, errUnknownRegion(region)
	}
	pool = CapacityPool{or(pool.InstanceType, "*"), or(pool.Zone, "*"), or(pool.CapacityType, "*")}
	matches := func(pattern string, names []string) bool {
		return slices.ContainsFunc(names, compilePattern(pattern).match)
	}
	switch {
	case !matches(pool.InstanceType, instancetypes.Names()):
		return pool, errInstanceType(pool.InstanceType)
	case !matches(pool.Zone, r.ZoneNames()):
		return pool, errInvalidParameter("Invalid availability zone: [%s]. The zones of %s are %s.", pool.Zone, region, joinComma(r.ZoneNames()))
	case !matches(pool.CapacityType, []string{onDemand, spot}):
		return pool, errInvalidParameter("Invalid capacity type: [%s]. It is on-demand or spot.", pool.CapacityType)
	case strings.Contains(pool.id(), "?"):
		return pool, errInvalidParameter("Only * stands for other characters.")
	}
	return pool, nil
}

// ClearCapacityFaults gives pools their capacity back: those named, or all of the
// account and region.
func (s *Service) ClearCapacityFaults(ctx context.Context, account, region string, pools ...CapacityPool) error {
	sc := scope{account, region}
	return s.store.Update(ctx, func(tx *store.Tx) error {
		items, err := capacityFaults.List(tx, sc.all())
		if err != nil {
			return err
		}
		for _, it := range items {
			named := slices.ContainsFunc(pools, func(p CapacityPool) bool {
				return it.Value.Pool == CapacityPool{or(p.InstanceType, "*"), or(p.Zone, "*"), or(p.CapacityType, "*")}
			})
			if named || len(pools) == 0 {
				capacityFaults.Delete(tx, it.Key)
			}
		}
		return nil
	})
}

// CapacityFaults returns the pools without capacity.
func (s *Service) CapacityFaults(_ context.Context, account, region string) ([]CapacityPool, error) {
	items, err := capacityFaults.List(s.store, scope{account, region}.all())
	out := make([]CapacityPool, len(items))
	for i, it := range items {
		out[i] = it.Value.Pool
	}
	return out, err
}

// faulted reports whether a pool has no capacity.
func (s *Service) faulted(sc scope, instanceType, zone string, isSpot bool) (bool, error) {
	pools, err := s.CapacityFaults(context.Background(), sc.account, sc.region)
	return slices.ContainsFunc(pools, func(p CapacityPool) bool { return p.matches(instanceType, zone, capacityType(isSpot)) }), err
}

func capacityType(isSpot bool) string {
	if isSpot {
		return spot
	}
	return onDemand
}

// checkPool refuses a launch from a pool without capacity, or whose Spot price is
// above what the request offers.
func (s *Service) checkPool(sc scope, l *launch) error {
	if !offered(l.typ.Name, l.subnet.ZoneID) {
		return errUnsupportedZone(l.typ.Name, l.subnet.Zone, offeringZones(sc.region, l.typ.Name))
	}
	if l.spot != nil && !spotOffered(l.typ.Name) {
		return errUnsupportedOperation("The instance type '%s' is not supported for Spot Instances.", l.typ.Name) // from memory
	}
	short, err := s.faulted(sc, l.typ.Name, l.subnet.Zone, l.spot != nil)
	if err != nil {
		return err
	}
	if short && l.spot != nil {
		return errNoSpotCapacity()
	}
	if short {
		var others []string
		for _, zone := range offeringZones(sc.region, l.typ.Name) {
			if f, err := s.faulted(sc, l.typ.Name, zone, false); err == nil && !f {
				others = append(others, zone)
			}
		}
		return errNoCapacity(l.typ.Name, l.subnet.Zone, others)
	}
	if l.spot != nil && l.spot.MaxPrice != "" {
		if price, ok := prices.Spot(sc.region, l.subnet.Zone, l.typ.Name); ok && decimal(l.spot.MaxPrice) < price {
			return errSpotPrice(l.spot.MaxPrice, price)
		}
	}
	return nil
}

// DefaultVCPUQuota is how many vCPUs of one bucket an account may run in a region
// unless Config says otherwise.
const DefaultVCPUQuota = 1152

// VCPUQuotaCode returns the Service Quotas code of the bucket that an instance
// type's vCPUs count in; all standard families share one. Codes from memory of
// the Service Quotas console.
func VCPUQuotaCode(instanceType string, isSpot bool) string {
	family, _, _ := strings.Cut(instanceType, ".")
	type codes struct{ onDemand, spot string }
	c := codes{"L-1216C47A", "L-34B43A08"} // standard: A, C, D, H, I, M, R, T, Z
	for _, b := range []struct {
		prefix string
		codes
	}{
		{"dl", codes{"L-6E869C2A", "L-85EED4F7"}}, {"f", codes{"L-74FC7D96", "L-88CF9481"}},
		{"g", codes{"L-DB2E81BA", "L-3819A6DF"}}, {"vt", codes{"L-DB2E81BA", "L-3819A6DF"}},
		{"hpc", codes{"L-F7808C92", "L-34B43A08"}}, {"inf", codes{"L-1945791B", "L-B5D1601B"}},
		{"p", codes{"L-417A185B", "L-7212CCBC"}}, {"trn", codes{"L-2C3B7624", "L-6B0D517C"}},
		{"u", codes{"L-43DA4232", "L-34B43A08"}}, {"x", codes{"L-7295265B", "L-E3A00192"}},
	} {
		if strings.HasPrefix(family, b.prefix) {
			c = b.codes
			break
		}
	}
	if isSpot {
		return c.spot
	}
	return c.onDemand
}

// A vcpuBucket is what a vCPU quota holds for.
type vcpuBucket struct {
	scope
	code string
}

// A vcpuLedger counts the vCPUs of launches under way, which the store does not
// show yet: parallel launches cannot pass the quota together.
type vcpuLedger struct {
	mu   sync.Mutex
	held map[vcpuBucket]int
}

func newVCPULedger() *vcpuLedger { return &vcpuLedger{held: map[vcpuBucket]int{}} }

// A vcpuHold is a launch's share of the ledger.
type vcpuHold struct {
	ledger *vcpuLedger
	bucket vcpuBucket
	each   int
	count  int // instances the quota allows
	left   int // instances still held
}

// hold admits as many of count instances as the quota allows, at least l.min.
func (v *vcpuLedger) hold(ctx context.Context, s *Service, sc scope, l *launch, count int) (*vcpuHold, error) {
	h := &vcpuHold{ledger: v, bucket: vcpuBucket{sc, VCPUQuotaCode(l.typ.Name, l.spot != nil)}, each: l.vcpus()}
	limit := s.vcpuQuota(ctx, sc.account, sc.region, h.bucket.code)
	v.mu.Lock()
	defer v.mu.Unlock()
	used, err := s.runningVCPUs(sc, h.bucket.code)
	if err != nil {
		return nil, err
	}
	fits := (limit - used - v.held[h.bucket]) / max(h.each, 1)
	if fits < l.min {
		if l.spot != nil {
			return nil, errSpotLimit()
		}
		return nil, errVCPULimit(limit)
	}
	h.count = min(count, fits)
	h.left = h.count
	v.held[h.bucket] += h.left * h.each
	return h, nil
}

// release gives back all but left instances: the store shows them by now, or they
// will never be.
func (h *vcpuHold) release(left int) {
	h.ledger.mu.Lock()
	defer h.ledger.mu.Unlock()
	h.ledger.held[h.bucket] -= (h.left - left) * h.each
	h.left = left
	if h.ledger.held[h.bucket] == 0 {
		delete(h.ledger.held, h.bucket)
	}
}

// runningVCPUs counts the vCPUs of a bucket's pending and running instances.
func (s *Service) runningVCPUs(sc scope, code string) (int, error) {
	n := 0
	err := instances.Scan(s.store, sc.all(), "", func(_ store.Key, i instanceRecord) bool {
		if (i.State == statePending || i.State == stateRunning) && VCPUQuotaCode(i.Type, i.SpotRequestID != "") == code {
			n += i.vcpus()
		}
		return true
	})
	return n, err
}

// vcpus is how many vCPUs an instance has.
func (i instanceRecord) vcpus() int {
	if i.Cores > 0 {
		return int(i.Cores * i.ThreadsPerCore)
	}
	t, _ := instancetypes.Lookup(i.Type)
	return t.VCPU
}
