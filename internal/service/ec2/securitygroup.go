package ec2

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

type securityGroupRecord struct {
	ID          string
	VPCID       string
	Name        string
	Description string
	Rules       []securityGroupRule `json:",omitempty"`
	Tags        Tags                `json:",omitempty"`
}

// newDefaultGroup lets its members reach each other, and everything outside.
func newDefaultGroup(sc scope, vpc string) securityGroupRecord {
	g := securityGroupRecord{ID: ids.Resource("sg"), VPCID: vpc, Name: "default", Description: "default VPC security group"}
	g.Rules = []securityGroupRule{
		{ID: ids.Resource("sgr"), Protocol: "-1", From: -1, To: -1, GroupID: g.ID, GroupAccount: sc.account},
		allEgress(),
	}
	return g
}

func allEgress() securityGroupRule {
	return securityGroupRule{ID: ids.Resource("sgr"), Egress: true, Protocol: "-1", From: -1, To: -1, CIDR: "0.0.0.0/0"}
}

func allEgress6() securityGroupRule {
	r := allEgress()
	r.CIDR, r.CIDR6 = "", "::/0"
	return r
}

// openDefaultGroup6 lets all IPv6 traffic out of the default group of a VPC that
// gets its first IPv6 block, unless its outbound rules have been changed.
// https://docs.aws.amazon.com/vpc/latest/userguide/default-security-group.html
func openDefaultGroup6(tx *store.Tx, sc scope, v vpcRecord) error {
	return securityGroups.Update(tx, sc.key(v.DefaultGroupID), func(g *securityGroupRecord) error {
		var out []securityGroupRule
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

func (g securityGroupRecord) sdk(sc scope) ec2types.SecurityGroup {
	return ec2types.SecurityGroup{
		GroupId:             aws.String(g.ID),
		GroupName:           aws.String(g.Name),
		Description:         aws.String(g.Description),
		OwnerId:             aws.String(sc.account),
		VpcId:               aws.String(g.VPCID),
		SecurityGroupArn:    aws.String(sc.arn("security-group", g.ID)),
		IpPermissions:       permissions(g.Rules, false),
		IpPermissionsEgress: permissions(g.Rules, true),
		Tags:                g.Tags.sdk(),
	}
}

// groupText is what EC2 allows in names and descriptions of groups in a VPC.
var groupText = regexp.MustCompile(`^[a-zA-Z0-9 ._\-:/()#,@\[\]+=&;{}!$*]*$`)

// join makes a new group one of v, with the outbound rules such a group begins with.
// Terraform revokes both and expects InvalidPermission.NotFound for IPv6 where the
// VPC has none.
func (g *securityGroupRecord) join(v vpcRecord) {
	g.VPCID, g.Rules = v.ID, []securityGroupRule{allEgress()}
	if len(v.IPv6) > 0 {
		g.Rules = append(g.Rules, allEgress6())
	}
}

// CreateSecurityGroup creates a group that allows all egress.
func (s *Service) CreateSecurityGroup(ctx context.Context, in *awsec2.CreateSecurityGroupInput) (*awsec2.CreateSecurityGroupOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	name, description := aws.ToString(in.GroupName), aws.ToString(in.Description)
	switch {
	case name == "":
		return nil, errMissing("groupName")
	case description == "":
		return nil, errMissing("groupDescription")
	case len(name) > 255 || !groupText.MatchString(name):
		return nil, errInvalidValue(name, "groupName", "Character sets beyond ASCII are not supported.")
	case strings.HasPrefix(name, "sg-"):
		return nil, errInvalidParameter("invalid value for parameter groupName: %s", name)
	case name == "default":
		return nil, errInvalidParameter("Cannot use reserved security group name: default")
	case len(description) > 255 || !groupText.MatchString(description):
		return nil, errInvalidValue(description, "GroupDescription", "Character sets beyond ASCII are not supported.")
	}
	tags, err := specifiedTags(ctx, in.TagSpecifications, ec2types.ResourceTypeSecurityGroup)
	if err != nil {
		return nil, err
	}
	g := securityGroupRecord{ID: ids.Resource("sg"), Name: name, Description: description, Tags: tags}
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		if in.VpcId != nil {
			v, err := get(tx, vpcs, sc, vpcID, *in.VpcId)
			if err != nil {
				return err
			}
			g.join(v)
		} else {
			v, ok, err := defaultVPC(tx, sc)
			if err != nil {
				return err
			}
			if !ok {
				return errNoDefaultVPC()
			}
			g.join(v)
		}
		all, err := list(tx, securityGroups, sc, func(securityGroupRecord) bool { return true })
		if err != nil {
			return err
		}
		if slices.ContainsFunc(all, func(o securityGroupRecord) bool { return o.VPCID == g.VPCID && o.Name == name }) {
			return errGroupDuplicate(name, g.VPCID)
		}
		if err := checkQuota(tx, sc, quotaGroups, len(all)+1, errLimit("SecurityGroupLimitExceeded", "security groups")); err != nil {
			return err
		}
		return securityGroups.Create(tx, sc.key(g.ID), g)
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.CreateSecurityGroupOutput{
		GroupId:          aws.String(g.ID),
		SecurityGroupArn: aws.String(sc.arn("security-group", g.ID)),
		Tags:             tags.sdk(),
	}, nil
}

// findGroup returns a group by ID, or by name in the default VPC.
func findGroup(r store.Reader, sc scope, id, name *string) (securityGroupRecord, error) {
	if id != nil {
		return get(r, securityGroups, sc, securityGroupID, *id)
	}
	if name == nil {
		return securityGroupRecord{}, errf("MissingParameter", "Missing required parameter: groupId or groupName")
	}
	v, ok, err := defaultVPC(r, sc)
	if err != nil {
		return securityGroupRecord{}, err
	}
	if !ok {
		return securityGroupRecord{}, errNoDefaultVPC()
	}
	found, err := list(r, securityGroups, sc, func(g securityGroupRecord) bool { return g.VPCID == v.ID && g.Name == *name })
	if err != nil {
		return securityGroupRecord{}, err
	}
	if len(found) == 0 {
		return securityGroupRecord{}, errGroupInDefaultVPC(*name, v.ID)
	}
	return found[0], nil
}

// DeleteSecurityGroup deletes a group that no interface and no rule refers to.
func (s *Service) DeleteSecurityGroup(ctx context.Context, in *awsec2.DeleteSecurityGroupInput) (*awsec2.DeleteSecurityGroupOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	var id string
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		g, err := findGroup(tx, sc, in.GroupId, in.GroupName)
		if err != nil {
			return err
		}
		id = g.ID
		if g.Name == "default" {
			return errf("CannotDelete", "the specified group: \"%s\" name: \"default\" cannot be deleted by a user", g.ID)
		}
		used, err := exists(tx, networkInterfaces, sc, func(e networkInterfaceRecord) bool { return slices.Contains(e.Groups, id) })
		if err != nil {
			return err
		}
		referred, err := exists(tx, securityGroups, sc, func(o securityGroupRecord) bool {
			return o.ID != id && slices.ContainsFunc(o.Rules, func(r securityGroupRule) bool { return r.GroupID == id })
		})
		if err != nil {
			return err
		}
		endpoint, err := exists(tx, vpcEndpoints, sc, func(e vpcEndpointRecord) bool { return slices.Contains(e.GroupIDs, id) })
		if err != nil {
			return err
		}
		if used || referred || endpoint {
			return errDependency("resource %s has a dependent object", id)
		}
		securityGroups.Delete(tx, sc.key(id))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.DeleteSecurityGroupOutput{GroupId: aws.String(id), Return: aws.Bool(true)}, nil
}

func securityGroupFields(sc scope) fields[securityGroupRecord] {
	type v = securityGroupRecord
	out := fields[v]{
		"description": one(func(g v) string { return g.Description }),
		"group-id":    one(func(g v) string { return g.ID }),
		"group-name":  one(func(g v) string { return g.Name }),
		"owner-id":    one(func(v) string { return sc.account }),
		"vpc-id":      one(func(g v) string { return g.VPCID }),
	}
	for prefix, egress := range map[string]bool{"ip-permission.": false, "egress.ip-permission.": true} {
		for name, get := range map[string]func(securityGroupRule) string{
			"cidr":           func(r securityGroupRule) string { return r.CIDR },
			"from-port":      func(r securityGroupRule) string { return portText(r.Protocol, r.From) },
			"group-id":       func(r securityGroupRule) string { return r.GroupID },
			"group-name":     func(securityGroupRule) string { return "" },
			"ipv6-cidr":      func(r securityGroupRule) string { return r.CIDR6 },
			"prefix-list-id": func(r securityGroupRule) string { return r.PrefixListID },
			"protocol":       func(r securityGroupRule) string { return r.Protocol },
			"to-port":        func(r securityGroupRule) string { return portText(r.Protocol, r.To) },
			"user-id":        func(r securityGroupRule) string { return r.GroupAccount },
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
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	match, err := compileFilters(in.Filters, securityGroupFields(sc), func(g securityGroupRecord) Tags { return g.Tags })
	if err != nil {
		return nil, err
	}
	if err := checkDryRun(in.DryRun); err != nil {
		return nil, err
	}
	if err := checkPageOfIDs(in.GroupIds, "groupIds", in.MaxResults); err != nil {
		return nil, err
	}
	want := slices.Clone(in.GroupIds)
	for _, name := range in.GroupNames {
		g, err := findGroup(s.store, sc, nil, &name)
		if err != nil {
			return nil, err
		}
		want = append(want, g.ID)
	}
	found, err := choose(s.store, securityGroups, sc, securityGroupID, want, match)
	if err != nil {
		return nil, err
	}
	found, next, err := paginate(found, func(g securityGroupRecord) string { return g.ID }, in.MaxResults, in.NextToken, limits{5, 1000})
	return &awsec2.DescribeSecurityGroupsOutput{SecurityGroups: sdkAll(sc, found), NextToken: next}, err
}
