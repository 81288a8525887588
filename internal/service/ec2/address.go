package ec2

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// An addressRecord is an elastic IP address. It is associated with one private
// address of an interface, or with none.
type addressRecord struct {
	ID            string // eipalloc-…
	PublicIP      string
	AssociationID string `json:",omitempty"` // eipassoc-…; empty while free
	InterfaceID   string `json:",omitempty"`
	InstanceID    string `json:",omitempty"`
	PrivateIP     string `json:",omitempty"`
	Tags          Tags   `json:",omitempty"`
}

func addressKind() kindOf[addressRecord] {
	return kindOf[addressRecord]{addresses, addressID, func(a *addressRecord) (string, *Tags) { return a.ID, &a.Tags }}
}

func (a addressRecord) sdk(sc scope) ec2types.Address {
	out := ec2types.Address{
		AllocationId: aws.String(a.ID), PublicIp: aws.String(a.PublicIP), Domain: ec2types.DomainTypeVpc,
		PublicIpv4Pool: aws.String("amazon"), NetworkBorderGroup: aws.String(sc.region),
		AssociationId: optional(a.AssociationID), NetworkInterfaceId: optional(a.InterfaceID), PrivateIpAddress: optional(a.PrivateIP),
		InstanceId: optional(a.InstanceID), Tags: a.Tags.sdk(),
	}
	if a.AssociationID != "" {
		out.NetworkInterfaceOwnerId = aws.String(sc.account)
	}
	return out
}

// AllocateAddress takes an address for the account until it is released.
func (s *Service) AllocateAddress(ctx context.Context, in *awsec2.AllocateAddressInput) (*awsec2.AllocateAddressOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	if in.Domain != "" && in.Domain != ec2types.DomainTypeVpc {
		return nil, errInvalidValue(in.Domain, "domain", "")
	}
	if pool := aws.ToString(in.PublicIpv4Pool); pool != "" && pool != "amazon" {
		if !strings.HasPrefix(pool, "ipv4pool-") { // the end-to-end tests of aws-controllers-k8s/ec2-controller quote it
			return nil, errInvalidParameter("invalid value for parameter pool: %s", pool)
		}
		return nil, errf("InvalidPublicIpv4PoolID.NotFound", "The pool ID '%s' does not exist.", pool)
	}
	if err := checkBorderGroup(sc, in.NetworkBorderGroup); err != nil {
		return nil, err
	}
	tags, err := specifiedTags(ctx, in.TagSpecifications, ec2types.ResourceTypeElasticIp)
	if err != nil {
		return nil, err
	}
	a := addressRecord{ID: ids.Resource("eipalloc"), Tags: tags}
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		n, err := count(tx, addresses, sc, func(addressRecord) bool { return true })
		if err != nil {
			return err
		}
		if err := checkQuota(tx, sc, quotaAddresses, n+1, errLimit("AddressLimitExceeded", "addresses")); err != nil {
			return err
		}
		ip, err := publicPool(sc.region).take(tx, 1, a.ID)
		if err != nil {
			return err
		}
		a.PublicIP = ip[0].String()
		return addresses.Create(tx, sc.key(a.ID), a)
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.AllocateAddressOutput{
		AllocationId: aws.String(a.ID), PublicIp: aws.String(a.PublicIP), Domain: ec2types.DomainTypeVpc,
		PublicIpv4Pool: aws.String("amazon"), NetworkBorderGroup: aws.String(sc.region),
	}, nil
}

// findAddress returns an address by its allocation or by itself.
func findAddress(r store.Reader, sc scope, id, ip *string) (addressRecord, error) {
	switch {
	case id != nil && ip != nil:
		return addressRecord{}, errCombination("You may specify public IP or allocation id, but not both in the same call")
	case id != nil:
		return get(r, addresses, sc, addressID, *id)
	case ip == nil:
		return addressRecord{}, errMissing("allocationId")
	}
	found, err := list(r, addresses, sc, func(a addressRecord) bool { return a.PublicIP == *ip })
	if err == nil && len(found) == 0 {
		err = errAddressNotFound(*ip)
	}
	if err != nil {
		return addressRecord{}, err
	}
	return found[0], nil
}

