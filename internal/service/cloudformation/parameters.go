package cloudformation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsroute53 "github.com/aws/aws-sdk-go-v2/service/route53"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
)

// parameters returns a stack's parameters. The values are the given ones, the previous ones
// or the defaults; those that name a parameter in Parameter Store also have its value.
func (s *Service) parameters(ctx context.Context, t *template.Template, in []cloudformationtypes.Parameter, had []parameterRecord) ([]parameterRecord, error) {
	given := map[string]string{}
	for _, p := range in {
		name := aws.ToString(p.ParameterKey)
		given[name] = aws.ToString(p.ParameterValue)
		if !aws.ToBool(p.UsePreviousValue) {
			continue
		}
		i := slices.IndexFunc(had, func(h parameterRecord) bool { return h.Name == name })
		switch {
		case p.ParameterValue != nil:
			return nil, invalid("Invalid input for parameter key %s. Cannot specify usePreviousValue as true and non empty value for a parameter", name) // from memory
		case i < 0:
			return nil, invalid("Invalid input for parameter key %s. Cannot specify usePreviousValue as true for a parameter key not in the previous template", name) // from memory
		}
		given[name] = had[i].Value
	}
	values, err := t.Values(given)
	if err != nil {
		return nil, asInvalid(err)
	}
	var out []parameterRecord
	for _, p := range t.Parameters {
		rec := parameterRecord{Name: p.Name, Value: values[p.Name], NoEcho: p.NoEcho}
		switch typ, ok := p.SSM(); {
		case ok:
			rec.Resolved, err = s.stored(ctx, rec.Value, typ)
		case p.Type == "AWS::SSM::Parameter::Name": // the name of an existing parameter
			_, err = s.inStore(ctx, rec.Value) // [?]
		}
		if err != nil {
			return nil, err
		}
		out = append(out, rec)
	}
	return out, nil
}

func notStored(name string) error {
	return invalid("Unable to fetch parameters [%s] from parameter store for this account.", name)
}

// inStore reads a parameter from Parameter Store. It returns notStored if the parameter does not exist, its name is
// invalid or the caller may not read it, and any other error as it is.
func (s *Service) inStore(ctx context.Context, name string) (*ssmtypes.Parameter, error) {
	out, err := awsapi.Do[awsssm.GetParametersOutput](ctx, s.cfg.API, &awsssm.GetParametersInput{Names: []string{name}})
	switch code := codeOf(err); {
	case strings.HasPrefix(code, "AccessDenied"), code == "ParameterNotFound", code == "ValidationException": // the last one means that the name is invalid
		return nil, notStored(name)
	case err != nil:
		return nil, err
	case len(out.Parameters) == 0:
		return nil, notStored(name)
	}
	return &out.Parameters[0], nil
}

// stored returns a parameter's value from Parameter Store. The value must be a list if typ is a list type, and must not
// be one otherwise; if typ is "", both are allowed. Third parties recorded the texts of the errors on AWS.
func (s *Service) stored(ctx context.Context, name, typ string) (string, error) {
	p, err := s.inStore(ctx, name)
	if err != nil {
		return "", err
	}
	switch list := strings.HasPrefix(typ, "List<") || typ == "CommaDelimitedList"; {
	case p.Type == ssmtypes.ParameterTypeSecureString:
		return "", invalid("Parameters [%s] referenced by template have types not supported by CloudFormation.", name)
	case typ != "" && list != (p.Type == ssmtypes.ParameterTypeStringList):
		return "", invalid("Types for SSM parameters [%s] defined in CFN template and SSM are incompatible", name)
	case template.Refers(aws.ToString(p.Value)):
		// Otherwise, whoever writes the parameter could choose which secrets the deployer reads.
		return "", invalid("The value of the SSM parameter [%s] contains a dynamic reference, which Drydock does not resolve.", name)
	}
	return aws.ToString(p.Value), nil
}

// missing returns an error text if a parameter's value must exist but does not, and ""
// otherwise. AWS checks this after the operation has begun.
func (s *Service) missing(ctx context.Context, t *template.Template, rec *stackRecord) string {
	for _, p := range t.Parameters {
		typ := p.Existing()
		if typ == "" {
			continue
		}
		i := slices.IndexFunc(rec.Parameters, func(r parameterRecord) bool { return r.Name == p.Name })
		text := rec.Parameters[i].Value
		if rec.Parameters[i].Resolved != "" {
			text = rec.Parameters[i].Resolved
		}
		values := []string{text}
		if p.IsList() {
			values = strings.Split(text, ",")
		}
		for _, v := range values {
			if v = strings.TrimSpace(v); !s.exists(ctx, typ, v) {
				return fmt.Sprintf("Parameter validation failed: parameter value %s for parameter name %s does not exist", v, p.Name)
			}
		}
	}
	return ""
}

