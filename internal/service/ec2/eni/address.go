package eni

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/ipam"
	"github.com/drydock-dev/drydock/internal/service/ec2/quota"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// AllocateAddress allocates an address to the account until it is released.
func (s *Service) AllocateAddress(ctx context.Context, in *awsec2.AllocateAddressInput) (*awsec2.AllocateAddressOutput, error) {
	sc := resource.ScopeOf(ctx)
	if in.Domain != "" && in.Domain != ec2types.DomainTypeVpc {
		return nil, ec2err.InvalidValue(in.Domain, "domain", "")
	}
	if pool := aws.ToString(in.PublicIpv4Pool); pool != "" && pool != "amazon" {
		if !strings.HasPrefix(pool, "ipv4pool-") { // the end-to-end tests of aws-controllers-k8s/ec2-controller quote it
			return nil, ec2err.InvalidParameterValue("invalid value for parameter pool: %s", pool)
		}
		return nil, ec2err.New("InvalidPublicIpv4PoolID.NotFound", "The pool ID '%s' does not exist.", pool)
	}
	if err := resource.CheckBorderGroup(sc, in.NetworkBorderGroup); err != nil {
		return nil, err
	}
	tags, err := tag.Specified(ctx, in.TagSpecifications, ec2types.ResourceTypeElasticIp)
	if err != nil {
		return nil, err
	}
	a := record.Address{ID: ids.Resource("eipalloc"), Tags: tags}
	err = s.Update(ctx, in.DryRun, func(tx *store.Tx) error {
		if err := quota.Room(tx, sc, quota.Addresses, record.Addresses, resource.All, ec2err.Limit("AddressLimitExceeded", "addresses")); err != nil {
			return err
		}
		ip, err := ipam.Public(sc.Region).Take(tx, 1, a.ID)
		if err != nil {
			return err
		}
		a.PublicIP = ip[0].String()
		return record.Addresses.Create(tx, sc.Key(a.ID), a)
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.AllocateAddressOutput{
		AllocationId: aws.String(a.ID), PublicIp: aws.String(a.PublicIP), Domain: ec2types.DomainTypeVpc,
		PublicIpv4Pool: aws.String("amazon"), NetworkBorderGroup: aws.String(sc.Region),
	}, nil
}

// findAddress returns the address with an allocation ID or an IP address.
func findAddress(r store.Reader, sc resource.Scope, id, ip *string) (record.Address, error) {
	switch {
	case id != nil && ip != nil:
		return record.Address{}, ec2err.Combination("You may specify public IP or allocation id, but not both in the same call")
	case id != nil:
		return resource.Get(r, record.Addresses, sc, *id)
	case ip == nil:
		return record.Address{}, ec2err.Missing("allocationId")
	}
	found := resource.List(r, record.Addresses, sc, func(a record.Address) bool { return a.PublicIP == *ip })
	if len(found) == 0 {
		return record.Address{}, ec2err.AddressNotFound(*ip)
	}
	return found[0], nil
}

// ReleaseAddress releases an address that is not in use.
func (s *Service) ReleaseAddress(ctx context.Context, in *awsec2.ReleaseAddressInput) (*awsec2.ReleaseAddressOutput, error) {
	sc := resource.ScopeOf(ctx)
	if err := resource.CheckBorderGroup(sc, in.NetworkBorderGroup); err != nil {
		return nil, err
	}
	err := s.Update(ctx, in.DryRun, func(tx *store.Tx) error {
		a, err := findAddress(tx, sc, in.AllocationId, in.PublicIp)
		if err != nil {
			return err
		}
		if a.AssociationID != "" {
			if e, err := record.NetworkInterfaces.Get(tx, sc.Key(a.InterfaceID)); err == nil && e.RequesterID != "" {
				return ec2err.NotYours()
			}
			return ec2err.AddressInUse(a.PublicIP)
		}
		record.Addresses.Delete(tx, sc.Key(a.ID))
		return releasePublic(tx, sc, a.PublicIP)
	})
	return &awsec2.ReleaseAddressOutput{}, err
}

// Link associates a free address with a private address of e that has no elastic address. The
// caller stores e.
func Link(a record.Address, tx *store.Tx, sc resource.Scope, e *record.NetworkInterface, private string) (record.Address, error) {
	a.AssociationID, a.InterfaceID, a.InstanceID, a.PrivateIP = ids.Resource("eipassoc"), e.ID, e.Attachment.InstanceID, private
	e.Elastic = append(slices.Clone(e.Elastic), record.ElasticAssociation{AllocationID: a.ID, AssociationID: a.AssociationID, PublicIP: a.PublicIP, PrivateIP: private})
	if private == e.PrivateIP() {
		if err := releasePublic(tx, sc, e.PublicIP); err != nil {
			return a, err
		}
		e.PublicIP = a.PublicIP
		if err := setInstancePublic(tx, sc, *e); err != nil {
			return a, err
		}
	}
	return a, record.Addresses.Put(tx, sc.Key(a.ID), a)
}

// setInstancePublic updates the public address of the instance whose primary interface is e.
func setInstancePublic(tx *store.Tx, sc resource.Scope, e record.NetworkInterface) error {
	if e.Attachment.InstanceID == "" || e.Attachment.DeviceIndex != 0 {
		return nil
	}
	return record.Instances.Update(tx, sc.Key(e.Attachment.InstanceID), func(i *record.Instance) error {
		i.PublicIP = e.PublicIP
		return nil
	})
}

// unlinkElastic disassociates an elastic address from e. The caller stores e.
func unlinkElastic(tx *store.Tx, sc resource.Scope, e *record.NetworkInterface, allocation string) error {
	i := slices.IndexFunc(e.Elastic, func(a record.ElasticAssociation) bool { return a.AllocationID == allocation })
	if i < 0 {
		return nil
	}
	if e.PublicIP == e.Elastic[i].PublicIP {
		e.PublicIP = ""
	}
	e.Elastic = slices.Delete(slices.Clone(e.Elastic), i, i+1)
	return record.Addresses.Update(tx, sc.Key(allocation), func(a *record.Address) error {
		a.AssociationID, a.InterfaceID, a.InstanceID, a.PrivateIP = "", "", "", ""
		return nil
	})
}

// dropElastic disassociates all elastic addresses from e, which is being deleted.
func dropElastic(tx *store.Tx, sc resource.Scope, e *record.NetworkInterface) error {
	for _, a := range slices.Clone(e.Elastic) {
		if err := unlinkElastic(tx, sc, e, a.AllocationID); err != nil {
			return err
		}
	}
	return nil
}

// DropPublic releases the public address of an instance that is stopping. An elastic address stays.
func DropPublic(tx *store.Tx, sc resource.Scope, i *record.Instance) error {
	if i.PublicIP == "" || len(i.Interfaces) == 0 {
		return nil
	}
	e, err := record.NetworkInterfaces.Get(tx, sc.Key(i.Interfaces[0]))
	if err != nil {
		return err
	}
	if _, ok := e.ElasticOf(e.PrivateIP()); ok {
		return nil
	}
	if err := releasePublic(tx, sc, i.PublicIP); err != nil {
		return err
	}
	i.PublicIP, e.PublicIP = "", ""
	return record.NetworkInterfaces.Put(tx, sc.Key(e.ID), e)
}

// Detach detaches an interface from its instance. Its elastic addresses stay. The caller stores the
// interface.
func Detach(e *record.NetworkInterface, tx *store.Tx, sc resource.Scope) error {
	if _, ok := e.ElasticOf(e.PrivateIP()); !ok {
		if err := releasePublic(tx, sc, e.PublicIP); err != nil {
			return err
		}
		e.PublicIP = ""
	}
	e.Attachment = record.InterfaceAttachment{}
	return e.NoteInstance(tx, sc)
}

// associationTarget returns the interface that an AssociateAddress request refers to.
func associationTarget(tx *store.Tx, sc resource.Scope, in *awsec2.AssociateAddressInput) (record.NetworkInterface, error) {
	id := aws.ToString(in.NetworkInterfaceId)
	if in.InstanceId != nil {
		if id != "" {
			return record.NetworkInterface{}, ec2err.TwoTargets()
		}
		i, err := resource.Get(tx, record.Instances, sc, *in.InstanceId)
		if err != nil {
			return record.NetworkInterface{}, err
		}
		switch {
		case i.State != record.Running && i.State != record.Stopped && i.State != record.Stopping:
			// Terraform retries on "pending instance".
			return record.NetworkInterface{}, ec2err.New("InvalidInstanceID", "The %s instance '%s' is not in a valid state for this operation.", i.State, i.ID)
		case len(i.Interfaces) > 1:
			return record.NetworkInterface{}, ec2err.New("InvalidInstanceID", "There are multiple interfaces attached to instance '%s'. Please specify an interface ID for the operation instead.", i.ID)
		}
		id = i.Interfaces[0]
	}
	if id == "" {
		return record.NetworkInterface{}, ec2err.New("MissingParameter", "Either 'InstanceId' or 'NetworkInterfaceId' must be provided") // from memory
	}
	e, err := resource.Get(tx, record.NetworkInterfaces, sc, id)
	if err == nil && e.RequesterID != "" {
		err = ec2err.NotYours()
	}
	return e, err
}

// AssociateAddress associates an address with a private address of an interface. An address
// associated elsewhere is moved, unless the request forbids that.
func (s *Service) AssociateAddress(ctx context.Context, in *awsec2.AssociateAddressInput) (*awsec2.AssociateAddressOutput, error) {
	sc := resource.ScopeOf(ctx)
	move := in.AllowReassociation == nil || *in.AllowReassociation
	var id string
	err := s.Update(ctx, in.DryRun, func(tx *store.Tx) error {
		a, err := findAddress(tx, sc, in.AllocationId, in.PublicIp)
		if err != nil {
			return err
		}
		e, err := associationTarget(tx, sc, in)
		if err != nil {
			return err
		}
		private := e.PrivateIP()
		if private == "" {
			return ec2err.InvalidParameterValue("The network interface '%s' has no private IPv4 address.", e.ID) // from memory
		}
		if in.PrivateIpAddress != nil {
			private = *in.PrivateIpAddress
			if !slices.Contains(e.Addresses, private) {
				return ec2err.InvalidParameterValue("Invalid value '%s' for PrivateIpAddress. The address is not assigned to network interface %s.", private, e.ID) // from memory
			}
		}
		if a.InterfaceID == e.ID && a.PrivateIP == private {
			id = a.AssociationID
			return nil
		}
		routed := resource.Exists(tx, record.InternetGateways, sc, func(g record.InternetGateway) bool { return g.VPCID == e.VPCID })
		if !routed {
			return ec2err.NoInternetGateway(e.VPCID)
		}
		if a.AssociationID != "" {
			if !move {
				return ec2err.AlreadyAssociated("resource %s is already associated with associate-id %s", a.ID, a.AssociationID)
			}
			if err := s.disassociate(tx, sc, a); err != nil {
				return err
			}
			if e, err = resource.Get(tx, record.NetworkInterfaces, sc, e.ID); err != nil {
				return err
			}
			if a, err = resource.Get(tx, record.Addresses, sc, a.ID); err != nil {
				return err
			}
		}
		if old, ok := e.ElasticOf(private); ok {
			if !move {
				// https://github.com/aws-quickstart/quickstart-linux-bastion/issues/21
				return ec2err.AlreadyAssociated("resource %s and %s is already associated with public address %s", e.ID, private, old.PublicIP)
			}
			if err := unlinkElastic(tx, sc, &e, old.AllocationID); err != nil {
				return err
			}
		}
		if a, err = Link(a, tx, sc, &e, private); err != nil {
			return err
		}
		id = a.AssociationID
		return record.NetworkInterfaces.Put(tx, sc.Key(e.ID), e)
	})
	return &awsec2.AssociateAddressOutput{AssociationId: aws.String(id)}, err
}

// disassociate frees an address. An instance that was launched with a public address gets a new
// one, provided that it has only one interface:
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/using-instance-addressing.html#concepts-public-addresses
func (s *Service) disassociate(tx *store.Tx, sc resource.Scope, a record.Address) error {
	e, err := resource.Get(tx, record.NetworkInterfaces, sc, a.InterfaceID)
	if err != nil {
		return err
	}
	if e.RequesterID != "" {
		return ec2err.NotYours()
	}
	if err := unlinkElastic(tx, sc, &e, a.ID); err != nil {
		return err
	}
	if e.PublicIP == "" && e.Attachment.InstanceID != "" && e.Attachment.DeviceIndex == 0 {
		i, err := resource.Get(tx, record.Instances, sc, e.Attachment.InstanceID)
		if err != nil {
			return err
		}
		if i.AutoPublic && len(i.Interfaces) == 1 && (i.State == record.Running || i.State == record.Pending) {
			ip, err := ipam.Public(sc.Region).Take(tx, 1, i.ID)
			if err != nil {
				return err
			}
			e.PublicIP = ip[0].String()
		}
		if err := setInstancePublic(tx, sc, e); err != nil {
			return err
		}
	}
	return record.NetworkInterfaces.Put(tx, sc.Key(e.ID), e)
}

// DisassociateAddress disassociates an address from its interface.
func (s *Service) DisassociateAddress(ctx context.Context, in *awsec2.DisassociateAddressInput) (*awsec2.DisassociateAddressOutput, error) {
	sc := resource.ScopeOf(ctx)
	if (in.AssociationId == nil) == (in.PublicIp == nil) {
		return nil, ec2err.Combination("You must specify exactly one of associationId and publicIp") // from memory
	}
	err := s.Update(ctx, in.DryRun, func(tx *store.Tx) error {
		found := resource.List(tx, record.Addresses, sc, func(a record.Address) bool {
			return in.AssociationId != nil && a.AssociationID == *in.AssociationId && a.AssociationID != "" || in.PublicIp != nil && a.PublicIP == *in.PublicIp
		})
		switch {
		case len(found) == 0 && in.PublicIp != nil:
			return ec2err.AddressNotFound(*in.PublicIp)
		case len(found) == 0:
			return ec2err.AssociationNotFound(*in.AssociationId)
		case found[0].AssociationID == "":
			return nil // the address is already free
		}
		return s.disassociate(tx, sc, found[0])
	})
	return &awsec2.DisassociateAddressOutput{}, err
}

// DescribeAddresses lists elastic addresses, always on a single page.
func (s *Service) DescribeAddresses(ctx context.Context, in *awsec2.DescribeAddressesInput) (*awsec2.DescribeAddressesOutput, error) {
	sc := resource.ScopeOf(ctx)
	wanted := slices.Clone(in.AllocationIds)
	for _, ip := range in.PublicIps {
		a, err := findAddress(s.Store, sc, nil, &ip)
		if err != nil {
			return nil, err
		}
		wanted = append(wanted, a.ID)
	}
	type v = record.Address
	found, _, err := resource.Describe(s.Store, sc, record.Addresses, resource.Query{IDs: wanted, Filters: in.Filters, DryRun: in.DryRun}, filter.Fields[v]{
		"allocation-id":        filter.One(func(a v) string { return a.ID }),
		"association-id":       filter.One(func(a v) string { return a.AssociationID }),
		"domain":               filter.One(func(v) string { return "vpc" }),
		"instance-id":          filter.One(func(a v) string { return a.InstanceID }),
		"network-border-group": filter.One(func(v) string { return sc.Region }),
		"network-interface-id": filter.One(func(a v) string { return a.InterfaceID }),
		"network-interface-owner-id": filter.One(func(a v) string {
			if a.InterfaceID == "" {
				return ""
			}
			return sc.Account
		}),
		"private-ip-address": filter.One(func(a v) string { return a.PrivateIP }),
		"public-ip":          filter.One(func(a v) string { return a.PublicIP }),
	})
	return &awsec2.DescribeAddressesOutput{Addresses: resource.SDKAll(sc, found)}, err
}

// DescribeAddressesAttribute returns the reverse DNS names of addresses, which are AWS's own.
// Terraform calls it after every allocation.
func (s *Service) DescribeAddressesAttribute(ctx context.Context, in *awsec2.DescribeAddressesAttributeInput) (*awsec2.DescribeAddressesAttributeOutput, error) {
	sc := resource.ScopeOf(ctx)
	if in.Attribute != "" && in.Attribute != ec2types.AddressAttributeNameDomainName {
		return nil, ec2err.InvalidValue(in.Attribute, "attribute", "")
	}
	found, next, err := resource.Describe(s.Store, sc, record.Addresses, resource.Query{
		IDs: in.AllocationIds, DryRun: in.DryRun, MaxResults: in.MaxResults, NextToken: in.NextToken, Limits: resource.Limits{Min: 1, Max: 1000},
	}, nil)
	if err != nil {
		return nil, err
	}
	out := &awsec2.DescribeAddressesAttributeOutput{NextToken: next, Addresses: []ec2types.AddressAttribute{}}
	for _, a := range found {
		attr := ec2types.AddressAttribute{AllocationId: aws.String(a.ID), PublicIp: aws.String(a.PublicIP)}
		if in.Attribute != "" {
			attr.PtrRecord = aws.String(record.PublicDNSName(sc.Region, a.PublicIP) + ".")
		}
		out.Addresses = append(out.Addresses, attr)
	}
	return out, nil
}
