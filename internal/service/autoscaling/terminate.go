package autoscaling

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// terminationPolicies are the valid termination policies of a group.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-termination-policies.html
func terminationPolicies() []string {
	return []string{
		"AllocationStrategy", "ClosestToNextInstanceHour", "Default", "NewestInstance",
		"OldestInstance", "OldestLaunchConfiguration", "OldestLaunchTemplate",
	}
}

// A scaleIn selects the instances to terminate.
type scaleIn struct {
	policies []string
	// source is what the group launches from now. Instances from other templates and configurations
	// are older.
	source launchSource
	// weight returns how many units of capacity an instance counts as.
	weight func(*memberRecord) int
	// configAge is when each launch configuration was created.
	configAge map[string]time.Time
	spotWant  int // Spot capacity according to the distribution
	now       time.Time
}

// victims selects n units of a group's instances: from the zone with the most capacity, then by the
// group's termination policies in order, then by lowest ID. It never selects protected instances, nor
// instances that count as more than is left to go, because the group would fall below its capacity.
func (c scaleIn) victims(all []memberRecord, n int) []string {
	zones := map[string]int{}
	spots := 0
	var left []memberRecord
	for _, m := range all {
		zones[m.Zone] += c.units(&m)
		if m.Spot {
			spots += c.units(&m)
		}
		if !m.Protected {
			left = append(left, m)
		}
	}
	var out []string
	for {
		left = slices.DeleteFunc(left, func(m memberRecord) bool { return c.units(&m) > n })
		if n <= 0 || len(left) == 0 {
			return out
		}
		most := 0
		for _, m := range left {
			most = max(most, zones[m.Zone])
		}
		candidates := slices.DeleteFunc(slices.Clone(left), func(m memberRecord) bool { return zones[m.Zone] < most })
		for _, p := range c.policies {
			if len(candidates) > 1 {
				candidates = c.apply(p, candidates, spots)
			}
		}
		v := slices.MinFunc(candidates, func(a, b memberRecord) int { return cmp.Compare(a.ID, b.ID) })
		out = append(out, v.ID)
		n -= c.units(&v)
		zones[v.Zone] -= c.units(&v)
		if v.Spot {
			spots -= c.units(&v)
		}
		left = slices.DeleteFunc(left, func(m memberRecord) bool { return m.ID == v.ID })
	}
}

func (c scaleIn) units(m *memberRecord) int {
	if c.weight == nil {
		return 1
	}
	return c.weight(m)
}

// apply returns the instances that a policy would terminate first.
func (c scaleIn) apply(policy string, of []memberRecord, spots int) []memberRecord {
	switch policy {
	case "Default":
		for _, p := range []string{"AllocationStrategy", "OldestLaunchConfiguration", "OldestLaunchTemplate", "ClosestToNextInstanceHour"} {
			of = c.apply(p, of, spots)
		}
		return of
	case "AllocationStrategy":
		return c.misallocated(of, spots)
	case "NewestInstance":
		return least(of, func(m memberRecord) int64 { return -m.Launched.UnixNano() })
	case "OldestInstance":
		return least(of, func(m memberRecord) int64 { return m.Launched.UnixNano() })
	case "OldestLaunchConfiguration":
		return least(of, func(m memberRecord) int64 {
			switch {
			case m.Config == "":
				return 0 // not launched from a configuration, so there is nothing to compare
			case c.source.config == nil:
				return -2 // launched before the group had a template
			case c.configAge[m.Config].IsZero():
				return -1 // the configuration has been deleted
			}
			return c.configAge[m.Config].UnixNano()
		})
	case "OldestLaunchTemplate":
		return least(of, func(m memberRecord) int64 {
			switch now := c.source.template; {
			case m.Template == nil || now == nil:
				return 0
			case aws.ToString(m.Template.LaunchTemplateId) != aws.ToString(now.LaunchTemplateId):
				return -1 // launched from another template, so not current
			}
			version, _ := strconv.ParseInt(aws.ToString(m.Template.Version), 10, 64)
			return version
		})
	case "ClosestToNextInstanceHour":
		return least(of, func(m memberRecord) int64 {
			return int64(time.Hour - c.now.Sub(m.Launched)%time.Hour)
		})
	}
	return of
}

// misallocated returns the instances with the purchase option of which there are too many, and
// among them those of the least preferred type.
func (c scaleIn) misallocated(of []memberRecord, spots int) []memberRecord {
	if c.source.mixed == nil {
		return of
	}
	surplus := spots > c.spotWant
	of = least(of, func(m memberRecord) int64 {
		if m.Spot == surplus {
			return 0
		}
		return 1
	})
	return least(of, func(m memberRecord) int64 {
		i := slices.IndexFunc(c.source.offers, func(o offer) bool { return o.kind == m.Type })
		if i < 0 {
			i = len(c.source.offers)
		}
		return int64(-i)
	})
}

// least returns the members with the lowest value.
func least(of []memberRecord, value func(memberRecord) int64) []memberRecord {
	var out []memberRecord
	var lowest int64
	for _, m := range of {
		v := value(m)
		if len(out) == 0 || v < lowest {
			out, lowest = out[:0:0], v
		}
		if v == lowest {
			out = append(out, m)
		}
	}
	return out
}