// exists reports whether the resource that a value of an AWS-specific type names exists. If the caller may not describe
// it, the result is the same as if it did not exist.
func (s *Service) exists(ctx context.Context, typ, v string) bool {
	if v == "" {
		return false
	}
	ask := func(in any) bool {
		_, err := s.cfg.API.Call(ctx, in)
		return err == nil
	}
	one := []string{v}
	switch typ {
	case "AWS::Route53::HostedZone::Id":
		return ask(&awsroute53.GetHostedZoneInput{Id: &v})
	case "AWS::EC2::AvailabilityZone::Name":
		return ask(&awsec2.DescribeAvailabilityZonesInput{ZoneNames: one})
	case "AWS::EC2::Image::Id":
		return ask(&awsec2.DescribeImagesInput{ImageIds: one})
	case "AWS::EC2::Instance::Id":
		return ask(&awsec2.DescribeInstancesInput{InstanceIds: one})
	case "AWS::EC2::KeyPair::KeyName":
		return ask(&awsec2.DescribeKeyPairsInput{KeyNames: one})
	case "AWS::EC2::SecurityGroup::GroupName":
		return ask(&awsec2.DescribeSecurityGroupsInput{GroupNames: one})
	case "AWS::EC2::SecurityGroup::Id":
		return ask(&awsec2.DescribeSecurityGroupsInput{GroupIds: one})
	case "AWS::EC2::Subnet::Id":
		return ask(&awsec2.DescribeSubnetsInput{SubnetIds: one})
	case "AWS::EC2::Volume::Id":
		return ask(&awsec2.DescribeVolumesInput{VolumeIds: one})
	case "AWS::EC2::VPC::Id":
		return ask(&awsec2.DescribeVpcsInput{VpcIds: one})
	}
	return false
}

// attributes returns the attributes of VPCs, subnets and security groups for the rules of a template, as the caller
// sees them.
func (s *Service) attributes(ctx context.Context) template.Attribute {
	return func(typ, id, attribute string) (_ string, err error) {
		defer func() {
			if text := smithyText(err); text != "" {
				err = errors.New(text)
			}
		}()
		one := []string{id}
		ofVPC := []ec2types.Filter{{Name: aws.String("vpc-id"), Values: one}}
		var tags []ec2types.Tag
		switch {
		case attribute == "DefaultNetworkAcl":
			out, err := awsapi.Do[awsec2.DescribeNetworkAclsOutput](ctx, s.cfg.API, &awsec2.DescribeNetworkAclsInput{Filters: append(ofVPC, ec2types.Filter{Name: aws.String("default"), Values: []string{"true"}})})
			if err != nil {
				return "", err
			}
			acl, err := first(out.NetworkAcls)
			return aws.ToString(acl.NetworkAclId), err
		case attribute == "DefaultSecurityGroup":
			out, err := awsapi.Do[awsec2.DescribeSecurityGroupsOutput](ctx, s.cfg.API, &awsec2.DescribeSecurityGroupsInput{Filters: append(ofVPC, ec2types.Filter{Name: aws.String("group-name"), Values: []string{"default"}})})
			if err != nil {
				return "", err
			}
			group, err := first(out.SecurityGroups)
			return aws.ToString(group.GroupId), err
		case typ == "AWS::EC2::Subnet::Id":
			out, err := awsapi.Do[awsec2.DescribeSubnetsOutput](ctx, s.cfg.API, &awsec2.DescribeSubnetsInput{SubnetIds: one})
			if err != nil {
				return "", err
			}
			subnet, err := first(out.Subnets)
			switch {
			case err != nil:
				return "", err
			case attribute == "VpcId":
				return aws.ToString(subnet.VpcId), nil
			case attribute == "AvailabilityZone":
				return aws.ToString(subnet.AvailabilityZone), nil
			}
			tags = subnet.Tags
		case typ == "AWS::EC2::VPC::Id":
			out, err := awsapi.Do[awsec2.DescribeVpcsOutput](ctx, s.cfg.API, &awsec2.DescribeVpcsInput{VpcIds: one})
			if err != nil {
				return "", err
			}
			vpc, err := first(out.Vpcs)
			if err != nil {
				return "", err
			}
			tags = vpc.Tags
		default:
			out, err := awsapi.Do[awsec2.DescribeSecurityGroupsOutput](ctx, s.cfg.API, &awsec2.DescribeSecurityGroupsInput{GroupIds: one})
			if err != nil {
				return "", err
			}
			group, err := first(out.SecurityGroups)
			if err != nil {
				return "", err
			}
			tags = group.Tags
		}
		key := strings.TrimPrefix(attribute, template.TagPrefix)
		for _, t := range tags {
			if aws.ToString(t.Key) == key {
				return aws.ToString(t.Value), nil
			}
		}
		return "", nil
	}
}
