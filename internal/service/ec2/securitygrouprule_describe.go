package ec2

import (
	"context"
	"slices"
	"strings"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/store"
)

// A groupedRule is a rule with its group.
type groupedRule struct {
	securityGroupRule
	group string
}

// DescribeSecurityGroupRules lists rules.
func (s *Service) DescribeSecurityGroupRules(ctx context.Context, in *awsec2.DescribeSecurityGroupRulesInput) (*awsec2.DescribeSecurityGroupRulesOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	match, err := compileFilters(in.Filters, fields[groupedRule]{
		"group-id":               one(func(r groupedRule) string { return r.group }),
		"security-group-rule-id": one(func(r groupedRule) string { return r.ID }),
	}, func(r groupedRule) Tags { return r.Tags })
	if err != nil {
		return nil, err
	}
	if err := checkDryRun(in.DryRun); err != nil {
		return nil, err
	}
	wanted := map[string]bool{}
	for _, id := range in.SecurityGroupRuleIds {
		if err := securityGroupRuleID.check(id); err != nil {
			return nil, err
		}
		wanted[id] = true
	}
	all := len(wanted) == 0
	groups, err := list(s.store, securityGroups, sc, func(securityGroupRecord) bool { return true })
	if err != nil {
		return nil, err
	}
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
		return nil, securityGroupRuleID.notFound(id)
	}
	slices.SortFunc(found, func(a, b groupedRule) int { return strings.Compare(a.ID, b.ID) })
	found, next, err := paginate(found, func(r groupedRule) string { return r.ID }, in.MaxResults, in.NextToken, limits{5, 1000})
	if err != nil {
		return nil, err
	}
	out := &awsec2.DescribeSecurityGroupRulesOutput{NextToken: next, SecurityGroupRules: []ec2types.SecurityGroupRule{}}
	for _, r := range found {
		out.SecurityGroupRules = append(out.SecurityGroupRules, r.sdk(sc, r.group))
	}
	return out, nil
}

// securityGroupRuleTags finds rules inside their groups.
func securityGroupRuleTags() taggable {
	return taggable{
		id: securityGroupRuleID, kind: ec2types.ResourceTypeSecurityGroupRule,
		edit: func(tx *store.Tx, sc scope, id string, fn func(Tags) (Tags, error)) error {
			holds := func(g securityGroupRecord) bool {
				return slices.ContainsFunc(g.Rules, func(r securityGroupRule) bool { return r.ID == id })
			}
			found, err := list(tx, securityGroups, sc, holds)
			if err != nil {
				return err
			}
			if len(found) == 0 {
				return securityGroupRuleID.notFound(id)
			}
			return securityGroups.Update(tx, sc.key(found[0].ID), func(g *securityGroupRecord) error {
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
		list: func(r store.Reader, sc scope) ([]taggedResource, error) {
			groups, err := list(r, securityGroups, sc, func(securityGroupRecord) bool { return true })
			var out []taggedResource
			for _, g := range groups {
				for _, r := range g.Rules {
					if len(r.Tags) > 0 {
						out = append(out, taggedResource{r.ID, r.Tags})
					}
				}
			}
			return out, err
		},
	}
}
