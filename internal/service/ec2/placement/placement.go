// Package placement manages placement groups and the rules about where a group's instances run. Drydock
// has no racks or hosts, so it only enforces the rules about Availability Zones, numbers of instances and
// partitions.
package placement

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// Strategies of placement groups.
const (
	cluster   = string(ec2types.PlacementStrategyCluster)
	spread    = string(ec2types.PlacementStrategySpread)
	partition = string(ec2types.PlacementStrategyPartition)
)

// Limits of a group in one Availability Zone.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-strategies.html
const (
	maxPartitions = 7
	maxSpread     = 7
)

// A Group is a placement group.
type Group struct {
	ID, Name   string
	Strategy   string
	Partitions int32  `json:",omitempty"` // of a partition group
	Level      string `json:",omitempty"` // of a spread group: rack
	Created    time.Time
	Tags       tag.Set `json:",omitempty"`
}

// The collections. Names leads from a group's name to its ID.
var (
	Groups = resource.NewKind("placement-group", ID, func(g *Group) (string, *tag.Set) { return g.ID, &g.Tags })
	Names  = store.NewCollection[resource.Name]("ec2", "placement-group-name")
)

// ID describes the IDs of placement groups.
var ID = resource.IDKind{Prefix: "pg", NotFoundCode: "InvalidPlacementGroup.Unknown",
	NotFoundOne: "The Placement Group '%s' is unknown.", NotFoundMany: "The Placement Groups '%s' are unknown."}

func nameKey(sc resource.Scope, name string) store.Key { return sc.Key("name/" + name) }

// Service handles the operations on placement groups.
type Service struct{ *resource.Core }

// New returns the service on top of core.
func New(core *resource.Core) *Service { return &Service{core} }

// CreatePlacementGroup creates a placement group.
func (s *Service) CreatePlacementGroup(ctx context.Context, in *awsec2.CreatePlacementGroupInput) (*awsec2.CreatePlacementGroupOutput, error) {
	sc := resource.ScopeOf(ctx)
	g := Group{ID: ids.Resource("pg"), Name: aws.ToString(in.GroupName), Strategy: string(in.Strategy), Created: s.Now()}
	switch {
	case g.Name == "":
		return nil, ec2err.Missing("groupName")
	case len(g.Name) > 255:
		return nil, ec2err.InvalidValue(g.Name, "groupName", "Placement group names can be up to 255 characters long.")
	case g.Strategy == "":
		g.Strategy = cluster
	case !slices.Contains(in.Strategy.Values(), in.Strategy):
		return nil, ec2err.InvalidValue(g.Strategy, "strategy", "")
	}
	switch n := aws.ToInt32(in.PartitionCount); {
	case g.Strategy != partition && n != 0:
		return nil, ec2err.Combination("The parameter PartitionCount can be used only if the strategy is partition")
	case g.Strategy == partition:
		g.Partitions = n
		if in.PartitionCount == nil {
			g.Partitions = 2
		}
		if g.Partitions < 1 || g.Partitions > maxPartitions {
			return nil, ec2err.InvalidValue(n, "partitionCount", fmt.Sprintf("The number of partitions must be between 1 and %d.", maxPartitions))
		}
	}
	switch {
	case g.Strategy != spread && in.SpreadLevel != "":
		return nil, ec2err.Combination("The parameter SpreadLevel can be used only if the strategy is spread")
	case g.Strategy == spread:
		g.Level = resource.Or(string(in.SpreadLevel), string(ec2types.SpreadLevelRack))
		if g.Level != string(ec2types.SpreadLevelRack) {
			return nil, ec2err.InvalidValue(g.Level, "spreadLevel", "Only Outposts have hosts to spread instances over.")
		}
	}
	var err error
	if g.Tags, err = tag.Specified(ctx, in.TagSpecifications, ec2types.ResourceTypePlacementGroup); err != nil {
		return nil, err
	}
	err = s.Update(ctx, in.DryRun, func(tx *store.Tx) error {
		if err := Names.Create(tx, nameKey(sc, g.Name), resource.Name{ID: g.ID}); err == store.ErrExists {
			return ec2err.New("InvalidPlacementGroup.Duplicate", "The Placement Group '%s' already exists.", g.Name)
		} else if err != nil {
			return err
		}
		return Groups.Create(tx, sc.Key(g.ID), g)
	})
	return &awsec2.CreatePlacementGroupOutput{PlacementGroup: new(g.SDK(sc))}, err
}

