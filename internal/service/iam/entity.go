package iam

import (
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/store"
)

// An entity is a user, group or role and the policies that apply to it.
type entity struct {
	policies  policy.Policies
	principal policy.Principal
	keys      map[string][]string // condition keys of every request by it, in lower case
}

// entity returns the user, group or role of the account whose ARN is in the request.
func (s *Service) entity(account, entityARN string) (entity, error) {
	a, err := arn.Parse(entityARN)
	typ, _, _ := strings.Cut(a.Resource, "/")
	if err != nil || a.Service != "iam" || !slices.Contains([]string{"user", "group", "role"}, typ) {
		// https://github.com/aws/aws-cli/issues/4032
		return entity{}, invalidInput("Invalid Entity Arn: %s does not clearly define entity type and name.", entityARN)
	}
	_, _, name, _ := arnName(entityARN, typ)
	if a.Account != account { // [seen] when checking roles of other accounts
		return entity{}, invalidInput("Invalid Policy Source Arn: caller's account %s does not have access to policies in account %s", account, a.Account)
	}
	e := entity{principal: policy.Principal{Account: account, ARN: entityARN}}
	p := awsapi.Principal{Account: account, ARN: entityARN, Name: name}
	var missing error
	switch typ {
	case "user":
		u, err := users.Get(s.store, nameKey(account, name))
		if store.IgnoreNotFound(err) != nil {
			return e, err
		}
		if err != nil || u.arn(account) != entityARN {
			missing = noSuchUser(name)
		}
		p.Type, p.UserID, p.Tags = awsapi.IAMUser, u.ID, tagMap(u.Tags)
	case "role":
		r, err := roles.Get(s.store, nameKey(account, name))
		if store.IgnoreNotFound(err) != nil {
			return e, err
		}
		if err != nil || r.arn(account) != entityARN {
			missing = noSuchRole(name)
		}
		p.Type, p.UserID, p.RoleARN, p.Tags = awsapi.AssumedRole, r.ID+":simulated", entityARN, tagMap(r.Tags)
		e.principal.RoleARN = entityARN
	case "group":
		g, err := groups.Get(s.store, nameKey(account, name))
		if err != nil {
			return e, store.NotFoundAs(err, noSuchGroup(name))
		}
		if g.arn(account) != entityARN {
			return e, noSuchGroup(name)
		}
		s.addIdentity(&e.policies, account, entityARN, &g.identity)
		e.keys = map[string][]string{"aws:principalaccount": {account}}
		return e, nil
	}
	if missing != nil {
		return e, missing
	}
	e.policies, _ = s.PoliciesOf(p)
	e.principal.ID = p.UserID
	e.keys = map[string][]string{
		"aws:principalaccount": {account}, "aws:principalarn": {entityARN}, "aws:userid": {p.UserID}, "aws:principaltype": {"User"},
	}
	if p.Type == awsapi.IAMUser {
		e.keys["aws:username"] = []string{name}
	} else {
		e.keys["aws:principaltype"] = []string{"AssumedRole"}
	}
	authz.SetTags(e.keys, p.Tags, "aws:principaltag/")
	return e, nil
}
