package eni

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// ModifyNetworkInterfaceAttribute changes one attribute.
func (s *Service) ModifyNetworkInterfaceAttribute(ctx context.Context, in *awsec2.ModifyNetworkInterfaceAttributeInput) (*awsec2.ModifyNetworkInterfaceAttributeOutput, error) {
	sc := resource.ScopeOf(ctx)
	var given []string
	for _, a := range []struct {
		name    string
		present bool
	}{{"description", in.Description != nil}, {"groupSet", len(in.Groups) > 0}, {"sourceDestCheck", in.SourceDestCheck != nil}, {"attachment", in.Attachment != nil}} {
		if a.present {
			given = append(given, a.name)
		}
	}
	if err := resource.CheckAttributes(given); err != nil {
		return nil, err
	}
	_, err := resource.Change(ctx, s.Core, record.NetworkInterfaces, in.DryRun, in.NetworkInterfaceId, func(tx *store.Tx, e *record.NetworkInterface) (err error) {
		if e.RequesterID != "" && !tag.MayReserve(ctx) {
			return ec2err.NotYours()
		}
		switch {
		case in.Description != nil:
			e.Description = aws.ToString(in.Description.Value)
		case in.SourceDestCheck != nil:
			e.NoSourceDestCheck = !aws.ToBool(in.SourceDestCheck.Value)
		case len(in.Groups) > 0:
			if e.Groups, err = ResolveGroups(tx, sc, e.VPCID, in.Groups); err != nil {
				return err
			}
		default:
			if e.Attachment.ID == "" || e.Attachment.ID != aws.ToString(in.Attachment.AttachmentId) {
				return ec2err.New("InvalidAttachmentID.NotFound", "The network interface attachment '%s' does not exist.", aws.ToString(in.Attachment.AttachmentId))
			}
			if in.Attachment.DeleteOnTermination != nil {
				e.Attachment.DeleteOnTermination = *in.Attachment.DeleteOnTermination
			}
		}
		return nil
	})
	return &awsec2.ModifyNetworkInterfaceAttributeOutput{}, err
}

// ResetNetworkInterfaceAttribute turns source/destination checking back on.
func (s *Service) ResetNetworkInterfaceAttribute(ctx context.Context, in *awsec2.ResetNetworkInterfaceAttributeInput) (*awsec2.ResetNetworkInterfaceAttributeOutput, error) {
	if in.SourceDestCheck == nil {
		return nil, ec2err.Missing("sourceDestCheck")
	}
	_, err := resource.Change(ctx, s.Core, record.NetworkInterfaces, in.DryRun, in.NetworkInterfaceId, func(tx *store.Tx, e *record.NetworkInterface) error {
		e.NoSourceDestCheck = false
		return nil
	})
	return &awsec2.ResetNetworkInterfaceAttributeOutput{}, err
}

// DescribeNetworkInterfaceAttribute returns one attribute.
func (s *Service) DescribeNetworkInterfaceAttribute(ctx context.Context, in *awsec2.DescribeNetworkInterfaceAttributeInput) (*awsec2.DescribeNetworkInterfaceAttributeOutput, error) {
	sc := resource.ScopeOf(ctx)
	e, err := resource.Get(s.Store, record.NetworkInterfaces, sc, aws.ToString(in.NetworkInterfaceId))
	if err != nil {
		return nil, err
	}
	if err := resource.CheckDryRun(in.DryRun); err != nil {
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
		return nil, ec2err.InvalidValue(in.Attribute, "attribute", "Unknown attribute.")
	}
	return out, nil
}