// DeletePlacementGroup deletes a group that has no instances.
func (s *Service) DeletePlacementGroup(ctx context.Context, in *awsec2.DeletePlacementGroupInput) (*awsec2.DeletePlacementGroupOutput, error) {
	sc := resource.ScopeOf(ctx)
	name := aws.ToString(in.GroupName)
	if name == "" {
		return nil, ec2err.Missing("groupName")
	}
	err := s.Update(ctx, in.DryRun, func(tx *store.Tx) error {
		g, err := find(tx, sc, name)
		if err != nil {
			return err
		}
		if len(members(tx, sc, g.ID)) > 0 {
			return ec2err.New("InvalidPlacementGroup.InUse", "The placement group '%s' is in use and may not be deleted.", name)
		}
		Names.Delete(tx, nameKey(sc, name))
		Groups.Delete(tx, sc.Key(g.ID))
		return nil
	})
	return &awsec2.DeletePlacementGroupOutput{}, err
}

// DescribePlacementGroups lists groups, sorted by ID. It has no pages.
func (s *Service) DescribePlacementGroups(ctx context.Context, in *awsec2.DescribePlacementGroupsInput) (*awsec2.DescribePlacementGroupsOutput, error) {
	sc := resource.ScopeOf(ctx)
	wanted := slices.Clone(in.GroupIds)
	for _, name := range in.GroupNames {
		g, err := find(s.Store, sc, name)
		if err != nil {
			return nil, err
		}
		wanted = append(wanted, g.ID)
	}
	found, _, err := resource.Describe(s.Store, sc, Groups, resource.Query{IDs: wanted, Filters: in.Filters, DryRun: in.DryRun}, filter.Fields[Group]{
		"group-name":   filter.One(func(g Group) string { return g.Name }),
		"group-arn":    filter.One(func(g Group) string { return g.ARN(sc) }),
		"spread-level": filter.One(func(g Group) string { return g.Level }),
		"state":        filter.One(func(Group) string { return string(ec2types.PlacementGroupStateAvailable) }),
		"strategy":     filter.One(func(g Group) string { return g.Strategy }),
	})
	return &awsec2.DescribePlacementGroupsOutput{PlacementGroups: resource.SDKAll(sc, found)}, err
}

// ARN returns the group's ARN, which has its name.
func (g Group) ARN(sc resource.Scope) string { return sc.ARN("placement-group", g.Name) }

// SDK converts a group.
func (g Group) SDK(sc resource.Scope) ec2types.PlacementGroup {
	out := ec2types.PlacementGroup{
		GroupArn: aws.String(g.ARN(sc)), GroupId: aws.String(g.ID), GroupName: aws.String(g.Name), State: ec2types.PlacementGroupStateAvailable,
		Strategy: ec2types.PlacementStrategy(g.Strategy), SpreadLevel: ec2types.SpreadLevel(g.Level), Tags: g.Tags.SDK(),
	}
	if g.Strategy == partition {
		out.PartitionCount = aws.Int32(g.Partitions)
	}
	return out
}

// Find returns a group by its ID or name.
func Find(r store.Reader, sc resource.Scope, id string) (Group, bool) {
	g, err := Groups.Get(r, sc.Key(id))
	if resource.NotFound(err) {
		g, err = find(r, sc, id)
	}
	return g, err == nil
}

// find returns the group with a name.
func find(r store.Reader, sc resource.Scope, name string) (Group, error) {
	n, err := Names.Get(r, nameKey(sc, name))
	if err != nil {
		return Group{}, store.NotFoundAs(err, ID.NotFound(name))
	}
	return resource.Get(r, Groups, sc, n.ID)
}

