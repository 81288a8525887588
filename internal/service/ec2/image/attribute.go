package image

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/store"
)

func launchPermissions(in []ec2types.LaunchPermission) []resource.Permission {
	return resource.Map(in, func(p ec2types.LaunchPermission) resource.Permission {
		return resource.Permission{Account: aws.ToString(p.UserId), Group: string(p.Group)}
	})
}

// ModifyImageAttribute changes who may launch an image, or its description.
func (s *Service) ModifyImageAttribute(ctx context.Context, in *awsec2.ModifyImageAttributeInput) (*awsec2.ModifyImageAttributeOutput, error) {
	change := in.LaunchPermission
	if change == nil {
		change = &ec2types.LaunchPermissionModifications{}
	}
	add, remove, err := resource.Requested(string(in.OperationType), in.UserIds, in.UserGroups, launchPermissions(change.Add), launchPermissions(change.Remove))
	if err != nil {
		return nil, err
	}
	description := in.Description
	switch aws.ToString(in.Attribute) {
	case "", "launchPermission":
	case "description":
		if description == nil {
			description = &ec2types.AttributeValue{Value: in.Value}
		}
	default:
		return nil, ec2err.InvalidValue(*in.Attribute, "attribute", "")
	}
	_, err = resource.Change(ctx, s.Core, Images, in.DryRun, in.ImageId, func(_ *store.Tx, v *Image) (err error) {
		if description != nil {
			v.Description = aws.ToString(description.Value)
		}
		v.Shared, err = v.Shared.Change(add, remove)
		return err
	})
	return &awsec2.ModifyImageAttributeOutput{}, err
}

// ResetImageAttribute removes all launch permissions, so that only the owner can launch the image.
func (s *Service) ResetImageAttribute(ctx context.Context, in *awsec2.ResetImageAttributeInput) (*awsec2.ResetImageAttributeOutput, error) {
	if in.Attribute != ec2types.ResetImageAttributeNameLaunchPermission {
		return nil, ec2err.InvalidValue(string(in.Attribute), "attribute", "")
	}
	_, err := resource.Change(ctx, s.Core, Images, in.DryRun, in.ImageId, func(_ *store.Tx, v *Image) error {
		v.Shared = resource.Sharing{}
		return nil
	})
	return &awsec2.ResetImageAttributeOutput{}, err
}

// DescribeImageAttribute returns an attribute of one of the account's images.
func (s *Service) DescribeImageAttribute(ctx context.Context, in *awsec2.DescribeImageAttributeInput) (*awsec2.DescribeImageAttributeOutput, error) {
	if err := resource.CheckDryRun(in.DryRun); err != nil {
		return nil, err
	}
	sc := resource.ScopeOf(ctx)
	own, err := resource.Get(s.Store, Images, sc, aws.ToString(in.ImageId))
	if err != nil {
		return nil, err
	}
	e, _ := asEntry(sc.Region, sc.Account, own)
	shown, out := e.sdk(), &awsec2.DescribeImageAttributeOutput{ImageId: &own.ID}
	switch in.Attribute {
	case ec2types.ImageAttributeNameDescription:
		out.Description = &ec2types.AttributeValue{Value: shown.Description}
	case ec2types.ImageAttributeNameLaunchPermission:
		out.LaunchPermissions = resource.Map(own.Shared.Permissions(), func(p resource.Permission) ec2types.LaunchPermission {
			return ec2types.LaunchPermission{UserId: resource.Optional(p.Account), Group: ec2types.PermissionGroup(p.Group)}
		})
	case ec2types.ImageAttributeNameBlockDeviceMapping:
		out.BlockDeviceMappings = shown.BlockDeviceMappings
	case ec2types.ImageAttributeNameBootMode:
		out.BootMode = &ec2types.AttributeValue{Value: aws.String(string(shown.BootMode))}
	case ec2types.ImageAttributeNameSriovNetSupport:
		out.SriovNetSupport = &ec2types.AttributeValue{Value: shown.SriovNetSupport}
	case ec2types.ImageAttributeNameImdsSupport:
		out.ImdsSupport = &ec2types.AttributeValue{Value: resource.Optional(string(shown.ImdsSupport))}
	case ec2types.ImageAttributeNameKernel:
		out.KernelId = &ec2types.AttributeValue{}
	case ec2types.ImageAttributeNameRamdisk:
		out.RamdiskId = &ec2types.AttributeValue{}
	case ec2types.ImageAttributeNameProductCodes:
		out.ProductCodes = []ec2types.ProductCode{}
	default:
		return nil, ec2err.InvalidValue(string(in.Attribute), "attribute", "")
	}
	return out, nil
}
