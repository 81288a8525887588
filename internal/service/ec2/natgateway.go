package ec2

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
	"github.com/drydock-dev/drydock/internal/store"
)

// States of NAT gateways.
const (
	natPending   = "pending"
	natAvailable = "available"
	natFailed    = "failed"
	natDeleting  = "deleting"
	natDeleted   = "deleted"
)

// A natGatewayRecord translates the addresses of a VPC's interfaces: to its
// elastic address if it is public, to its private one if it is private.
type natGatewayRecord struct {
	ID       string
	SubnetID string
	VPCID    string
	Zone     string
	Private  bool `json:",omitempty"`
	State    string
	Since    time.Time
	Created  time.Time
	Deleted  time.Time `json:",omitzero"`
	// FailureCode and FailureMessage say why it failed, or will fail.
	FailureCode    string `json:",omitempty"`
	FailureMessage string `json:",omitempty"`
	// Addresses are those of its one interface; the first is the primary one.
	Addresses []natAddress
	Tags      Tags `json:",omitempty"`
}

type natAddress struct {
	AllocationID  string `json:",omitempty"`
	AssociationID string `json:",omitempty"`
	PublicIP      string `json:",omitempty"`
	PrivateIP     string `json:",omitempty"`
	InterfaceID   string `json:",omitempty"`
}

func natGatewayKind() kindOf[natGatewayRecord] {
	return kindOf[natGatewayRecord]{natGateways, natGatewayID, func(n *natGatewayRecord) (string, *Tags) { return n.ID, &n.Tags }}
}

func (n natGatewayRecord) sdk(scope) ec2types.NatGateway {
	out := ec2types.NatGateway{
		NatGatewayId: aws.String(n.ID), SubnetId: aws.String(n.SubnetID), VpcId: aws.String(n.VPCID),
		State: ec2types.NatGatewayState(n.State), CreateTime: aws.Time(n.Created), ConnectivityType: ec2types.ConnectivityTypePublic,
		AvailabilityMode: ec2types.AvailabilityModeZonal, Tags: n.Tags.sdk(),
	}
	if n.Private {
		out.ConnectivityType = ec2types.ConnectivityTypePrivate
	}
	if !n.Deleted.IsZero() {
		out.DeleteTime = aws.Time(n.Deleted)
	}
	if n.State == natFailed {
		out.FailureCode, out.FailureMessage = optional(n.FailureCode), optional(n.FailureMessage)
	}
	for i, a := range n.Addresses {
		out.NatGatewayAddresses = append(out.NatGatewayAddresses, ec2types.NatGatewayAddress{
			AllocationId: optional(a.AllocationID), AssociationId: optional(a.AssociationID), PublicIp: optional(a.PublicIP),
			PrivateIp: optional(a.PrivateIP), NetworkInterfaceId: optional(a.InterfaceID),
			IsPrimary: aws.Bool(i == 0), Status: ec2types.NatGatewayAddressStatusSucceeded,
		})
	}
	return out
}

