package firewall

import (
	"context"
	"slices"
	"strings"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// A groupedRule is a rule and the group that it belongs to.
type groupedRule struct {
	record.SecurityGroupRule
	group string
}

// DescribeSecurityGroupRules lists rules.
func (s *Service) DescribeSecurityGroupRules(ctx context.Context, in *awsec2.DescribeSecurityGroupRulesInput) (*awsec2.DescribeSecurityGroupRulesOutput, error) {
	sc := resource.ScopeOf(ctx)
	match, err := filter.Compile(in.Filters, filter.Fields[groupedRule]{
		"group-id":               filter.One(func(r groupedRule) string { return r.group }),
		"security-group-rule-id": filter.One(func(r groupedRule) string { return r.ID }),
	}, func(r groupedRule) tag.Set { return r.Tags })
	if err != nil {
		return nil, err
	}
	if err := resource.CheckDryRun(in.DryRun); err != nil {
		return nil, err
	}
	wanted := map[string]bool{}
	for _, id := range in.SecurityGroupRuleIds {
		if err := resource.SecurityGroupRuleID.Check(id); err != nil {
			return nil, err
		}
		wanted[id] = true
	}
	all := len(wanted) == 0
	groups := resource.List(s.Store, record.SecurityGroups, sc, resource.All)
	var found []groupedRule
	for _, g := range groups {
		for _, r := range g.Rules {
			gr := groupedRule{r, g.ID}
			if !all && !wanted[r.ID] {
				continue
			}
			delete(wanted, r.ID)
			if match(gr) {
				found = append(found, gr)
			}
		}
	}
	for id := range wanted {
		return nil, resource.SecurityGroupRuleID.NotFound(id)
	}
	slices.SortFunc(found, func(a, b groupedRule) int { return strings.Compare(a.ID, b.ID) })
	found, next, err := resource.Paginate(found, func(r groupedRule) string { return r.ID }, in.MaxResults, in.NextToken, resource.Limits{Min: 5, Max: 1000})
	return &awsec2.DescribeSecurityGroupRulesOutput{NextToken: next, SecurityGroupRules: resource.Map(found, func(r groupedRule) ec2types.SecurityGroupRule { return r.SDK(sc, r.group) })}, err
}

// SecurityGroupRuleTags gives access to the tags of rules, which are stored in their groups.
func SecurityGroupRuleTags() resource.Taggable {
	return resource.Taggable{
		ID: resource.SecurityGroupRuleID, Kind: ec2types.ResourceTypeSecurityGroupRule,
		Edit: func(tx *store.Tx, sc resource.Scope, id string, fn func(tag.Set) (tag.Set, error)) error {
			holds := func(g record.SecurityGroup) bool {
				return slices.ContainsFunc(g.Rules, func(r record.SecurityGroupRule) bool { return r.ID == id })
			}
			found := resource.List(tx, record.SecurityGroups, sc, holds)
			if len(found) == 0 {
				return resource.SecurityGroupRuleID.NotFound(id)
			}
			return record.SecurityGroups.Update(tx, sc.Key(found[0].ID), func(g *record.SecurityGroup) error {
				for i := range g.Rules {
					if g.Rules[i].ID == id {
						tags, err := fn(g.Rules[i].Tags)
						g.Rules[i].Tags = tags
						return err
					}
				}
				return nil
			})
		},
		List: func(r store.Reader, sc resource.Scope) []resource.TaggedResource {
			groups := resource.List(r, record.SecurityGroups, sc, resource.All)
			var out []resource.TaggedResource
			for _, g := range groups {
				for _, r := range g.Rules {
					out = append(out, resource.TaggedResource{ID: r.ID, Tags: r.Tags})
				}
			}
			return out
		},
	}
}
