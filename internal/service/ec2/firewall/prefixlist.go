package firewall

import (
	"context"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/catalog/regions"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// keptVersions is how many versions of a list are kept. AWS keeps 1,000, but that would make
// records of several megabytes.
const keptVersions = 20

// knownPrefixLists are AWS's real IDs in the busiest regions (s3, dynamodb). Elsewhere, an ID is
// derived from the name.
const knownPrefixLists = `
us-east-1 pl-63a5400a pl-02cd2c6b
us-east-2 pl-7ba54012 pl-4ca54025
us-west-1 pl-6ba54002 pl-6ea54007
us-west-2 pl-68a54001 pl-00a54069
eu-west-1 pl-6da54004 pl-6fa54006
`

// ManagedPrefixLists are the AWS-managed lists of a region that gateway endpoints use. Their ranges
// are Drydock's own: one per region, taken from ranges that S3 and DynamoDB have on AWS.
func ManagedPrefixLists(region string) []record.PrefixList {
	n := 0
	for i, r := range regions.All() {
		if r.Name == region {
			n = i
		}
	}
	var out []record.PrefixList
	for i, service := range []string{"s3", "dynamodb"} {
		name := "com.amazonaws." + region + "." + service
		h := fnv.New32a()
		h.Write([]byte(name))
		id := fmt.Sprintf("pl-%08x", h.Sum32())
		for line := range strings.Lines(knownPrefixLists) {
			if f := strings.Fields(line); len(f) == 3 && f[0] == region {
				id = f[1+i]
			}
		}
		base := [][4]byte{{3, 5, byte(4 * n), 0}, {52, 94, byte(4 * n), 0}}[i]
		out = append(out, record.PrefixList{
			ID: id, Name: name, State: "create-complete", Managed: true, Version: 1,
			Versions: [][]record.PrefixListEntry{{{CIDR: netip.PrefixFrom(netip.AddrFrom4(base), 22).String()}}},
		})
	}
	return out
}

// FindPrefixList returns a prefix list, customer-managed or AWS-managed.
func FindPrefixList(r store.Reader, sc resource.Scope, id string) (record.PrefixList, error) {
	for _, p := range ManagedPrefixLists(sc.Region) {
		if p.ID == id {
			return p, nil
		}
	}
	return resource.Get(r, record.PrefixLists, sc, id)
}

// choosePrefixLists returns the lists named in a request, or all lists including AWS's.
func choosePrefixLists(r store.Reader, sc resource.Scope, wanted []string, match func(record.PrefixList) bool) ([]record.PrefixList, error) {
	var found []record.PrefixList
	if len(wanted) > 0 {
		for _, id := range resource.SortedUnique(wanted) {
			p, err := FindPrefixList(r, sc, id)
			if err != nil {
				return nil, err
			}
			found = append(found, p)
		}
	} else {
		own := resource.List(r, record.PrefixLists, sc, resource.All)
		found = append(ManagedPrefixLists(sc.Region), own...)
	}
	found = slices.DeleteFunc(found, func(p record.PrefixList) bool { return !match(p) })
	slices.SortFunc(found, func(a, b record.PrefixList) int { return strings.Compare(a.ID, b.ID) })
	return found, nil
}

func prefixListTags(p record.PrefixList) tag.Set { return p.Tags }

// DescribeManagedPrefixLists lists the account's prefix lists and AWS's.
func (s *Service) DescribeManagedPrefixLists(ctx context.Context, in *awsec2.DescribeManagedPrefixListsInput) (*awsec2.DescribeManagedPrefixListsOutput, error) {
	sc := resource.ScopeOf(ctx)
	match, err := filter.Compile(in.Filters, filter.Fields[record.PrefixList]{
		"owner-id":         filter.One(func(p record.PrefixList) string { return p.Owner(sc) }),
		"prefix-list-id":   filter.One(func(p record.PrefixList) string { return p.ID }),
		"prefix-list-name": filter.One(func(p record.PrefixList) string { return p.Name }),
	}, prefixListTags)
	if err != nil {
		return nil, err
	}
	if err := resource.CheckDryRun(in.DryRun); err != nil {
		return nil, err
	}
	found, err := choosePrefixLists(s.Store, sc, in.PrefixListIds, match)
	if err != nil {
		return nil, err
	}
	found, next, err := resource.Paginate(found, func(p record.PrefixList) string { return p.ID }, in.MaxResults, in.NextToken, resource.Limits{Min: 1, Max: 100})
	return &awsec2.DescribeManagedPrefixListsOutput{PrefixLists: resource.SDKAll(sc, found), NextToken: next}, err
}

// DescribePrefixLists lists AWS's prefix lists with their ranges.
func (s *Service) DescribePrefixLists(ctx context.Context, in *awsec2.DescribePrefixListsInput) (*awsec2.DescribePrefixListsOutput, error) {
	sc := resource.ScopeOf(ctx)
	match, err := filter.Compile(in.Filters, filter.Fields[record.PrefixList]{
		"prefix-list-id":   filter.One(func(p record.PrefixList) string { return p.ID }),
		"prefix-list-name": filter.One(func(p record.PrefixList) string { return p.Name }),
	}, nil)
	if err != nil {
		return nil, err
	}
	if err := resource.CheckDryRun(in.DryRun); err != nil {
		return nil, err
	}
	found, err := choosePrefixLists(s.Store, sc, in.PrefixListIds, func(p record.PrefixList) bool { return p.Managed && match(p) })
	if err != nil {
		return nil, err
	}
	found, next, err := resource.Paginate(found, func(p record.PrefixList) string { return p.ID }, in.MaxResults, in.NextToken, resource.Limits{Min: 5, Max: 1000})
	return &awsec2.DescribePrefixListsOutput{NextToken: next, PrefixLists: resource.Map(found, func(p record.PrefixList) ec2types.PrefixList {
		return ec2types.PrefixList{PrefixListId: aws.String(p.ID), PrefixListName: aws.String(p.Name), Cidrs: p.CIDRs()}
	})}, err
}

// GetManagedPrefixListEntries lists the entries of a version.
func (s *Service) GetManagedPrefixListEntries(ctx context.Context, in *awsec2.GetManagedPrefixListEntriesInput) (*awsec2.GetManagedPrefixListEntriesOutput, error) {
	sc := resource.ScopeOf(ctx)
	p, err := FindPrefixList(s.Store, sc, aws.ToString(in.PrefixListId))
	if err != nil {
		return nil, err
	}
	if err := resource.CheckDryRun(in.DryRun); err != nil {
		return nil, err
	}
	entries := p.Entries()
	if v := in.TargetVersion; v != nil {
		i := int64(len(p.Versions)) - 1 - (p.Version - *v)
		if i < 0 || i >= int64(len(p.Versions)) {
			return nil, errPrefixListVersion(*v)
		}
		entries = p.Versions[i]
	}
	page, next, err := resource.Paginate(entries, func(e record.PrefixListEntry) string { return e.CIDR }, in.MaxResults, in.NextToken, resource.Limits{Min: 1, Max: 100})
	return &awsec2.GetManagedPrefixListEntriesOutput{NextToken: next, Entries: resource.Map(page, func(e record.PrefixListEntry) ec2types.PrefixListEntry {
		return ec2types.PrefixListEntry{Cidr: aws.String(e.CIDR), Description: resource.Optional(e.Description)}
	})}, err
}

func errPrefixListVersion(v int64) error {
	return ec2err.New("PrefixListVersionMismatch", "The prefix list has the incorrect version number: %d", v) // [seen] terraform-provider-aws matches it, without the number
}

// parsePrefixEntries validates the entries of a request and sorts them.
func parsePrefixEntries(in []ec2types.AddPrefixListEntry, six bool) ([]record.PrefixListEntry, error) {
	var out []record.PrefixListEntry
	for _, e := range in {
		cidr := aws.ToString(e.Cidr)
		p, err := netip.ParsePrefix(cidr)
		if err != nil || p.Addr().Is6() != six || p.Masked() != p {
			return nil, ec2err.InvalidParameterValue("The CIDR '%s' is invalid for the address family of the prefix list.", cidr) // from memory
		}
		if d := aws.ToString(e.Description); len(d) > 255 {
			return nil, ec2err.InvalidParameterValue("The description of the CIDR '%s' is longer than 255 characters.", cidr) // from memory
		}
		out = append(out, record.PrefixListEntry{CIDR: p.String(), Description: aws.ToString(e.Description)})
	}
	return out, nil
}

// checkPrefixEntries limits how many entries a request adds or removes.
// https://github.com/hashicorp/terraform-provider-aws/pull/49955
func checkPrefixEntries(n int) error {
	if n > 100 {
		return ec2err.InvalidParameterValue("The number of entries per request cannot exceeds limit (100).") // spelled as EC2 spells it
	}
	return nil
}

func sortEntries(e []record.PrefixListEntry) {
	slices.SortFunc(e, func(a, b record.PrefixListEntry) int { return strings.Compare(a.CIDR, b.CIDR) })
}

func checkPrefixListSize(entries []record.PrefixListEntry, most int32) error {
	if most < 1 || most > 1000 {
		// https://github.com/aws-samples/update-aws-ip-ranges/issues/1
		return ec2err.InvalidParameterValue("Must specify a max size between 1 and 1000")
	}
	if len(entries) > int(most) {
		return ec2err.New("PrefixListMaxEntriesExceeded", "You've reached the maximum number of entries for the prefix list.")
	}
	return nil
}

// CreateManagedPrefixList creates a customer-managed list.
func (s *Service) CreateManagedPrefixList(ctx context.Context, in *awsec2.CreateManagedPrefixListInput) (*awsec2.CreateManagedPrefixListOutput, error) {
	sc := resource.ScopeOf(ctx)
	name, family := aws.ToString(in.PrefixListName), aws.ToString(in.AddressFamily)
	switch {
	case name == "":
		return nil, ec2err.Missing("prefixListName")
	case len(name) > 255 || strings.HasPrefix(name, "com.amazonaws"):
		return nil, ec2err.InvalidValue(name, "prefixListName", "")
	case family != "IPv4" && family != "IPv6":
		return nil, ec2err.InvalidValue(family, "addressFamily", "")
	case in.MaxEntries == nil:
		return nil, ec2err.Missing("maxEntries")
	}
	tags, err := tag.Specified(ctx, in.TagSpecifications, ec2types.ResourceTypePrefixList)
	if err != nil {
		return nil, err
	}
	if err := checkPrefixEntries(len(in.Entries)); err != nil {
		return nil, err
	}
	entries, err := parsePrefixEntries(in.Entries, family == "IPv6")
	if err != nil {
		return nil, err
	}
	sortEntries(entries)
	for i := 1; i < len(entries); i++ {
		if entries[i].CIDR == entries[i-1].CIDR {
			return nil, ec2err.InvalidParameterValue("The CIDR '%s' is specified more than once.", entries[i].CIDR) // from memory
		}
	}
	if err := checkPrefixListSize(entries, *in.MaxEntries); err != nil {
		return nil, err
	}
	p, err := resource.Create(ctx, s.Core, record.PrefixLists, in.DryRun, in.ClientToken, in, func(tx *store.Tx, p *record.PrefixList) error {
		*p = record.PrefixList{
			ID: ids.Resource("pl"), Name: name, IPv6: family == "IPv6", MaxEntries: *in.MaxEntries,
			Version: 1, Versions: [][]record.PrefixListEntry{entries}, State: "create-complete", Tags: tags,
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := p.SDK(sc)
	out.State = ec2types.PrefixListStateCreateInProgress
	return &awsec2.CreateManagedPrefixListOutput{PrefixList: &out}, nil
}

// ModifyManagedPrefixList changes a list's name, size or entries. New entries make a new version.
func (s *Service) ModifyManagedPrefixList(ctx context.Context, in *awsec2.ModifyManagedPrefixListInput) (*awsec2.ModifyManagedPrefixListOutput, error) {
	sc := resource.ScopeOf(ctx)
	changes := len(in.AddEntries)+len(in.RemoveEntries) > 0
	if changes && in.MaxEntries != nil {
		return nil, ec2err.Combination("You cannot modify the entries of a prefix list and modify the size of a prefix list at the same time.")
	}
	if err := checkPrefixEntries(max(len(in.AddEntries), len(in.RemoveEntries))); err != nil {
		return nil, err
	}
	var p record.PrefixList
	err := s.Update(ctx, in.DryRun, func(tx *store.Tx) error {
		var err error
		if p, err = FindPrefixList(tx, sc, aws.ToString(in.PrefixListId)); err != nil {
			return err
		}
		if p.Managed {
			return ec2err.NotPermitted("The prefix list %s is managed by AWS and cannot be modified.", p.ID) // from memory
		}
		if changes {
			if in.CurrentVersion == nil {
				return ec2err.Missing("currentVersion")
			}
			if *in.CurrentVersion != p.Version {
				return errPrefixListVersion(*in.CurrentVersion)
			}
			next := slices.Clone(p.Entries())
			for _, e := range in.RemoveEntries {
				i := slices.IndexFunc(next, func(x record.PrefixListEntry) bool { return x.CIDR == aws.ToString(e.Cidr) })
				if i < 0 {
					return ec2err.InvalidParameterValue("The CIDR '%s' is not in the prefix list.", aws.ToString(e.Cidr)) // from memory
				}
				next = slices.Delete(next, i, i+1)
			}
			added, err := parsePrefixEntries(in.AddEntries, p.IPv6)
			if err != nil {
				return err
			}
			for _, e := range added { // an existing entry gets the new description
				next = slices.DeleteFunc(next, func(x record.PrefixListEntry) bool { return x.CIDR == e.CIDR })
				next = append(next, e)
			}
			sortEntries(next)
			p.Version++
			p.Versions = append(slices.Clone(p.Versions[max(0, len(p.Versions)-keptVersions+1):]), next)
		}
		if in.MaxEntries != nil {
			p.MaxEntries = *in.MaxEntries
		}
		if err := checkPrefixListSize(p.Entries(), p.MaxEntries); err != nil {
			return err
		}
		if in.PrefixListName != nil {
			p.Name = *in.PrefixListName
		}
		p.State = "modify-complete"
		return record.PrefixLists.Put(tx, sc.Key(p.ID), p)
	})
	if err != nil {
		return nil, err
	}
	out := p.SDK(sc)
	out.State = ec2types.PrefixListStateModifyInProgress
	return &awsec2.ModifyManagedPrefixListOutput{PrefixList: &out}, nil
}

// DeleteManagedPrefixList deletes a list that no route and no rule refers to.
func (s *Service) DeleteManagedPrefixList(ctx context.Context, in *awsec2.DeleteManagedPrefixListInput) (*awsec2.DeleteManagedPrefixListOutput, error) {
	sc := resource.ScopeOf(ctx)
	p, err := resource.Delete(ctx, s.Core, record.PrefixLists, in.DryRun, in.PrefixListId, func(tx *store.Tx, p *record.PrefixList) error {
		routed := resource.Exists(tx, record.RouteTables, sc, func(t record.RouteTable) bool { return t.Find(p.ID) >= 0 })
		ruled := resource.Exists(tx, record.SecurityGroups, sc, func(g record.SecurityGroup) bool {
			return slices.ContainsFunc(g.Rules, func(r record.SecurityGroupRule) bool { return r.PrefixListID == p.ID })
		})
		transit := resource.Exists(tx, record.TransitRouteTables, sc, func(t record.TransitRouteTable) bool {
			return t.Live() && slices.ContainsFunc(t.Lists, func(r record.TransitRoute) bool { return r.Destination == p.ID })
		})
		if routed || ruled || transit {
			return ec2err.HasDependencies("prefixList", p.ID)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := p.SDK(sc)
	out.State = ec2types.PrefixListStateDeleteInProgress
	return &awsec2.DeleteManagedPrefixListOutput{PrefixList: &out}, nil
}
