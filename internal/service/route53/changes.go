package route53

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsroute53 "github.com/aws/aws-sdk-go-v2/service/route53"
	route53types "github.com/aws/aws-sdk-go-v2/service/route53/types"

	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/store"
)

const (
	// These are default quotas.
	// https://docs.aws.amazon.com/Route53/latest/DeveloperGuide/DNSLimitations.html
	maxSets       = 10_000
	maxRecords    = 1000   // in a batch
	maxCharacters = 32_000 // of the values in a batch
	maxValues     = 400    // of a record set
	// changeLife is how long GetChange finds a change. Each new change removes up to pruned expired ones.
	changeLife = 24 * time.Hour
	pruned     = 10
)

// record records that the caller has made a change.
func (s *Service) record(tx *store.Tx, in regional.Scope, comment string) (changeRecord, error) {
	c := changeRecord{Comment: comment, At: s.now()}
	// The first characters order IDs by time, so that the oldest changes are found without reading all.
	c.ID = newID("C"+strings.ToUpper(strconv.FormatInt(c.At.UnixMilli(), 36)), 20)
	var old []store.Key
	changes.Scan(tx, in.All(), "", func(k store.Key, r changeRecord) bool {
		if c.At.Sub(r.At) < changeLife || len(old) == pruned {
			return false
		}
		old = append(old, k)
		return true
	})
	for _, k := range old {
		changes.Delete(tx, k)
	}
	return c, changes.Put(tx, in.Key(c.ID), c)
}

// pending returns the change in the form in which the operation that makes it returns it. It has already taken effect.
func (c *changeRecord) pending() *route53types.ChangeInfo {
	out := &route53types.ChangeInfo{Id: aws.String("/change/" + c.ID), Status: route53types.ChangeStatusPending, SubmittedAt: &c.At}
	if c.Comment != "" {
		out.Comment = &c.Comment
	}
	return out
}

// GetChange returns the status of a change, which is always INSYNC.
func (s *Service) GetChange(ctx context.Context, in *awsroute53.GetChangeInput) (*awsroute53.GetChangeOutput, error) {
	c, err := changes.Get(s.store, caller(ctx).Key(bare(in.Id)))
	if err != nil {
		return nil, store.NotFoundAs(err, errNoChange(bare(in.Id)))
	}
	out := c.pending()
	out.Status = route53types.ChangeStatusInsync
	return &awsroute53.GetChangeOutput{ChangeInfo: out}, nil
}

// A batch is a batch of changes being applied to a zone's buckets.
type batch struct {
	zone     *zoneRecord
	read     func(bucket string) ([]route53types.ResourceRecordSet, error)
	buckets  map[string][]route53types.ResourceRecordSet
	problems []string
	// written are the record sets that the batch creates or replaces.
	written []*route53types.ResourceRecordSet
	err     error
}

func (b *batch) fail(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(b.problems, text) {
		b.problems = append(b.problems, text)
	}
}

// named returns the bucket with the record sets of a name.
func (b *batch) named(name string) (bucket string, sets []route53types.ResourceRecordSet) {
	bucket = bucketOf(name)
	sets, ok := b.buckets[bucket]
	if !ok && b.err == nil {
		sets, b.err = b.read(bucket)
		b.buckets[bucket] = sets
	}
	return bucket, sets
}

