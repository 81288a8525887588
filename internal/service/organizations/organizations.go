// Package organizations implements the part of AWS Organizations that guardrails need: one organization per
// management account, organizational units, member accounts, service control policies and resource control
// policies.
//
//	CreatePolicy, AttachPolicy ──► records ──► Controls ──► package authz, for every call by or on a member account
//
// The package stores what is attached where; package policy decides. Invitations, delegated administrators and
// policies of other types are not handled. Only the composition root imports it.
package organizations

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/store"
)

// Config is what the service needs.
type Config struct {
	Store *store.Store
	// CreateAccount creates an account with a role that the management account can assume.
	CreateAccount func(ctx context.Context, account, role, management string) error
	Clock         clock.PassiveClock // nil means the real clock
}

// Service is AWS Organizations.
type Service struct {
	cfg    Config
	store  *store.Store
	parsed sync.Map // policy documents by type and text; bounded by what is stored, see document
	held   int
	mu     sync.Mutex
}

// New returns the service.
func New(cfg Config) *Service {
	cfg.Clock = cmp.Or[clock.PassiveClock](cfg.Clock, clock.RealClock{})
	return &Service{cfg: cfg, store: cfg.Store}
}

func (s *Service) now() time.Time { return s.cfg.Clock.Now().UTC().Truncate(time.Second) }

// Module declares the service to the daemon.
func (s *Service) Module() module.Module {
	return module.Module{Service: s.AWS(), Resolver: resolver{s}, Import: importRecords}
}

// AWS returns the service's registration with the AWS API server.
func (s *Service) AWS() awsapi.Service {
	const paged = " MaxResults NextToken"
	return awsapi.Service{
		Name: "organizations", Handler: s, Authorization: authorization,
		Operations: []awsapi.Operation{
			{Name: "CreateOrganization", Members: "FeatureSet", Except: "FeatureSet CONSOLIDATED_BILLING"},
			{Name: "DescribeOrganization"},
			{Name: "DeleteOrganization"},
			{Name: "ListRoots", Members: paged},
			{Name: "EnablePolicyType", Members: "PolicyType RootId", Except: "policy types other than SERVICE_CONTROL_POLICY and RESOURCE_CONTROL_POLICY"},
			{Name: "DisablePolicyType", Members: "PolicyType RootId", Except: "policy types other than SERVICE_CONTROL_POLICY and RESOURCE_CONTROL_POLICY"},
			// Organizational units and accounts.
			{Name: "CreateOrganizationalUnit", Members: "Name ParentId Tags"},
			{Name: "DescribeOrganizationalUnit", Members: "OrganizationalUnitId"},
			{Name: "UpdateOrganizationalUnit", Members: "Name OrganizationalUnitId"},
			{Name: "DeleteOrganizationalUnit", Members: "OrganizationalUnitId"},
			{Name: "ListOrganizationalUnitsForParent", Members: "ParentId" + paged},
			{Name: "CreateAccount", Members: "AccountName Email IamUserAccessToBilling RoleName Tags"},
			{Name: "DescribeCreateAccountStatus", Members: "CreateAccountRequestId"},
			{Name: "DescribeAccount", Members: "AccountId"},
			{Name: "ListAccounts", Members: paged},
			{Name: "ListAccountsForParent", Members: "ParentId" + paged},
			{Name: "ListParents", Members: "ChildId" + paged},
			{Name: "ListChildren", Members: "ChildType ParentId" + paged},
			{Name: "MoveAccount", Members: "AccountId DestinationParentId SourceParentId"},
			{Name: "RemoveAccountFromOrganization", Members: "AccountId"},
			// Policies.
			{Name: "CreatePolicy", Members: "Content Description Name Tags Type", Except: "policy types other than SERVICE_CONTROL_POLICY and RESOURCE_CONTROL_POLICY"},
			{Name: "DescribePolicy", Members: "PolicyId"},
			{Name: "UpdatePolicy", Members: "Content Description Name PolicyId"},
			{Name: "DeletePolicy", Members: "PolicyId"},
			{Name: "ListPolicies", Members: "Filter" + paged},
			{Name: "AttachPolicy", Members: "PolicyId TargetId"},
			{Name: "DetachPolicy", Members: "PolicyId TargetId"},
			{Name: "ListPoliciesForTarget", Members: "Filter TargetId" + paged},
			{Name: "ListTargetsForPolicy", Members: "PolicyId" + paged},
			{Name: "TagResource", Members: "ResourceId Tags"},
			{Name: "UntagResource", Members: "ResourceId TagKeys"},
			{Name: "ListTagsForResource", Members: "NextToken ResourceId"},
		},
		Refused: []awsapi.Refusal{
			{Operations: "InviteAccountToOrganization AcceptHandshake DeclineHandshake CancelHandshake LeaveOrganization CloseAccount",
				Why: "members are created with CreateAccount, and leave with RemoveAccountFromOrganization"},
			{Operations: "EnableAWSServiceAccess DisableAWSServiceAccess RegisterDelegatedAdministrator DeregisterDelegatedAdministrator",
				Why: "no service works across the accounts of an organization here"},
		},
	}
}

