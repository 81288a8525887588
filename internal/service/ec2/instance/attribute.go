package instance

import (
	"context"
	"encoding/base64"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/eni"
	"github.com/drydock-dev/drydock/internal/service/ec2/instancetype"
	"github.com/drydock-dev/drydock/internal/service/ec2/launchtemplate"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/storage"
	"github.com/drydock-dev/drydock/internal/store"
)

// ModifyAttributeMembers are the members that ModifyInstanceAttribute supports.
const ModifyAttributeMembers = `Attribute BlockDeviceMappings.DeviceName BlockDeviceMappings.Ebs.DeleteOnTermination
	BlockDeviceMappings.Ebs.VolumeId DisableApiStop DisableApiTermination DryRun EbsOptimized Groups InstanceId
	InstanceInitiatedShutdownBehavior InstanceType SourceDestCheck UserData Value`

// An attributeEdit changes one attribute. Some attributes can be changed only while the instance is
// stopped.
type attributeEdit struct {
	name    string
	stopped bool
	edit    func(*store.Tx, resource.Scope, *record.Instance) error
}

// attributeEdits returns the changes in a request.
func (s *Service) attributeEdits(in *awsec2.ModifyInstanceAttributeInput) ([]attributeEdit, error) {
	if in.Attribute != "" {
		// The old form: an attribute name and a string value.
		v := aws.ToString(in.Value)
		flag := &ec2types.AttributeBooleanValue{Value: aws.Bool(strings.EqualFold(v, "true"))}
		text := &ec2types.AttributeValue{Value: aws.String(v)}
		switch in.Attribute {
		case ec2types.InstanceAttributeNameInstanceType:
			in.InstanceType = text
		case ec2types.InstanceAttributeNameInstanceInitiatedShutdownBehavior:
			in.InstanceInitiatedShutdownBehavior = text
		case ec2types.InstanceAttributeNameDisableApiTermination:
			in.DisableApiTermination = flag
		case ec2types.InstanceAttributeNameDisableApiStop:
			in.DisableApiStop = flag
		case ec2types.InstanceAttributeNameEbsOptimized:
			in.EbsOptimized = flag
		case ec2types.InstanceAttributeNameSourceDestCheck:
			in.SourceDestCheck = flag
		case ec2types.InstanceAttributeNameUserData:
			raw, err := launchtemplate.DecodeUserData(v)
			if err != nil {
				return nil, err
			}
			in.UserData = &ec2types.SecureBlobAttributeValue{Value: raw}
		case ec2types.InstanceAttributeNameBlockDeviceMapping, ec2types.InstanceAttributeNameGroupSet:
		default:
			return nil, ec2err.NotHonoured("the attribute " + string(in.Attribute))
		}
	}
	var out []attributeEdit
	add := func(name string, stopped bool, edit func(*store.Tx, resource.Scope, *record.Instance) error) {
		out = append(out, attributeEdit{name, stopped, edit})
	}
	set := func(name string, stopped bool, v *ec2types.AttributeBooleanValue, to func(*record.Instance) *bool) {
		if v != nil {
			add(name, stopped, func(_ *store.Tx, _ resource.Scope, i *record.Instance) error {
				*to(i) = aws.ToBool(v.Value)
				return nil
			})
		}
	}
	set("disableApiTermination", false, in.DisableApiTermination, func(i *record.Instance) *bool { return &i.DisableTermination })
	set("disableApiStop", false, in.DisableApiStop, func(i *record.Instance) *bool { return &i.DisableStop })
	set("ebsOptimized", true, in.EbsOptimized, func(i *record.Instance) *bool { return &i.EbsOptimized })
	if v := in.InstanceInitiatedShutdownBehavior; v != nil {
		if b := aws.ToString(v.Value); b != "stop" && b != "terminate" {
			return nil, ec2err.InvalidValue(b, "instanceInitiatedShutdownBehavior", "")
		}
		add("instanceInitiatedShutdownBehavior", false, func(_ *store.Tx, _ resource.Scope, i *record.Instance) error {
			i.ShutdownBehavior = *v.Value
			return nil
		})
	}
	if v := in.InstanceType; v != nil {
		add("instanceType", true, func(_ *store.Tx, sc resource.Scope, i *record.Instance) error {
			return changeType(sc, i, aws.ToString(v.Value))
		})
	}
	if v := in.UserData; v != nil {
		if len(v.Value) > launchtemplate.MaxUserData {
			return nil, ec2err.UserDataTooLarge()
		}
		add("userData", true, func(_ *store.Tx, _ resource.Scope, i *record.Instance) error {
			i.UserData = base64.StdEncoding.EncodeToString(v.Value)
			return nil
		})
	}
	if v := in.SourceDestCheck; v != nil {
		add("sourceDestCheck", false, func(tx *store.Tx, sc resource.Scope, i *record.Instance) error {
			return editPrimary(i, tx, sc, func(e *record.NetworkInterface) error { e.NoSourceDestCheck = !aws.ToBool(v.Value); return nil })
		})
	}
	if len(in.Groups) > 0 {
		add("groupSet", false, func(tx *store.Tx, sc resource.Scope, i *record.Instance) error {
			groups, err := eni.ResolveGroups(tx, sc, i.VPCID, in.Groups)
			if err != nil {
				return err
			}
			return editPrimary(i, tx, sc, func(e *record.NetworkInterface) error { e.Groups = groups; return nil })
		})
	}
	if len(in.BlockDeviceMappings) > 0 {
		add("blockDeviceMapping", false, func(tx *store.Tx, sc resource.Scope, i *record.Instance) error {
			return keepDevices(i, tx, sc, in.BlockDeviceMappings)
		})
	}
	return out, nil
}