// CreateNatGateway makes a NAT gateway, which becomes available by itself. What is
// wrong with its network makes it failed, as on AWS:
// https://docs.aws.amazon.com/vpc/latest/userguide/nat-gateway-troubleshooting.html
//
// What it says of missing and malformed parameters is quoted by the end-to-end tests
// of aws-controllers-k8s/ec2-controller.
func (s *Service) CreateNatGateway(ctx context.Context, in *awsec2.CreateNatGatewayInput) (*awsec2.CreateNatGatewayOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	if in.SubnetId == nil {
		return nil, errMissing("subnetId")
	}
	if in.AvailabilityMode == ec2types.AvailabilityModeRegional {
		return nil, awserr.NotImplemented("regional NAT gateways")
	}
	private := in.ConnectivityType == ec2types.ConnectivityTypePrivate
	switch {
	case private && in.AllocationId != nil:
		return nil, errCombination("AllocationId cannot be specified for a private NAT gateway") // from memory
	case !private && in.ConnectivityType != "" && in.ConnectivityType != ec2types.ConnectivityTypePublic:
		return nil, errInvalidValue(in.ConnectivityType, "connectivityType", "")
	case !private && aws.ToString(in.AllocationId) == "":
		return nil, errf("MissingParameter", "The request must include the AllocationId parameter. Add the required parameter and retry the request.")
	case !strings.HasPrefix(*in.SubnetId, "subnet-"):
		return nil, errf("InvalidSubnet", "The subnet ID '%s' is malformed", *in.SubnetId)
	case !private && !strings.HasPrefix(*in.AllocationId, "eipalloc-"):
		return nil, errf("InvalidElasticIpID.Malformed", "The elastic-ip ID '%s' is malformed", *in.AllocationId)
	}
	tags, err := specifiedTags(ctx, in.TagSpecifications, ec2types.ResourceTypeNatgateway)
	if err != nil {
		return nil, err
	}
	var n natGatewayRecord
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		if done, err := recallOne(tx, s, sc, "CreateNatGateway", in.ClientToken, in, natGateways, natGatewayID, &n); done || err != nil {
			return err
		}
		sn, err := get(tx, subnets, sc, subnetID, *in.SubnetId)
		if err != nil {
			return err
		}
		here, err := count(tx, natGateways, sc, func(o natGatewayRecord) bool {
			return o.Zone == sn.Zone && o.State != natFailed && o.State != natDeleted
		})
		if err != nil {
			return err
		}
		most, err := quota(tx, sc, quotaNATGateways)
		if err != nil {
			return err
		}
		if float64(here+1) > most {
			return errf("NatGatewayLimitExceeded", "Performing this operation would exceed the limit of %v NAT gateways", most)
		}
		n = natGatewayRecord{
			ID: ids.Resource("nat"), SubnetID: sn.ID, VPCID: sn.VPCID, Zone: sn.Zone, Private: private,
			State: natPending, Since: s.now(), Created: s.now(), Tags: tags,
		}
		if err := s.buildNAT(tx, sc, sn, &n, in); err != nil {
			return err
		}
		if err := natGateways.Create(tx, sc.key(n.ID), n); err != nil {
			return err
		}
		return s.remember(tx, sc, "CreateNatGateway", in.ClientToken, in, false, n.ID)
	})
	if err != nil {
		return nil, err
	}
	out := n.sdk(sc)
	return &awsec2.CreateNatGatewayOutput{NatGateway: &out, ClientToken: in.ClientToken}, nil
}

// buildNAT makes a gateway's interface and takes its elastic address, or notes why
// the gateway will fail.
func (s *Service) buildNAT(tx *store.Tx, sc scope, sn subnetRecord, n *natGatewayRecord, in *awsec2.CreateNatGatewayInput) error {
	var a addressRecord
	if !n.Private {
		var err error
		if a, err = get(tx, addresses, sc, addressID, *in.AllocationId); err != nil {
			return err
		}
		n.Addresses = []natAddress{{AllocationID: a.ID, PublicIP: a.PublicIP}}
		routed, err := exists(tx, internetGateways, sc, func(g internetGatewayRecord) bool { return g.VPCID == sn.VPCID })
		if err != nil {
			return err
		}
		switch {
		case !routed:
			n.FailureCode, n.FailureMessage = "Gateway.NotAttached", fmt.Sprintf("Network %s has no Internet gateway attached", sn.VPCID)
			return nil
		case a.AssociationID != "":
			n.FailureCode, n.FailureMessage = "Resource.AlreadyAssociated", fmt.Sprintf("Elastic IP address [%s] is already associated", a.ID)
			return nil
		}
	}
	eni := ids.Resource("eni")
	e, err := s.makeInterface(tx, sc, interfaceSpec{
		id: eni, subnet: sn, description: "Interface for NAT Gateway " + n.ID, primary: aws.ToString(in.PrivateIpAddress), noGroups: true,
		kind: "nat_gateway", requester: serviceRequester, owner: n.ID, hint: eni,
	})
	if isCode(err, "InsufficientFreeAddressesInSubnet") {
		n.FailureCode, n.FailureMessage = "InsufficientFreeAddressesInSubnet", fmt.Sprintf("Subnet %s has insufficient free addresses to create this NAT gateway", sn.ID)
		return nil
	}
	if err != nil {
		return err
	}
	e.NoSourceDestCheck = true
	e.Attachment = interfaceAttachment{ID: ids.Resource("ela-attach"), DeviceIndex: 1, Time: s.now()}
	n.Addresses = []natAddress{{PrivateIP: e.Addresses[0], InterfaceID: e.ID}}
	if !n.Private {
		if a, err = a.link(tx, sc, &e, e.Addresses[0]); err != nil {
			return err
		}
		n.Addresses[0].AllocationID, n.Addresses[0].AssociationID, n.Addresses[0].PublicIP = a.ID, a.AssociationID, a.PublicIP
	}
	return networkInterfaces.Create(tx, sc.key(e.ID), e)
}

