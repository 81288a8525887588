package instance

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/launchtemplate"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// spotLifetime is how long a one-time request without an end is valid.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_RequestSpotInstances.html
const spotLifetime = 7 * 24 * time.Hour

// maxSpotRequests is how many requests one call may create; EC2's own limit is the account's quota.
const maxSpotRequests = 500

// SpotMembers returns the members that RequestSpotInstances supports. Those of a launch specification are RunInstances'.
func SpotMembers() string {
	out := []string{
		"ClientToken DryRun InstanceCount InstanceInterruptionBehavior SpotPrice TagSpecifications Type ValidFrom ValidUntil",
		"LaunchSpecification.Placement.AvailabilityZone LaunchSpecification.Placement.AvailabilityZoneId LaunchSpecification.Placement.GroupName LaunchSpecification.Placement.Tenancy",
	}
	shared := strings.Fields("BlockDeviceMappings EbsOptimized IamInstanceProfile ImageId InstanceType KeyName Monitoring NetworkInterfaces SecurityGroupIds SecurityGroups SubnetId UserData")
	for m := range strings.FieldsSeq(RunMembers) {
		if root, _, _ := strings.Cut(m, "."); slices.Contains(shared, root) {
			out = append(out, "LaunchSpecification."+m)
		}
	}
	return strings.Join(out, " ")
}

// SpotLaunch returns the launch that fulfils one request of a call.
func SpotLaunch(in *awsec2.RequestSpotInstancesInput) *awsec2.RunInstancesInput {
	spec := cmp.Or(in.LaunchSpecification, &ec2types.RequestSpotLaunchSpecification{})
	out := &awsec2.RunInstancesInput{
		MinCount: aws.Int32(1), MaxCount: aws.Int32(1), ImageId: spec.ImageId, InstanceType: spec.InstanceType, KeyName: spec.KeyName,
		BlockDeviceMappings: spec.BlockDeviceMappings, EbsOptimized: spec.EbsOptimized, IamInstanceProfile: spec.IamInstanceProfile,
		Monitoring: spec.Monitoring, NetworkInterfaces: spec.NetworkInterfaces, SecurityGroupIds: spec.SecurityGroupIds, SecurityGroups: spec.SecurityGroups,
		SubnetId: spec.SubnetId, UserData: spec.UserData,
		InstanceMarketOptions: &ec2types.InstanceMarketOptionsRequest{
			MarketType: ec2types.MarketTypeSpot, SpotOptions: &ec2types.SpotMarketOptions{MaxPrice: in.SpotPrice},
		},
	}
	if p := spec.Placement; p != nil {
		out.Placement = &ec2types.Placement{AvailabilityZone: p.AvailabilityZone, AvailabilityZoneId: p.AvailabilityZoneId, GroupName: p.GroupName, Tenancy: p.Tenancy}
	}
	return out
}

// RequestSpotInstances creates requests, each of which launches an instance as soon as there is capacity at its price.
func (s *Service) RequestSpotInstances(ctx context.Context, in *awsec2.RequestSpotInstancesInput) (*awsec2.RequestSpotInstancesOutput, error) {
	sc := resource.ScopeOf(ctx)
	if done, err := s.Recall(s.Store, sc, "RequestSpotInstances", in.ClientToken, in); err != nil {
		return nil, err
	} else if done != nil {
		found, err := resource.Choose(s.Store, SpotRequests, sc, done.IDs, resource.All)
		return &awsec2.RequestSpotInstancesOutput{SpotInstanceRequests: resource.SDKAll(sc, found)}, err
	}
	r, err := s.planSpotRequest(ctx, sc, in)
	if err != nil {
		return nil, err
	}
	count := aws.ToInt32(cmp.Or(in.InstanceCount, aws.Int32(1)))
	if count < 1 || count > maxSpotRequests {
		return nil, ec2err.InvalidValue(count, "instanceCount", "")
	}
	var made []SpotRequest // as EC2 answers, before a request is evaluated
	err = s.Update(ctx, in.DryRun, func(tx *store.Tx) error {
		made = nil
		ids := make([]string, count)
		for i := range ids {
			ids[i] = newSpotID()
		}
		slices.Sort(ids) // a repeated call gets them in this order, too
		for _, r.ID = range ids {
			made = append(made, r)
			if err := SpotRequests.Put(tx, sc.Key(r.ID), r); err != nil {
				return err
			}
		}
		return s.Remember(tx, sc, "RequestSpotInstances", in.ClientToken, in, false, ids...)
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.RequestSpotInstancesOutput{SpotInstanceRequests: resource.SDKAll(sc, made)}, nil
}

// planSpotRequest returns the record of each of a call's requests, without its ID. What is wrong with the launch is an
// error, unless it can change: the capacity and the price.
func (s *Service) planSpotRequest(ctx context.Context, sc resource.Scope, in *awsec2.RequestSpotInstancesInput) (SpotRequest, error) {
	var r SpotRequest
	if in.LaunchSpecification == nil {
		return r, ec2err.Missing("launchSpecification")
	}
	spec, err := parseSpot("RequestSpotInstances", in.Type, in.InstanceInterruptionBehavior, in.SpotPrice)
	if err != nil {
		return r, err
	}
	now := s.Now()
	from, until := aws.ToTime(in.ValidFrom), aws.ToTime(in.ValidUntil)
	if !from.IsZero() && !from.After(now) {
		return r, ec2err.InvalidValue(resource.TimeText(from), "validFrom", "")
	}
	if until.IsZero() && !spec.Persistent {
		until = now.Add(spotLifetime)
	}
	if !until.IsZero() && (!until.After(now) || !until.After(from)) {
		return r, ec2err.InvalidValue(resource.TimeText(until), "validUntil", "")
	}
	spec.ValidUntil = until
	tags, err := tag.Specified(ctx, in.TagSpecifications, ec2types.ResourceTypeSpotInstancesRequest, ec2types.ResourceTypeSpotInstancesRequest)
	if err != nil {
		return r, err
	}
	launch := SpotLaunch(in)
	l, err := s.plan(ctx, sc, launch)
	var api smithy.APIError
	if err != nil && !(errors.As(err, &api) && spotWaits(api.ErrorCode()) != "") {
		return r, err
	}
	if r, err = s.newSpotRequest(&l); err != nil {
		return r, err
	}
	r.spotSpec, r.Tags, r.ValidFrom = *spec, tags, from
	if !from.IsZero() {
		r.set(now, spotOpen, spotNotYet, "Your Spot request will not be evaluated until the scheduled date.")
	}
	r.Request, err = launchtemplate.CompactJSON(launch)
	return r, err
}