// editPrimary changes the instance's primary interface.
func editPrimary(i *record.Instance, tx *store.Tx, sc resource.Scope, fn func(*record.NetworkInterface) error) error {
	if len(i.Interfaces) == 0 {
		return ec2err.InstanceState(i.ID, "modified")
	}
	if len(i.Interfaces) > 1 {
		// EC2 requires ModifyNetworkInterfaceAttribute for those.
		return ec2err.New("InvalidInstanceID", "There are multiple interfaces attached to instance '%s'. Please specify an interface ID for the operation instead.", i.ID)
	}
	return record.NetworkInterfaces.Update(tx, sc.Key(i.Interfaces[0]), fn)
}

// changeType changes the type of a stopped instance.
func changeType(sc resource.Scope, i *record.Instance, name string) error {
	typ, ok := instancetypes.Lookup(name)
	switch {
	case !ok:
		return ec2err.InstanceType(name)
	case !typ.Supports(i.Architecture):
		return ec2err.Architecture(strings.Join(typ.Architectures, ","), i.Architecture)
	case !instancetype.Offered(name, i.ZoneID):
		return ec2err.UnsupportedZone(name, i.Zone, instancetype.OfferingZones(sc.Region, name))
	case len(i.Interfaces) > typ.ENIs:
		return ec2err.TooManyInterfaces(len(i.Interfaces), name)
	}
	l := launch{typ: typ, in: &awsec2.RunInstancesInput{}}
	if err := planCPU(&l); err != nil {
		return err
	}
	i.Type, i.Cores, i.ThreadsPerCore = name, l.cores, l.threads
	return nil
}

