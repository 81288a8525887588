package autoscaling

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
)

// The units in which a group with instance requirements can count its capacity.
// https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_CreateAutoScalingGroup.html
const (
	inInstances = "units"
	inVCPUs     = "vcpu"
	inMemory    = "memory-mib"
)

// An offer is an instance type that a group can launch, with what its override says about it.
type offer struct {
	kind     string
	weight   int                                           // units of capacity; 0 without weights
	template *autoscalingtypes.LaunchTemplateSpecification // the override's own, with a version number
	image    string
}

func (o offer) units() int { return max(1, o.weight) }

func (o offer) pool(sn subnet) pool {
	return pool{Subnet: sn, Type: o.kind, Weight: o.weight, Template: o.template, Image: o.image}
}

// lightest returns the lowest number of units that an instance of the group counts as.
func (src *launchSource) lightest() int {
	least := 0
	for _, o := range src.offers {
		if least == 0 || o.units() < least {
			least = o.units()
		}
	}
	return max(1, least)
}

// weight returns how many units of capacity an instance counts as. The group's current weights apply
// to all its instances, and instances of types that it no longer lists keep theirs.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-mixed-instances-groups-instance-weighting.html
func (g *groupRecord) weight(m *memberRecord) int {
	if p := g.Group.MixedInstancesPolicy; p != nil {
		for _, o := range p.LaunchTemplate.Overrides {
			if aws.ToString(o.InstanceType) == m.Type {
				n, _ := strconv.Atoi(aws.ToString(o.WeightedCapacity))
				return max(1, n)
			}
		}
	}
	return max(1, m.Weight)
}

// units returns the capacity of some instances.
func (g *groupRecord) units(of []memberRecord) int {
	n := 0
	for _, m := range of {
		n += g.weight(&m)
	}
	return n
}

func byRequirements(overrides []autoscalingtypes.LaunchTemplateOverrides) bool {
	return slices.ContainsFunc(overrides, func(o autoscalingtypes.LaunchTemplateOverrides) bool { return o.InstanceRequirements != nil })
}

// checkOverrides validates overrides and returns them as Describe shows them.
func (s *Service) checkOverrides(svc context.Context, overrides []autoscalingtypes.LaunchTemplateOverrides) ([]autoscalingtypes.LaunchTemplateOverrides, error) {
	seen := map[string]int{}
	var twice []string
	weights, required := 0, 0
	out := []autoscalingtypes.LaunchTemplateOverrides{}
	for _, o := range overrides {
		t := aws.ToString(o.InstanceType)
		switch {
		case t == "" && o.InstanceRequirements == nil:
			return nil, errOverrideType()
		case t != "" && o.InstanceRequirements != nil:
			return nil, errOverrideBoth()
		case t == "":
			required++
		default:
			if seen[t]++; seen[t] == 2 {
				twice = append(twice, t)
			}
		}
		if w := aws.ToString(o.WeightedCapacity); w != "" {
			if n, err := strconv.Atoi(w); err != nil || n < 1 || n > 999 {
				return nil, errWeight(w)
			}
			weights++
		}
		if o.LaunchTemplateSpecification != nil {
			shown, _, data, err := s.template(svc, o.LaunchTemplateSpecification)
			if err != nil {
				return nil, err
			}
			if err := checkTemplate(data, true); err != nil {
				return nil, err
			}
			o.LaunchTemplateSpecification = shown
		}
		out = append(out, o)
	}
	switch {
	case len(twice) > 0:
		return nil, errDuplicateOverrides(twice)
	case required > 0 && required < len(overrides):
		return nil, errOverrideBoth()
	case weights > 0 && weights < len(overrides):
		return nil, errSomeWeights()
	}
	return out, nil
}

// checkCapacityType validates the unit of a group's capacity and sets it.
func checkCapacityType(g *autoscalingtypes.AutoScalingGroup, kind string) error {
	switch kind {
	case "", inInstances:
	case inVCPUs, inMemory:
		if p := g.MixedInstancesPolicy; p == nil || !byRequirements(p.LaunchTemplate.Overrides) {
			return errCapacityType(kind)
		}
	default:
		return errValidation("Invalid DesiredCapacityType: %s. Valid values are units, vcpu and memory-mib", kind) // from memory
	}
	g.DesiredCapacityType = nonEmpty(&kind)
	return nil
}

