package organizations

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsorg "github.com/aws/aws-sdk-go-v2/service/organizations"
	orgtypes "github.com/aws/aws-sdk-go-v2/service/organizations/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/store"
)

// The quotas of an organization. That of accounts is 10 until AWS raises it.
// https://docs.aws.amazon.com/organizations/latest/userguide/orgs_reference_limits.html
const (
	maxAccounts = 1000
	maxUnits    = 2000
	maxDepth    = 5
	maxPolicies = 2000
	maxAttached = 5
	maxContent  = 10240
)

// pages are the rules of lists: 20 entries a page.
var pages = paging.Rules{Usual: 20, BadToken: func(string) error {
	return errInvalid("You provided a value that does not match the required pattern.")
}}

// arn returns the ARN of something in the organization: a root, a unit, an account or the organization.
func (o *org) arn(kind, id string) *string {
	name := "arn:aws:organizations::" + o.management + ":" + kind + "/" + o.ID
	if id != "" {
		name += "/" + id
	}
	return &name
}

func (o *org) policyARN(d document) string {
	kind := strings.ToLower(d.Type)
	if _, ok := byAWS[d.ID]; ok {
		return "arn:aws:organizations::aws:policy/" + kind + "/" + d.ID
	}
	return *o.arn("policy", kind+"/"+d.ID)
}

// CreateOrganization makes the caller's account the management account of a new organization.
// https://docs.aws.amazon.com/organizations/latest/APIReference/API_CreateOrganization.html
func (s *Service) CreateOrganization(ctx context.Context, in *awsorg.CreateOrganizationInput) (*awsorg.CreateOrganizationOutput, error) {
	if in.FeatureSet == orgtypes.OrganizationFeatureSetConsolidatedBilling {
		return nil, awserr.NotImplemented("organizations without policies")
	}
	account := awsapi.CallFrom(ctx).Account
	o := organization{ID: "o-" + fresh(10), Root: "r-" + fresh(4), Attached: defaults(), Created: s.now(), Management: account}
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		if _, err := members.Get(tx, key(account, only)); err == nil {
			return errAlreadyIn()
		}
		if err := organizations.Create(tx, key(account, only), o); err != nil {
			return err
		}
		return members.Create(tx, key(account, only), member{
			Management: account, Name: "management", Email: "management@example.com", Parent: o.Root, Attached: defaults(), Joined: o.Created, Invited: true,
		})
	})
	if err != nil {
		return nil, err
	}
	return &awsorg.CreateOrganizationOutput{Organization: (&org{o, account, account, s.store}).sdk()}, nil
}

func (o *org) sdk() *orgtypes.Organization {
	m, _ := members.Get(o.r, key(o.management, only))
	return &orgtypes.Organization{
		Id: &o.ID, Arn: o.arn("organization", ""), FeatureSet: orgtypes.OrganizationFeatureSetAll, MasterAccountId: &o.management,
		MasterAccountArn: o.arn("account", o.management), MasterAccountEmail: &m.Email,
		// https://docs.aws.amazon.com/organizations/latest/APIReference/API_Organization.html: "do not use"
		AvailablePolicyTypes: []orgtypes.PolicyTypeSummary{{Type: orgtypes.PolicyTypeServiceControlPolicy, Status: orgtypes.PolicyTypeStatusEnabled}},
	}
}

// DescribeOrganization describes the organization of the caller's account, which may be any member.
func (s *Service) DescribeOrganization(ctx context.Context, _ *awsorg.DescribeOrganizationInput) (*awsorg.DescribeOrganizationOutput, error) {
	o, err := s.of(s.store, awsapi.CallFrom(ctx).Account)
	if err != nil {
		return nil, err
	}
	return &awsorg.DescribeOrganizationOutput{Organization: o.sdk()}, nil
}

// DeleteOrganization deletes an organization without members, units and policies.
func (s *Service) DeleteOrganization(ctx context.Context, _ *awsorg.DeleteOrganizationInput) (*awsorg.DeleteOrganizationOutput, error) {
	err := s.update(ctx, func(tx *store.Tx, o *org) error {
		if len(o.members()) > 1 || len(units.All(tx, all(o.home)))+len(policies.All(tx, all(o.home))) > 0 {
			return errNotEmpty()
		}
		members.Delete(tx, key(o.management, only))
		organizations.Delete(tx, key(o.home, only))
		return nil
	})
	return &awsorg.DeleteOrganizationOutput{}, err
}

