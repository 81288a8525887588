// Package regions is the catalogue of AWS's commercial regions and their availability zones. It says what exists, not
// what an account has opted in to. Any package may import it.
package regions

import (
	"slices"
	"strings"
	"sync"
)

// A Region is a region of the aws partition.
type Region struct {
	Name     string // us-east-1
	LongName string // US East (N. Virginia)
	// OptIn regions must be enabled by an account on AWS. Drydock's accounts have enabled all of them: opted-in.
	OptIn bool
	// Zones are sorted by name.
	Zones []Zone
}

// A Zone is an availability zone.
type Zone struct {
	Name string // us-east-1a
	ID   string // use1-az1
	// Group is the network border group and zone group: the region's name with a suffix for the group,
	// us-east-1-zg-1.
	Group string
}

// On AWS the zone letters are shuffled per account. Here every account has the same mapping, chosen so that EKS
// supports the first three zones of each region, and all zones but one of us-east-1 (it refuses use1-az3, usw1-az2 and cac1-az3).
// https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html
// https://docs.aws.amazon.com/global-infrastructure/latest/regions/aws-availability-zones.html
const table = `
af-south-1      afs1   opt-in  a1 b2 c3           Africa (Cape Town)
ap-east-1       ape1   opt-in  a1 b2 c3           Asia Pacific (Hong Kong)
ap-east-2       ape2   opt-in  a1 b2 c3           Asia Pacific (Taipei)
ap-northeast-1  apne1  -       a4 c1 d2           Asia Pacific (Tokyo)
ap-northeast-2  apne2  -       a1 b2 c3 d4        Asia Pacific (Seoul)
ap-northeast-3  apne3  -       a3 b1 c2           Asia Pacific (Osaka)
ap-south-1      aps1   -       a1 b3 c2           Asia Pacific (Mumbai)
ap-south-2      aps2   opt-in  a1 b2 c3           Asia Pacific (Hyderabad)
ap-southeast-1  apse1  -       a1 b2 c3           Asia Pacific (Singapore)
ap-southeast-2  apse2  -       a1 b3 c2           Asia Pacific (Sydney)
ap-southeast-3  apse3  opt-in  a1 b2 c3           Asia Pacific (Jakarta)
ap-southeast-4  apse4  opt-in  a1 b2 c3           Asia Pacific (Melbourne)
ap-southeast-5  apse5  opt-in  a1 b2 c3           Asia Pacific (Malaysia)
ap-southeast-6  apse6  opt-in  a1 b2 c3           Asia Pacific (New Zealand)
ap-southeast-7  apse7  opt-in  a1 b2 c3           Asia Pacific (Thailand)
ca-central-1    cac1   -       a1 b2 d4           Canada (Central)
ca-west-1       caw1   opt-in  a1 b2 c3           Canada West (Calgary)
eu-central-1    euc1   -       a2 b3 c1           Europe (Frankfurt)
eu-central-2    euc2   opt-in  a1 b2 c3           Europe (Zurich)
eu-north-1      eun1   -       a1 b2 c3           Europe (Stockholm)
eu-south-1      eus1   opt-in  a1 b2 c3           Europe (Milan)
eu-south-2      eus2   opt-in  a1 b2 c3           Europe (Spain)
eu-west-1       euw1   -       a3 b1 c2           Europe (Ireland)
eu-west-2       euw2   -       a2 b3 c1           Europe (London)
eu-west-3       euw3   -       a1 b2 c3           Europe (Paris)
il-central-1    ilc1   opt-in  a1 b2 c3           Israel (Tel Aviv)
me-central-1    mec1   opt-in  a1 b2 c3           Middle East (UAE)
me-south-1      mes1   opt-in  a1 b2 c3           Middle East (Bahrain)
mx-central-1    mxc1   opt-in  a1 b2 c3           Mexico (Central)
sa-east-1       sae1   -       a1 b2 c3           South America (Sao Paulo)
us-east-1       use1   -       a1 b2 c4 d5 e3 f6  US East (N. Virginia)
us-east-2       use2   -       a1 b2 c3           US East (Ohio)
us-west-1       usw1   -       b3 c1              US West (N. California)
us-west-2       usw2   -       a2 b1 c3 d4        US West (Oregon)
`

var catalogue = sync.OnceValue(func() []Region {
	var out []Region
	for line := range strings.Lines(strings.TrimSpace(table)) {
		f := strings.Fields(line)
		r := Region{Name: f[0], OptIn: f[2] == "opt-in"}
		rest := f[3:]
		for len(rest[0]) == 2 && rest[0][1] >= '1' && rest[0][1] <= '9' {
			r.Zones = append(r.Zones, Zone{
				Name:  r.Name + rest[0][:1],
				ID:    f[1] + "-az" + rest[0][1:],
				Group: r.Name + "-zg-1",
			})
			rest = rest[1:]
		}
		r.LongName = strings.Join(rest, " ")
		out = append(out, r)
	}
	return out
})

// All returns the regions, sorted by name. Treat the values as read-only.
func All() []Region { return catalogue() }

// Lookup returns the region of that name, or false if there is none.
func Lookup(name string) (Region, bool) {
	all := catalogue()
	i, ok := slices.BinarySearchFunc(all, name, func(r Region, n string) int { return strings.Compare(r.Name, n) })
	if !ok {
		return Region{}, false
	}
	return all[i], true
}

// Zone returns the region's zone with that name or ID, or false if there is
// none.
func (r Region) Zone(nameOrID string) (Zone, bool) {
	for _, z := range r.Zones {
		if z.Name == nameOrID || z.ID == nameOrID {
			return z, true
		}
	}
	return Zone{}, false
}

// ZoneNames returns the names of the region's zones, in order.
func (r Region) ZoneNames() []string {
	out := make([]string, len(r.Zones))
	for i, z := range r.Zones {
		out[i] = z.Name
	}
	return out
}