// The collections. An account belongs to one organization at most, so its membership is found by its ID alone.
var (
	organizations = store.NewCollection[organization]("organizations", "organization", store.Same) // of a management account, or a twin's own; version 2 has Management
	members       = store.NewCollection[member]("organizations", "member", store.Same)             // of any account
	units         = store.NewCollection[unit]("organizations", "unit")
	policies      = store.NewCollection[document]("organizations", "policy")
	creations     = store.NewCollection[creation]("organizations", "account-creation")
	tagged        = store.NewCollection[map[string]string]("organizations", "tags") // by the resource's ID
)

const only = "organization" // the ID of an account's organization and of its membership

type organization struct {
	ID, Root string
	Types    []string `json:",omitempty"` // the enabled types of policies
	Attached []string // the IDs of the root's policies
	Created  time.Time
	// Management is the management account, if the record is its own. Records of version 1 do not have it.
	Management string `json:",omitempty"`
}

func (o *organization) enabled(kind string) bool {
	for _, t := range o.Types {
		if t == kind {
			return true
		}
	}
	return false
}

type member struct {
	Management string
	// Home is the account that has the records of the organization, if that is not the management account: a twin's own.
	Home        string `json:",omitempty"`
	Name, Email string
	Parent      string
	Attached    []string
	Joined      time.Time
	Invited     bool `json:",omitempty"` // the management account, which exists before its organization
}

type unit struct {
	ID, Name, Parent string
	Attached         []string
}

type document struct {
	ID, Name, Description, Type, Content string
}

type creation struct {
	ID, Account, Name string
	Requested         time.Time
}

func key(account, id string) store.Key { return store.Key{Account: account, ID: id} }

func all(account string) store.Scope { return store.Scope{Account: account, Global: true} }

// fresh returns n random lower-case letters and digits.
func fresh(n int) string {
	out := ""
	for len(out) < n {
		out += strings.ToLower(rand.Text())
	}
	return out[:n]
}

// An org is an organization and everything in it, as one transaction or look-up sees it.
type org struct {
	organization
	management string
	home       string // the account that has its records
	r          store.Reader
}

// of returns the organization of an account.
func (s *Service) of(r store.Reader, account string) (*org, error) {
	m, err := members.Get(r, key(account, only))
	if err != nil {
		return nil, store.NotFoundAs(err, errNotInUse())
	}
	home := cmp.Or(m.Home, m.Management)
	o, err := organizations.Get(r, key(home, only))
	if err != nil {
		return nil, store.NotFoundAs(err, errNotInUse())
	}
	return &org{o, m.Management, home, r}, nil
}

// managed returns the organization of the caller, who must be in its management account.
func (s *Service) managed(ctx context.Context, r store.Reader) (*org, error) {
	account := awsapi.CallFrom(ctx).Account
	o, err := s.of(r, account)
	if err == nil && o.management != account {
		return nil, errManagementOnly()
	}
	return o, err
}

// update changes the caller's organization.
func (s *Service) update(ctx context.Context, fn func(*store.Tx, *org) error) error {
	return s.store.Update(ctx, func(tx *store.Tx) error {
		o, err := s.managed(ctx, tx)
		if err != nil {
			return err
		}
		return fn(tx, o)
	})
}

// members returns the organization's accounts.
func (o *org) members() []store.Item[member] {
	var out []store.Item[member]
	for _, i := range members.All(o.r, store.Scope{}) {
		if i.Value.Management == o.management {
			out = append(out, i)
		}
	}
	return out
}

// The policies that AWS attaches to everything. They allow everything, and the last two can be neither changed nor
// deleted.
const (
	fullAccess         = "p-FullAWSAccess"
	fullResourceAccess = "p-RCPFullAWSAccess"
	serviceType        = "SERVICE_CONTROL_POLICY"
	resourceType       = "RESOURCE_CONTROL_POLICY"
)

func defaults() []string { return []string{fullAccess, fullResourceAccess} }

