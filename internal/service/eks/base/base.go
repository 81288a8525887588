// Package base is shared by all parts of EKS. It has the configuration, the look-up of clusters,
// and what requests have in common: names, tags, paging and updates. It has no API operations and
// does not depend on the parts that use it.
package base

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/quotatable"
	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// A Service is embedded in the parts of EKS, which all share one.
type Service struct {
	Config
	Sessions   *plane.Sessions
	QuotaTable *quotatable.Table
	// Machines are set before the reconcilers run. Nil means that programs run in no pod.
	Machines Machines
}

// Machines are what instances run on.
type Machines interface {
	// RunsContainers reports whether programs run in the pods on an instance.
	RunsContainers(instanceID string) bool
}

// RunsContainers reports whether programs run in the pods on an instance.
func (s *Service) RunsContainers(instanceID string) bool {
	return s.Machines != nil && s.Machines.RunsContainers(instanceID)
}

// New returns the service that the parts of EKS share.
func New(cfg Config) (*Service, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	sessions := plane.NewSessions(plane.Config{ControlPlanes: cfg.ControlPlanes, NewClient: cfg.NewClient, NewObjects: cfg.NewObjects, Log: cfg.Log})
	return &Service{Config: cfg, Sessions: sessions, QuotaTable: quotatable.New(cfg.Store, "eks", cfg.Quotas.defaults())}, nil
}

// Cluster returns the named cluster of the caller.
func (s *Service) Cluster(ctx context.Context, name *string) (store.Key, record.Cluster, error) {
	if name == nil || *name == "" {
		return store.Key{}, record.Cluster{}, ekserr.Missing("name")
	}
	key := record.ClusterKey(awsapi.CallFrom(ctx), *name)
	rec, err := record.Clusters.Get(s.Store, key)
	if _, connected := record.Connected(s.Store, key); err != nil && connected {
		return key, rec, ekserr.ConnectedCluster(*name)
	}
	return key, rec, store.NotFoundAs(err, ekserr.NoCluster(*name))
}

// ActiveCluster is Cluster for operations that need a usable cluster: ACTIVE or UPDATING.
func (s *Service) ActiveCluster(ctx context.Context, name *string) (store.Key, record.Cluster, error) {
	key, rec, err := s.Cluster(ctx, name)
	if err != nil {
		return key, rec, err
	}
	return key, rec, Usable(rec)
}

// Session is ActiveCluster with the open connection to its control plane.
func (s *Service) Session(ctx context.Context, name string) (store.Key, record.Cluster, *plane.Session, error) {
	key, rec, err := s.ActiveCluster(ctx, &name)
	if err != nil {
		return key, rec, nil, err
	}
	ses, err := s.Sessions.Open(key, rec.Plane.ID)
	return key, rec, ses, err
}

// StillUsable returns a cluster as it is in a transaction, provided that it is the one that was
// read before and is still usable.
func StillUsable(tx *store.Tx, key store.Key, before *record.Cluster) (record.Cluster, error) {
	now, err := record.Clusters.Get(tx, key)
	if err != nil {
		return now, store.NotFoundAs(err, ekserr.NoCluster(key.ID))
	}
	if now.UID != before.UID {
		return now, ekserr.NoCluster(key.ID)
	}
	return now, Usable(now)
}

// Usable returns an error if a cluster is neither ACTIVE nor UPDATING.
func Usable(rec record.Cluster) error {
	if st := rec.Cluster.Status; st != ekstypes.ClusterStatusActive && st != ekstypes.ClusterStatusUpdating {
		return ekserr.ClusterNotActive(rec.Name(), st)
	}
	return nil
}

// Role returns a role that a request names in member. invalid is the error for what is not
// the ARN of a role; a role that does not exist is ErrNoIdentity.
func (s *Service) Role(ctx context.Context, account, member string, role *string, invalid func(role string) error) (Identity, error) {
	if aws.ToString(role) == "" {
		return Identity{}, ekserr.Missing(member)
	}
	a, err := arn.Parse(*role)
	switch {
	case err != nil || a.Service != "iam" || !strings.HasPrefix(a.Resource, "role/"):
		return Identity{}, invalid(*role)
	case a.Account != account:
		return Identity{}, ekserr.CrossAccountRole()
	}
	return s.Identity(ctx, *role)
}

// GroupWait is how long a deletion waits for a security group to be free. AWS leaves it behind if a user's resource still uses it.
const GroupWait = time.Minute

// Now is the time as EKS shows it: in milliseconds.
func (s *Service) Now() time.Time { return s.Clock.Now().UTC().Truncate(time.Millisecond) }

// AsService returns a context in which EKS itself calls EC2 and IAM on behalf of the cluster's
// owner, as its service-linked role does on AWS.
func (s *Service) AsService(ctx context.Context, account, region string) context.Context {
	return awsapi.AsService(ctx, account, region, ServiceRole, s.Clock.Now())
}