// keepDevices sets which volumes outlive the instance.
func keepDevices(i *record.Instance, tx *store.Tx, sc resource.Scope, mappings []ec2types.InstanceBlockDeviceMappingSpecification) error {
	i.Devices = slices.Clone(i.Devices)
	for _, m := range mappings {
		n := slices.IndexFunc(i.Devices, func(d record.BlockDevice) bool {
			return d.Name == aws.ToString(m.DeviceName) || m.Ebs != nil && m.Ebs.VolumeId != nil && d.VolumeID == *m.Ebs.VolumeId
		})
		if n < 0 {
			return ec2err.New("InvalidInstanceAttributeValue", "No device is currently mapped at %s", aws.ToString(m.DeviceName))
		}
		if m.Ebs == nil || m.Ebs.DeleteOnTermination == nil {
			continue
		}
		d := &i.Devices[n]
		d.DeleteOnTermination = *m.Ebs.DeleteOnTermination
		err := storage.Volumes.Update(tx, sc.Key(d.VolumeID), func(v *storage.Volume) error {
			v.Attachment.DeleteOnTermination = d.DeleteOnTermination
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ModifyInstanceAttribute changes one attribute of an instance.
func (s *Service) ModifyInstanceAttribute(ctx context.Context, in *awsec2.ModifyInstanceAttributeInput) (*awsec2.ModifyInstanceAttributeOutput, error) {
	sc := resource.ScopeOf(ctx)
	edits, err := s.attributeEdits(in)
	if err != nil {
		return nil, err
	}
	var given []string
	for _, e := range edits {
		given = append(given, e.name)
	}
	if err := resource.CheckAttributes(given); err != nil {
		return nil, err
	}
	_, err = resource.Change(ctx, s.Core, record.Instances, in.DryRun, in.InstanceId, func(tx *store.Tx, i *record.Instance) error {
		switch {
		case i.State == record.Terminated || i.State == record.ShuttingDown:
			return ec2err.InstanceState(i.ID, "modified")
		case edits[0].stopped && i.State != record.Stopped:
			return ec2err.New("IncorrectInstanceState", "The instance '%s' is not in the 'stopped' state.", i.ID)
		}
		return edits[0].edit(tx, sc, i)
	})
	return &awsec2.ModifyInstanceAttributeOutput{}, err
}

// ResetInstanceAttribute resets an attribute. The source/destination check is the only one that can
// still be reset.
func (s *Service) ResetInstanceAttribute(ctx context.Context, in *awsec2.ResetInstanceAttributeInput) (*awsec2.ResetInstanceAttributeOutput, error) {
	sc := resource.ScopeOf(ctx)
	switch in.Attribute {
	case "":
		return nil, ec2err.Missing("attribute")
	case ec2types.InstanceAttributeNameSourceDestCheck:
	default:
		return nil, ec2err.InvalidValue(in.Attribute, "attribute", "")
	}
	err := s.Update(ctx, in.DryRun, func(tx *store.Tx) error {
		i, err := resource.Get(tx, record.Instances, sc, aws.ToString(in.InstanceId))
		if err != nil {
			return err
		}
		return editPrimary(&i, tx, sc, func(e *record.NetworkInterface) error { e.NoSourceDestCheck = false; return nil })
	})
	return &awsec2.ResetInstanceAttributeOutput{}, err
}

// DescribeInstanceAttribute returns one attribute of an instance.
func (s *Service) DescribeInstanceAttribute(ctx context.Context, in *awsec2.DescribeInstanceAttributeInput) (*awsec2.DescribeInstanceAttributeOutput, error) {
	sc := resource.ScopeOf(ctx)
	if in.Attribute == "" {
		return nil, ec2err.Missing("attribute")
	}
	i, err := resource.Get(s.Store, record.Instances, sc, aws.ToString(in.InstanceId))
	if err != nil {
		return nil, err
	}
	out := &awsec2.DescribeInstanceAttributeOutput{InstanceId: aws.String(i.ID)}
	flag := func(b bool) *ec2types.AttributeBooleanValue {
		return &ec2types.AttributeBooleanValue{Value: aws.Bool(b)}
	}
	text := func(v string) *ec2types.AttributeValue { return &ec2types.AttributeValue{Value: resource.Optional(v)} }
	described := s.sdkInstance(sc, i)
	switch in.Attribute {
	case ec2types.InstanceAttributeNameInstanceType:
		out.InstanceType = text(i.Type)
	case ec2types.InstanceAttributeNameKernel:
		out.KernelId = text("")
	case ec2types.InstanceAttributeNameRamdisk:
		out.RamdiskId = text("")
	case ec2types.InstanceAttributeNameUserData:
		out.UserData = text(i.UserData)
	case ec2types.InstanceAttributeNameDisableApiTermination:
		out.DisableApiTermination = flag(i.DisableTermination)
	case ec2types.InstanceAttributeNameDisableApiStop:
		out.DisableApiStop = flag(i.DisableStop)
	case ec2types.InstanceAttributeNameInstanceInitiatedShutdownBehavior:
		out.InstanceInitiatedShutdownBehavior = text(resource.Or(i.ShutdownBehavior, "stop"))
	case ec2types.InstanceAttributeNameRootDeviceName:
		out.RootDeviceName = text(i.RootDevice)
	case ec2types.InstanceAttributeNameBlockDeviceMapping:
		out.BlockDeviceMappings = described.BlockDeviceMappings
	case ec2types.InstanceAttributeNameProductCodes:
		out.ProductCodes = []ec2types.ProductCode{}
	case ec2types.InstanceAttributeNameSourceDestCheck:
		out.SourceDestCheck = &ec2types.AttributeBooleanValue{Value: described.SourceDestCheck}
	case ec2types.InstanceAttributeNameGroupSet:
		out.Groups = described.SecurityGroups
	case ec2types.InstanceAttributeNameEbsOptimized:
		out.EbsOptimized = flag(i.EbsOptimized)
	case ec2types.InstanceAttributeNameSriovNetSupport:
		out.SriovNetSupport = text("simple")
	case ec2types.InstanceAttributeNameEnaSupport:
		out.EnaSupport = flag(true)
	case ec2types.InstanceAttributeNameEnclaveOptions:
		out.EnclaveOptions = &ec2types.EnclaveOptions{Enabled: aws.Bool(false)}
	default:
		return nil, ec2err.InvalidValue(in.Attribute, "attribute", "")
	}
	return out, resource.CheckDryRun(in.DryRun)
}
