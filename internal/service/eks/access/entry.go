// Package access decides who may enter a cluster, and as which user. It has the access entries and
// access policies, the aws-auth ConfigMap, and EKS's bearer tokens, and it answers the API servers'
// authentication and authorization webhooks. Package podidentity handles the AWS identities of
// pods.
package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/catalog/accesspolicies"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// A Service answers the operations on access entries and authenticates principals.
type Service struct {
	*base.Service
	names nodeNames
}

// New returns the part of EKS that decides who may enter a cluster.
func New(b *base.Service) *Service { return &Service{Service: b} }

// Types of access entries.
const (
	TypeStandard = "STANDARD"
	TypeEC2Linux = "EC2_LINUX"

	TypeFargateLinux = "FARGATE_LINUX"

	typeEC2 = "EC2" // nodes of EKS Auto Mode
)

// A nodeType is how EKS maps the roles of one kind of node.
// https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html
type nodeType struct {
	username string
	groups   []string
	policies bool // access policies may be associated
}

func nodeTypes() map[string]nodeType {
	return map[string]nodeType{
		TypeEC2Linux:     {"system:node:{{EC2PrivateDNSName}}", []string{"system:nodes"}, false},
		"EC2_WINDOWS":    {"system:node:{{EC2PrivateDNSName}}", []string{"eks:kube-proxy-windows", "system:nodes"}, false},
		TypeFargateLinux: {"system:node:{{SessionName}}", []string{"system:bootstrappers", "system:node-proxier", "system:nodes"}, false},
		typeEC2:          {"system:node:{{EC2PrivateDNSName}}", []string{"system:nodes"}, true},
		"HYBRID_LINUX":   {"system:node:{{SessionName}}", []string{"system:nodes"}, false},
		"HYPERPOD_LINUX": {"system:node:{{SessionName}}", []string{"system:nodes"}, false},
	}
}

// CreateAccessEntry gives an IAM principal access to a cluster.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateAccessEntry.html
func (s *Service) CreateAccessEntry(ctx context.Context, in *awseks.CreateAccessEntryInput) (*awseks.CreateAccessEntryOutput, error) {
	key, _, err := s.entriesOf(ctx, in.ClusterName)
	if err != nil {
		return nil, err
	}
	rec, err := s.requested(ctx, key, in)
	if err != nil {
		return nil, err
	}
	rec.Token, rec.Request = aws.ToString(in.ClientRequestToken), record.Fingerprint(in)
	rec, err = base.Add(ctx, s.Service, record.AccessEntries, key, key.Below(*rec.Entry.PrincipalArn), *rec,
		func(r *record.AccessEntry) (token, request string) { return r.Token, r.Request },
		func(*record.AccessEntry) error { return errEntryExists(key.ID) },
		func(*store.Tx, *record.AccessEntry) error { return nil })
	return &awseks.CreateAccessEntryOutput{AccessEntry: &rec.Entry}, err
}

// TryNodeEntry makes an access entry for a role without storing it, and returns an error if the entry would not make it
// a node role, or would take access away. With replace, the entry replaces the one that the role has.
func (s *Service) TryNodeEntry(ctx context.Context, planeID, roleARN, typ string, replace bool) error {
	cluster, rec, err := s.ClusterByPlane(planeID)
	if err != nil {
		return err
	}
	if !rec.UsesAPI() {
		return fmt.Errorf("cluster %s does not use access entries", cluster.ID)
	}
	ctx = awsapi.WithCall(ctx, &awsapi.Call{Account: cluster.Account, Region: cluster.Region, Service: "eks"})
	made, err := s.requested(ctx, cluster, &awseks.CreateAccessEntryInput{ClusterName: &cluster.ID, PrincipalArn: &roleARN, Type: &typ})
	if err != nil {
		return err
	}
	old, err := record.AccessEntries.Get(s.Store, cluster.Below(roleARN))
	switch {
	case err != nil && !store.IsNotFound(err):
		return err
	case err == nil && !replace:
		return errEntryExists(cluster.ID)
	case err == nil && old.PrincipalID == made.PrincipalID && *old.Entry.Type == TypeStandard && len(old.Policies)+len(old.Entry.KubernetesGroups) > 0:
		return fmt.Errorf("people who use the role lose what its access entry gives them: %d access policies and the groups %v", len(old.Policies), old.Entry.KubernetesGroups)
	case !IsNode(EntryMapping(made)):
		return fmt.Errorf("%s would not be a node's role", roleARN)
	}
	return nil
}