// ClusterByPlane returns the cluster that a control plane belongs to.
func (s *Service) ClusterByPlane(planeID string) (store.Key, record.Cluster, error) {
	if k, ok := s.Sessions.Cluster(planeID); ok {
		if rec, err := record.Clusters.Get(s.Store, k); err == nil && rec.Plane.ID == planeID {
			return k, rec, nil
		}
	}
	for _, i := range record.Clusters.All(s.Store, store.Scope{}) {
		if i.Value.Plane.ID == planeID && planeID != "" {
			s.Sessions.SetCluster(planeID, i.Key)
			return i.Key, i.Value, nil
		}
	}
	return store.Key{}, record.Cluster{}, fmt.Errorf("control plane %s %w", planeID, ErrUnknownPlane)
}

// ErrUnknownPlane means that a control plane belongs to no cluster: not yet, or no longer.
var ErrUnknownPlane = errors.New("belongs to no cluster")

// The service-linked roles of EKS: of clusters, node groups, Fargate profiles and connected clusters.
// https://docs.aws.amazon.com/eks/latest/userguide/using-service-linked-roles.html
var (
	ServiceRole   = awsapi.ServiceRole{Service: "eks.amazonaws.com", Name: "AWSServiceRoleForAmazonEKS", Session: "AmazonEKS"}
	NodegroupRole = awsapi.ServiceRole{Service: "eks-nodegroup.amazonaws.com", Name: "AWSServiceRoleForAmazonEKSNodegroup", Session: "EKS"}
	FargateRole   = awsapi.ServiceRole{Service: "eks-fargate.amazonaws.com", Name: "AWSServiceRoleForAmazonEKSForFargate", Session: "FargateController"} // session from memory
	ConnectorRole = awsapi.ServiceRole{Service: "eks-connector.amazonaws.com", Name: "AWSServiceRoleForAmazonEKSConnector", Session: "EKSConnector"}     // session from memory
)

// EnsureRole makes one of them for the caller of CreateCluster, CreateNodegroup or
// CreateFargateProfile unless it exists. The caller needs iam:CreateServiceLinkedRole:
// https://github.com/XenitAB/terraform-modules/pull/396
func (s *Service) EnsureRole(ctx context.Context, cluster string, role awsapi.ServiceRole) error {
	if s.EnsureServiceRole == nil {
		return nil
	}
	err := s.EnsureServiceRole(ctx, role)
	switch {
	case awserr.CodeOf(err) == "AccessDenied":
		return ekserr.InvalidRequest(cluster, "Failed to create service linked role: %s due to missing permissions for 'iam:CreateServiceLinkedRole'", role.Name) // [seen]
	case err != nil:
		return fmt.Errorf("creating the service-linked role %s: %w", role.Name, err)
	}
	return nil
}

// ServiceRoleARN is the ARN of EKS's service-linked role in an account.
func ServiceRoleARN(account string) string { return ServiceRole.ARN(account) }

// Resources in a cluster are kept under CLUSTER/NAME, so the functions below find and list all
// kinds of them.

// Find returns a named resource in a cluster of the caller. member is the name's member in the
// request.
func Find[T any](ctx context.Context, s *Service, c store.Collection[T], cluster, name *string, member string, notFound func(cluster, name string) error) (store.Key, T, error) {
	var none T
	key, _, err := s.Cluster(ctx, cluster)
	if err != nil {
		return key, none, err
	}
	if name == nil || *name == "" {
		return key, none, ekserr.Missing(member)
	}
	id := key.Below(*name)
	rec, err := c.Get(s.Store, id)
	if err != nil {
		return id, none, store.NotFoundAs(err, notFound(key.ID, *name))
	}
	return id, rec, nil
}

// ListNames returns a page of the names of resources in a cluster of the caller.
func ListNames[T any](ctx context.Context, s *Service, c store.Collection[T], cluster *string, maxResults *int32, token *string) ([]string, *string, error) {
	key, _, err := s.Cluster(ctx, cluster)
	if err != nil {
		return nil, nil, err
	}
	all := func(*T) bool { return true }
	return PageBelow(s, c, key, all, func(i store.Item[T]) string { return strings.TrimPrefix(i.Key.ID, key.ID+"/") }, maxResults, token)
}

// PageBelow returns a page of the resources in a cluster that match keep, converted by of.
func PageBelow[T, V any](s *Service, c store.Collection[T], cluster store.Key, keep func(*T) bool, of func(store.Item[T]) V, maxResults *int32, token *string) ([]V, *string, error) {
	items := slices.DeleteFunc(c.All(s.Store, cluster.AllBelow()), func(i store.Item[T]) bool { return !keep(&i.Value) })
	items, next, err := Page(items, func(i store.Item[T]) string { return i.Key.ID }, maxResults, token)
	out := make([]V, len(items))
	for i, item := range items {
		out[i] = of(item)
	}
	return out, next, err
}

