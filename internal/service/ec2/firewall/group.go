package firewall

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/quota"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// NewDefaultGroup returns a default group, whose members can reach each other and everything
// outside.
func NewDefaultGroup(sc resource.Scope, vpc string) record.SecurityGroup {
	g := record.SecurityGroup{ID: ids.Resource("sg"), VPCID: vpc, Name: "default", Description: "default VPC security group"}
	g.Rules = []record.SecurityGroupRule{
		{ID: ids.Resource("sgr"), Protocol: "-1", From: -1, To: -1, GroupID: g.ID, GroupAccount: sc.Account},
		allEgress(),
	}
	return g
}

func allEgress() record.SecurityGroupRule {
	return record.SecurityGroupRule{ID: ids.Resource("sgr"), Egress: true, Protocol: "-1", From: -1, To: -1, CIDR: "0.0.0.0/0"}
}

func allEgress6() record.SecurityGroupRule {
	r := allEgress()
	r.CIDR, r.CIDR6 = "", "::/0"
	return r
}

// OpenDefaultGroup6 allows all outbound IPv6 traffic in the default group of a VPC that gets its
// first IPv6 block, unless the group's outbound rules have been changed.
// https://docs.aws.amazon.com/vpc/latest/userguide/default-security-group.html
func OpenDefaultGroup6(tx *store.Tx, sc resource.Scope, v record.VPC) error {
	return record.SecurityGroups.Update(tx, sc.Key(v.DefaultGroupID), func(g *record.SecurityGroup) error {
		var out []record.SecurityGroupRule
		for _, r := range g.Rules {
			if r.Egress {
				out = append(out, r)
			}
		}
		if len(out) == 1 && out[0].Protocol == "-1" && out[0].CIDR == "0.0.0.0/0" {
			g.Rules = append(slices.Clone(g.Rules), allEgress6())
		}
		return nil
	})
}

// groupText matches the names and descriptions that EC2 allows for groups in a VPC.
var groupText = regexp.MustCompile(`^[a-zA-Z0-9 ._\-:/()#,@\[\]+=&;{}!$*]*$`)

// joinVPC adds a new group to v and gives it the initial outbound rules. Terraform revokes both of
// them, and expects InvalidPermission.NotFound for IPv6 if the VPC has no IPv6 block.
func joinVPC(g *record.SecurityGroup, v record.VPC) {
	g.VPCID, g.Rules = v.ID, []record.SecurityGroupRule{allEgress()}
	if len(v.IPv6) > 0 {
		g.Rules = append(g.Rules, allEgress6())
	}
}