// ListRoots returns the organization's root.
func (s *Service) ListRoots(ctx context.Context, _ *awsorg.ListRootsInput) (*awsorg.ListRootsOutput, error) {
	o, err := s.managed(ctx, s.store)
	if err != nil {
		return nil, err
	}
	return &awsorg.ListRootsOutput{Roots: []orgtypes.Root{*o.root()}}, nil
}

func (o *org) root() *orgtypes.Root {
	out := &orgtypes.Root{Id: &o.Root, Arn: o.arn("root", o.Root), Name: aws.String("Root"), PolicyTypes: []orgtypes.PolicyTypeSummary{}}
	for _, t := range o.Types {
		out.PolicyTypes = append(out.PolicyTypes, orgtypes.PolicyTypeSummary{Type: orgtypes.PolicyType(t), Status: orgtypes.PolicyTypeStatusEnabled})
	}
	return out
}

// hasParent reports whether there is a root or unit with an ID.
func (o *org) hasParent(id string) bool {
	_, err := units.Get(o.r, key(o.home, cmp.Or(id, "-")))
	return id == o.Root || err == nil
}

func (o *org) unitsIn(parent string) []unit {
	var out []unit
	for _, u := range units.All(o.r, all(o.home)) {
		if u.Value.Parent == parent {
			out = append(out, u.Value)
		}
	}
	return out
}

func (o *org) membersIn(parent string) []store.Item[member] {
	return slices.DeleteFunc(o.members(), func(i store.Item[member]) bool { return i.Value.Parent != parent })
}

// depth returns how many units are above and including a parent.
func (o *org) depth(parent string) int {
	n := 0
	for parent != o.Root {
		u, err := units.Get(o.r, key(o.home, parent))
		if err != nil {
			break
		}
		n++
		parent = u.Parent
	}
	return n
}

func (o *org) unit(u *unit) *orgtypes.OrganizationalUnit {
	return &orgtypes.OrganizationalUnit{Id: &u.ID, Arn: o.arn("ou", u.ID), Name: &u.Name}
}

// CreateOrganizationalUnit creates a unit below the root or another unit.
func (s *Service) CreateOrganizationalUnit(ctx context.Context, in *awsorg.CreateOrganizationalUnitInput) (*awsorg.CreateOrganizationalUnitOutput, error) {
	out := &awsorg.CreateOrganizationalUnitOutput{}
	err := s.update(ctx, func(tx *store.Tx, o *org) error {
		switch {
		case !o.hasParent(*in.ParentId):
			return errNoParent()
		case o.depth(*in.ParentId) >= maxDepth:
			return errLimit(orgtypes.ConstraintViolationExceptionReasonOuDepthLimitExceeded)
		case len(units.All(tx, all(o.home))) >= maxUnits:
			return errLimit(orgtypes.ConstraintViolationExceptionReasonOuNumberLimitExceeded)
		case slices.ContainsFunc(o.unitsIn(*in.ParentId), func(u unit) bool { return u.Name == *in.Name }):
			return errUnitExists()
		}
		u := unit{ID: "ou-" + strings.TrimPrefix(o.Root, "r-") + "-" + fresh(8), Name: *in.Name, Parent: *in.ParentId, Attached: defaults()}
		out.OrganizationalUnit = o.unit(&u)
		if err := putTags(tx, o, u.ID, in.Tags); err != nil {
			return err
		}
		return units.Create(tx, key(o.home, u.ID), u)
	})
	return out, err
}

// DescribeOrganizationalUnit describes a unit.
func (s *Service) DescribeOrganizationalUnit(ctx context.Context, in *awsorg.DescribeOrganizationalUnitInput) (*awsorg.DescribeOrganizationalUnitOutput, error) {
	o, err := s.managed(ctx, s.store)
	if err != nil {
		return nil, err
	}
	u, err := units.Get(s.store, key(o.home, *in.OrganizationalUnitId))
	if err != nil {
		return nil, store.NotFoundAs(err, errNoUnit())
	}
	return &awsorg.DescribeOrganizationalUnitOutput{OrganizationalUnit: o.unit(&u)}, nil
}

