package ec2

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
	"github.com/drydock-dev/drydock/internal/store"
)

// A prefixListRecord is a customer-managed prefix list. AWS's own are computed
// (managedPrefixLists).
type prefixListRecord struct {
	ID         string // pl-…
	Name       string
	IPv6       bool `json:",omitempty"`
	MaxEntries int32
	Version    int64 // the current one; the first is 1
	// Versions holds the entries of the latest versions, the current one last.
	Versions [][]prefixListEntry
	State    string // create-complete, modify-complete, …
	Tags     Tags   `json:",omitempty"`
	// managed marks AWS's own lists, which are not stored.
	managed bool
}

// keptVersions is how many versions of a list are kept: AWS keeps 1,000, which
// would make records of megabytes.
const keptVersions = 20

type prefixListEntry struct {
	CIDR        string
	Description string `json:",omitempty"`
}

// entries returns those of the current version.
func (p prefixListRecord) entries() []prefixListEntry {
	if len(p.Versions) == 0 {
		return nil
	}
	return p.Versions[len(p.Versions)-1]
}

func (p prefixListRecord) cidrs() []string {
	return each(prefixListRecord.entries, func(e prefixListEntry) string { return e.CIDR })(p)
}

func (p prefixListRecord) family() string {
	if p.IPv6 {
		return "IPv6"
	}
	return "IPv4"
}

func (p prefixListRecord) owner(sc scope) string {
	if p.managed {
		return "AWS"
	}
	return sc.account
}

func (p prefixListRecord) arn(sc scope) string {
	if p.managed {
		return scope{"aws", sc.region}.arn("prefix-list", p.ID)
	}
	return sc.arn("prefix-list", p.ID)
}

func (p prefixListRecord) sdk(sc scope) ec2types.ManagedPrefixList {
	out := ec2types.ManagedPrefixList{
		PrefixListId: aws.String(p.ID), PrefixListName: aws.String(p.Name), AddressFamily: aws.String(p.family()),
		OwnerId: aws.String(p.owner(sc)), PrefixListArn: aws.String(p.arn(sc)),
		State: ec2types.PrefixListState(p.State), Tags: p.Tags.sdk(),
	}
	if !p.managed {
		out.MaxEntries, out.Version = aws.Int32(p.MaxEntries), aws.Int64(p.Version)
	}
	return out
}

// knownPrefixLists are AWS's IDs in the busiest regions (s3, dynamodb), as users
// see them; elsewhere an ID is derived from the name.
const knownPrefixLists = `
us-east-1 pl-63a5400a pl-02cd2c6b
us-east-2 pl-7ba54012 pl-4ca54025
us-west-1 pl-6ba54002 pl-6ea54007
us-west-2 pl-68a54001 pl-00a54069
eu-west-1 pl-6da54004 pl-6fa54006
`

// managedPrefixLists are AWS's own lists of a region, as gateway endpoints use
// them. Their ranges are Drydock's: one per region, out of ranges that S3 and
// DynamoDB have on AWS.
func managedPrefixLists(region string) []prefixListRecord {
	n := 0
	for i, r := range regions.All() {
		if r.Name == region {
			n = i
		}
	}
	var out []prefixListRecord
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
		out = append(out, prefixListRecord{
			ID: id, Name: name, State: "create-complete", managed: true, Version: 1,
			Versions: [][]prefixListEntry{{{CIDR: netip.PrefixFrom(netip.AddrFrom4(base), 22).String()}}},
		})
	}
	return out
}

// findPrefixList returns a customer's list or one of AWS's.
func findPrefixList(r store.Reader, sc scope, id string) (prefixListRecord, error) {
	for _, p := range managedPrefixLists(sc.region) {
		if p.ID == id {
			return p, nil
		}
	}
	return get(r, prefixLists, sc, prefixListID, id)
}

