// Package route53 implements Amazon Route 53's hosted zones: zones, their records, changes, and the VPCs in which private
// zones answer. Package reach resolves names with what Zones returns, so records are visible to programs on instances
// and to `drydock why reach`.
//
//	aws route53 … ──► operations ──► zones, buckets of record sets
//	                                  └──► Zones ──► reach.HostedZone
//
// Package authz makes access decisions. Only the composition root imports the package.
package route53

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"sync"
	"time"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	route53types "github.com/aws/aws-sdk-go-v2/service/route53/types"
	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/reach"
	"github.com/drydock-dev/drydock/internal/store"
)

// EC2 has the operation with which Route 53 checks, on behalf of its user, that a VPC exists.
type EC2 interface {
	DescribeVpcs(context.Context, *awsec2.DescribeVpcsInput) (*awsec2.DescribeVpcsOutput, error)
}

// Config is what the service needs.
type Config struct {
	Store *store.Store
	EC2   EC2
	Clock clock.PassiveClock // nil means the real clock
}

// Service is Amazon Route 53.
type Service struct {
	store *store.Store
	ec2   EC2
	clock clock.PassiveClock

	mu sync.Mutex
	// views are the zones as they were last read, by ID.
	views map[string]view
}

type view struct {
	serial int64
	zone   *reach.HostedZone
	sets   []route53types.ResourceRecordSet // in Route 53's order, shared by all readers
}

// New returns the service.
func New(cfg Config) *Service {
	s := &Service{store: cfg.Store, ec2: cfg.EC2, clock: cfg.Clock, views: map[string]view{}}
	if s.clock == nil {
		s.clock = clock.RealClock{}
	}
	return s
}

func (s *Service) now() time.Time { return s.clock.Now().UTC().Truncate(time.Millisecond) }

// home is the region of all records and of the API. Zones have no region.
const home = "us-east-1"

func ofAccount(account string) regional.Scope { return regional.At(account, home) }

func caller(ctx context.Context) regional.Scope { return ofAccount(awsapi.CallFrom(ctx).Account) }

// bare returns the ID in a path such as /hostedzone/Z123, which clients may send instead of the ID.
func bare(id *string) string {
	if id == nil {
		return ""
	}
	return (*id)[strings.LastIndex(*id, "/")+1:]
}

// newID returns the ID of a zone or a change.
func newID(prefix string, length int) string { return (prefix + rand.Text())[:length] }

// zone returns the caller's zone with the ID that a request names.
func (s *Service) zone(r store.Reader, in regional.Scope, id *string) (zoneRecord, error) {
	z, err := zones.Get(r, in.Key(bare(id)))
	return z, store.NotFoundAs(err, errNoZone(bare(id)))
}

// anyZone returns the zone with an ID, whoever owns it.
func (s *Service) anyZone(r store.Reader, id *string) (zoneRecord, regional.Scope, error) {
	for _, item := range zones.All(r, store.Scope{}) {
		if item.Key.ID == bare(id) {
			return item.Value, ofAccount(item.Key.Account), nil
		}
	}
	return zoneRecord{}, regional.Scope{}, errNoZone(bare(id))
}

// changeZone changes the caller's zone with an ID.
func (s *Service) changeZone(ctx context.Context, id *string, fn func(*zoneRecord) error) error {
	err := zones.UpdateOne(ctx, s.store, caller(ctx).Key(bare(id)), fn)
	return store.NotFoundAs(err, errNoZone(bare(id)))
}

// Zones returns the zones that answer for the VPCs of a region, and all public ones, as package reach needs them.
//
// AWS deviation: a public zone answers as if its domain were delegated to it.
func (s *Service) Zones(region string) []reach.Resource {
	var out []reach.Resource
	seen := map[string]bool{}
	for _, item := range zones.All(s.store, store.Scope{}) {
		z := item.Value
		if z.Private && !slices.ContainsFunc(z.VPCs, func(v vpcRecord) bool { return v.Region == region }) {
			seen[z.ID] = true
			continue
		}
		seen[z.ID] = true
		out = append(out, s.view(&z, ofAccount(item.Key.Account)).zone)
	}
	others := map[string]*reach.HostedZone{}
	for _, item := range foreigns.All(s.store, store.Scope{}) {
		f := item.Value
		z := f.zone(region)
		switch {
		case seen[f.ID] || len(z.VPCs) == 0: // its owner's account is here, too, or it answers only in other regions
		case others[f.ID] != nil: // it answers in VPCs of another twin, too
			others[f.ID].VPCs = append(others[f.ID].VPCs, z.VPCs...)
		default:
			others[f.ID] = z
			out = append(out, z)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.views {
		if !seen[id] {
			delete(s.views, id)
		}
	}
	return out
}

// view returns a zone's record sets, and the zone as package reach needs it. Both are computed again when the zone has
// changed.
func (s *Service) view(z *zoneRecord, in regional.Scope) view {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, ok := s.views[z.ID]; ok && v.serial == z.Serial {
		return v
	}
	sets := setsOf(s.store, in, z.ID)
	out := view{z.Serial, resolvable(z, sets), sets}
	s.views[z.ID] = out
	return out
}