// ChangeResourceRecordSets makes all changes of a batch, or none.
func (s *Service) ChangeResourceRecordSets(ctx context.Context, in *awsroute53.ChangeResourceRecordSetsInput) (*awsroute53.ChangeResourceRecordSetsOutput, error) {
	list := in.ChangeBatch.Changes
	for i := range list {
		if text := malformed(&list[i]); text != "" {
			return nil, errRequest(text)
		}
	}
	sc := caller(ctx)
	var change changeRecord
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		z, err := s.zone(tx, sc, in.HostedZoneId)
		if err != nil {
			return err
		}
		if text := tooLarge(list); text != "" {
			return errBatch([]string{text})
		}
		b := &batch{zone: &z, buckets: map[string][]route53types.ResourceRecordSet{}, read: func(bucket string) ([]route53types.ResourceRecordSet, error) {
			r, err := buckets.Get(tx, sc.Key(z.ID+"/"+bucket))
			return r.sets(), store.IgnoreNotFound(err)
		}}
		b.apply(list, func(id string) bool {
			_, err := zones.Get(tx, sc.Key(id))
			return err == nil
		})
		if b.err != nil {
			return b.err
		}
		if z.Sets > maxSets {
			b.fail("Limits Exceeded: MAX_RRSETS_BY_ZONE - Cannot create more than %d resource record sets in the hosted zone", maxSets)
		}
		if b.problems != nil {
			return errBatch(b.problems)
		}
		for _, number := range slices.Sorted(maps.Keys(b.buckets)) {
			if sets := b.buckets[number]; len(sets) > 0 {
				err = buckets.Put(tx, sc.Key(z.ID+"/"+number), bucketWith(sets))
			} else {
				buckets.Delete(tx, sc.Key(z.ID+"/"+number))
			}
			if err != nil {
				return err
			}
		}
		z.Serial++
		if err := zones.Put(tx, sc.Key(z.ID), z); err != nil {
			return err
		}
		change, err = s.record(tx, sc, aws.ToString(in.ChangeBatch.Comment))
		return err
	})
	if err != nil {
		return nil, err
	}
	return &awsroute53.ChangeResourceRecordSetsOutput{ChangeInfo: change.pending()}, nil
}

// tooLarge returns which limit a batch exceeds, or "". Upserts count twice.
func tooLarge(list []route53types.Change) string {
	records, characters := 0, 0
	for _, c := range list {
		times, set := 1, c.ResourceRecordSet
		if c.Action == route53types.ChangeActionUpsert {
			times = 2
		}
		if len(set.ResourceRecords) > maxValues {
			return fmt.Sprintf("Cannot have more than %d records in a RRSet.", maxValues)
		}
		records += times * max(1, len(set.ResourceRecords))
		for _, r := range set.ResourceRecords {
			characters += times * len(*r.Value)
		}
	}
	switch {
	case records > maxRecords:
		return fmt.Sprintf("Number of records limit of %d exceeded.", maxRecords)
	case characters > maxCharacters:
		return fmt.Sprintf("RDATA character limit of %d exceeded.", maxCharacters)
	}
	return ""
}

// apply makes the changes. ownZone reports whether the caller owns the zone with an ID.
func (b *batch) apply(list []route53types.Change, ownZone func(id string) bool) {
	seen := map[string]route53types.ChangeAction{}
	for _, c := range list {
		set := *c.ResourceRecordSet
		name, p := normalized(*set.Name)
		if p != nil {
			b.fail("%s", p)
			continue
		}
		set.Name = &name
		if a := set.AliasTarget; a != nil {
			target, p := normalized(aws.ToString(a.DNSName))
			if p != nil {
				b.fail("%s", p)
				continue
			}
			set.AliasTarget = &route53types.AliasTarget{DNSName: &target, HostedZoneId: aws.String(bare(a.HostedZoneId)), EvaluateTargetHealth: a.EvaluateTargetHealth}
		}
		if !within(name, b.zone.Name) {
			b.fail("RRSet with DNS name %s is not permitted in zone %s", name, b.zone.Name)
			continue
		}
		if c.Action != route53types.ChangeActionDelete {
			if problems := invalidValues(&set); len(problems) > 0 {
				b.fail("Invalid Resource Record: '%s'", strings.Join(problems, ", "))
				continue
			}
		}
		key := name + " " + string(set.Type) + " " + aws.ToString(set.SetIdentifier)
		if before, ok := seen[key]; ok && (before != route53types.ChangeActionDelete || c.Action == route53types.ChangeActionDelete) {
			b.fail("The request contains an invalid set of changes for a resource record set '%s %s'", set.Type, name)
			continue
		}
		seen[key] = c.Action
		b.change(c.Action, &set)
	}
	if b.problems != nil || b.err != nil {
		return
	}
	for _, set := range b.written {
		b.checkName(set)
		b.checkAlias(set, ownZone)
	}
	if _, sets := b.named(b.zone.Name); !hasSet(sets, b.zone.Name, route53types.RRTypeSoa) {
		b.fail("A HostedZone must contain exactly one SOA record.")
	} else if !hasSet(sets, b.zone.Name, route53types.RRTypeNs) {
		b.fail("A HostedZone must contain at least one NS record for the zone itself.")
	}
}