// UpdateOrganizationalUnit renames a unit.
func (s *Service) UpdateOrganizationalUnit(ctx context.Context, in *awsorg.UpdateOrganizationalUnitInput) (*awsorg.UpdateOrganizationalUnitOutput, error) {
	out := &awsorg.UpdateOrganizationalUnitOutput{}
	err := s.update(ctx, func(tx *store.Tx, o *org) error {
		return store.NotFoundAs(units.Update(tx, key(o.home, *in.OrganizationalUnitId), func(u *unit) error {
			name := aws.ToString(in.Name)
			if slices.ContainsFunc(o.unitsIn(u.Parent), func(other unit) bool { return other.Name == name && other.ID != u.ID }) {
				return errUnitExists()
			}
			u.Name = cmp.Or(name, u.Name)
			out.OrganizationalUnit = o.unit(u)
			return nil
		}), errNoUnit())
	})
	return out, err
}

// DeleteOrganizationalUnit deletes an empty unit.
func (s *Service) DeleteOrganizationalUnit(ctx context.Context, in *awsorg.DeleteOrganizationalUnitInput) (*awsorg.DeleteOrganizationalUnitOutput, error) {
	err := s.update(ctx, func(tx *store.Tx, o *org) error {
		id := *in.OrganizationalUnitId
		if _, err := units.Get(tx, key(o.home, id)); err != nil {
			return store.NotFoundAs(err, errNoUnit())
		}
		if len(o.unitsIn(id))+len(o.membersIn(id)) > 0 {
			return errUnitNotEmpty()
		}
		units.Delete(tx, key(o.home, id))
		tagged.Delete(tx, key(o.home, id))
		return nil
	})
	return &awsorg.DeleteOrganizationalUnitOutput{}, err
}

// ListOrganizationalUnitsForParent lists the units directly below a root or unit.
func (s *Service) ListOrganizationalUnitsForParent(ctx context.Context, in *awsorg.ListOrganizationalUnitsForParentInput) (*awsorg.ListOrganizationalUnitsForParentOutput, error) {
	o, err := s.managed(ctx, s.store)
	if err != nil {
		return nil, err
	}
	if !o.hasParent(*in.ParentId) {
		return nil, errNoParent()
	}
	page, next, err := paging.Cut(pages, o.unitsIn(*in.ParentId), func(u unit) string { return u.ID }, in.MaxResults, in.NextToken)
	out := &awsorg.ListOrganizationalUnitsForParentOutput{OrganizationalUnits: []orgtypes.OrganizationalUnit{}, NextToken: next}
	for _, u := range page {
		out.OrganizationalUnits = append(out.OrganizationalUnits, *o.unit(&u))
	}
	return out, err
}

// CreateAccount creates an account in the organization's root, at once, with a role that the management account can
// assume. https://docs.aws.amazon.com/organizations/latest/userguide/orgs_manage_accounts_create.html
func (s *Service) CreateAccount(ctx context.Context, in *awsorg.CreateAccountInput) (*awsorg.CreateAccountOutput, error) {
	role := cmp.Or(aws.ToString(in.RoleName), "OrganizationAccountAccessRole")
	o, err := s.managed(ctx, s.store)
	if err != nil {
		return nil, err
	}
	if len(o.members()) >= maxAccounts { // and again below: nothing is made for nothing
		return nil, errLimit(orgtypes.ConstraintViolationExceptionReasonAccountNumberLimitExceeded)
	}
	c := creation{ID: "car-" + fresh(32), Account: number(), Name: *in.AccountName, Requested: s.now()}
	if s.cfg.CreateAccount != nil {
		if err := s.cfg.CreateAccount(ctx, c.Account, role, o.management); err != nil {
			return nil, err
		}
	}
	err = s.update(ctx, func(tx *store.Tx, o *org) error {
		if len(o.members()) >= maxAccounts {
			return errLimit(orgtypes.ConstraintViolationExceptionReasonAccountNumberLimitExceeded)
		}
		if err := putTags(tx, o, c.Account, in.Tags); err != nil {
			return err
		}
		if err := creations.Create(tx, key(o.home, c.ID), c); err != nil {
			return err
		}
		return members.Create(tx, key(c.Account, only), member{
			Management: o.management, Name: c.Name, Email: *in.Email, Parent: o.Root, Attached: defaults(), Joined: c.Requested,
		})
	})
	return &awsorg.CreateAccountOutput{CreateAccountStatus: c.sdk()}, err
}

