package fault

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// A Set holds the faults in force. Consulting one without faults costs an atomic load. Its methods may be called
// concurrently; those of a nil *Set find nothing.
type Set struct {
	clock   clock.PassiveClock
	roll    func() float64 // 0 ≤ roll < 1
	counted chan struct{}

	index   atomic.Pointer[index] // nil if there are no faults
	mu      sync.Mutex            // serializes Replace
	changed atomic.Pointer[chan struct{}]
}

// Config configures a Set. Every field is optional.
type Config struct {
	Clock clock.PassiveClock // nil means the real clock
	// Roll decides which calls a percentage affects: 0 ≤ x < 1. Nil means random.
	Roll func() float64
}

// NewSet returns an empty set.
func NewSet(cfg Config) *Set {
	s := &Set{clock: cfg.Clock, roll: cfg.Roll, counted: make(chan struct{}, 1)}
	if s.clock == nil {
		s.clock = clock.RealClock{}
	}
	if s.roll == nil {
		s.roll = rand.Float64
	}
	s.changed.Store(new(make(chan struct{})))
	return s
}

type place struct{ account, region string }

type index struct{ places map[place]*local }

// local are the faults of one account and region, oldest first.
type local struct {
	all       []*rule
	api       []*rule
	launches  []*rule            // Zone and Capacity
	instances map[string][]*rule // by instance
}

type rule struct {
	Fault
	used *atomic.Int64
}

// Replace replaces the faults in force. Faults that remain keep their uses of a Count.
func (s *Set) Replace(faults []Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { close(*s.changed.Swap(new(make(chan struct{})))) }()
	if len(faults) == 0 {
		s.index.Store(nil)
		return
	}
	used := map[string]*atomic.Int64{}
	if old := s.index.Load(); old != nil {
		for _, l := range old.places {
			for _, r := range l.all {
				used[r.ID] = r.used
			}
		}
	}
	faults = slices.Clone(faults)
	slices.SortStableFunc(faults, func(a, b Fault) int { return a.Since.Compare(b.Since) })
	next := &index{places: map[place]*local{}}
	for _, f := range faults {
		r := &rule{Fault: f, used: used[f.ID]}
		if r.used == nil {
			r.used = new(atomic.Int64)
			r.used.Store(f.Used)
		}
		p := place{f.Account, f.Region}
		if next.places[p] == nil {
			next.places[p] = &local{instances: map[string][]*rule{}}
		}
		next.places[p].add(r)
	}
	s.index.Store(next)
}

func (l *local) add(r *rule) {
	l.all = append(l.all, r)
	if r.Instance != "" {
		l.instances[r.Instance] = append(l.instances[r.Instance], r)
	}
	switch r.Kind {
	case Throttle, Latency, Error:
		l.api = append(l.api, r)
	case Zone, Capacity:
		l.launches = append(l.launches, r)
	}
}

// Changed returns a channel that is closed when the faults in force are replaced.
func (s *Set) Changed() <-chan struct{} {
	if s == nil {
		return nil
	}
	return *s.changed.Load()
}

// Cluster returns the fault of a kind that affects a cluster, or nil.
func (s *Set) Cluster(k Kind, account, region, name string) *Fault {
	for _, f := range s.Clusters(account, region, name) {
		if f.Kind == k {
			return &f
		}
	}
	return nil
}

// Clusters returns the faults that affect a cluster, oldest first.
func (s *Set) Clusters(account, region, name string) []Fault {
	l := s.in(account, region)
	if l == nil {
		return nil
	}
	var out []Fault
	for _, r := range l.all {
		if r.Cluster != "" && r.Cluster == name && s.live(r) {
			out = append(out, *r.copy())
		}
	}
	return out
}

// in returns the faults of an account and region, or nil.
func (s *Set) in(account, region string) *local {
	if s == nil {
		return nil
	}
	i := s.index.Load()
	if i == nil {
		return nil
	}
	return i.places[place{account, region}]
}

// live reports whether a rule is currently in force.
func (s *Set) live(r *rule) bool {
	return (r.Until.IsZero() || r.Kind.Once() || s.clock.Now().Before(r.Until)) && (r.Count == 0 || r.used.Load() < r.Count)
}

func (r *rule) copy() *Fault {
	f := r.Fault
	f.Used = min(r.used.Load(), max(r.Count, 0))
	return &f
}