// TryNode returns a *Refusal if the cluster of a control plane would not accept machines with a role as nodes. typ is the type of
// access entry for such machines, such as EC2_LINUX.
func (s *Service) TryNode(ctx context.Context, planeID, roleARN, typ string) error {
	cluster, rec, err := s.ClusterByPlane(planeID)
	if err != nil {
		return err
	}
	a, err := checkPrincipal(cluster.ID, roleARN)
	if err != nil {
		return err
	}
	id, err := s.Identity(awsapi.WithCall(ctx, &awsapi.Call{Account: cluster.Account, Region: cluster.Region, Service: "eks"}), roleARN)
	if err != nil {
		return err
	}
	if rec.Source != nil && !rec.Source.ObjectsRead && rec.UsesConfigMap() {
		if _, err := record.AccessEntries.Get(s.Store, cluster.Below(roleARN)); store.IsNotFound(err) {
			return nil // the aws-auth of the source is unknown, and may map the role
		}
	}
	to, err := s.MapPrincipal(ctx, cluster, rec, awsapi.Principal{
		Type: awsapi.AssumedRole, Account: a.Account, RoleARN: roleARN, UserID: id.ID + ":session",
		ARN: arn.New("sts", "", a.Account, "assumed-role/"+roleARN[strings.LastIndexByte(roleARN, '/')+1:]+"/session"),
	})
	own := "{{EC2PrivateDNSName}}" // what instances call their nodes
	if typ == TypeFargateLinux {
		own = "{{SessionName}}"
	}
	if err != nil || IsNode(to) && strings.Contains(to.Username, own) {
		return err
	}
	if rec.UsesAPI() {
		if _, err := record.AccessEntries.Get(s.Store, cluster.Below(roleARN)); err == nil {
			return unauthenticated(CauseNotNodeEntry, "the access entry of %s is not that of a node", roleARN)
		}
	}
	return unauthenticated(CauseNotNode, "aws-auth does not map %s as a node", roleARN)
}

func (s *Service) requested(ctx context.Context, cluster store.Key, in *awseks.CreateAccessEntryInput) (*record.AccessEntry, error) {
	principal := aws.ToString(in.PrincipalArn)
	if principal == "" {
		return nil, ekserr.Missing("principalArn")
	}
	typ := cmp.Or(aws.ToString(in.Type), TypeStandard)
	a, err := checkPrincipal(cluster.ID, principal)
	if err != nil {
		return nil, err
	}
	if err := base.CheckTags(cluster.ID, in.Tags); err != nil {
		return nil, err
	}
	node, isNode := nodeTypes()[typ]
	switch {
	case typ == TypeStandard:
		if err := checkGroups(cluster.ID, in.KubernetesGroups); err != nil {
			return nil, err
		}
		if err := checkUsername(cluster.ID, in.Username); err != nil {
			return nil, err
		}
	case !isNode:
		return nil, errEntryType(cluster.ID)
	case !strings.HasPrefix(a.Resource, "role/"):
		return nil, errNodeEntryPrincipal(cluster.ID)
	case a.Account != cluster.Account:
		return nil, errNodeEntryAccount(cluster.ID)
	case in.Username != nil:
		return nil, errNodeEntryFields(cluster.ID, "username", typ)
	case len(in.KubernetesGroups) > 0:
		return nil, errNodeEntryFields(cluster.ID, "kubernetesGroups", typ)
	}
	id, err := s.Identity(ctx, principal)
	if errors.Is(err, base.ErrNoIdentity) {
		return nil, errInvalidPrincipal(cluster.ID, "invalid principal")
	} else if err != nil {
		return nil, err
	}
	rec := s.newEntry(cluster, record.Identity{ARN: principal, ID: id.ID}, typ)
	rec.Entry.Tags = base.TagsOrEmpty(in.Tags)
	if !isNode {
		rec.Entry.KubernetesGroups = append([]string{}, in.KubernetesGroups...)
		if in.Username != nil && *in.Username != "" {
			rec.Entry.Username = in.Username
		}
	} else {
		rec.Entry.Username, rec.Entry.KubernetesGroups = &node.username, node.groups
	}
	return rec, nil
}