// number returns a new account ID.
func number() string {
	digits := strings.Map(func(r rune) rune { return '0' + (r*7)%10 }, fresh(11))
	return "4" + digits
}

func (c *creation) sdk() *orgtypes.CreateAccountStatus {
	return &orgtypes.CreateAccountStatus{
		Id: &c.ID, AccountId: &c.Account, AccountName: &c.Name, RequestedTimestamp: &c.Requested, CompletedTimestamp: &c.Requested, State: orgtypes.CreateAccountStateSucceeded,
	}
}

// DescribeCreateAccountStatus describes the creation of an account.
func (s *Service) DescribeCreateAccountStatus(ctx context.Context, in *awsorg.DescribeCreateAccountStatusInput) (*awsorg.DescribeCreateAccountStatusOutput, error) {
	o, err := s.managed(ctx, s.store)
	if err != nil {
		return nil, err
	}
	c, err := creations.Get(s.store, key(o.home, *in.CreateAccountRequestId))
	if err != nil {
		return nil, store.NotFoundAs(err, errNoCreation())
	}
	return &awsorg.DescribeCreateAccountStatusOutput{CreateAccountStatus: c.sdk()}, nil
}

// account returns a member of the organization.
func (o *org) account(id string) (member, error) {
	m, err := members.Get(o.r, key(cmp.Or(id, "-"), only))
	if err == nil && m.Management != o.management {
		return m, errNoAccount()
	}
	return m, store.NotFoundAs(err, errNoAccount())
}

func (o *org) accountOf(id string, m *member) orgtypes.Account {
	out := orgtypes.Account{
		Id: &id, Arn: o.arn("account", id), Name: &m.Name, Email: &m.Email, JoinedTimestamp: aws.Time(m.Joined.Truncate(time.Second)),
		JoinedMethod: orgtypes.AccountJoinedMethodCreated, Status: orgtypes.AccountStatusActive, State: orgtypes.AccountStateActive,
	}
	if m.Invited {
		out.JoinedMethod = orgtypes.AccountJoinedMethodInvited
	}
	return out
}

// DescribeAccount describes a member.
func (s *Service) DescribeAccount(ctx context.Context, in *awsorg.DescribeAccountInput) (*awsorg.DescribeAccountOutput, error) {
	o, err := s.managed(ctx, s.store)
	if err != nil {
		return nil, err
	}
	m, err := o.account(*in.AccountId)
	if err != nil {
		return nil, err
	}
	a := o.accountOf(*in.AccountId, &m)
	return &awsorg.DescribeAccountOutput{Account: &a}, nil
}

func (o *org) page(list []store.Item[member], size *int32, token *string) (out []orgtypes.Account, next *string, err error) {
	list, next, err = paging.Cut(pages, list, func(i store.Item[member]) string { return i.Key.Account }, size, token)
	out = []orgtypes.Account{}
	for _, i := range list {
		out = append(out, o.accountOf(i.Key.Account, &i.Value))
	}
	return out, next, err
}

// ListAccounts lists the organization's accounts.
func (s *Service) ListAccounts(ctx context.Context, in *awsorg.ListAccountsInput) (*awsorg.ListAccountsOutput, error) {
	o, err := s.managed(ctx, s.store)
	if err != nil {
		return nil, err
	}
	out, next, err := o.page(o.members(), in.MaxResults, in.NextToken)
	return &awsorg.ListAccountsOutput{Accounts: out, NextToken: next}, err
}