// ReleaseAddress gives an address back that nothing uses.
func (s *Service) ReleaseAddress(ctx context.Context, in *awsec2.ReleaseAddressInput) (*awsec2.ReleaseAddressOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	if err := checkBorderGroup(sc, in.NetworkBorderGroup); err != nil {
		return nil, err
	}
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		a, err := findAddress(tx, sc, in.AllocationId, in.PublicIp)
		if err != nil {
			return err
		}
		if a.AssociationID != "" {
			if e, err := networkInterfaces.Get(tx, sc.key(a.InterfaceID)); err == nil && e.RequesterID != "" {
				return errNotYours()
			}
			return errAddressInUse(a.PublicIP)
		}
		addresses.Delete(tx, sc.key(a.ID))
		return releasePublic(tx, sc, a.PublicIP)
	})
	return &awsec2.ReleaseAddressOutput{}, err
}

// elastic returns the elastic address of a private address.
func (e networkInterfaceRecord) elastic(private string) (elasticAssociation, bool) {
	i := slices.IndexFunc(e.Elastic, func(a elasticAssociation) bool { return a.PrivateIP == private })
	if i < 0 {
		return elasticAssociation{}, false
	}
	return e.Elastic[i], true
}

// association renders the public address of a private one; nil if there is none.
func (e networkInterfaceRecord) association(sc scope, private string) *ec2types.NetworkInterfaceAssociation {
	if a, ok := e.elastic(private); ok {
		return &ec2types.NetworkInterfaceAssociation{
			AllocationId: aws.String(a.AllocationID), AssociationId: aws.String(a.AssociationID), IpOwnerId: aws.String(sc.account),
			PublicIp: aws.String(a.PublicIP), PublicDnsName: aws.String(publicDNSName(sc.region, a.PublicIP)),
		}
	}
	if e.PublicIP == "" || private != e.Addresses[0] {
		return nil
	}
	return &ec2types.NetworkInterfaceAssociation{
		IpOwnerId: aws.String("amazon"), PublicIp: aws.String(e.PublicIP), PublicDnsName: aws.String(publicDNSName(sc.region, e.PublicIP)),
	}
}

// instanceAssociation is association as DescribeInstances has it. dns is the
// public name, which is empty in a VPC without host names.
func (e networkInterfaceRecord) instanceAssociation(sc scope, private, dns string) *ec2types.InstanceNetworkInterfaceAssociation {
	a := e.association(sc, private)
	if a == nil {
		return nil
	}
	if dns != "" {
		dns = *a.PublicDnsName
	}
	return &ec2types.InstanceNetworkInterfaceAssociation{IpOwnerId: a.IpOwnerId, PublicIp: a.PublicIp, PublicDnsName: aws.String(dns)}
}

// link associates a free address with a private one of e that has no elastic
// address; the caller writes e.
func (a addressRecord) link(tx *store.Tx, sc scope, e *networkInterfaceRecord, private string) (addressRecord, error) {
	a.AssociationID, a.InterfaceID, a.InstanceID, a.PrivateIP = ids.Resource("eipassoc"), e.ID, e.Attachment.InstanceID, private
	e.Elastic = append(slices.Clone(e.Elastic), elasticAssociation{a.ID, a.AssociationID, a.PublicIP, private})
	if private == e.Addresses[0] {
		if err := releasePublic(tx, sc, e.PublicIP); err != nil {
			return a, err
		}
		e.PublicIP = a.PublicIP
		if err := setInstancePublic(tx, sc, *e); err != nil {
			return a, err
		}
	}
	return a, addresses.Put(tx, sc.key(a.ID), a)
}