// newEntry returns a new entry with the default username and groups of its type.
func (s *Service) newEntry(cluster store.Key, who record.Identity, typ string) *record.AccessEntry {
	now := s.Now()
	a, _ := arn.Parse(who.ARN) // already checked
	rec := &record.AccessEntry{
		PrincipalID: who.ID,
		Entry: ekstypes.AccessEntry{
			ClusterName:      &cluster.ID,
			PrincipalArn:     &who.ARN,
			AccessEntryArn:   new(arn.New("eks", cluster.Region, cluster.Account, "access-entry/"+cluster.ID+"/"+entryPath(a)+"/"+ids.UUID())),
			KubernetesGroups: []string{},
			Username:         new(defaultUsername(a)),
			Type:             &typ,
			Tags:             map[string]string{},
			CreatedAt:        &now,
			ModifiedAt:       &now,
		},
	}
	if node, ok := nodeTypes()[typ]; ok {
		rec.Entry.Username, rec.Entry.KubernetesGroups = &node.username, node.groups
	}
	return rec
}

// entryPath returns the middle part of an access entry's ARN: role/ACCOUNT/NAME.
func entryPath(a arn.ARN) string {
	kind, name, _ := strings.Cut(a.Resource, "/")
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		name = name[i+1:]
	}
	if name == "" {
		return kind + "/" + a.Account
	}
	return kind + "/" + a.Account + "/" + name
}

// defaultUsername is the username of a STANDARD entry created without one.
// https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html
func defaultUsername(a arn.ARN) string {
	kind, name, _ := strings.Cut(a.Resource, "/")
	if kind != "role" {
		return a.String()
	}
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		name = name[i+1:]
	}
	return arn.New("sts", "", a.Account, "assumed-role/"+name+"/{{SessionName}}")
}

// checkPrincipal accepts only ARNs of IAM users, roles and account roots.
func checkPrincipal(cluster, principal string) (arn.ARN, error) {
	a, err := arn.Parse(principal)
	if err != nil {
		return a, errInvalidPrincipal(cluster, "invalid ARN")
	}
	kind, name, _ := strings.Cut(a.Resource, "/")
	switch {
	case a.Partition != awsapi.Partition || a.Service != "iam" || a.Region != "" || len(a.Account) != 12:
		return a, errInvalidPrincipal(cluster, "invalid principal")
	case strings.HasPrefix(name, "aws-service-role/"):
		return a, errServiceLinkedPrincipal(cluster)
	case kind == "root" && name == "", (kind == "user" || kind == "role") && name != "":
		return a, nil
	}
	return a, errInvalidPrincipal(cluster, "invalid principal")
}

// Usernames and groups of STANDARD entries must not begin with one of the reservedPrefixes.
func reservedPrefixes() []string { return []string{"system:", "eks:", "aws:", "amazon:", "iam:"} }

func checkGroups(cluster string, groups []string) error {
	for _, g := range groups {
		if g == "" || len(g) > 63 {
			return ekserr.InvalidParameter(cluster, "The kubernetes group name %s is invalid, it must have between 1 and 63 characters", g)
		}
		for _, p := range reservedPrefixes() {
			if strings.HasPrefix(g, p) {
				return errGroupName(cluster, g, p)
			}
		}
	}
	return nil
}

func checkUsername(cluster string, username *string) error {
	if username == nil {
		return nil
	}
	for _, p := range reservedPrefixes() {
		if strings.HasPrefix(*username, p) {
			return errUsernamePrefix(cluster, p)
		}
	}
	for _, t := range []string{"{{SessionName}}", "{{SessionNameRaw}}"} {
		if before, _, ok := strings.Cut(*username, t); ok && !strings.Contains(strings.TrimPrefix(before, ":"), ":") {
			return errUsernameSession(cluster)
		}
	}
	return nil
}

