package organizations

import (
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsorg "github.com/aws/aws-sdk-go-v2/service/organizations"
	orgtypes "github.com/aws/aws-sdk-go-v2/service/organizations/types"

	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// importRecords turns what AWS Organizations answered a member account into records of that account: its membership, the units
// above it up to the root, and their policies. Ancestors whose policies were not read get AWS's, which allow everything.
func importRecords(r *recording.Recording) ([]module.Write, []recording.Gap, error) {
	account := r.Source.Account
	found, err := recording.Pages[awsorg.DescribeOrganizationInput, awsorg.DescribeOrganizationOutput](r, recording.Organizations, "DescribeOrganization")
	if err != nil || len(found) == 0 || found[0].Output.Organization == nil {
		return nil, nil, err
	}
	in := found[0].Output.Organization
	if aws.ToString(in.MasterAccountId) == account {
		return nil, nil, nil // no policies bind it
	}
	parents, err := recording.Pages[awsorg.ListParentsInput, awsorg.ListParentsOutput](r, recording.Organizations, "ListParents")
	if err != nil {
		return nil, nil, err
	}
	lists, err := recording.Pages[awsorg.ListPoliciesForTargetInput, awsorg.ListPoliciesForTargetOutput](r, recording.Organizations, "ListPoliciesForTarget")
	if err != nil {
		return nil, nil, err
	}
	documents, err := recording.Pages[awsorg.DescribePolicyInput, awsorg.DescribePolicyOutput](r, recording.Organizations, "DescribePolicy")
	if err != nil {
		return nil, nil, err
	}
	above, root := map[string]string{}, ""
	for _, p := range parents {
		for _, parent := range p.Output.Parents {
			above[aws.ToString(p.Input.ChildId)] = aws.ToString(parent.Id)
			if parent.Type == orgtypes.ParentTypeRoot {
				root = aws.ToString(parent.Id)
			}
		}
	}
	o := organization{ID: aws.ToString(in.Id), Root: root, Created: r.Source.Started}
	attached := map[string][]string{}
	for _, p := range lists {
		target := aws.ToString(p.Input.TargetId)
		for _, s := range p.Output.Policies {
			attached[target] = append(attached[target], aws.ToString(s.Id))
			if kind := string(s.Type); !o.enabled(kind) { // every target has a policy of each type that is enabled
				o.Types = append(o.Types, kind)
			}
		}
	}
	read := map[string]string{fullAccess: serviceType, fullResourceAccess: resourceType} // the types of policies whose documents are known
	for _, p := range documents {
		if d := p.Output.Policy; d != nil && d.PolicySummary != nil {
			read[aws.ToString(d.PolicySummary.Id)] = string(d.PolicySummary.Type)
		}
	}
	// What was not read of a level may allow everything, so that nothing is denied for that alone.
	policiesOf := func(target string) []string {
		ids := attached[target]
		unread := slices.ContainsFunc(ids, func(id string) bool { return read[id] == "" })
		for kind, all := range map[string]string{serviceType: fullAccess, resourceType: fullResourceAccess} {
			if unread || !slices.ContainsFunc(ids, func(id string) bool { return read[id] == kind }) {
				ids = append(ids, all)
			}
		}
		return ids
	}
	o.Attached = policiesOf(root)
	writes := []module.Write{
		module.Put(organizations, key(account, only), o),
		module.Put(members, key(account, only), member{Management: aws.ToString(in.MasterAccountId), Home: account, Parent: above[account], Attached: policiesOf(account), Joined: r.Source.Started}),
	}
	seen := []string{root}
	for id := above[account]; id != "" && !slices.Contains(seen, id); id = above[id] {
		seen = append(seen, id)
		parent := above[id]
		if slices.Contains(seen, parent) { // a circle
			parent = root
		}
		writes = append(writes, module.Put(units, key(account, id), unit{ID: id, Name: id, Parent: parent, Attached: policiesOf(id)}))
	}
	for _, p := range documents {
		d := p.Output.Policy
		if d == nil || d.PolicySummary == nil || byAWS[aws.ToString(d.PolicySummary.Id)].ID != "" {
			continue
		}
		rec := document{ID: aws.ToString(d.PolicySummary.Id), Name: aws.ToString(d.PolicySummary.Name), Description: aws.ToString(d.PolicySummary.Description), Type: string(d.PolicySummary.Type), Content: aws.ToString(d.Content)}
		if rec.ID == "" {
			return nil, nil, errors.New("the source's answer to organizations:DescribePolicy: a policy has no ID")
		}
		if _, err := policy.Parse(grammars[rec.Type], rec.Content); err != nil {
			return nil, nil, fmt.Errorf("the source's answer to organizations:DescribePolicy: policy %s: %w", rec.ID, err)
		}
		writes = append(writes, module.Put(policies, key(account, rec.ID), rec))
	}
	return writes, nil, nil
}