var byAWS = map[string]document{
	fullAccess: {ID: fullAccess, Name: "FullAWSAccess", Description: "Allows access to every operation", Type: serviceType,
		Content: `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}`},
	fullResourceAccess: {ID: fullResourceAccess, Name: "RCPFullAWSAccess", Description: "Allows access to every resource", Type: resourceType,
		Content: `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"*","Resource":"*"}]}`},
}

func (o *org) policy(id string) (document, bool) {
	if d, ok := byAWS[id]; ok {
		return d, true
	}
	d, err := policies.Get(o.r, key(o.home, id))
	return d, err == nil
}

// unreadable replaces a policy that cannot be read. What it denied is not known, so unreadable denies everything.
var unreadable = &policy.Document{Statements: []policy.Statement{{
	SID: "unreadable", Deny: true, Principals: &policy.Principals{All: true}, Actions: []string{"*"}, Resources: []string{"*"},
}}}

// denyAll are the controls of an account whose place in its organization cannot be read.
var denyAll = [][]policy.Source{{{Name: "unreadable", Document: unreadable}}}

// Controls returns the policies that bind an account, level by level from the root. The management account is not
// bound. https://docs.aws.amazon.com/organizations/latest/userguide/orgs_manage_policies_scps_evaluation.html
func (s *Service) Controls(account string) (service, resource [][]policy.Source) {
	m, err := members.Get(s.store, key(account, only))
	if store.IsNotFound(err) || err == nil && m.Management == account {
		return nil, nil
	}
	if err != nil {
		// A management account is not bound, whatever became of its membership. A twin is a member with a record of its
		// own of its organization, but one without Management.
		if own, err := organizations.Get(s.store, key(account, only)); err == nil && own.Management == account {
			return nil, nil
		}
		return denyAll, denyAll
	}
	o, err := s.of(s.store, account)
	if errors.Is(err, store.ErrUnreadable) {
		return denyAll, denyAll
	}
	if err != nil || len(o.Types) == 0 {
		return nil, nil
	}
	levels := [][]string{m.Attached}
	for parent := m.Parent; parent != o.Root; {
		u, err := units.Get(s.store, key(o.home, parent))
		if errors.Is(err, store.ErrUnreadable) {
			return denyAll, denyAll
		}
		if err != nil {
			break // removed since then
		}
		levels = append(levels, u.Attached)
		parent = u.Parent
	}
	levels = append(levels, o.Attached)
	for i := len(levels) - 1; i >= 0; i-- {
		if o.enabled(serviceType) {
			service = append(service, s.sources(o, levels[i], serviceType))
		}
		if o.enabled(resourceType) {
			resource = append(resource, s.sources(o, levels[i], resourceType))
		}
	}
	return service, resource
}

// Organization returns the ID of an account's organization and the account's path in it.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/access_policies_last-accessed-view-data-orgs.html#access_policies_last-accessed-viewing-orgs-entity-path
func (s *Service) Organization(account string) (id, path string, ok bool) {
	m, err := members.Get(s.store, key(account, only))
	if err != nil {
		return "", "", false
	}
	o, err := s.of(s.store, account)
	if err != nil {
		return "", "", false
	}
	for parent := m.Parent; parent != o.Root; {
		u, err := units.Get(s.store, key(o.home, parent))
		if err != nil {
			break // removed since then
		}
		path, parent = u.ID+"/"+path, u.Parent
	}
	return o.ID, o.ID + "/" + o.Root + "/" + path, true
}

func (s *Service) sources(o *org, ids []string, kind string) []policy.Source {
	out := []policy.Source{}
	for _, id := range ids {
		if _, err := policies.Get(o.r, key(o.home, id)); errors.Is(err, store.ErrUnreadable) {
			out = append(out, denyAll[0]...)
			continue
		}
		if d, ok := o.policy(id); ok && d.Type == kind {
			out = append(out, policy.Source{Name: o.policyARN(d), Document: s.document(d)})
		}
	}
	return out
}

// maxParsed limits the cache of parsed documents. When it is full it is emptied.
const maxParsed = 1024

var grammars = map[string]policy.Kind{serviceType: policy.Identity, resourceType: policy.Resource}

func (s *Service) document(d document) *policy.Document {
	name := d.Type + d.Content
	if doc, ok := s.parsed.Load(name); ok {
		return doc.(*policy.Document)
	}
	doc, err := policy.Parse(grammars[d.Type], d.Content)
	if err != nil { // it was valid when it was stored
		return unreadable
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held++; s.held > maxParsed {
		s.parsed.Clear()
		s.held = 1
	}
	s.parsed.Store(name, doc)
	return doc
}