// DescribeAccessEntry returns an access entry.
func (s *Service) DescribeAccessEntry(ctx context.Context, in *awseks.DescribeAccessEntryInput) (*awseks.DescribeAccessEntryOutput, error) {
	key, _, err := s.entriesOf(ctx, in.ClusterName)
	if err != nil {
		return nil, err
	}
	rec, err := record.AccessEntries.Get(s.Store, key.Below(aws.ToString(in.PrincipalArn)))
	if err != nil {
		return nil, store.NotFoundAs(err, errNoEntry())
	}
	return &awseks.DescribeAccessEntryOutput{AccessEntry: &rec.Entry}, nil
}

// ListAccessEntries returns the principals of a cluster's access entries, optionally only those
// with a certain access policy.
func (s *Service) ListAccessEntries(ctx context.Context, in *awseks.ListAccessEntriesInput) (*awseks.ListAccessEntriesOutput, error) {
	key, _, err := s.entriesOf(ctx, in.ClusterName)
	if err != nil {
		return nil, err
	}
	if in.AssociatedPolicyArn != nil {
		if _, ok := accesspolicies.ByARN(*in.AssociatedPolicyArn); !ok {
			return nil, errNoPolicy()
		}
	}
	principals, next, err := base.PageBelow(s.Service, record.AccessEntries, key, func(e *record.AccessEntry) bool {
		return in.AssociatedPolicyArn == nil || slices.ContainsFunc(e.Policies, func(p ekstypes.AssociatedAccessPolicy) bool { return *p.PolicyArn == *in.AssociatedPolicyArn })
	}, func(i store.Item[record.AccessEntry]) string { return *i.Value.Entry.PrincipalArn }, in.MaxResults, in.NextToken)
	return &awseks.ListAccessEntriesOutput{AccessEntries: principals, NextToken: next}, err
}

// UpdateAccessEntry replaces the groups or the username of a STANDARD entry.
func (s *Service) UpdateAccessEntry(ctx context.Context, in *awseks.UpdateAccessEntryInput) (*awseks.UpdateAccessEntryOutput, error) {
	key, _, err := s.entriesOf(ctx, in.ClusterName)
	if err != nil {
		return nil, err
	}
	if err := checkGroups(key.ID, in.KubernetesGroups); err != nil {
		return nil, err
	}
	if err := checkUsername(key.ID, in.Username); err != nil {
		return nil, err
	}
	var out awseks.UpdateAccessEntryOutput
	err = s.changeEntry(ctx, key, aws.ToString(in.PrincipalArn), func(r *record.AccessEntry) error {
		if *r.Entry.Type != TypeStandard {
			if in.KubernetesGroups != nil {
				return errNodeEntryFields(key.ID, "kubernetesGroups", *r.Entry.Type)
			}
			if in.Username != nil {
				return errNodeEntryFields(key.ID, "username", *r.Entry.Type)
			}
		}
		if in.KubernetesGroups != nil {
			r.Entry.KubernetesGroups = in.KubernetesGroups
		}
		if in.Username != nil && *in.Username != "" {
			r.Entry.Username = in.Username
		}
		r.Entry.ModifiedAt = new(s.Now())
		out.AccessEntry = &r.Entry
		return nil
	})
	return &out, err
}

// DeleteAccessEntry removes a principal's access entry.
func (s *Service) DeleteAccessEntry(ctx context.Context, in *awseks.DeleteAccessEntryInput) (*awseks.DeleteAccessEntryOutput, error) {
	key, _, err := s.entriesOf(ctx, in.ClusterName)
	if err != nil {
		return nil, err
	}
	id := key.Below(aws.ToString(in.PrincipalArn))
	err = s.Store.Update(ctx, func(tx *store.Tx) error {
		rec, err := record.AccessEntries.Get(tx, id)
		switch {
		case err != nil:
			return store.NotFoundAs(err, errNoEntry())
		case rec.Managed:
			return errServiceLinkedPrincipal(key.ID)
		}
		record.AccessEntries.Delete(tx, id)
		return nil
	})
	return &awseks.DeleteAccessEntryOutput{}, err
}

// changeEntry changes an entry, unless it is one that customers may not change.
func (s *Service) changeEntry(ctx context.Context, cluster store.Key, principal string, fn func(*record.AccessEntry) error) error {
	return s.Store.Update(ctx, func(tx *store.Tx) error {
		err := record.AccessEntries.Update(tx, cluster.Below(principal), func(r *record.AccessEntry) error {
			if r.Managed {
				return errServiceLinkedPrincipal(cluster.ID)
			}
			return fn(r)
		})
		return store.NotFoundAs(err, errNoEntry())
	})
}