// setInstancePublic tells the instance whose primary interface e is its public address.
func setInstancePublic(tx *store.Tx, sc scope, e networkInterfaceRecord) error {
	if e.Attachment.InstanceID == "" || e.Attachment.DeviceIndex != 0 {
		return nil
	}
	return instances.Update(tx, sc.key(e.Attachment.InstanceID), func(i *instanceRecord) error {
		i.PublicIP = e.PublicIP
		return nil
	})
}

// unlinkElastic frees an elastic address of e; the caller writes e.
func unlinkElastic(tx *store.Tx, sc scope, e *networkInterfaceRecord, allocation string) error {
	i := slices.IndexFunc(e.Elastic, func(a elasticAssociation) bool { return a.AllocationID == allocation })
	if i < 0 {
		return nil
	}
	if e.PublicIP == e.Elastic[i].PublicIP {
		e.PublicIP = ""
	}
	e.Elastic = slices.Delete(slices.Clone(e.Elastic), i, i+1)
	return addresses.Update(tx, sc.key(allocation), func(a *addressRecord) error {
		a.AssociationID, a.InterfaceID, a.InstanceID, a.PrivateIP = "", "", "", ""
		return nil
	})
}

// dropElastic frees all elastic addresses of e, which goes away.
func dropElastic(tx *store.Tx, sc scope, e *networkInterfaceRecord) error {
	for _, a := range slices.Clone(e.Elastic) {
		if err := unlinkElastic(tx, sc, e, a.AllocationID); err != nil {
			return err
		}
	}
	return nil
}

// dropPublic gives back the public address of an instance that stops; an elastic
// one stays.
func dropPublic(tx *store.Tx, sc scope, i *instanceRecord) error {
	if i.PublicIP == "" || len(i.Interfaces) == 0 {
		return nil
	}
	e, err := networkInterfaces.Get(tx, sc.key(i.Interfaces[0]))
	if err != nil {
		return err
	}
	if _, ok := e.elastic(e.Addresses[0]); ok {
		return nil
	}
	if err := releasePublic(tx, sc, i.PublicIP); err != nil {
		return err
	}
	i.PublicIP, e.PublicIP = "", ""
	return networkInterfaces.Put(tx, sc.key(e.ID), e)
}

// detach takes an interface, which the caller writes, off an instance that is
// gone or that it leaves. Elastic addresses stay with the interface.
func (e *networkInterfaceRecord) detach(tx *store.Tx, sc scope) error {
	if _, ok := e.elastic(e.Addresses[0]); !ok {
		if err := releasePublic(tx, sc, e.PublicIP); err != nil {
			return err
		}
		e.PublicIP = ""
	}
	e.Attachment = interfaceAttachment{}
	return e.noteInstance(tx, sc)
}