// choosePrefixLists returns all lists, AWS's too, or those named.
func choosePrefixLists(r store.Reader, sc scope, wanted []string, match func(prefixListRecord) bool) ([]prefixListRecord, error) {
	var found []prefixListRecord
	if len(wanted) > 0 {
		for _, id := range sortedUnique(wanted) {
			p, err := findPrefixList(r, sc, id)
			if err != nil {
				return nil, err
			}
			found = append(found, p)
		}
	} else {
		own, err := list(r, prefixLists, sc, func(prefixListRecord) bool { return true })
		if err != nil {
			return nil, err
		}
		found = append(managedPrefixLists(sc.region), own...)
	}
	found = slices.DeleteFunc(found, func(p prefixListRecord) bool { return !match(p) })
	slices.SortFunc(found, func(a, b prefixListRecord) int { return strings.Compare(a.ID, b.ID) })
	return found, nil
}

func prefixListTags(p prefixListRecord) Tags { return p.Tags }

// DescribeManagedPrefixLists lists the account's prefix lists and AWS's.
func (s *Service) DescribeManagedPrefixLists(ctx context.Context, in *awsec2.DescribeManagedPrefixListsInput) (*awsec2.DescribeManagedPrefixListsOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	match, err := compileFilters(in.Filters, fields[prefixListRecord]{
		"owner-id":         one(func(p prefixListRecord) string { return p.owner(sc) }),
		"prefix-list-id":   one(func(p prefixListRecord) string { return p.ID }),
		"prefix-list-name": one(func(p prefixListRecord) string { return p.Name }),
	}, prefixListTags)
	if err != nil {
		return nil, err
	}
	if err := checkDryRun(in.DryRun); err != nil {
		return nil, err
	}
	found, err := choosePrefixLists(s.store, sc, in.PrefixListIds, match)
	if err != nil {
		return nil, err
	}
	found, next, err := paginate(found, func(p prefixListRecord) string { return p.ID }, in.MaxResults, in.NextToken, limits{1, 100})
	return &awsec2.DescribeManagedPrefixListsOutput{PrefixLists: sdkAll(sc, found), NextToken: next}, err
}

// DescribePrefixLists lists AWS's prefix lists with their ranges.
func (s *Service) DescribePrefixLists(ctx context.Context, in *awsec2.DescribePrefixListsInput) (*awsec2.DescribePrefixListsOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	match, err := compileFilters(in.Filters, fields[prefixListRecord]{
		"prefix-list-id":   one(func(p prefixListRecord) string { return p.ID }),
		"prefix-list-name": one(func(p prefixListRecord) string { return p.Name }),
	}, nil)
	if err != nil {
		return nil, err
	}
	if err := checkDryRun(in.DryRun); err != nil {
		return nil, err
	}
	found, err := choosePrefixLists(s.store, sc, in.PrefixListIds, func(p prefixListRecord) bool { return p.managed && match(p) })
	if err != nil {
		return nil, err
	}
	found, next, err := paginate(found, func(p prefixListRecord) string { return p.ID }, in.MaxResults, in.NextToken, limits{5, 1000})
	out := &awsec2.DescribePrefixListsOutput{NextToken: next, PrefixLists: []ec2types.PrefixList{}}
	for _, p := range found {
		out.PrefixLists = append(out.PrefixLists, ec2types.PrefixList{PrefixListId: aws.String(p.ID), PrefixListName: aws.String(p.Name), Cidrs: p.cidrs()})
	}
	return out, err
}

// GetManagedPrefixListEntries lists the entries of a version.
func (s *Service) GetManagedPrefixListEntries(ctx context.Context, in *awsec2.GetManagedPrefixListEntriesInput) (*awsec2.GetManagedPrefixListEntriesOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	p, err := findPrefixList(s.store, sc, aws.ToString(in.PrefixListId))
	if err != nil {
		return nil, err
	}
	if err := checkDryRun(in.DryRun); err != nil {
		return nil, err
	}
	entries := p.entries()
	if v := in.TargetVersion; v != nil {
		i := int64(len(p.Versions)) - 1 - (p.Version - *v)
		if i < 0 || i >= int64(len(p.Versions)) {
			return nil, errPrefixListVersion(*v)
		}
		entries = p.Versions[i]
	}
	page, next, err := paginate(entries, func(e prefixListEntry) string { return e.CIDR }, in.MaxResults, in.NextToken, limits{1, 100})
	out := &awsec2.GetManagedPrefixListEntriesOutput{NextToken: next, Entries: []ec2types.PrefixListEntry{}}
	for _, e := range page {
		out.Entries = append(out.Entries, ec2types.PrefixListEntry{Cidr: aws.String(e.CIDR), Description: optional(e.Description)})
	}
	return out, err
}

