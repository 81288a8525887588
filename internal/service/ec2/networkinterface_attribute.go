package ec2

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/store"
)

// ModifyNetworkInterfaceAttribute changes one attribute.
func (s *Service) ModifyNetworkInterfaceAttribute(ctx context.Context, in *awsec2.ModifyNetworkInterfaceAttributeInput) (*awsec2.ModifyNetworkInterfaceAttributeOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	var given []string
	for _, a := range []struct {
		name    string
		present bool
	}{{"description", in.Description != nil}, {"groupSet", len(in.Groups) > 0}, {"sourceDestCheck", in.SourceDestCheck != nil}, {"attachment", in.Attachment != nil}} {
		if a.present {
			given = append(given, a.name)
		}
	}
	if err := checkAttributes(given); err != nil {
		return nil, err
	}
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		e, err := get(tx, networkInterfaces, sc, networkInterfaceID, aws.ToString(in.NetworkInterfaceId))
		if err != nil {
			return err
		}
		if e.RequesterID != "" && !mayReserve(ctx) {
			return errNotYours()
		}
		switch {
		case in.Description != nil:
			e.Description = aws.ToString(in.Description.Value)
		case in.SourceDestCheck != nil:
			e.NoSourceDestCheck = !aws.ToBool(in.SourceDestCheck.Value)
		case len(in.Groups) > 0:
			if e.Groups, err = resolveGroups(tx, sc, e.VPCID, in.Groups); err != nil {
				return err
			}
		default:
			if e.Attachment.ID == "" || e.Attachment.ID != aws.ToString(in.Attachment.AttachmentId) {
				return errf("InvalidAttachmentID.NotFound", "The network interface attachment '%s' does not exist.", aws.ToString(in.Attachment.AttachmentId))
			}
			if in.Attachment.DeleteOnTermination != nil {
				e.Attachment.DeleteOnTermination = *in.Attachment.DeleteOnTermination
			}
		}
		return networkInterfaces.Put(tx, sc.key(e.ID), e)
	})
	return &awsec2.ModifyNetworkInterfaceAttributeOutput{}, err
}

// ResetNetworkInterfaceAttribute turns source and destination checking on again.
func (s *Service) ResetNetworkInterfaceAttribute(ctx context.Context, in *awsec2.ResetNetworkInterfaceAttributeInput) (*awsec2.ResetNetworkInterfaceAttributeOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	if in.SourceDestCheck == nil {
		return nil, errMissing("sourceDestCheck")
	}
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		e, err := get(tx, networkInterfaces, sc, networkInterfaceID, aws.ToString(in.NetworkInterfaceId))
		if err != nil {
			return err
		}
		e.NoSourceDestCheck = false
		return networkInterfaces.Put(tx, sc.key(e.ID), e)
	})
	return &awsec2.ResetNetworkInterfaceAttributeOutput{}, err
}

// DescribeNetworkInterfaceAttribute returns one attribute.
func (s *Service) DescribeNetworkInterfaceAttribute(ctx context.Context, in *awsec2.DescribeNetworkInterfaceAttributeInput) (*awsec2.DescribeNetworkInterfaceAttributeOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	e, err := get(s.store, networkInterfaces, sc, networkInterfaceID, aws.ToString(in.NetworkInterfaceId))
	if err != nil {
		return nil, err
	}
	if err := checkDryRun(in.DryRun); err != nil {
		return nil, err
	}
	full := s.sdkInterface(sc, e)
	out := &awsec2.DescribeNetworkInterfaceAttributeOutput{NetworkInterfaceId: aws.String(e.ID)}
	switch in.Attribute {
	case ec2types.NetworkInterfaceAttributeDescription:
		out.Description = &ec2types.AttributeValue{Value: full.Description}
	case ec2types.NetworkInterfaceAttributeGroupSet:
		out.Groups = full.Groups
	case ec2types.NetworkInterfaceAttributeSourceDestCheck:
		out.SourceDestCheck = &ec2types.AttributeBooleanValue{Value: full.SourceDestCheck}
	case ec2types.NetworkInterfaceAttributeAttachment:
		out.Attachment = full.Attachment
	case "associatePublicIpAddress":
		out.AssociatePublicIpAddress = aws.Bool(e.PublicIP != "" && len(e.Elastic) == 0)
	default:
		return nil, errInvalidValue(in.Attribute, "attribute", "Unknown attribute.")
	}
	return out, nil
}