// noteInstance tells the elastic addresses of e which instance it is attached to.
func (e networkInterfaceRecord) noteInstance(tx *store.Tx, sc scope) error {
	for _, el := range e.Elastic {
		err := addresses.Update(tx, sc.key(el.AllocationID), func(a *addressRecord) error {
			a.InstanceID = e.Attachment.InstanceID
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// associationTarget finds the interface that AssociateAddress means.
func associationTarget(tx *store.Tx, sc scope, in *awsec2.AssociateAddressInput) (networkInterfaceRecord, error) {
	id := aws.ToString(in.NetworkInterfaceId)
	if in.InstanceId != nil {
		if id != "" {
			return networkInterfaceRecord{}, errTwoTargets()
		}
		i, err := get(tx, instances, sc, instanceID, *in.InstanceId)
		if err != nil {
			return networkInterfaceRecord{}, err
		}
		switch {
		case i.State != stateRunning && i.State != stateStopped && i.State != stateStopping:
			// Terraform retries on "pending instance".
			return networkInterfaceRecord{}, errf("InvalidInstanceID", "The %s instance '%s' is not in a valid state for this operation.", i.State, i.ID)
		case len(i.Interfaces) > 1:
			return networkInterfaceRecord{}, errf("InvalidInstanceID", "There are multiple interfaces attached to instance '%s'. Please specify an interface ID for the operation instead.", i.ID)
		}
		id = i.Interfaces[0]
	}
	if id == "" {
		return networkInterfaceRecord{}, errf("MissingParameter", "Either 'InstanceId' or 'NetworkInterfaceId' must be provided") // from memory
	}
	e, err := get(tx, networkInterfaces, sc, networkInterfaceID, id)
	if err == nil && e.RequesterID != "" {
		err = errNotYours()
	}
	return e, err
}

// AssociateAddress points an address to a private one of an interface, taking it
// off another unless that is forbidden.
func (s *Service) AssociateAddress(ctx context.Context, in *awsec2.AssociateAddressInput) (*awsec2.AssociateAddressOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	move := in.AllowReassociation == nil || *in.AllowReassociation
	var id string
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		a, err := findAddress(tx, sc, in.AllocationId, in.PublicIp)
		if err != nil {
			return err
		}
		e, err := associationTarget(tx, sc, in)
		if err != nil {
			return err
		}
		private := e.Addresses[0]
		if in.PrivateIpAddress != nil {
			private = *in.PrivateIpAddress
			if !slices.Contains(e.Addresses, private) {
				return errInvalidParameter("Invalid value '%s' for PrivateIpAddress. The address is not assigned to network interface %s.", private, e.ID) // from memory
			}
		}
		if a.InterfaceID == e.ID && a.PrivateIP == private {
			id = a.AssociationID
			return nil
		}
		routed, err := exists(tx, internetGateways, sc, func(g internetGatewayRecord) bool { return g.VPCID == e.VPCID })
		if err != nil {
			return err
		}
		if !routed {
			return errNoInternetGateway(e.VPCID)
		}
		if a.AssociationID != "" {
			if !move {
				return errAlreadyAssociated("resource %s is already associated with associate-id %s", a.ID, a.AssociationID)
			}
			if err := s.disassociate(tx, sc, a); err != nil {
				return err
			}
			if e, err = get(tx, networkInterfaces, sc, networkInterfaceID, e.ID); err != nil {
				return err
			}
			if a, err = get(tx, addresses, sc, addressID, a.ID); err != nil {
				return err
			}
		}
		if old, ok := e.elastic(private); ok {
			if !move {
				// https://github.com/aws-quickstart/quickstart-linux-bastion/issues/21
				return errAlreadyAssociated("resource %s and %s is already associated with public address %s", e.ID, private, old.PublicIP)
			}
			if err := unlinkElastic(tx, sc, &e, old.AllocationID); err != nil {
				return err
			}
		}
		if a, err = a.link(tx, sc, &e, private); err != nil {
			return err
		}
		id = a.AssociationID
		return networkInterfaces.Put(tx, sc.key(e.ID), e)
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.AssociateAddressOutput{AssociationId: aws.String(id)}, nil
}

// disassociate frees an address. An instance that got a public address at its
// launch gets a new one, as long as it has one interface:
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/using-instance-addressing.html#concepts-public-addresses
func (s *Service) disassociate(tx *store.Tx, sc scope, a addressRecord) error {
	e, err := get(tx, networkInterfaces, sc, networkInterfaceID, a.InterfaceID)
	if err != nil {
		return err
	}
	if e.RequesterID != "" {
		return errNotYours()
	}
	if err := unlinkElastic(tx, sc, &e, a.ID); err != nil {
		return err
	}
	if e.PublicIP == "" && e.Attachment.InstanceID != "" && e.Attachment.DeviceIndex == 0 {
		i, err := get(tx, instances, sc, instanceID, e.Attachment.InstanceID)
		if err != nil {
			return err
		}
		if i.AutoPublic && len(i.Interfaces) == 1 && (i.State == stateRunning || i.State == statePending) {
			ip, err := publicPool(sc.region).take(tx, 1, i.ID)
			if err != nil {
				return err
			}
			e.PublicIP = ip[0].String()
		}
		if err := setInstancePublic(tx, sc, e); err != nil {
			return err
		}
	}
	return networkInterfaces.Put(tx, sc.key(e.ID), e)
}

// DisassociateAddress takes an address off its interface.
func (s *Service) DisassociateAddress(ctx context.Context, in *awsec2.DisassociateAddressInput) (*awsec2.DisassociateAddressOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	if (in.AssociationId == nil) == (in.PublicIp == nil) {
		return nil, errCombination("You must specify exactly one of associationId and publicIp") // from memory
	}
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		found, err := list(tx, addresses, sc, func(a addressRecord) bool {
			return in.AssociationId != nil && a.AssociationID == *in.AssociationId && a.AssociationID != "" || in.PublicIp != nil && a.PublicIP == *in.PublicIp
		})
		if err != nil {
			return err
		}
		switch {
		case len(found) == 0 && in.PublicIp != nil:
			return errAddressNotFound(*in.PublicIp)
		case len(found) == 0:
			return errAssociationNotFound(*in.AssociationId)
		case found[0].AssociationID == "":
			return nil // an address that is free already
		}
		return s.disassociate(tx, sc, found[0])
	})
	return &awsec2.DisassociateAddressOutput{}, err
}

// DescribeAddresses lists elastic addresses; it has no pages.
func (s *Service) DescribeAddresses(ctx context.Context, in *awsec2.DescribeAddressesInput) (*awsec2.DescribeAddressesOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	wanted := slices.Clone(in.AllocationIds)
	for _, ip := range in.PublicIps {
		a, err := findAddress(s.store, sc, nil, &ip)
		if err != nil {
			return nil, err
		}
		wanted = append(wanted, a.ID)
	}
	type v = addressRecord
	found, _, err := describe(s.store, sc, addressKind(), query{ids: wanted, filters: in.Filters, dryRun: in.DryRun}, fields[v]{
		"allocation-id":        one(func(a v) string { return a.ID }),
		"association-id":       one(func(a v) string { return a.AssociationID }),
		"domain":               one(func(v) string { return "vpc" }),
		"instance-id":          one(func(a v) string { return a.InstanceID }),
		"network-border-group": one(func(v) string { return sc.region }),
		"network-interface-id": one(func(a v) string { return a.InterfaceID }),
		"network-interface-owner-id": one(func(a v) string {
			if a.InterfaceID == "" {
				return ""
			}
			return sc.account
		}),
		"private-ip-address": one(func(a v) string { return a.PrivateIP }),
		"public-ip":          one(func(a v) string { return a.PublicIP }),
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.DescribeAddressesOutput{Addresses: sdkAll(sc, found)}, nil
}

// DescribeAddressesAttribute tells the reverse DNS names of addresses, which are
// AWS's own. Terraform reads it after every allocation.
func (s *Service) DescribeAddressesAttribute(ctx context.Context, in *awsec2.DescribeAddressesAttributeInput) (*awsec2.DescribeAddressesAttributeOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	if in.Attribute != "" && in.Attribute != ec2types.AddressAttributeNameDomainName {
		return nil, errInvalidValue(in.Attribute, "attribute", "")
	}
	found, next, err := describe(s.store, sc, addressKind(), query{
		ids: in.AllocationIds, dryRun: in.DryRun, maxResults: in.MaxResults, nextToken: in.NextToken, lim: limits{1, 1000},
	}, nil)
	if err != nil {
		return nil, err
	}
	out := &awsec2.DescribeAddressesAttributeOutput{NextToken: next, Addresses: []ec2types.AddressAttribute{}}
	for _, a := range found {
		attr := ec2types.AddressAttribute{AllocationId: aws.String(a.ID), PublicIp: aws.String(a.PublicIP)}
		if in.Attribute != "" {
			attr.PtrRecord = aws.String(publicDNSName(sc.region, a.PublicIP) + ".")
		}
		out.Addresses = append(out.Addresses, attr)
	}
	return out, nil
}