// List returns the faults of an account and region, oldest first; empty means any.
func (s *Set) List(account, region string) []Fault {
	var out []Fault
	if s == nil {
		return nil
	}
	i := s.index.Load()
	if i == nil {
		return nil
	}
	for p, l := range i.places {
		if account != "" && p.account != account || region != "" && p.region != region {
			continue
		}
		for _, r := range l.all {
			if s.live(r) {
				out = append(out, *r.copy())
			}
		}
	}
	slices.SortFunc(out, func(a, b Fault) int {
		if c := a.Since.Compare(b.Since); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return out
}

// Another returns a fault in force that does the same as f to what f affects, or nil.
func (s *Set) Another(f *Fault) *Fault {
	l := s.in(f.Account, f.Region)
	if l == nil {
		return nil
	}
	fails := func(k Kind) bool { return k == Throttle || k == Error }
	for _, r := range l.all {
		if r.ID == f.ID || !s.live(r) || r.Kind != f.Kind && !(fails(r.Kind) && fails(f.Kind)) {
			continue
		}
		if anyOr(r.Instance, f.Instance) && anyOr(r.Zone, f.Zone) && anyOr(r.VPC, f.VPC) && anyOr(r.Cluster, f.Cluster) && anyOr(r.InstanceType, f.InstanceType) &&
			anyOr(r.CapacityType, f.CapacityType) && anyOr(r.Operation, f.Operation) && anyOr(r.Principal, f.Principal) {
			return r.copy()
		}
	}
	return nil
}

// Used returns how often every fault with a Count was used, by ID.
func (s *Set) Used() map[string]int64 {
	out := map[string]int64{}
	if i := s.index.Load(); i != nil {
		for _, l := range i.places {
			for _, r := range l.api {
				if r.Count > 0 {
					out[r.ID] = min(r.used.Load(), r.Count)
				}
			}
		}
	}
	return out
}

// NoCapacity returns the fault because of which EC2 has no instances of a type in a zone, On-Demand or Spot, or nil
// if there is capacity.
//
// AWS also simulates a zone outage as a lack of capacity:
// https://docs.aws.amazon.com/fis/latest/userguide/az-availability-scenario.html
func (s *Set) NoCapacity(account, region, instanceType, zone, capacityType string) *Fault {
	l := s.in(account, region)
	if l == nil {
		return nil
	}
	for _, r := range l.launches {
		if s.live(r) && anyOr(r.InstanceType, instanceType) && anyOr(r.Zone, zone) && anyOr(r.CapacityType, capacityType) {
			return r.copy()
		}
	}
	return nil
}

func anyOr(pattern, name string) bool { return pattern == "" || Match(pattern, name) }

// Instance returns the fault of a kind that affects one instance, or nil.
func (s *Set) Instance(k Kind, account, region, id string) *Fault {
	l := s.in(account, region)
	if l == nil {
		return nil
	}
	for _, r := range l.instances[id] {
		if r.Kind == k && s.live(r) {
			return r.copy()
		}
	}
	return nil
}

// Network returns the faults in the network of an account and region: Isolate, Zone and DNS, and those of instances'
// metadata.
func (s *Set) Network(account, region string) []Fault {
	l := s.in(account, region)
	if l == nil {
		return nil
	}
	var out []Fault
	for _, r := range l.all {
		switch r.Kind {
		case Isolate, Zone, DNS, IMDS:
			if s.live(r) {
				out = append(out, *r.copy())
			}
		}
	}
	return out
}

// Touching returns the faults that may affect an instance: its own, and those of its zone and VPC.
func (s *Set) Touching(account, region, id, zone, vpc string) []Fault {
	l := s.in(account, region)
	if l == nil {
		return nil
	}
	var out []Fault
	for _, r := range l.all {
		mine := r.Instance != "" && r.Instance == id || r.Kind == Zone && r.Zone == zone || r.VPC != "" && r.VPC == vpc
		if mine && s.live(r) {
			out = append(out, *r.copy())
		}
	}
	return out
}

// A Call is a call of the API, as far as faults look at it.
type Call struct {
	Account, Region string
	// Services are the service's names: the SDK's and IAM's.
	Services  [2]string
	Operation string
	// Principals are the caller's ARN and that of its role, if it has one.
	Principals [2]string
}

// An Effect is how faults affect a call.
type Effect struct {
	// Delay is how much longer it takes, because of Delayed.
	Delay   time.Duration
	Delayed *Fault
	// Failed is the fault that makes it fail, or nil if it continues.
	Failed *Fault
}

// Call returns the effect of faults on a call, and counts it.
func (s *Set) Call(c Call) Effect {
	l := s.in(c.Account, c.Region)
	if l == nil || len(l.api) == 0 {
		return Effect{}
	}
	var e Effect
	for _, r := range l.api {
		if e.Failed != nil && r.Kind != Latency || !s.live(r) || !r.of(c) || r.Percent > 0 && s.roll()*100 >= r.Percent || !s.take(r) {
			continue
		}
		if r.Kind == Latency {
			e.Delay += r.Delay
			e.Delayed = r.copy()
			continue
		}
		e.Failed = r.copy()
	}
	e.Delay = min(e.Delay, MaxDelay)
	return e
}

// of reports whether a fault affects a call.
func (r *rule) of(c Call) bool {
	service, operation, _ := strings.Cut(r.Operation, ":")
	return matchAny(service, c.Services) && Match(operation, c.Operation) && (r.Principal == "" || matchAny(r.Principal, c.Principals))
}

func matchAny(pattern string, names [2]string) bool {
	return Match(pattern, names[0]) || names[1] != "" && Match(pattern, names[1])
}

// take uses up one of a rule's calls. It returns false if none is left.
func (s *Set) take(r *rule) bool {
	if r.Count == 0 {
		return true
	}
	if r.used.Add(1) > r.Count {
		return false
	}
	select {
	case s.counted <- struct{}{}:
	default:
	}
	return true
}

// Counted returns a channel that receives a value after faults with a Count were used.
func (s *Set) Counted() <-chan struct{} { return s.counted }

// Match reports whether a name matches a pattern, in which * stands for any characters and ? for one. As with IAM's
// actions, case does not matter. The cost is bounded by the product of the lengths.
func Match(pattern, name string) bool {
	p, n, star, mark := 0, 0, -1, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || lower(pattern[p]) == lower(name[n])):
			p++
			n++
		case star >= 0:
			mark++
			p, n = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

func lower(b byte) byte {
	if 'A' <= b && b <= 'Z' {
		return b + 'a' - 'A'
	}
	return b
}