// CreateSecurityGroup creates a group that allows all egress.
func (s *Service) CreateSecurityGroup(ctx context.Context, in *awsec2.CreateSecurityGroupInput) (*awsec2.CreateSecurityGroupOutput, error) {
	sc := resource.ScopeOf(ctx)
	name, description := aws.ToString(in.GroupName), aws.ToString(in.Description)
	switch {
	case name == "":
		return nil, ec2err.Missing("groupName")
	case description == "":
		return nil, ec2err.Missing("groupDescription")
	case len(name) > 255 || !groupText.MatchString(name):
		return nil, ec2err.InvalidValue(name, "groupName", "Character sets beyond ASCII are not supported.")
	case strings.HasPrefix(name, "sg-"):
		return nil, ec2err.InvalidParameterValue("invalid value for parameter groupName: %s", name)
	case name == "default":
		return nil, ec2err.InvalidParameterValue("Cannot use reserved security group name: default")
	case len(description) > 255 || !groupText.MatchString(description):
		return nil, ec2err.InvalidValue(description, "GroupDescription", "Character sets beyond ASCII are not supported.")
	}
	tags, err := tag.Specified(ctx, in.TagSpecifications, ec2types.ResourceTypeSecurityGroup)
	if err != nil {
		return nil, err
	}
	g := record.SecurityGroup{ID: ids.Resource("sg"), Name: name, Description: description, Tags: tags}
	err = s.Update(ctx, in.DryRun, func(tx *store.Tx) error {
		if in.VpcId != nil {
			v, err := resource.Get(tx, record.VPCs, sc, *in.VpcId)
			if err != nil {
				return err
			}
			joinVPC(&g, v)
		} else {
			v, ok := record.DefaultVPC(tx, sc)
			if !ok {
				return ec2err.NoDefaultVPC()
			}
			joinVPC(&g, v)
		}
		all := resource.List(tx, record.SecurityGroups, sc, resource.All)
		if slices.ContainsFunc(all, func(o record.SecurityGroup) bool { return o.VPCID == g.VPCID && o.Name == name }) {
			return ec2err.GroupDuplicate(name, g.VPCID)
		}
		if err := quota.Check(tx, sc, quota.Groups, len(all)+1, ec2err.Limit("SecurityGroupLimitExceeded", "security groups")); err != nil {
			return err
		}
		return record.SecurityGroups.Create(tx, sc.Key(g.ID), g)
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.CreateSecurityGroupOutput{
		GroupId:          aws.String(g.ID),
		SecurityGroupArn: aws.String(sc.ARN("security-group", g.ID)),
		Tags:             tags.SDK(),
	}, nil
}

// FindGroup returns a group by ID, or by name in the default VPC.
func FindGroup(r store.Reader, sc resource.Scope, id, name *string) (record.SecurityGroup, error) {
	if id != nil {
		return resource.Get(r, record.SecurityGroups, sc, *id)
	}
	if name == nil {
		return record.SecurityGroup{}, ec2err.New("MissingParameter", "Missing required parameter: groupId or groupName")
	}
	v, ok := record.DefaultVPC(r, sc)
	if !ok {
		return record.SecurityGroup{}, ec2err.NoDefaultVPC()
	}
	found := resource.List(r, record.SecurityGroups, sc, func(g record.SecurityGroup) bool { return g.VPCID == v.ID && g.Name == *name })
	if len(found) == 0 {
		return record.SecurityGroup{}, ec2err.GroupInDefaultVPC(*name, v.ID)
	}
	return found[0], nil
}

// DeleteSecurityGroup deletes a group that no interface and no rule refers to.
func (s *Service) DeleteSecurityGroup(ctx context.Context, in *awsec2.DeleteSecurityGroupInput) (*awsec2.DeleteSecurityGroupOutput, error) {
	sc := resource.ScopeOf(ctx)
	var id string
	err := s.Update(ctx, in.DryRun, func(tx *store.Tx) error {
		g, err := FindGroup(tx, sc, in.GroupId, in.GroupName)
		if err != nil {
			return err
		}
		id = g.ID
		if g.Name == "default" {
			return ec2err.New("CannotDelete", "the specified group: \"%s\" name: \"default\" cannot be deleted by a user", g.ID)
		}
		used := resource.Exists(tx, record.NetworkInterfaces, sc, func(e record.NetworkInterface) bool { return slices.Contains(e.Groups, id) })
		referred := resource.Exists(tx, record.SecurityGroups, sc, func(o record.SecurityGroup) bool {
			return o.ID != id && slices.ContainsFunc(o.Rules, func(r record.SecurityGroupRule) bool { return r.GroupID == id })
		})
		endpoint := resource.Exists(tx, record.VPCEndpoints, sc, func(e record.VPCEndpoint) bool { return slices.Contains(e.GroupIDs, id) })
		if used || referred || endpoint {
			return ec2err.Dependency("resource %s has a dependent object", id)
		}
		record.SecurityGroups.Delete(tx, sc.Key(id))
		return nil
	})
	return &awsec2.DeleteSecurityGroupOutput{GroupId: aws.String(id), Return: aws.Bool(true)}, err
}

func securityGroupFields(sc resource.Scope) filter.Fields[record.SecurityGroup] {
	type v = record.SecurityGroup
	out := filter.Fields[v]{
		"description": filter.One(func(g v) string { return g.Description }),
		"group-id":    filter.One(func(g v) string { return g.ID }),
		"group-name":  filter.One(func(g v) string { return g.Name }),
		"owner-id":    filter.One(func(v) string { return sc.Account }),
		"vpc-id":      filter.One(func(g v) string { return g.VPCID }),
	}
	for prefix, egress := range map[string]bool{"ip-permission.": false, "egress.ip-permission.": true} {
		for name, get := range map[string]func(record.SecurityGroupRule) string{
			"cidr":           func(r record.SecurityGroupRule) string { return r.CIDR },
			"from-port":      func(r record.SecurityGroupRule) string { return portText(r.Protocol, r.From) },
			"group-id":       func(r record.SecurityGroupRule) string { return r.GroupID },
			"group-name":     func(record.SecurityGroupRule) string { return "" },
			"ipv6-cidr":      func(r record.SecurityGroupRule) string { return r.CIDR6 },
			"prefix-list-id": func(r record.SecurityGroupRule) string { return r.PrefixListID },
			"protocol":       func(r record.SecurityGroupRule) string { return r.Protocol },
			"to-port":        func(r record.SecurityGroupRule) string { return portText(r.Protocol, r.To) },
			"user-id":        func(r record.SecurityGroupRule) string { return r.GroupAccount },
		} {
			out[prefix+name] = func(g v) []string {
				var values []string
				for _, r := range g.Rules {
					if s := get(r); r.Egress == egress && s != "" {
						values = append(values, s)
					}
				}
				return values
			}
		}
	}
	return out
}

// DescribeSecurityGroups lists groups.
func (s *Service) DescribeSecurityGroups(ctx context.Context, in *awsec2.DescribeSecurityGroupsInput) (*awsec2.DescribeSecurityGroupsOutput, error) {
	sc := resource.ScopeOf(ctx)
	match, err := filter.Compile(in.Filters, securityGroupFields(sc), func(g record.SecurityGroup) tag.Set { return g.Tags })
	if err != nil {
		return nil, err
	}
	if err := resource.CheckDryRun(in.DryRun); err != nil {
		return nil, err
	}
	if err := resource.CheckPageOfIDs(in.GroupIds, "groupIds", in.MaxResults); err != nil {
		return nil, err
	}
	want := slices.Clone(in.GroupIds)
	for _, name := range in.GroupNames {
		g, err := FindGroup(s.Store, sc, nil, &name)
		if err != nil {
			return nil, err
		}
		want = append(want, g.ID)
	}
	found, err := resource.Choose(s.Store, record.SecurityGroups, sc, want, match)
	if err != nil {
		return nil, err
	}
	found, next, err := resource.Paginate(found, func(g record.SecurityGroup) string { return g.ID }, in.MaxResults, in.NextToken, resource.Limits{Min: 5, Max: 1000})
	return &awsec2.DescribeSecurityGroupsOutput{SecurityGroups: resource.SDKAll(sc, found), NextToken: next}, err
}
