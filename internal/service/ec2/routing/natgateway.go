package routing

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/reconcile"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/eni"
	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/quota"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// CreateNatGateway creates a NAT gateway, which becomes available by itself. As on AWS, network
// problems put it into the state failed:
// https://docs.aws.amazon.com/vpc/latest/userguide/nat-gateway-troubleshooting.html
//
// The end-to-end tests of aws-controllers-k8s/ec2-controller quote its texts for missing and
// malformed parameters.
func (s *Service) CreateNatGateway(ctx context.Context, in *awsec2.CreateNatGatewayInput) (*awsec2.CreateNatGatewayOutput, error) {
	sc := resource.ScopeOf(ctx)
	if in.SubnetId == nil {
		return nil, ec2err.Missing("subnetId")
	}
	if in.AvailabilityMode == ec2types.AvailabilityModeRegional {
		return nil, awserr.NotImplemented("regional NAT gateways")
	}
	private := in.ConnectivityType == ec2types.ConnectivityTypePrivate
	switch {
	case private && in.AllocationId != nil:
		return nil, ec2err.Combination("AllocationId cannot be specified for a private NAT gateway") // from memory
	case !private && in.ConnectivityType != "" && in.ConnectivityType != ec2types.ConnectivityTypePublic:
		return nil, ec2err.InvalidValue(in.ConnectivityType, "connectivityType", "")
	case !private && aws.ToString(in.AllocationId) == "":
		return nil, ec2err.New("MissingParameter", "The request must include the AllocationId parameter. Add the required parameter and retry the request.")
	case !strings.HasPrefix(*in.SubnetId, "subnet-"):
		return nil, ec2err.New("InvalidSubnet", "The subnet ID '%s' is malformed", *in.SubnetId)
	case !private && !strings.HasPrefix(*in.AllocationId, "eipalloc-"):
		return nil, ec2err.New("InvalidElasticIpID.Malformed", "The elastic-ip ID '%s' is malformed", *in.AllocationId)
	}
	tags, err := tag.Specified(ctx, in.TagSpecifications, ec2types.ResourceTypeNatgateway)
	if err != nil {
		return nil, err
	}
	n, err := resource.Create(ctx, s.Core, record.NATGateways, in.DryRun, in.ClientToken, in, func(tx *store.Tx, n *record.NATGateway) error {
		sn, err := resource.Get(tx, record.Subnets, sc, *in.SubnetId)
		if err != nil {
			return err
		}
		here := resource.Count(tx, record.NATGateways, sc, func(o record.NATGateway) bool {
			return o.Zone == sn.Zone && o.State != record.NATFailed && o.State != record.NATDeleted
		})
		most, err := quota.Value(tx, sc, quota.NATGateways)
		if err != nil {
			return err
		}
		if float64(here+1) > most {
			return ec2err.New("NatGatewayLimitExceeded", "Performing this operation would exceed the limit of %v NAT gateways", most)
		}
		*n = record.NATGateway{
			ID: ids.Resource("nat"), SubnetID: sn.ID, VPCID: sn.VPCID, Zone: sn.Zone, Private: private,
			State: record.NATPending, Since: s.Now(), Created: s.Now(), Tags: tags,
		}
		return s.buildNAT(tx, sc, sn, n, in)
	})
	return &awsec2.CreateNatGatewayOutput{NatGateway: new(n.SDK(sc)), ClientToken: in.ClientToken}, err
}

// buildNAT creates a gateway's interface and takes its elastic address, or records why the gateway
// will fail.
func (s *Service) buildNAT(tx *store.Tx, sc resource.Scope, sn record.Subnet, n *record.NATGateway, in *awsec2.CreateNatGatewayInput) error {
	var a record.Address
	if !n.Private {
		var err error
		if a, err = resource.Get(tx, record.Addresses, sc, *in.AllocationId); err != nil {
			return err
		}
		n.Addresses = []record.NATAddress{{AllocationID: a.ID, PublicIP: a.PublicIP}}
		routed := resource.Exists(tx, record.InternetGateways, sc, func(g record.InternetGateway) bool { return g.VPCID == sn.VPCID })
		switch {
		case !routed:
			n.FailureCode, n.FailureMessage = "Gateway.NotAttached", fmt.Sprintf("Network %s has no Internet gateway attached", sn.VPCID)
			return nil
		case a.AssociationID != "":
			n.FailureCode, n.FailureMessage = "Resource.AlreadyAssociated", fmt.Sprintf("Elastic IP address [%s] is already associated", a.ID)
			return nil
		}
	}
	eniID := ids.Resource("eni")
	e, err := s.interfaces.Make(tx, sc, eni.Spec{
		ID: eniID, Subnet: sn, Description: "Interface for NAT Gateway " + n.ID, Primary: aws.ToString(in.PrivateIpAddress), NoGroups: true,
		Kind: "nat_gateway", Requester: ServiceRequester, Owner: n.ID, Hint: eniID,
	})
	if ec2err.HasCode(err, "InsufficientFreeAddressesInSubnet") {
		n.FailureCode, n.FailureMessage = "InsufficientFreeAddressesInSubnet", fmt.Sprintf("Subnet %s has insufficient free addresses to create this NAT gateway", sn.ID)
		return nil
	}
	if err != nil {
		return err
	}
	e.NoSourceDestCheck = true
	e.Attachment = record.InterfaceAttachment{ID: ids.Resource("ela-attach"), DeviceIndex: 1, Time: s.Now()}
	n.Addresses = []record.NATAddress{{PrivateIP: e.PrivateIP(), InterfaceID: e.ID}}
	if !n.Private {
		if a, err = eni.Link(a, tx, sc, &e, e.PrivateIP()); err != nil {
			return err
		}
		n.Addresses[0].AllocationID, n.Addresses[0].AssociationID, n.Addresses[0].PublicIP = a.ID, a.AssociationID, a.PublicIP
	}
	return record.NetworkInterfaces.Create(tx, sc.Key(e.ID), e)
}

