package instance

import (
	"context"
	"strings"
	"sync"

	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/catalog/prices"
	"github.com/drydock-dev/drydock/internal/service/ec2/capacity"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/instancetype"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/store"
)

// checkPool returns an error if a pool has no capacity or its Spot price exceeds the request's
// maximum.
func (s *Service) checkPool(sc resource.Scope, l *launch) error {
	if !instancetype.Offered(l.typ.Name, l.subnet.ZoneID) {
		return ec2err.UnsupportedZone(l.typ.Name, l.subnet.Zone, instancetype.OfferingZones(sc.Region, l.typ.Name))
	}
	if l.spot != nil && !instancetype.SpotOffered(l.typ.Name) {
		return ec2err.UnsupportedOperation("The instance type '%s' is not supported for Spot Instances.", l.typ.Name) // from memory
	}
	if err := s.checkReserved(sc, l); err != nil {
		return err
	}
	if l.spot != nil && l.spot.MaxPrice != "" {
		if price, ok := prices.Spot(sc.Region, l.subnet.Zone, l.typ.Name); ok && instancetype.Decimal(l.spot.MaxPrice) < price {
			return ec2err.SpotPrice(l.spot.MaxPrice, price)
		}
	}
	return nil
}

// checkReserved returns an error if neither a Capacity Reservation nor the pool has capacity. A launch that only
// reservations can serve gets at most as many instances as there is room in them.
func (s *Service) checkReserved(sc resource.Scope, l *launch) error {
	short := s.capacity.Check(sc, l.typ.Name, l.subnet.Zone, l.spot != nil)
	if l.spot != nil || short == nil && !l.reserved.Must() {
		return short
	}
	room := s.capacity.Room(sc, l.reserved, l.typ.Name, l.subnet.Zone, l.tenancy())
	switch {
	case room >= l.min:
		l.max = min(l.max, room)
		return nil
	case l.reserved.Must():
		return capacity.Exceeded()
	}
	return short
}

// wants returns which reservations an instance may or must run in.
func wants(i record.Instance) capacity.Want {
	return capacity.Want{Preference: i.CapacityPreference, ID: i.CapacityTarget}
}

// VCPUQuotaCode returns the Service Quotas code of the bucket in which an instance type's vCPUs
// count. All standard families share one. The codes are from memory of the Service Quotas console.
func VCPUQuotaCode(instanceType string, isSpot bool) string {
	family, _, _ := strings.Cut(instanceType, ".")
	type codes struct{ onDemand, spot string }
	c := codes{"L-1216C47A", "L-34B43A08"} // the standard families: A, C, D, H, I, M, R, T, Z
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

// A vcpuBucket identifies what a vCPU quota limits.
type vcpuBucket struct {
	resource.Scope
	code string
}

// A vcpuLedger counts the vCPUs of launches in progress that the store does not show yet, so that
// parallel launches cannot exceed the quota together.
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
	count  int // instances that the quota allows
	left   int // instances still counted in the ledger
}

// hold reserves vCPUs for up to count instances, as many as the quota allows. It returns an error
// if these are fewer than l.min.
func (v *vcpuLedger) hold(ctx context.Context, s *Service, sc resource.Scope, l *launch, count int) (*vcpuHold, error) {
	h := &vcpuHold{ledger: v, bucket: vcpuBucket{sc, VCPUQuotaCode(l.typ.Name, l.spot != nil)}, each: l.vcpus()}
	limit := s.vcpuQuota(ctx, sc.Account, sc.Region, h.bucket.code)
	v.mu.Lock()
	defer v.mu.Unlock()
	fits := VCPUUse{Limit: limit, Running: s.runningVCPUs(sc, h.bucket.code) + v.held[h.bucket], Each: h.each}.Room()
	if fits < l.min {
		if l.spot != nil {
			return nil, ec2err.SpotLimit()
		}
		return nil, ec2err.VCPULimit(limit)
	}
	h.count = min(count, fits)
	h.left = h.count
	v.held[h.bucket] += h.left * h.each
	return h, nil
}

// release releases all but left instances: they are in the store by now, or will never be launched.
func (h *vcpuHold) release(left int) {
	h.ledger.mu.Lock()
	defer h.ledger.mu.Unlock()
	h.ledger.held[h.bucket] -= (h.left - left) * h.each
	h.left = left
	if h.ledger.held[h.bucket] == 0 {
		delete(h.ledger.held, h.bucket)
	}
}

// A VCPUUse is how far a bucket of vCPUs is used.
type VCPUUse struct {
	Code           string // the quota's, in Service Quotas
	Limit, Running int
	Each           int // the vCPUs of one instance
}

// Room returns how many more instances the quota allows.
func (u VCPUUse) Room() int { return (u.Limit - u.Running) / max(u.Each, 1) }

// VCPUUse returns how far the bucket of an instance type is used, or false if there is no such type.
func (s *Service) VCPUUse(ctx context.Context, account, region, instanceType string, isSpot bool) (VCPUUse, bool) {
	t, ok := instancetypes.Lookup(instanceType)
	code := VCPUQuotaCode(instanceType, isSpot)
	return VCPUUse{code, s.vcpuQuota(ctx, account, region, code), s.runningVCPUs(resource.Scope{Account: account, Region: region}, code), t.VCPU}, ok
}

// runningVCPUs counts the vCPUs of a bucket's pending and running instances.
func (s *Service) runningVCPUs(sc resource.Scope, code string) int {
	n := 0
	record.Instances.Scan(s.Store, sc.All(), "", func(_ store.Key, i record.Instance) bool {
		if (i.State == record.Pending || i.State == record.Running) && VCPUQuotaCode(i.Type, i.SpotRequestID != "") == code {
			n += i.VCPUs()
		}
		return true
	})
	return n
}