// Requested returns the group that a launch asks for, or nil.
func Requested(r store.Reader, sc resource.Scope, p *ec2types.Placement) (*Group, error) {
	if p == nil {
		return nil, nil
	}
	id, name := aws.ToString(p.GroupId), aws.ToString(p.GroupName)
	var g Group
	var err error
	switch {
	case id != "" && name != "":
		return nil, ec2err.Combination("The parameter GroupName cannot be used with the parameter GroupId")
	case id != "":
		g, err = resource.Get(r, Groups, sc, id)
	case name != "":
		g, err = find(r, sc, name)
	case aws.ToInt32(p.PartitionNumber) != 0:
		return nil, ec2err.Combination("The parameter PartitionNumber can be used only with a partition placement group")
	default:
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	switch n := aws.ToInt32(p.PartitionNumber); {
	case n != 0 && g.Strategy != partition:
		return nil, ec2err.Combination("The parameter PartitionNumber can be used only with a partition placement group")
	case n < 0 || n > g.Partitions && g.Strategy == partition:
		return nil, ec2err.InvalidValue(n, "partitionNumber", fmt.Sprintf("The placement group has the partitions 1 to %d.", g.Partitions))
	}
	return &g, nil
}

// Check returns an error if the group's strategy does not go with an instance type.
func (g *Group) Check(t instancetypes.Type) error {
	if g.Strategy == cluster && t.Burstable {
		return ec2err.Combination("Cluster placement groups are not supported by the '" + t.Name + "' instance type. Specify a supported instance type or change the placement group strategy, and try again.")
	}
	return nil
}

// Place puts an instance into the group, in the partition asked for or else in the emptiest one. It returns
// EC2's error if the group has no room in the instance's Availability Zone.
func (g *Group) Place(tx *store.Tx, sc resource.Scope, i *record.Instance, wanted *int32) error {
	// It is read again because it may have been deleted. The read also makes a deletion at the same time conflict.
	if _, err := resource.Get(tx, Groups, sc, g.ID); err != nil {
		return err
	}
	if _, err := g.Room(tx, sc, i.Zone); err != nil {
		return err
	}
	i.PlacementGroup, i.PlacementGroupID = g.Name, g.ID
	if g.Strategy == partition && i.Partition == 0 {
		if i.Partition = aws.ToInt32(wanted); i.Partition == 0 {
			i.Partition = g.emptiest(members(tx, sc, g.ID), i.Zone)
		}
	}
	return nil
}

// Room returns how many more instances the group can have in an Availability Zone, or EC2's error if there is no room.
// EC2 says only that it lacks capacity; the texts here say why.
func (g *Group) Room(r store.Reader, sc resource.Scope, zone string) (int, error) {
	if g.Strategy == partition {
		return math.MaxInt, nil
	}
	here := 0
	for _, o := range members(r, sc, g.ID) {
		switch {
		case o.State != record.Pending && o.State != record.Running:
		case o.Zone == zone:
			here++
		case g.Strategy == cluster:
			return 0, ec2err.New("InsufficientInstanceCapacity", "The placement group '%s' has instances in %s. The instances of a cluster placement group are in one Availability Zone.", g.Name, o.Zone)
		}
	}
	if g.Strategy == cluster {
		return math.MaxInt, nil
	}
	if here >= maxSpread {
		return 0, ec2err.New("InsufficientInstanceCapacity", "The placement group '%s' has %d running instances in %s, which is the most that a spread placement group can have in an Availability Zone.", g.Name, here, zone)
	}
	return maxSpread - here, nil
}

// emptiest returns the number of the partition with the fewest instances in a zone.
func (g *Group) emptiest(others []record.Instance, zone string) int32 {
	used := make([]int, g.Partitions)
	for _, o := range others {
		if o.Zone == zone && o.Partition >= 1 && o.Partition <= g.Partitions {
			used[o.Partition-1]++
		}
	}
	return int32(slices.Index(used, slices.Min(used))) + 1
}

// members returns the group's instances, without the terminated ones.
func members(r store.Reader, sc resource.Scope, group string) []record.Instance {
	return resource.List(r, record.Instances, sc, func(i record.Instance) bool {
		return i.PlacementGroupID == group && i.State != record.Terminated
	})
}