// Add stores a new resource in a cluster, unless the cluster is being deleted. If the name is
// taken, it returns the existing resource to a request that repeats the original one with the same
// token; any other request gets the error from exists. origin returns the token and request that a
// record was created with. also runs in the same transaction.
func Add[T any](ctx context.Context, s *Service, c store.Collection[T], cluster, id store.Key, rec T, origin func(*T) (token, request string), exists func(old *T) error, also func(*store.Tx, *T) error) (*T, error) {
	var out T
	err := s.Store.Update(ctx, func(tx *store.Tx) error {
		owner, err := record.Clusters.Get(tx, cluster)
		switch {
		case err != nil:
			return store.NotFoundAs(err, ekserr.NoCluster(cluster.ID))
		case owner.Cluster.Status == ekstypes.ClusterStatusDeleting:
			return ekserr.NoCluster(cluster.ID)
		}
		old, err := c.Get(tx, id)
		if errors.Is(err, store.ErrNotFound) {
			out = rec
			if err := also(tx, &out); err != nil {
				return err
			}
			return c.Create(tx, id, out)
		} else if err != nil {
			return err
		}
		token, request := origin(&rec)
		if madeWith, madeBy := origin(&old); token == "" || madeWith != token || madeBy != request {
			return exists(&old)
		}
		out = old
		return nil
	})
	return &out, err
}

// Create answers a request that makes a node group or a Fargate profile of a cluster. A
// repeated request gets the resource that the first one made. build returns the record; role
// is the service-linked role that it needs; admit checks, in the transaction, the other
// existing resources. origin returns the token and the request that a record was made with.
func Create[T any](ctx context.Context, s *Service, c store.Collection[T], role awsapi.ServiceRole, key store.Key, cluster *record.Cluster, name string, token *string, request string,
	origin func(*T) (token, request *string), exists error, build func() (*T, error), admit func(tx *store.Tx, now *record.Cluster, rec *T) error) (*T, error) {
	id := key.Below(name)
	repeated := func(r store.Reader) (*T, error) {
		old, err := c.Get(r, id)
		if err != nil {
			return nil, nil
		}
		madeWith, madeBy := origin(&old)
		return &old, Repeats(key.ID, token, request, *madeWith, *madeBy, exists)
	}
	if old, err := repeated(s.Store); old != nil {
		return old, err
	}
	if err := Usable(*cluster); err != nil {
		return nil, err
	}
	rec, err := build()
	if err != nil {
		return nil, err
	}
	if err := s.EnsureRole(ctx, key.ID, role); err != nil {
		return nil, err
	}
	madeWith, madeBy := origin(rec)
	*madeWith, *madeBy = aws.ToString(token), request
	var out *T
	err = s.Store.Update(ctx, func(tx *store.Tx) error {
		if out, err = repeated(tx); out != nil {
			return err
		}
		now, err := StillUsable(tx, key, cluster)
		if err != nil {
			return err
		}
		out = rec
		if err := admit(tx, &now, rec); err != nil {
			return err
		}
		return c.Create(tx, id, *rec)
	})
	return out, err
}

// Repeats returns nil if a request repeats the one that created a resource, with the same token and
// content. Otherwise it returns exists, or an error if the token was used for a different request.
func Repeats(cluster string, token *string, request, madeWith, madeBy string, exists error) error {
	switch {
	case token == nil || madeWith != *token:
		return exists
	case madeBy != request:
		return ekserr.TokenReused(cluster)
	}
	return nil
}

// NewUpdate returns an update that begins now.
func (s *Service) NewUpdate(t ekstypes.UpdateType, params ...ekstypes.UpdateParam) *record.Update {
	return &record.Update{Update: ekstypes.Update{
		Id:        new(ids.UUID()),
		Status:    ekstypes.UpdateStatusInProgress,
		Type:      t,
		Params:    params,
		CreatedAt: new(s.Now()),
		Errors:    []ekstypes.ErrorDetail{},
	}}
}

// RepeatedUpdate returns the update that an earlier request with the same
// token created, or nil if there is none.
func (s *Service) RepeatedUpdate(r store.Reader, cluster store.Key, token *string, request string) (*ekstypes.Update, error) {
	if token == nil {
		return nil, nil
	}
	for _, i := range record.Updates.All(r, cluster.AllBelow()) {
		if i.Value.Token != *token {
			continue
		}
		if i.Value.Request != request {
			return nil, ekserr.TokenReused(cluster.ID)
		}
		return &i.Value.Update, nil
	}
	return nil, nil
}

// UpdateInProgress returns the error that refuses the operation what, naming the update in
// progress.
func (s *Service) UpdateInProgress(r store.Reader, cluster store.Key, nodegroup, what string) error {
	items := record.Updates.All(r, cluster.AllBelow())
	id := "unknown"
	for _, i := range items {
		if i.Value.Nodegroup == nodegroup && i.Value.Addon == "" && i.Value.Update.Status == ekstypes.UpdateStatusInProgress {
			id = *i.Value.Update.Id
		}
	}
	return ekserr.UpdateInProgress(what, cluster.ID, id)
}

// Note adds a parameter to an update, unless the value is nil.
func Note(up *record.Update, t ekstypes.UpdateParamType, value *string) {
	if value != nil {
		up.Update.Params = append(up.Update.Params, UpdateParam(t, *value))
	}
}

// UpdateParam returns a parameter of an update.
func UpdateParam(t ekstypes.UpdateParamType, value string) ekstypes.UpdateParam {
	return ekstypes.UpdateParam{Type: t, Value: &value}
}
