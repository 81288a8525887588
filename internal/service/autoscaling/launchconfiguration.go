package autoscaling

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// maxConfigs is the quota of launch configurations per account and region.
const maxConfigs = 200

// CreateLaunchConfiguration stores a launch configuration, which cannot be changed later.
// https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_CreateLaunchConfiguration.html
func (s *Service) CreateLaunchConfiguration(ctx context.Context, in *awsautoscaling.CreateLaunchConfigurationInput) (*awsautoscaling.CreateLaunchConfigurationOutput, error) {
	sc := scopeOf(ctx)
	name := aws.ToString(in.LaunchConfigurationName)
	if aws.ToString(in.ImageId) == "" || aws.ToString(in.InstanceType) == "" {
		return nil, errValidation("Valid requests must contain either the InstanceID parameter or both the ImageId and InstanceType parameters.")
	}
	monitoring := in.InstanceMonitoring
	if monitoring == nil || monitoring.Enabled == nil {
		monitoring = &autoscalingtypes.InstanceMonitoring{Enabled: aws.Bool(true)}
	}
	lc := autoscalingtypes.LaunchConfiguration{
		LaunchConfigurationName: &name, CreatedTime: aws.Time(s.now()),
		LaunchConfigurationARN:   aws.String(arn.New("autoscaling", sc.Region, sc.Account, "launchConfiguration:"+ids.UUID()+":launchConfigurationName/"+name)),
		AssociatePublicIpAddress: in.AssociatePublicIpAddress, BlockDeviceMappings: in.BlockDeviceMappings,
		ClassicLinkVPCSecurityGroups: []string{}, EbsOptimized: aws.Bool(aws.ToBool(in.EbsOptimized)), IamInstanceProfile: in.IamInstanceProfile,
		ImageId: in.ImageId, InstanceMonitoring: monitoring, InstanceType: in.InstanceType, KernelId: aws.String(""), RamdiskId: aws.String(""),
		KeyName: aws.String(aws.ToString(in.KeyName)), MetadataOptions: in.MetadataOptions, PlacementTenancy: in.PlacementTenancy,
		SecurityGroups: slices.Clone(in.SecurityGroups), SpotPrice: in.SpotPrice, UserData: aws.String(aws.ToString(in.UserData)),
	}
	if lc.BlockDeviceMappings == nil {
		lc.BlockDeviceMappings = []autoscalingtypes.BlockDeviceMapping{}
	}
	if lc.SecurityGroups == nil {
		lc.SecurityGroups = []string{}
	}
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		if _, err := configs.Get(tx, sc.group(name)); err == nil {
			return errConfigExists(name)
		}
		all := configs.All(tx, sc.All())
		if len(all) >= maxConfigs {
			return errLimit("Launch configuration limit exceeded. You already have %d launch configurations.", len(all)) // from memory
		}
		return configs.Put(tx, sc.group(name), lc)
	})
	return &awsautoscaling.CreateLaunchConfigurationOutput{}, err
}

// DescribeLaunchConfigurations lists launch configurations.
func (s *Service) DescribeLaunchConfigurations(ctx context.Context, in *awsautoscaling.DescribeLaunchConfigurationsInput) (*awsautoscaling.DescribeLaunchConfigurationsOutput, error) {
	found, next, err := describe(s.store, configs, scopeOf(ctx).All(), func(c autoscalingtypes.LaunchConfiguration) bool {
		return len(in.LaunchConfigurationNames) == 0 || slices.Contains(in.LaunchConfigurationNames, *c.LaunchConfigurationName)
	}, in.MaxRecords, in.NextToken)
	if err != nil {
		return nil, err
	}
	return &awsautoscaling.DescribeLaunchConfigurationsOutput{LaunchConfigurations: values(found), NextToken: next}, nil
}

// DeleteLaunchConfiguration deletes a launch configuration that no group uses.
func (s *Service) DeleteLaunchConfiguration(ctx context.Context, in *awsautoscaling.DeleteLaunchConfigurationInput) (*awsautoscaling.DeleteLaunchConfigurationOutput, error) {
	sc := scopeOf(ctx)
	name := strings.TrimSpace(aws.ToString(in.LaunchConfigurationName))
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		if _, err := configs.Get(tx, sc.group(name)); store.IsNotFound(err) {
			return errNoConfigToDelete(name)
		} else if err != nil {
			return err
		}
		for _, g := range groups.All(tx, sc.All()) {
			if aws.ToString(g.Value.Group.LaunchConfigurationName) == name {
				return errConfigInUse(name, g.Value.name())
			}
		}
		configs.Delete(tx, sc.group(name))
		return nil
	})
	return &awsautoscaling.DeleteLaunchConfigurationOutput{}, err
}