func errPrefixListVersion(v int64) error {
	return errf("PrefixListVersionMismatch", "The prefix list has the incorrect version number: %d", v) // [seen] terraform-provider-aws matches it, without the number
}

// parsePrefixEntries checks the entries of a request and sorts them.
func parsePrefixEntries(in []ec2types.AddPrefixListEntry, six bool) ([]prefixListEntry, error) {
	var out []prefixListEntry
	for _, e := range in {
		cidr := aws.ToString(e.Cidr)
		p, err := netip.ParsePrefix(cidr)
		if err != nil || p.Addr().Is6() != six || p.Masked() != p {
			return nil, errInvalidParameter("The CIDR '%s' is invalid for the address family of the prefix list.", cidr) // from memory
		}
		if d := aws.ToString(e.Description); len(d) > 255 {
			return nil, errInvalidParameter("The description of the CIDR '%s' is longer than 255 characters.", cidr) // from memory
		}
		out = append(out, prefixListEntry{p.String(), aws.ToString(e.Description)})
	}
	return out, nil
}

// checkPrefixEntries bounds how many entries a request adds or removes.
// https://github.com/hashicorp/terraform-provider-aws/pull/49955
func checkPrefixEntries(n int) error {
	if n > 100 {
		return errInvalidParameter("The number of entries per request cannot exceeds limit (100).") // as EC2 writes it
	}
	return nil
}

func sortEntries(e []prefixListEntry) {
	slices.SortFunc(e, func(a, b prefixListEntry) int { return strings.Compare(a.CIDR, b.CIDR) })
}

func checkPrefixListSize(entries []prefixListEntry, most int32) error {
	if most < 1 || most > 1000 {
		// https://github.com/aws-samples/update-aws-ip-ranges/issues/1
		return errInvalidParameter("Must specify a max size between 1 and 1000")
	}
	if len(entries) > int(most) {
		return errf("PrefixListMaxEntriesExceeded", "You've reached the maximum number of entries for the prefix list.")
	}
	return nil
}

// CreateManagedPrefixList creates a customer-managed list.
func (s *Service) CreateManagedPrefixList(ctx context.Context, in *awsec2.CreateManagedPrefixListInput) (*awsec2.CreateManagedPrefixListOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	name, family := aws.ToString(in.PrefixListName), aws.ToString(in.AddressFamily)
	switch {
	case name == "":
		return nil, errMissing("prefixListName")
	case len(name) > 255 || strings.HasPrefix(name, "com.amazonaws"):
		return nil, errInvalidValue(name, "prefixListName", "")
	case family != "IPv4" && family != "IPv6":
		return nil, errInvalidValue(family, "addressFamily", "")
	case in.MaxEntries == nil:
		return nil, errMissing("maxEntries")
	}
	tags, err := specifiedTags(ctx, in.TagSpecifications, ec2types.ResourceTypePrefixList)
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
			return nil, errInvalidParameter("The CIDR '%s' is specified more than once.", entries[i].CIDR) // from memory
		}
	}
	if err := checkPrefixListSize(entries, *in.MaxEntries); err != nil {
		return nil, err
	}
	var p prefixListRecord
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		if done, err := recallOne(tx, s, sc, "CreateManagedPrefixList", in.ClientToken, in, prefixLists, prefixListID, &p); done || err != nil {
			return err
		}
		p = prefixListRecord{
			ID: ids.Resource("pl"), Name: name, IPv6: family == "IPv6", MaxEntries: *in.MaxEntries,
			Version: 1, Versions: [][]prefixListEntry{entries}, State: "create-complete", Tags: tags,
		}
		if err := prefixLists.Create(tx, sc.key(p.ID), p); err != nil {
			return err
		}
		return s.remember(tx, sc, "CreateManagedPrefixList", in.ClientToken, in, false, p.ID)
	})
	if err != nil {
		return nil, err
	}
	out := p.sdk(sc)
	out.State = ec2types.PrefixListStateCreateInProgress
	return &awsec2.CreateManagedPrefixListOutput{PrefixList: &out}, nil
}

