package ec2

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/service/ec2/keypair"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/store"
)

// associated returns the ID of the resource behind an association, attachment or address ID in a
// request. Any other ID is returned as it is.
func (s *Service) associated(sc resource.Scope, kind, id string) string {
	prefix := id[:strings.LastIndexByte(id, '-')+1]
	switch kind + " " + prefix {
	case "vpc vpc-cidr-assoc-":
		return holder(s.Store, record.VPCs, sc, id, func(v record.VPC) (string, bool) {
			return v.ID, named(id, v.Blocks()) || named(id, v.IPv6)
		})
	case "vpc pcx-":
		return holder(s.Store, record.Peerings, sc, id, func(p record.Peering) (string, bool) { return p.Accepter.VPCID, p.ID == id })
	case "subnet subnet-cidr-assoc-":
		return holder(s.Store, record.Subnets, sc, id, func(sn record.Subnet) (string, bool) { return sn.ID, named(id, sn.IPv6) })
	case "subnet aclassoc-":
		subnet := id
		return holder(s.Store, record.NetworkACLs, sc, id, func(n record.NetworkACL) (string, bool) {
			i := slices.IndexFunc(n.Associations, func(a record.NetworkACLAssociation) bool { return a.ID == id })
			if i >= 0 {
				subnet = n.Associations[i].SubnetID
			}
			return subnet, i >= 0
		})
	case "instance iip-assoc-":
		return holder(s.Store, record.Instances, sc, id, func(i record.Instance) (string, bool) {
			return i.ID, i.Profile != nil && i.Profile.AssociationID == id
		})
	case "instance eni-attach-":
		return holder(s.Store, record.NetworkInterfaces, sc, id, func(e record.NetworkInterface) (string, bool) {
			return e.Attachment.InstanceID, e.Attachment.ID == id
		})
	case "network-interface eni-attach-":
		return holder(s.Store, record.NetworkInterfaces, sc, id, func(e record.NetworkInterface) (string, bool) { return e.ID, e.Attachment.ID == id })
	case "route-table rtbassoc-":
		return holder(s.Store, record.RouteTables, sc, id, func(t record.RouteTable) (string, bool) {
			return t.ID, slices.ContainsFunc(t.Associations, func(a record.RouteTableAssociation) bool { return a.ID == id })
		})
	}
	if kind != "elastic-ip" && kind != "network-interface" {
		return id
	}
	if _, err := netip.ParseAddr(id); err == nil || prefix == "eipassoc-" {
		return holder(s.Store, record.Addresses, sc, id, func(a record.Address) (string, bool) {
			of := a.ID
			if kind == "network-interface" {
				of = a.InterfaceID
			}
			return of, of != "" && (a.AssociationID == id || a.PublicIP == id)
		})
	}
	return id
}

func named(id string, blocks []record.CIDRAssociation) bool {
	return slices.ContainsFunc(blocks, func(a record.CIDRAssociation) bool { return a.ID == id })
}

// holder returns the value of `of` for the record that it matches, or id if it matches none.
func holder[T any](r store.Reader, c resource.Records[T], sc resource.Scope, id string, of func(T) (string, bool)) string {
	found := id
	resource.List(r, c, sc, func(v T) bool { // unreadable records count as missing
		if own, ok := of(v); ok {
			found = own
		}
		return false
	})
	return found
}

// keyPairTargets are the key pairs that DeleteKeyPair deletes. An ID never matches the name of
// another pair.
func (s *Service) keyPairTargets(sc resource.Scope, in *awsec2.DeleteKeyPairInput) []authz.Target {
	var out []authz.Target
	if id := aws.ToString(in.KeyPairId); id != "" {
		name := holder(s.Store, keypair.KeyPairs, sc, "", func(k keypair.KeyPair) (string, bool) { return k.Name, k.ID == id })
		if name == "" {
			out = append(out, authz.Target{Type: "key-pair", ID: id, New: true}) // nothing is stored for it
		} else {
			out = append(out, authz.Target{Type: "key-pair", ID: name})
		}
	}
	if name := aws.ToString(in.KeyName); name != "" || out == nil {
		out = append(out, authz.Target{Type: "key-pair", ID: name})
	}
	return out
}

// profileTargets are the roles that fleets with these launch templates will give to instances
// later, on the caller's behalf. Instant fleets are authorized for each launch instead.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/permission-to-pass-iam-roles.html
func (s *Service) profileTargets(ctx context.Context, sc resource.Scope, configs []ec2types.FleetLaunchTemplateConfigRequest) []authz.Target {
	var out []authz.Target
	var seen []string
	for _, c := range configs {
		t := c.LaunchTemplateSpecification
		if t == nil {
			continue
		}
		launch := &awsec2.RunInstancesInput{LaunchTemplate: &ec2types.LaunchTemplateSpecification{
			LaunchTemplateId: t.LaunchTemplateId, LaunchTemplateName: t.LaunchTemplateName, Version: t.Version,
		}}
		merged, _, err := mergedLaunch(s.Store, sc, launch)
		if err != nil {
			continue // the handler returns the error
		}
		v := launchView{s: s, sc: sc, in: merged, given: launch}
		v.findProfile(ctx)
		if v.role != "" && !slices.Contains(seen, v.role) {
			seen = append(seen, v.role)
			out = append(out, v.passed())
		}
	}
	return out
}

// passed is the role that a launch passes to its instances.
func (v *launchView) passed() authz.Target {
	return authz.Target{Action: "iam:PassRole", Type: "role", ID: v.role, Keys: keyed("iam:passedtoservice", "ec2.amazonaws.com")}
}