// serviceRequester is who made the interfaces of AWS's services.
const serviceRequester = "amazon-aws"

// DeleteNatGateway deletes a NAT gateway; routes to it become black holes and
// its elastic address is free again.
func (s *Service) DeleteNatGateway(ctx context.Context, in *awsec2.DeleteNatGatewayInput) (*awsec2.DeleteNatGatewayOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		n, err := get(tx, natGateways, sc, natGatewayID, aws.ToString(in.NatGatewayId))
		if err != nil {
			return err
		}
		if n.State == natDeleting || n.State == natDeleted {
			return nil
		}
		n.State, n.Since = natDeleting, s.now()
		return natGateways.Put(tx, sc.key(n.ID), n)
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.DeleteNatGatewayOutput{NatGatewayId: in.NatGatewayId}, nil
}

// DescribeNatGateways lists NAT gateways, deleted ones too for an hour.
func (s *Service) DescribeNatGateways(ctx context.Context, in *awsec2.DescribeNatGatewaysInput) (*awsec2.DescribeNatGatewaysOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	type v = natGatewayRecord
	found, next, err := describe(s.store, sc, natGatewayKind(), query{
		ids: in.NatGatewayIds, filters: in.Filter, dryRun: in.DryRun, maxResults: in.MaxResults, nextToken: in.NextToken, lim: limits{5, 1000},
	}, fields[v]{
		"nat-gateway-id": one(func(n v) string { return n.ID }),
		"state":          one(func(n v) string { return n.State }),
		"subnet-id":      one(func(n v) string { return n.SubnetID }),
		"vpc-id":         one(func(n v) string { return n.VPCID }),
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.DescribeNatGatewaysOutput{NatGateways: sdkAll(sc, found), NextToken: next}, nil
}

func natGatewaysSettled(out *awsec2.DescribeNatGatewaysOutput) bool {
	for _, n := range out.NatGateways {
		if n.State == natPending || n.State == natDeleting {
			return false
		}
	}
	return true
}

// reconcileNATGateway brings a gateway to its next state when it is due.
func (s *Service) reconcileNATGateway(ctx context.Context, k store.Key) (time.Duration, error) {
	n, err := natGateways.Get(s.store, k)
	if notFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var lasts time.Duration
	switch n.State {
	case natPending:
		lasts = s.timing.NATGatewayPending
	case natDeleting:
		lasts = s.timing.NATGatewayDeleting
	case natFailed, natDeleted:
		lasts = s.timing.NATGatewayDeletedVisible
	default:
		return 0, nil
	}
	if left := n.Since.Add(lasts).Sub(s.now()); left > 0 {
		return left, nil
	}
	from := n.State
	return 0, s.store.Update(ctx, func(tx *store.Tx) error {
		n, err := natGateways.Get(tx, k)
		if notFound(err) || err == nil && n.State != from {
			return nil
		}
		if err != nil {
			return err
		}
		n.Since = s.now()
		switch {
		case from == natFailed || from == natDeleted:
			natGateways.Delete(tx, k)
			return nil
		case from == natPending && n.FailureCode != "":
			n.State, n.Deleted = natFailed, n.Since
		case from == natPending:
			n.State = natAvailable
		default:
			n.State, n.Deleted = natDeleted, n.Since
			for _, a := range n.Addresses {
				if err := removeInterfaceByID(tx, keyScope(k), a.InterfaceID); err != nil {
					return err
				}
			}
		}
		return natGateways.Put(tx, k, n)
	})
}

// removeInterfaceByID is removeInterface of one that may be gone, or was never made.
func removeInterfaceByID(tx *store.Tx, sc scope, id string) error {
	if id == "" {
		return nil
	}
	e, err := networkInterfaces.Get(tx, sc.key(id))
	if notFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return removeInterface(tx, sc, e)
}

// routingReconcilers move NAT gateways and peering connections on.
func (s *Service) routingReconcilers() []reconcile.Config {
	return []reconcile.Config{
		{Name: "ec2/nat-gateway", Watcher: natGateways.Watch(s.store, store.Scope{}), Reconcile: s.reconcileNATGateway, Workers: 2},
		{Name: "ec2/vpc-peering-connection", Watcher: peerings.Watch(s.store, store.Scope{}), Reconcile: s.reconcilePeering, Workers: 2},
	}
}