// ListAccountsForParent lists the accounts directly below a root or unit.
func (s *Service) ListAccountsForParent(ctx context.Context, in *awsorg.ListAccountsForParentInput) (*awsorg.ListAccountsForParentOutput, error) {
	o, err := s.managed(ctx, s.store)
	if err != nil {
		return nil, err
	}
	if !o.hasParent(*in.ParentId) {
		return nil, errNoParent()
	}
	out, next, err := o.page(o.membersIn(*in.ParentId), in.MaxResults, in.NextToken)
	return &awsorg.ListAccountsForParentOutput{Accounts: out, NextToken: next}, err
}

// ListParents returns the root or unit that an account or unit is in.
func (s *Service) ListParents(ctx context.Context, in *awsorg.ListParentsInput) (*awsorg.ListParentsOutput, error) {
	o, err := s.managed(ctx, s.store)
	if err != nil {
		return nil, err
	}
	var parent string
	if m, err := o.account(*in.ChildId); err == nil {
		parent = m.Parent
	} else if u, err := units.Get(s.store, key(o.home, *in.ChildId)); err == nil {
		parent = u.Parent
	} else {
		return nil, errNoChild()
	}
	out := orgtypes.Parent{Id: &parent, Type: orgtypes.ParentTypeOrganizationalUnit}
	if parent == o.Root {
		out.Type = orgtypes.ParentTypeRoot
	}
	return &awsorg.ListParentsOutput{Parents: []orgtypes.Parent{out}}, nil
}

// ListChildren lists the accounts or units directly below a root or unit.
func (s *Service) ListChildren(ctx context.Context, in *awsorg.ListChildrenInput) (*awsorg.ListChildrenOutput, error) {
	o, err := s.managed(ctx, s.store)
	if err != nil {
		return nil, err
	}
	if !o.hasParent(*in.ParentId) {
		return nil, errNoParent()
	}
	list := []orgtypes.Child{}
	if in.ChildType == orgtypes.ChildTypeAccount {
		for _, i := range o.membersIn(*in.ParentId) {
			list = append(list, orgtypes.Child{Id: &i.Key.Account, Type: in.ChildType})
		}
	} else {
		for _, u := range o.unitsIn(*in.ParentId) {
			list = append(list, orgtypes.Child{Id: &u.ID, Type: in.ChildType})
		}
	}
	page, next, err := paging.Cut(pages, list, func(c orgtypes.Child) string { return *c.Id }, in.MaxResults, in.NextToken)
	return &awsorg.ListChildrenOutput{Children: page, NextToken: next}, err
}

// MoveAccount moves an account to another root or unit.
func (s *Service) MoveAccount(ctx context.Context, in *awsorg.MoveAccountInput) (*awsorg.MoveAccountOutput, error) {
	err := s.update(ctx, func(tx *store.Tx, o *org) error {
		m, err := o.account(*in.AccountId)
		switch {
		case err != nil:
			return err
		case m.Parent != *in.SourceParentId:
			return &orgtypes.SourceParentNotFoundException{Message: new("You specified a source parent that doesn't exist.")} // from memory
		case !o.hasParent(*in.DestinationParentId):
			return &orgtypes.DestinationParentNotFoundException{Message: new("You specified a destination parent that doesn't exist.")} // from memory
		}
		m.Parent = *in.DestinationParentId
		return members.Put(tx, key(*in.AccountId, only), m)
	})
	return &awsorg.MoveAccountOutput{}, err
}

// RemoveAccountFromOrganization makes a member a standalone account, which no policy of the organization binds.
func (s *Service) RemoveAccountFromOrganization(ctx context.Context, in *awsorg.RemoveAccountFromOrganizationInput) (*awsorg.RemoveAccountFromOrganizationOutput, error) {
	err := s.update(ctx, func(tx *store.Tx, o *org) error {
		if _, err := o.account(*in.AccountId); err != nil {
			return err
		}
		if *in.AccountId == o.management {
			return &orgtypes.MasterCannotLeaveOrganizationException{Message: new("You cannot remove the management account from an organization.")} // from memory
		}
		members.Delete(tx, key(*in.AccountId, only))
		tagged.Delete(tx, key(o.home, *in.AccountId))
		return nil
	})
	return &awsorg.RemoveAccountFromOrganizationOutput{}, err
}
