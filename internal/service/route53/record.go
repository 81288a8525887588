package route53

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	route53types "github.com/aws/aws-sdk-go-v2/service/route53/types"

	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/store"
)

var (
	// zones are stored by ID.
	zones = store.NewCollection[zoneRecord]("route53", "zone")
	// buckets are stored under ZONEID/NUMBER.
	buckets = store.NewCollection[bucketRecord]("route53", "bucket")
	// changes are stored by ID, which begins with their time.
	changes = store.NewCollection[changeRecord]("route53", "change")
)

// foreigns are the private zones of others that answer in a twin's VPCs, by ID.
var foreigns = store.NewCollection[foreignRecord]("route53", "foreign")

// A foreignRecord is a private zone of another account or of an AWS service whose records the source of a twin cannot read.
type foreignRecord struct {
	ID, Name string // Name ends with a dot
	// Account or Service is the owner.
	Account string `json:",omitempty"`
	Service string `json:",omitempty"`
	VPCs    []vpcRecord
}

// unread says that the zone's records are unknown.
func (f *foreignRecord) unread() string {
	owner := "account " + f.Account
	if f.Service != "" {
		owner = f.Service
	}
	return fmt.Sprintf("the records of the private hosted zone %s (%s) of %s cannot be read", f.ID, plain(f.Name), owner)
}

// contains reports whether a VPC is among some, whoever owns it.
func contains(vpcs []vpcRecord, v vpcRecord) bool {
	return slices.ContainsFunc(vpcs, func(o vpcRecord) bool { return o.ID == v.ID && o.Region == v.Region })
}

// A zoneRecord is a hosted zone.
type zoneRecord struct {
	ID, Name        string // Name ends with a dot
	CallerReference string
	Comment         string `json:",omitempty"`
	Private         bool   `json:",omitempty"`
	VPCs            []vpcRecord
	// Authorized are VPCs of other accounts that may be associated.
	Authorized  []vpcRecord `json:",omitempty"`
	NameServers []string
	Created     time.Time
	// Serial counts the changes of the zone, Sets its record sets.
	Serial int64
	Sets   int
	Tags   map[string]string `json:",omitempty"`
}

// A vpcRecord is a VPC in which a private zone answers.
type vpcRecord struct {
	ID, Region string
	// Account is the owner of the VPC, if it does not own the zone.
	Account string `json:",omitempty"`
}

// A bucketRecord holds some of the record sets of a zone. A batch of changes is one transaction, which could not write
// a record for each of 1,000 record sets.
type bucketRecord struct {
	Sets []setRecord
}

// A setRecord is a record set in a compact form, because a large batch rewrites all buckets of a zone.
type setRecord struct {
	Name, Type string
	ID         *string  `json:",omitempty"`
	TTL        *int64   `json:",omitempty"`
	Values     []string `json:",omitempty"`
	// Alias is the target's name, in the zone AliasZone.
	Alias     string `json:",omitempty"`
	AliasZone string `json:",omitempty"`
	Health    bool   `json:",omitempty"` // EvaluateTargetHealth
	Weight    *int64 `json:",omitempty"`
	Region    string `json:",omitempty"`
	Failover  string `json:",omitempty"`
	Multi     *bool  `json:",omitempty"` // MultiValueAnswer
}

func toRecord(s *route53types.ResourceRecordSet) setRecord {
	out := setRecord{
		Name: *s.Name, Type: string(s.Type), ID: s.SetIdentifier, TTL: s.TTL, Weight: s.Weight, Region: string(s.Region), Failover: string(s.Failover), Multi: s.MultiValueAnswer,
	}
	for _, r := range s.ResourceRecords {
		out.Values = append(out.Values, *r.Value)
	}
	if a := s.AliasTarget; a != nil {
		out.Alias, out.AliasZone, out.Health = *a.DNSName, *a.HostedZoneId, a.EvaluateTargetHealth
	}
	return out
}

func (r setRecord) set() route53types.ResourceRecordSet {
	out := route53types.ResourceRecordSet{
		Name: &r.Name, Type: route53types.RRType(r.Type), SetIdentifier: r.ID, TTL: r.TTL, Weight: r.Weight, Region: route53types.ResourceRecordSetRegion(r.Region),
		Failover: route53types.ResourceRecordSetFailover(r.Failover), MultiValueAnswer: r.Multi,
	}
	for _, v := range r.Values {
		out.ResourceRecords = append(out.ResourceRecords, route53types.ResourceRecord{Value: &v})
	}
	if r.Alias != "" {
		out.AliasTarget = &route53types.AliasTarget{DNSName: &r.Alias, HostedZoneId: &r.AliasZone, EvaluateTargetHealth: r.Health}
	}
	return out
}

// bucketWith returns a bucket with record sets.
func bucketWith(sets []route53types.ResourceRecordSet) bucketRecord {
	out := bucketRecord{Sets: []setRecord{}}
	for i := range sets {
		out.Sets = append(out.Sets, toRecord(&sets[i]))
	}
	return out
}

// sets returns the record sets of a bucket.
func (b *bucketRecord) sets() []route53types.ResourceRecordSet {
	var out []route53types.ResourceRecordSet
	for _, r := range b.Sets {
		out = append(out, r.set())
	}
	return out
}

// A changeRecord is a change that has been made.
type changeRecord struct {
	ID, Comment string
	At          time.Time
}

// bucketCount is the number of buckets of a zone.
const bucketCount = 64

// bucketOf returns the number of the bucket that holds the record sets of a name.
func bucketOf(name string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // never fails
	return fmt.Sprintf("%02x", h.Sum32()%bucketCount)
}

// setsOf returns the record sets of a zone in Route 53's order: by the labels of their names, from the last to the
// first, then by type and identifier.
func setsOf(r store.Reader, in regional.Scope, zone string) []route53types.ResourceRecordSet {
	var out []route53types.ResourceRecordSet
	for _, b := range buckets.All(r, in.Below(zone)) {
		out = append(out, b.Value.sets()...)
	}
	slices.SortFunc(out, func(a, b route53types.ResourceRecordSet) int { return compareSets(&a, &b) })
	return out
}

func compareSets(a, b *route53types.ResourceRecordSet) int {
	return cmp.Or(
		strings.Compare(reversed(*a.Name), reversed(*b.Name)), cmp.Compare(a.Type, b.Type),
		strings.Compare(aws.ToString(a.SetIdentifier), aws.ToString(b.SetIdentifier)),
	)
}

// reversed returns a name with its labels in reverse order: com.example.www. for www.example.com.
func reversed(name string) string {
	labels := strings.Split(strings.TrimSuffix(name, "."), ".")
	slices.Reverse(labels)
	return strings.Join(labels, ".") + "."
}