// entriesOf is ActiveCluster for operations on access entries: the cluster must use them.
func (s *Service) entriesOf(ctx context.Context, name *string) (store.Key, record.Cluster, error) {
	key, rec, err := s.ActiveCluster(ctx, name)
	if err == nil && !rec.UsesAPI() {
		err = errNotInAPIMode(key.ID)
	}
	return key, rec, err
}

// ensureEntry creates one of EKS's own access entries if its principal has none.
func ensureEntry(tx *store.Tx, cluster store.Key, rec *record.AccessEntry) (made bool, err error) {
	id := cluster.Below(*rec.Entry.PrincipalArn)
	if _, err := record.AccessEntries.Get(tx, id); !errors.Is(err, store.ErrNotFound) {
		return false, err
	}
	return true, record.AccessEntries.Create(tx, id, *rec)
}

// EnsureOwnEntries creates the entries that every cluster with access entries has: an
// administrator's for the creator, and one for EKS's service-linked role.
func (s *Service) EnsureOwnEntries(tx *store.Tx, cluster store.Key, rec *record.Cluster) error {
	if !rec.UsesAPI() {
		return nil
	}
	own := s.newEntry(cluster, record.Identity{ARN: base.ServiceRoleARN(cluster.Account)}, TypeStandard)
	own.Managed = true
	own.Entry.Username = new("eks:managed")
	for _, p := range []string{"AmazonEKSClusterInsightsPolicy", "AmazonEKSEventPolicy"} {
		own.Policies = append(own.Policies, associated(accesspolicies.ARN(p), *own.Entry.CreatedAt))
	}
	s.setAutoPolicies(own, rec.AutoMode().On())
	if _, err := ensureEntry(tx, cluster, own); err != nil {
		return err
	}
	if !rec.BootstrapAdmin || rec.Creator.ARN == "" {
		return nil
	}
	if _, err := checkPrincipal(cluster.ID, rec.Creator.ARN); err != nil {
		return nil // a federated user or a service cannot have an entry
	}
	creator := s.newEntry(cluster, rec.Creator, TypeStandard)
	creator.Policies = []ekstypes.AssociatedAccessPolicy{associated(accesspolicies.ARN("AmazonEKSClusterAdminPolicy"), *creator.Entry.CreatedAt)}
	_, err := ensureEntry(tx, cluster, creator)
	return err
}

// AdmitNodes creates access entries for the nodes of all managed node groups and Fargate profiles
// when a cluster starts to use access entries. Otherwise those nodes would be locked out once
// aws-auth no longer counts.
func (s *Service) AdmitNodes(tx *store.Tx, cluster store.Key) error {
	err := admitAll(s, tx, cluster, record.Nodegroups, TypeEC2Linux, func(g *record.Nodegroup) (record.Identity, *bool) { return g.Role, &g.AccessEntryMade })
	if err != nil {
		return err
	}
	return admitAll(s, tx, cluster, record.FargateProfiles, TypeFargateLinux, func(p *record.FargateProfile) (record.Identity, *bool) { return p.Role, &p.AccessEntryMade })
}