// ServiceRequester is the requester of interfaces that AWS services create.
const ServiceRequester = "amazon-aws"

// DeleteNatGateway deletes a NAT gateway. Routes to it become black holes, and its elastic address
// becomes free.
func (s *Service) DeleteNatGateway(ctx context.Context, in *awsec2.DeleteNatGatewayInput) (*awsec2.DeleteNatGatewayOutput, error) {
	_, err := resource.Change(ctx, s.Core, record.NATGateways, in.DryRun, in.NatGatewayId, func(tx *store.Tx, n *record.NATGateway) error {
		if n.State == record.NATDeleting || n.State == record.NATDeleted {
			return nil
		}
		n.State, n.Since = record.NATDeleting, s.Now()
		return nil
	})
	return &awsec2.DeleteNatGatewayOutput{NatGatewayId: in.NatGatewayId}, err
}

// DescribeNatGateways lists NAT gateways. Deleted ones stay listed for an hour.
func (s *Service) DescribeNatGateways(ctx context.Context, in *awsec2.DescribeNatGatewaysInput) (*awsec2.DescribeNatGatewaysOutput, error) {
	sc := resource.ScopeOf(ctx)
	type v = record.NATGateway
	found, next, err := resource.Describe(s.Store, sc, record.NATGateways, resource.Query{
		IDs: in.NatGatewayIds, Filters: in.Filter, DryRun: in.DryRun, MaxResults: in.MaxResults, NextToken: in.NextToken, Limits: resource.Limits{Min: 5, Max: 1000},
	}, filter.Fields[v]{
		"nat-gateway-id": filter.One(func(n v) string { return n.ID }),
		"state":          filter.One(func(n v) string { return n.State }),
		"subnet-id":      filter.One(func(n v) string { return n.SubnetID }),
		"vpc-id":         filter.One(func(n v) string { return n.VPCID }),
	})
	return &awsec2.DescribeNatGatewaysOutput{NatGateways: resource.SDKAll(sc, found), NextToken: next}, err
}

// NATGatewaysSettled reports whether none of the gateways is changing its state.
func NATGatewaysSettled(out *awsec2.DescribeNatGatewaysOutput) bool {
	for _, n := range out.NatGateways {
		if n.State == record.NATPending || n.State == record.NATDeleting {
			return false
		}
	}
	return true
}

// reconcileNATGateway moves a gateway to its next state when it is due.
func (s *Service) reconcileNATGateway(ctx context.Context, k store.Key) (time.Duration, error) {
	n, err := record.NATGateways.Get(s.Store, k)
	if err != nil {
		return 0, store.IgnoreNotFound(err)
	}
	var lasts time.Duration
	switch n.State {
	case record.NATPending:
		lasts = s.Timing.NATGatewayPending
	case record.NATDeleting:
		lasts = s.Timing.NATGatewayDeleting
	case record.NATFailed, record.NATDeleted:
		lasts = s.Timing.NATGatewayDeletedVisible
	default:
		return 0, nil
	}
	if left := n.Since.Add(lasts).Sub(s.Now()); left > 0 {
		return left, nil
	}
	from := n.State
	return 0, s.Store.Update(ctx, func(tx *store.Tx) error {
		n, err := record.NATGateways.Get(tx, k)
		if resource.NotFound(err) || err == nil && n.State != from {
			return nil
		}
		if err != nil {
			return err
		}
		n.Since = s.Now()
		switch {
		case from == record.NATFailed || from == record.NATDeleted:
			record.NATGateways.Delete(tx, k)
			return nil
		case from == record.NATPending && n.FailureCode != "":
			n.State, n.Deleted = record.NATFailed, n.Since
		case from == record.NATPending:
			n.State = record.NATAvailable
		default:
			n.State, n.Deleted = record.NATDeleted, n.Since
			for _, a := range n.Addresses {
				if err := RemoveInterfaceByID(tx, resource.KeyScope(k), a.InterfaceID); err != nil {
					return err
				}
			}
		}
		return record.NATGateways.Put(tx, k, n)
	})
}

// RemoveInterfaceByID is eni.Remove for an interface that may no longer exist, or that was never
// created.
func RemoveInterfaceByID(tx *store.Tx, sc resource.Scope, id string) error {
	if id == "" {
		return nil
	}
	e, err := record.NetworkInterfaces.Get(tx, sc.Key(id))
	if err != nil {
		return store.IgnoreNotFound(err)
	}
	return eni.Remove(tx, sc, e)
}

// Reconcilers advance the states of NAT gateways and peering connections.
func (s *Service) Reconcilers() []reconcile.Config {
	return []reconcile.Config{
		{Name: "ec2/nat-gateway", Watcher: record.NATGateways.Watch(s.Store, store.Scope{}), Reconcile: s.reconcileNATGateway, Workers: 2},
		{Name: "ec2/vpc-peering-connection", Watcher: record.Peerings.Watch(s.Store, store.Scope{}), Reconcile: s.reconcilePeering, Workers: 2},
	}
}