func hasSet(sets []route53types.ResourceRecordSet, name string, kind route53types.RRType) bool {
	return slices.ContainsFunc(sets, func(s route53types.ResourceRecordSet) bool { return *s.Name == name && (kind == "" || s.Type == kind) })
}

// change makes one change.
func (b *batch) change(action route53types.ChangeAction, set *route53types.ResourceRecordSet) {
	what := fmt.Sprintf("[name='%s', type='%s'", *set.Name, set.Type)
	if set.SetIdentifier != nil {
		what += fmt.Sprintf(", set identifier='%s'", *set.SetIdentifier)
	}
	what += "]"
	bucket, sets := b.named(*set.Name)
	sets = slices.Clone(sets)
	i := slices.IndexFunc(sets, func(o route53types.ResourceRecordSet) bool { return compareSets(&o, set) == 0 })
	switch {
	case action == route53types.ChangeActionCreate && i >= 0:
		b.fail("Tried to create resource record set %s but it already exists", what)
		return
	case action == route53types.ChangeActionDelete && i < 0:
		b.fail("Tried to delete resource record set %s but it was not found", what)
		return
	case action == route53types.ChangeActionDelete && !sameSet(&sets[i], set):
		b.fail("Tried to delete resource record set %s but the values provided do not match the current values", what)
		return
	case action == route53types.ChangeActionDelete:
		sets = slices.Delete(sets, i, i+1)
		b.zone.Sets--
	case i >= 0:
		sets[i] = *set
		b.written = append(b.written, set)
	default:
		sets = append(sets, *set)
		b.zone.Sets++
		b.written = append(b.written, set)
	}
	b.buckets[bucket] = sets
}

// sameSet reports whether two record sets have the same values, in any order.
func sameSet(a, b *route53types.ResourceRecordSet) bool {
	values := func(s *route53types.ResourceRecordSet) []string {
		var out []string
		for _, r := range s.ResourceRecords {
			out = append(out, *r.Value)
		}
		slices.Sort(out)
		return out
	}
	alias := func(s *route53types.ResourceRecordSet) string {
		if s.AliasTarget == nil {
			return ""
		}
		return fmt.Sprint(*s.AliasTarget.DNSName, *s.AliasTarget.HostedZoneId, s.AliasTarget.EvaluateTargetHealth)
	}
	return slices.Equal(values(a), values(b)) && alias(a) == alias(b) && aws.ToInt64(a.TTL) == aws.ToInt64(b.TTL) &&
		aws.ToInt64(a.Weight) == aws.ToInt64(b.Weight) && a.Region == b.Region && a.Failover == b.Failover &&
		aws.ToBool(a.MultiValueAnswer) == aws.ToBool(b.MultiValueAnswer)
}

// checkName checks a new record set against the others with its name.
func (b *batch) checkName(set *route53types.ResourceRecordSet) {
	name, zone := *set.Name, b.zone.Name
	if set.Type == route53types.RRTypeCname && name == zone {
		b.fail("RRSet of type CNAME with DNS name %s is not permitted at apex in zone %s", name, zone)
		return
	}
	_, sets := b.named(name)
	for _, o := range sets {
		switch {
		case *o.Name != name:
		case o.Type != set.Type && set.Type == route53types.RRTypeCname:
			b.fail("RRSet of type CNAME with DNS name %s is not permitted as it conflicts with other records with the same DNS name in zone %s", name, zone)
		case o.Type != set.Type && o.Type == route53types.RRTypeCname && !b.writes(&o):
			b.fail("RRSet of type %s with DNS name %s is not permitted because a conflicting RRSet of type CNAME with the same DNS name already exists in zone %s", set.Type, name, zone)
		case o.Type == set.Type && routing(&o) != routing(set):
			b.failRouting(set)
		}
	}
}

