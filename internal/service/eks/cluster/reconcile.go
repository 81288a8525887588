package cluster

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/reconcile"
	"github.com/drydock-dev/drydock/internal/service/eks/autonodes"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

const (
	// timeout is how long a creation is retried before the cluster is FAILED.
	timeout = 15 * time.Minute
	// readyWait is how long one reconciliation waits for a plane that is booting.
	readyWait = 30 * time.Second
)

// Reconciler brings clusters into the state that their records describe.
func (s *Service) Reconciler() reconcile.Config {
	return reconcile.Config{
		Name: "eks/cluster", Watcher: record.Clusters.Watch(s.Store, store.Scope{}), Reconcile: s.reconcile, Workers: 16, Log: s.Log, Clock: s.Clock,
	}
}

// reconcile brings one cluster a step closer to the state in its record.
func (s *Service) reconcile(ctx context.Context, key store.Key) (time.Duration, error) {
	again, err := s.step(ctx, key)
	if ctx.Err() == nil {
		s.troubles.note(key.String(), err, s.Now())
	}
	return again, err
}

func (s *Service) step(ctx context.Context, key store.Key) (time.Duration, error) {
	rec, err := record.Clusters.Get(s.Store, key)
	if errors.Is(err, store.ErrNotFound) {
		s.Sessions.DropCluster(key) // deleted or reset
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	if err := s.renewAuthority(ctx, key, &rec); err != nil {
		return 0, err
	}
	switch rec.Cluster.Status {
	case ekstypes.ClusterStatusCreating:
		create := s.create
		if rec.Source != nil {
			create = s.createCopy
		}
		again, err := create(ctx, key, rec)
		if err != nil && ctx.Err() == nil {
			return s.trouble(ctx, key, rec, err)
		}
		return again, err
	case ekstypes.ClusterStatusActive:
		if s.Twins != nil && s.Twins.Held(key.Account) {
			return heldWait, nil
		}
		s.followAutoMode(key, rec)
		s.follow(key, rec.Plane.ID)
		if rec.Rollback != nil {
			return s.rollBackNodes(ctx, key, rec)
		}
		return s.maintain(ctx, key, rec)
	case ekstypes.ClusterStatusUpdating:
		s.follow(key, rec.Plane.ID)
		return s.applyUpdates(ctx, key, rec)
	case ekstypes.ClusterStatusDeleting:
		return s.remove(ctx, key, rec)
	}
	return 0, nil
}

// follow starts what EKS's control plane does about a cluster's own objects at all times.
func (s *Service) follow(key store.Key, planeID string) {
	s.certs.Follow(key, planeID)
	s.policies.Follow(key, planeID)
}

// renewAuthority records the certificates of the control plane's certificate authorities. One is reissued at
// startup if it has expired, and they change in a rotation. Node groups get it with their next launch template version.
func (s *Service) renewAuthority(ctx context.Context, key store.Key, rec *record.Cluster) error {
	ca := s.ControlPlanes.Authority(rec.Plane.ID)
	if ca == nil || rec.Plane.CAPEM == nil || bytes.Equal(ca, rec.Plane.CAPEM) {
		return nil
	}
	s.Log.Info("the certificate authorities of a cluster have changed", "cluster", key.String())
	rec.Plane.CAPEM = ca
	return s.Store.Update(ctx, func(tx *store.Tx) error {
		for _, g := range record.Nodegroups.All(tx, key.AllBelow()) {
			if err := record.Nodegroups.Update(tx, g.Key, func(g *record.Nodegroup) error { g.TemplateStale = true; return nil }); err != nil {
				return err
			}
		}
		return store.IgnoreNotFound(record.Clusters.Update(tx, key, func(c *record.Cluster) error {
			c.Plane.CAPEM = ca
			if c.Cluster.CertificateAuthority != nil && c.Cluster.CertificateAuthority.Data != nil {
				c.Cluster.CertificateAuthority.Data = new(base64.StdEncoding.EncodeToString(ca))
			}
			return nil
		}))
	})
}

// create does whatever a CREATING cluster still needs. Every step finds the results of earlier
// attempts.
func (s *Service) create(ctx context.Context, key store.Key, rec record.Cluster) (time.Duration, error) {
	// The plane boots while the network is being created.
	plane, err := s.claim(ctx, key, &rec)
	if err != nil {
		return 0, fmt.Errorf("claiming a control plane: %w", err)
	}
	if rec.Plane.ID != plane.ID {
		if err := s.change(ctx, key, rec.UID, func(c *record.Cluster) { c.Plane = plane }); err != nil {
			return 0, err
		}
	}
	vpc := *rec.Cluster.ResourcesVpcConfig
	group, interfaces, err := s.ensureNetwork(s.AsService(ctx, key.Account, key.Region), rec)
	if err != nil {
		return 0, err
	}
	if err := s.ControlPlanes.SetAccess(ctx, plane.ID, vpc.EndpointPublicAccess, vpc.PublicAccessCidrs, vpc.EndpointPrivateAccess); err != nil {
		return 0, fmt.Errorf("setting endpoint access: %w", err)
	}
	if err := s.applyLogging(ctx, key, plane.ID, enabledLogs(rec.Cluster.Logging)); err != nil {
		return 0, err
	}
	if err := s.waitReady(ctx, plane.ID); err != nil {
		return 0, s.keyTrouble(ctx, rec, rec.KeyARN(), err)
	}
	// Encrypt before the cluster contains anything of the user's.
	if err := s.encryptPlane(ctx, rec, plane.ID, rec.KeyARN()); err != nil {
		return 0, err
	}
	if err := s.ensureBorn(ctx, key, rec, plane); err != nil {
		return 0, err
	}
	if wait := rec.Since.Add(s.Timing.ClusterCreating).Sub(s.Clock.Now()); wait > 0 {
		return wait, nil
	}
	return 0, s.Store.Update(ctx, func(tx *store.Tx) error {
		c, err := record.Clusters.Get(tx, key)
		if err != nil || c.UID != rec.UID || c.Cluster.Status != ekstypes.ClusterStatusCreating {
			return store.IgnoreNotFound(err)
		}
		if err := s.access.EnsureOwnEntries(tx, key, &c); err != nil {
			return err
		}
		if err := s.admitAutoNodes(tx, key, c.AutoMode()); err != nil {
			return err
		}
		return record.Clusters.Update(tx, key, func(c *record.Cluster) error {
			c.Plane, c.Interfaces = plane, interfaces
			d := &c.Cluster
			d.Status, c.Since = ekstypes.ClusterStatusActive, s.Clock.Now().UTC()
			d.Endpoint = &plane.Endpoint
			d.CertificateAuthority = &ekstypes.Certificate{Data: new(base64.StdEncoding.EncodeToString(plane.CAPEM))}
			for _, a := range s.authorities(*c) {
				d.CertificateAuthority.Active = &ekstypes.ActiveCertificateAuthority{Id: a.Id, ActivatedBy: a.ActivatedBy}
			}
			d.Identity = &ekstypes.Identity{Oidc: &ekstypes.OIDC{Issuer: &plane.Issuer}}
			d.ResourcesVpcConfig.ClusterSecurityGroupId = &group
			if plane.PlatformVersion != "" {
				d.PlatformVersion = &plane.PlatformVersion
			}
			d.Health.Issues = []ekstypes.ClusterIssue{}
			return nil
		})
	})
}

func (s *Service) claim(ctx context.Context, key store.Key, rec *record.Cluster) (record.Plane, error) {
	req := plane.Request{
		Owner: rec.Owner(), Account: key.Account, Region: key.Region, Name: rec.Name(), Version: *rec.Cluster.Version,
		ServiceCIDR: rec.ServiceCIDR(), IPFamily: string(rec.Cluster.KubernetesNetworkConfig.IpFamily),
		Settings: settingsOf(rec.Cluster),
	}
	if rec.Source != nil {
		req.ID, req.AWSHost = rec.Source.PlaneID, rec.Source.AWSHost
	}
	return s.ControlPlanes.Claim(ctx, req)
}

func (s *Service) waitReady(ctx context.Context, planeID string) error {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	if err := s.ControlPlanes.WaitReady(ctx, planeID); err != nil {
		return fmt.Errorf("waiting for the control plane: %w", err)
	}
	return nil
}

// trouble makes a cluster FAILED if an error is final, and returns other errors so that the
// reconciler retries.
func (s *Service) trouble(ctx context.Context, key store.Key, rec record.Cluster, cause error) (time.Duration, error) {
	issue := issueOf(cause)
	switch {
	case issue != nil:
	case s.Clock.Since(rec.Since) > timeout:
		issue = &ekstypes.ClusterIssue{Code: ekstypes.ClusterIssueCodeInternalFailure, Message: new(cause.Error())}
	default:
		return 0, cause
	}
	if issue.ResourceIds == nil {
		issue.ResourceIds = []string{}
	}
	s.Log.Warn("cluster creation failed", "cluster", key.String(), "err", cause)
	return 0, s.change(ctx, key, rec.UID, func(c *record.Cluster) {
		if c.Cluster.Status == ekstypes.ClusterStatusCreating {
			c.Cluster.Status, c.Since = ekstypes.ClusterStatusFailed, s.Clock.Now().UTC()
			c.Cluster.Health = &ekstypes.ClusterHealth{Issues: []ekstypes.ClusterIssue{*issue}}
		}
	})
}

// issueOf returns the issue for a final error, or nil for any other.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_ClusterIssue.html
func issueOf(err error) *ekstypes.ClusterIssue {
	issue := func(c ekstypes.ClusterIssueCode) *ekstypes.ClusterIssue {
		var api *awserr.Error
		if errors.As(err, &api) {
			return &ekstypes.ClusterIssue{Code: c, Message: &api.Message}
		}
		return &ekstypes.ClusterIssue{Code: c, Message: new(err.Error())}
	}
	if key := (*keyError)(nil); errors.As(err, &key) {
		return &key.issue
	}
	switch c := awserr.CodeOf(err); {
	case awsapi.IsThrottle(err): // RequestLimitExceeded is throttling, not the limit of a resource
		return nil
	case c == "InvalidSubnetID.NotFound":
		return issue(ekstypes.ClusterIssueCodeEc2SubnetNotFound)
	case strings.HasPrefix(c, "InvalidGroup.NotFound"), strings.HasPrefix(c, "InvalidSecurityGroupID"):
		return issue(ekstypes.ClusterIssueCodeEc2SecurityGroupNotFound)
	case c == "InsufficientFreeAddressesInSubnet":
		return issue(ekstypes.ClusterIssueCodeInsufficientFreeAddresses)
	case c == "InvalidVpcID.NotFound":
		return issue(ekstypes.ClusterIssueCodeVpcNotFound)
	case strings.HasSuffix(c, "LimitExceeded"):
		return issue(ekstypes.ClusterIssueCodeResourceLimitExceeded)
	case c == "NotImplemented":
		return issue(ekstypes.ClusterIssueCodeOther)
	}
	return nil
}

// applyUpdates completes the update of an UPDATING cluster.
func (s *Service) applyUpdates(ctx context.Context, key store.Key, rec record.Cluster) (time.Duration, error) {
	items := record.Updates.All(s.Store, key.AllBelow())
	i := slices.IndexFunc(items, func(i store.Item[record.Update]) bool {
		return i.Value.Nodegroup == "" && i.Value.Addon == "" && i.Value.Update.Status == ekstypes.UpdateStatusInProgress
	})
	if i < 0 {
		return 0, s.change(ctx, key, rec.UID, func(c *record.Cluster) { c.Cluster.Status = ekstypes.ClusterStatusActive })
	}
	up := items[i].Value
	if up.AutoMode == nil {
		s.followAutoMode(key, rec)
	}
	failure := s.apply(ctx, key, rec, up)
	final := up.VPC != nil && issueOf(failure) != nil || failureOf(failure) != nil || s.Clock.Since(rec.Since) >= timeout
	if failure != nil && (ctx.Err() != nil || !final) {
		return 0, failure
	}
	if wait := rec.Since.Add(s.Timing.ClusterUpdating).Sub(s.Clock.Now()); wait > 0 {
		return wait, nil
	}
	return 0, s.Store.Update(ctx, func(tx *store.Tx) error {
		err := record.Updates.Update(tx, items[i].Key, func(u *record.Update) error {
			u.Update.Status = ekstypes.UpdateStatusSuccessful
			if failure != nil {
				u.Update.Status = ekstypes.UpdateStatusFailed
				u.Update.Errors = []ekstypes.ErrorDetail{updateError(failure)}
			}
			return nil
		})
		if err != nil {
			return store.IgnoreNotFound(err)
		}
		return record.Clusters.Update(tx, key, func(c *record.Cluster) error {
			if c.UID != rec.UID || c.Cluster.Status != ekstypes.ClusterStatusUpdating {
				return nil
			}
			c.Cluster.Status, c.Since = ekstypes.ClusterStatusActive, s.Clock.Now().UTC()
			if up.IdentityProvider != "" {
				return s.endProviderUpdate(tx, key, up, failure)
			}
			if up.Authority != nil {
				s.commitAuthority(c, up.Authority, failure != nil && !s.settledAuthority(rec.Plane.ID, up.Authority))
			}
			if up.Encryption != nil { // even after a failure, so that the grant is revoked with the cluster
				c.Grants = append(c.Grants, *up.Encryption)
			}
			if failure != nil {
				c.Rollback = nil               // the nodes follow the cluster's version again
				if s.settledVersion(rec, up) { // the new version serves, although its controllers do not run
					s.commitVersion(c, up)
				}
				// The plane keeps the key that it has adopted, so the cluster keeps it too.
				if e := up.Encryption; e != nil && s.ControlPlanes.EncryptionKey(rec.Plane.ID) == e.KeyARN {
					c.Cluster.EncryptionConfig, c.HalfEncrypted = secretsEncryption(e.KeyARN), true
				}
				return nil
			}
			return s.commitChange(tx, key, c, up)
		})
	})
}

// apply makes the changes of an update outside the cluster's record.
func (s *Service) apply(ctx context.Context, key store.Key, rec record.Cluster, up record.Update) error {
	switch {
	case up.Version != "":
		return s.applyVersion(ctx, key, rec, up.Version)
	case up.VPC != nil:
		return s.applyVPC(ctx, key, rec, up.Update.Type, up.VPC)
	case up.Encryption != nil:
		return s.encryptPlane(ctx, rec, rec.Plane.ID, up.Encryption.KeyARN)
	case up.Logging != nil:
		return s.applyLogging(ctx, key, rec.Plane.ID, up.Logging.Types)
	case up.Authority != nil:
		return s.applyAuthority(ctx, rec.Plane.ID, up.Authority)
	case up.IdentityProvider != "":
		return s.applyIdentityProvider(ctx, key, rec.Plane.ID, up)
	case up.Components != nil:
		return s.applyComponents(ctx, rec, up.Components)
	case up.AutoMode != nil:
		return s.applyAutoMode(ctx, key, rec, up.AutoMode)
	}
	return nil
}

// commitChange records the changes of a successful update.
func (s *Service) commitChange(tx *store.Tx, key store.Key, c *record.Cluster, up record.Update) error {
	if v := up.VPC; v != nil {
		d := c.Cluster.ResourcesVpcConfig
		d.EndpointPublicAccess, d.EndpointPrivateAccess, d.PublicAccessCidrs = v.Public, v.Private, v.CIDRs
		d.SubnetIds, d.SecurityGroupIds = v.Subnets, v.SecurityGroups
	}
	if up.Version != "" {
		s.commitVersion(c, up)
	}
	if up.Components != nil {
		up.Components.Commit(&c.Cluster)
	}
	if up.SupportType != "" {
		c.Cluster.UpgradePolicy.SupportType = up.SupportType
	}
	if up.Encryption != nil {
		c.Cluster.EncryptionConfig, c.HalfEncrypted = secretsEncryption(up.Encryption.KeyARN), false
	}
	if up.Logging != nil {
		c.Cluster.Logging = loggingOf(up.Logging.Types)
	}
	if up.DeletionProtection != nil {
		c.Cluster.DeletionProtection = up.DeletionProtection
	}
	if up.ZonalShift != nil {
		c.Cluster.ZonalShiftConfig = &ekstypes.ZonalShiftConfigResponse{Enabled: up.ZonalShift}
	}
	if r := up.RemoteNetwork; r != nil {
		if c.Cluster.RemoteNetworkConfig = r; len(r.RemoteNodeNetworks) == 0 {
			c.Cluster.RemoteNetworkConfig = nil
		}
	}
	if up.AutoMode != nil {
		up.AutoMode.Commit(c)
		if err := cmp.Or(s.admitAutoNodes(tx, key, up.AutoMode), s.access.SetAutoMode(tx, key, up.AutoMode.On())); err != nil {
			return err
		}
	}
	if up.Tier != "" {
		c.Cluster.ControlPlaneScalingConfig = &ekstypes.ControlPlaneScalingConfig{Tier: up.Tier}
	}
	if up.AuthenticationMode == "" {
		return nil
	}
	c.Cluster.AccessConfig.AuthenticationMode = up.AuthenticationMode
	if err := s.access.EnsureOwnEntries(tx, key, c); err != nil {
		return err
	}
	return s.access.AdmitNodes(tx, key)
}

func (s *Service) applyVPC(ctx context.Context, key store.Key, rec record.Cluster, kind ekstypes.UpdateType, v *record.VPCChange) error {
	if kind == ekstypes.UpdateTypeVpcConfigUpdate {
		svc := s.AsService(ctx, key.Account, key.Region)
		if err := s.deleteInterfaces(svc, rec, func(i ec2types.NetworkInterface) bool {
			return !slices.Contains(v.Subnets, aws.ToString(i.SubnetId)) || !sameSet(interfaceGroups(i), groupsOf(aws.ToString(rec.Cluster.ResourcesVpcConfig.ClusterSecurityGroupId), v.SecurityGroups))
		}); err != nil {
			return err
		}
		_, err := s.ensureInterfaces(svc, rec, aws.ToString(rec.Cluster.ResourcesVpcConfig.ClusterSecurityGroupId), v.Subnets, v.SecurityGroups)
		return err
	}
	return s.ControlPlanes.SetAccess(ctx, rec.Plane.ID, v.Public, v.CIDRs, v.Private)
}

func updateError(err error) ekstypes.ErrorDetail {
	d := ekstypes.ErrorDetail{ErrorCode: ekstypes.ErrorCodeUnknown, ErrorMessage: new(err.Error()), ResourceIds: []string{}}
	switch c := awserr.CodeOf(err); {
	case c == "InvalidSubnetID.NotFound":
		d.ErrorCode = ekstypes.ErrorCodeSubnetNotFound
	case strings.HasPrefix(c, "InvalidGroup"):
		d.ErrorCode = ekstypes.ErrorCodeSecurityGroupNotFound
	case c == "InsufficientFreeAddressesInSubnet":
		d.ErrorCode = ekstypes.ErrorCodeInsufficientFreeAddresses
	}
	if f := failureOf(err); f != nil {
		d.ErrorMessage, d.ResourceIds = f.issue.Message, slices.Clone(f.issue.ResourceIds)
		switch f.issue.Code {
		case ekstypes.ClusterIssueCodeInsufficientFreeAddresses:
			d.ErrorCode = ekstypes.ErrorCodeInsufficientFreeAddresses
		case ekstypes.ClusterIssueCodeEc2SubnetNotFound:
			d.ErrorCode = ekstypes.ErrorCodeSubnetNotFound
		case ekstypes.ClusterIssueCodeEc2SecurityGroupNotFound:
			d.ErrorCode = ekstypes.ErrorCodeSecurityGroupNotFound
		}
	}
	if key := (*keyError)(nil); errors.As(err, &key) {
		d.ErrorCode, d.ErrorMessage, d.ResourceIds = ekstypes.ErrorCodeAccessDenied, key.issue.Message, key.issue.ResourceIds
	}
	return d
}

// remove removes everything in a cluster, then its record.
func (s *Service) remove(ctx context.Context, key store.Key, rec record.Cluster) (time.Duration, error) {
	svc := s.AsService(ctx, key.Account, key.Region)
	if rec.Plane.ID == "" {
		// A creation that was interrupted between claiming and recording has a plane, too.
		var err error
		if rec.Plane, err = s.claim(ctx, key, &rec); err != nil {
			return 0, err
		}
	}
	s.Sessions.Drop(rec.Plane.ID)
	if autonodes.Enabled(&rec.Cluster) {
		s.ControlPlanes.SetAutoMode(rec.Plane.ID, nil)
		if err := s.terminateAutoNodes(ctx, key); err != nil {
			return 0, err
		}
		if err := s.balancers.DeleteAll(ctx, key, &rec); err != nil {
			return 0, err
		}
		if err := s.auto.CleanUp(ctx, key, &rec); err != nil {
			return 0, err
		}
	}
	if err := s.ControlPlanes.Release(ctx, rec.Plane.ID); err != nil {
		return 0, fmt.Errorf("releasing the control plane: %w", err)
	}
	s.troubles.forget(rec.Plane.ID)
	if err := s.deleteInterfaces(svc, rec, func(ec2types.NetworkInterface) bool { return true }); err != nil {
		return 0, err
	}
	if err := s.deleteSecurityGroup(svc, rec); err != nil {
		if awserr.CodeOf(err) != "DependencyViolation" || s.Clock.Since(rec.Since) < base.GroupWait {
			return 0, err
		}
		s.Log.Info("leaving the cluster security group behind, something still uses it", "cluster", key.String(), "err", err)
	}
	if err := s.revokeGrants(svc, rec); err != nil {
		return 0, err
	}
	if wait := rec.Since.Add(s.Timing.ClusterDeleting).Sub(s.Clock.Now()); wait > 0 {
		return wait, nil
	}
	all := key.AllBelow()
	if err := errors.Join(
		record.DeleteAll(ctx, s.Store, record.AccessEntries, all, nil), record.DeleteAll(ctx, s.Store, record.Addons, all, nil),
		record.DeleteAll(ctx, s.Store, record.ClusterInsights, all, nil), record.DeleteAll(ctx, s.Store, record.IdentityProviders, all, nil),
		record.DeleteAll(ctx, s.Store, record.PodIdentities, all, nil), record.DeleteAll(ctx, s.Store, record.Updates, all, nil),
		record.DeleteAll(ctx, s.Store, record.Capabilities, all, nil),
	); err != nil {
		return 0, err
	}
	return 0, s.Store.Update(ctx, func(tx *store.Tx) error {
		if c, err := record.Clusters.Get(tx, key); err == nil && c.UID == rec.UID {
			record.Clusters.Delete(tx, key)
		}
		return nil
	})
}

// change updates the record of one incarnation of a cluster.
func (s *Service) change(ctx context.Context, key store.Key, uid string, fn func(*record.Cluster)) error {
	err := record.Clusters.UpdateOne(ctx, s.Store, key, func(c *record.Cluster) error {
		if c.UID == uid {
			fn(c)
		}
		return nil
	})
	return store.IgnoreNotFound(err)
}