// offers returns what a group with a mixed instances policy can launch, in the order of its
// overrides. base is the data of the policy's launch template.
func (s *Service) offers(svc context.Context, g *autoscalingtypes.AutoScalingGroup, base *ec2types.ResponseLaunchTemplateData) ([]offer, error) {
	var out []offer
	for _, o := range g.MixedInstancesPolicy.LaunchTemplate.Overrides {
		one := offer{kind: aws.ToString(o.InstanceType), image: aws.ToString(o.ImageId)}
		one.weight, _ = strconv.Atoi(aws.ToString(o.WeightedCapacity))
		data := base
		if spec := o.LaunchTemplateSpecification; spec != nil {
			byID := &autoscalingtypes.LaunchTemplateSpecification{LaunchTemplateId: spec.LaunchTemplateId, Version: spec.Version}
			_, pinned, own, err := s.template(svc, byID)
			if err != nil {
				return nil, err
			}
			one.template, data = pinned, own
		}
		if o.InstanceRequirements == nil {
			out = append(out, one)
			continue
		}
		image := one.image
		if image == "" && data != nil {
			image = aws.ToString(data.ImageId)
		}
		types, err := s.matching(svc, o.InstanceRequirements, image)
		if err != nil {
			return nil, err
		}
		for _, t := range types {
			one.kind = t
			if info, ok := instancetypes.Info(t); ok && info.VCpuInfo != nil && info.MemoryInfo != nil {
				switch aws.ToString(g.DesiredCapacityType) {
				case inVCPUs:
					one.weight = int(aws.ToInt32(info.VCpuInfo.DefaultVCpus))
				case inMemory:
					one.weight = int(aws.ToInt64(info.MemoryInfo.SizeInMiB))
				}
			}
			out = append(out, one)
		}
	}
	return out, nil
}

// matching returns the instance types that meet requirements and can run an image.
func (s *Service) matching(svc context.Context, r *autoscalingtypes.InstanceRequirements, image string) ([]string, error) {
	architecture := ec2types.ArchitectureTypeX8664
	if image != "" {
		out, err := s.cfg.EC2.DescribeImages(svc, &awsec2.DescribeImagesInput{ImageIds: []string{image}})
		if awserr.CodeOf(err) != "" {
			return nil, errTemplate(awserr.TextOf(err))
		} else if err != nil {
			return nil, fmt.Errorf("looking up the image: %w", err)
		}
		if len(out.Images) == 1 {
			architecture = ec2types.ArchitectureType(out.Images[0].Architecture)
		}
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	in := &awsec2.GetInstanceTypesFromInstanceRequirementsInput{ // the members have the same names in both services
		ArchitectureTypes: []ec2types.ArchitectureType{architecture}, VirtualizationTypes: []ec2types.VirtualizationType{ec2types.VirtualizationTypeHvm},
		InstanceRequirements: new(ec2types.InstanceRequirementsRequest),
	}
	if err := json.Unmarshal(raw, in.InstanceRequirements); err != nil {
		return nil, fmt.Errorf("instance requirements: %w", err)
	}
	var types []string
	for {
		out, err := s.cfg.EC2.GetInstanceTypesFromInstanceRequirements(svc, in)
		if c := awserr.CodeOf(err); c == "NotImplemented" {
			return nil, err
		} else if c != "" {
			return nil, errValidation("%s", awserr.TextOf(err))
		} else if err != nil {
			return nil, fmt.Errorf("matching instance types: %w", err)
		}
		for _, t := range out.InstanceTypes {
			types = append(types, *t.InstanceType)
		}
		if in.NextToken = out.NextToken; aws.ToString(in.NextToken) == "" {
			break
		}
	}
	if len(types) == 0 {
		return nil, errNoMatchingTypes
	}
	return types, nil
}