// ModifyManagedPrefixList renames or resizes a list, or makes a new version of it.
func (s *Service) ModifyManagedPrefixList(ctx context.Context, in *awsec2.ModifyManagedPrefixListInput) (*awsec2.ModifyManagedPrefixListOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	changes := len(in.AddEntries)+len(in.RemoveEntries) > 0
	if changes && in.MaxEntries != nil {
		return nil, errCombination("You cannot modify the entries of a prefix list and modify the size of a prefix list at the same time.")
	}
	if err := checkPrefixEntries(max(len(in.AddEntries), len(in.RemoveEntries))); err != nil {
		return nil, err
	}
	var p prefixListRecord
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		p, err = findPrefixList(tx, sc, aws.ToString(in.PrefixListId))
		if err != nil {
			return err
		}
		if p.managed {
			return errNotPermitted("The prefix list %s is managed by AWS and cannot be modified.", p.ID) // from memory
		}
		if changes {
			if in.CurrentVersion == nil {
				return errMissing("currentVersion")
			}
			if *in.CurrentVersion != p.Version {
				return errPrefixListVersion(*in.CurrentVersion)
			}
			next := slices.Clone(p.entries())
			for _, e := range in.RemoveEntries {
				i := slices.IndexFunc(next, func(x prefixListEntry) bool { return x.CIDR == aws.ToString(e.Cidr) })
				if i < 0 {
					return errInvalidParameter("The CIDR '%s' is not in the prefix list.", aws.ToString(e.Cidr)) // from memory
				}
				next = slices.Delete(next, i, i+1)
			}
			added, err := parsePrefixEntries(in.AddEntries, p.IPv6)
			if err != nil {
				return err
			}
			for _, e := range added { // one that is there gets the new description
				next = slices.DeleteFunc(next, func(x prefixListEntry) bool { return x.CIDR == e.CIDR })
				next = append(next, e)
			}
			sortEntries(next)
			p.Version++
			p.Versions = append(slices.Clone(p.Versions[max(0, len(p.Versions)-keptVersions+1):]), next)
		}
		if in.MaxEntries != nil {
			p.MaxEntries = *in.MaxEntries
		}
		if err := checkPrefixListSize(p.entries(), p.MaxEntries); err != nil {
			return err
		}
		if in.PrefixListName != nil {
			p.Name = *in.PrefixListName
		}
		p.State = "modify-complete"
		return prefixLists.Put(tx, sc.key(p.ID), p)
	})
	if err != nil {
		return nil, err
	}
	out := p.sdk(sc)
	out.State = ec2types.PrefixListStateModifyInProgress
	return &awsec2.ModifyManagedPrefixListOutput{PrefixList: &out}, nil
}

// DeleteManagedPrefixList deletes a list that no route and no rule refers to.
func (s *Service) DeleteManagedPrefixList(ctx context.Context, in *awsec2.DeleteManagedPrefixListInput) (*awsec2.DeleteManagedPrefixListOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	var p prefixListRecord
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		p, err = get(tx, prefixLists, sc, prefixListID, aws.ToString(in.PrefixListId))
		if err != nil {
			return err
		}
		routed, err := exists(tx, routeTables, sc, func(t routeTableRecord) bool { return t.find(p.ID) >= 0 })
		if err != nil {
			return err
		}
		ruled, err := exists(tx, securityGroups, sc, func(g securityGroupRecord) bool {
			return slices.ContainsFunc(g.Rules, func(r securityGroupRule) bool { return r.PrefixListID == p.ID })
		})
		if err != nil {
			return err
		}
		if routed || ruled {
			return errHasDependencies("prefixList", p.ID)
		}
		prefixLists.Delete(tx, sc.key(p.ID))
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := p.sdk(sc)
	out.State = ec2types.PrefixListStateDeleteInProgress
	return &awsec2.DeleteManagedPrefixListOutput{PrefixList: &out}, nil
}