func admitAll[T any](s *Service, tx *store.Tx, cluster store.Key, c store.Collection[T], typ string, of func(*T) (role record.Identity, made *bool)) error {
	for _, i := range c.All(tx, cluster.AllBelow()) {
		role, _ := of(&i.Value)
		entryMade, err := s.Admit(tx, cluster, role, typ)
		if err == nil && entryMade {
			err = c.Update(tx, i.Key, func(r *T) error { _, made := of(r); *made = true; return nil })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Dismiss deletes the access entry that EKS made for the node role of a deleted group or profile.
// If another one in the cluster, the heir, uses the same role, the entry stays and is handed to it.
func Dismiss[T any](tx *store.Tx, c store.Collection[T], cluster store.Key, role record.Identity, heir *store.Key, made func(*T) *bool) error {
	if heir != nil {
		return c.Update(tx, *heir, func(r *T) error { *made(r) = true; return nil })
	}
	record.AccessEntries.Delete(tx, cluster.Below(role.ARN))
	return nil
}

// Admit creates an access entry for a node role, unless it has one.
func (s *Service) Admit(tx *store.Tx, cluster store.Key, role record.Identity, typ string) (made bool, err error) {
	return ensureEntry(tx, cluster, s.newEntry(cluster, role, typ))
}

// autoPolicies returns the access policies of EKS Auto Mode. The user guide associates them with the cluster role. But the managed
// policy of EKS's service-linked role allows that role to use them, and AssociateAccessPolicy refuses them for other principals, so
// here the service-linked role has them.
// https://docs.aws.amazon.com/aws-managed-policy/latest/reference/AmazonEKSServiceRolePolicy.html
func autoPolicies() (out []string) {
	for _, of := range []string{"BlockStorage", "Compute", "LoadBalancing", "Networking"} {
		out = append(out, accesspolicies.ARN("AmazonEKS"+of+"ClusterPolicy"), accesspolicies.ARN("AmazonEKS"+of+"Policy"))
	}
	return out
}

// setAutoPolicies associates the policies of EKS Auto Mode with an entry, or disassociates them.
func (s *Service) setAutoPolicies(e *record.AccessEntry, on bool) {
	wanted := autoPolicies()
	e.Policies = slices.DeleteFunc(slices.Clone(e.Policies), func(a ekstypes.AssociatedAccessPolicy) bool {
		i := slices.Index(wanted, *a.PolicyArn)
		if on && i >= 0 { // already associated
			wanted = slices.Delete(wanted, i, i+1)
			return false
		}
		return i >= 0
	})
	if on {
		for _, p := range wanted {
			e.Policies = append(e.Policies, associated(p, s.Now()))
		}
	}
}

// SetAutoMode gives the service-linked role the access policies of EKS Auto Mode, or takes them away.
func (s *Service) SetAutoMode(tx *store.Tx, cluster store.Key, on bool) error {
	err := record.AccessEntries.Update(tx, cluster.Below(base.ServiceRoleARN(cluster.Account)), func(r *record.AccessEntry) error {
		s.setAutoPolicies(r, on)
		return nil
	})
	return store.IgnoreNotFound(err)
}

// AdmitAutoNodes creates the access entry of the nodes of EKS Auto Mode's built-in node pools, unless their role has one.
func (s *Service) AdmitAutoNodes(tx *store.Tx, cluster store.Key, role record.Identity) error {
	e := s.newEntry(cluster, role, typeEC2)
	e.Policies = []ekstypes.AssociatedAccessPolicy{associated(accesspolicies.ARN("AmazonEKSAutoNodePolicy"), *e.Entry.CreatedAt)}
	_, err := ensureEntry(tx, cluster, e)
	return err
}

// AdmitCapability associates policies with the role of a capability, by their names and scopes, and creates its access entry
// unless the role has one.
func (s *Service) AdmitCapability(tx *store.Tx, cluster store.Key, role record.Identity, policies map[string]ekstypes.AccessScope) error {
	e := s.newEntry(cluster, role, TypeStandard)
	for _, name := range slices.Sorted(maps.Keys(policies)) {
		a := associated(accesspolicies.ARN(name), *e.Entry.CreatedAt)
		a.AccessScope = new(policies[name])
		e.Policies = append(e.Policies, a)
	}
	if made, err := ensureEntry(tx, cluster, e); made || err != nil {
		return err
	}
	return record.AccessEntries.Update(tx, cluster.Below(role.ARN), func(r *record.AccessEntry) error {
		for _, p := range e.Policies {
			if !slices.ContainsFunc(r.Policies, func(o ekstypes.AssociatedAccessPolicy) bool { return *o.PolicyArn == *p.PolicyArn }) {
				r.Policies = append(r.Policies, p)
			}
		}
		return nil
	})
}

func associated(policy string, at time.Time) ekstypes.AssociatedAccessPolicy {
	return ekstypes.AssociatedAccessPolicy{
		PolicyArn: &policy, AssociatedAt: &at, ModifiedAt: &at,
		AccessScope: &ekstypes.AccessScope{Type: ekstypes.AccessScopeTypeCluster, Namespaces: []string{}},
	}
}