// failRouting reports that other record sets with the same name and type have a different routing policy.
func (b *batch) failRouting(set *route53types.ResourceRecordSet) {
	what, policy := fmt.Sprintf("RRSet with DNS name %s, type %s", *set.Name, set.Type), routing(set)
	details := map[string]string{
		"weighted": fmt.Sprintf(", and weight %d", aws.ToInt64(set.Weight)), "latency": fmt.Sprintf(", and Region Name=%s", set.Region), "failover": fmt.Sprintf(", and failover %s", set.Failover),
	}
	if policy == "simple" {
		b.fail("%s cannot be created as other RRSets exist with the same name and type.", what)
		return
	}
	b.fail("%s, SetIdentifier %s%s cannot be created because a non-%s RRSet with the same name and type already exists.", what, *set.SetIdentifier, details[policy], policy)
}

func (b *batch) writes(set *route53types.ResourceRecordSet) bool {
	return slices.ContainsFunc(b.written, func(w *route53types.ResourceRecordSet) bool { return compareSets(w, set) == 0 })
}

// routing returns a record set's routing policy.
func routing(set *route53types.ResourceRecordSet) string {
	switch {
	case set.Weight != nil:
		return "weighted"
	case set.Region != "":
		return "latency"
	case set.Failover != "":
		return "failover"
	case aws.ToBool(set.MultiValueAnswer):
		return "multivalue"
	}
	return "simple"
}

// services are the domains of the AWS resources that aliases may point to.
// https://docs.aws.amazon.com/Route53/latest/APIReference/API_AliasTarget.html
var services = []string{".amazonaws.com.", ".cloudfront.net.", ".awsglobalaccelerator.com.", ".elasticbeanstalk.com.", ".on.aws."}

// checkAlias checks that the target of an alias exists: a record set of the same zone, or an AWS resource.
func (b *batch) checkAlias(set *route53types.ResourceRecordSet, ownZone func(id string) bool) {
	a := set.AliasTarget
	if a == nil {
		return
	}
	target, id := *a.DNSName, *a.HostedZoneId
	_, sets := b.named(target)
	switch {
	case id == b.zone.ID && !within(target, b.zone.Name), id != b.zone.ID && ownZone(id),
		id != b.zone.ID && !slices.ContainsFunc(services, func(s string) bool { return strings.HasSuffix(target, s) }):
		b.fail("Tried to create an alias that targets %s, type %s in zone %s, but the alias target name does not lie within the target zone", target, set.Type, id)
	case id == b.zone.ID && !hasSet(sets, target, set.Type):
		b.fail("Tried to create an alias that targets %s, type %s in zone %s, but that target was not found", target, set.Type, id)
	}
}

// ListResourceRecordSets lists the record sets of a zone, starting at a given one.
func (s *Service) ListResourceRecordSets(ctx context.Context, in *awsroute53.ListResourceRecordSetsInput) (*awsroute53.ListResourceRecordSetsOutput, error) {
	sc := caller(ctx)
	z, err := s.zone(s.store, sc, in.HostedZoneId)
	switch {
	case err != nil:
		return nil, err
	case in.StartRecordType != "" && in.StartRecordName == nil:
		return nil, errTypeWithoutName()
	}
	all := s.view(&z, sc).sets
	if in.StartRecordName != nil {
		from := route53types.ResourceRecordSet{Name: aws.String(asked(*in.StartRecordName)), Type: in.StartRecordType, SetIdentifier: in.StartRecordIdentifier}
		all = all[sort.Search(len(all), func(i int) bool { return compareSets(&all[i], &from) >= 0 }):]
	}
	some, next, most, err := page(all, in.MaxItems, 300)
	if some == nil {
		some = []route53types.ResourceRecordSet{}
	}
	out := &awsroute53.ListResourceRecordSetsOutput{ResourceRecordSets: some, MaxItems: &most, IsTruncated: next != nil}
	if next != nil {
		out.NextRecordName, out.NextRecordType, out.NextRecordIdentifier = next.Name, next.Type, next.SetIdentifier
	}
	return out, err
}
