package cloudformation

import (
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
)

// placement pairs the properties of an instance that belong to Placement in the API with
// their names there.
var placement = []string{"AvailabilityZone", "AvailabilityZone", "Tenancy", "Tenancy", "PlacementGroupName", "GroupName", "HostId", "HostId", "HostResourceGroupArn", "HostResourceGroupArn", "Affinity", "Affinity"}

func instanceHandlers() map[string]handler {
	return map[string]handler{
		"AWS::EC2::Instance": madeWith(handler{
			inPlace: "DisableApiTermination EbsOptimized IamInstanceProfile InstanceInitiatedShutdownBehavior InstanceType MetadataOptions Monitoring SecurityGroupIds SourceDestCheck Tags UserData", update: updateInstance,
			find: byTags("instance"),
			settle: func(r *request) error {
				if err := r.until(r.instanceState, "running", "shutting-down", "terminated", "stopped"); err != nil {
					return err
				}
				if r.props.Has("SourceDestCheck") {
					if _, err := call[awsec2.ModifyInstanceAttributeOutput](r, &awsec2.ModifyInstanceAttributeInput{InstanceId: &r.id, SourceDestCheck: r.attribute("SourceDestCheck")}); err != nil {
						return err
					}
				}
				i, err := r.instance()
				if err != nil {
					return err
				}
				return each(r, "Volumes", "", func(in *awsec2.AttachVolumeInput, _ *template.Map) error {
					for _, have := range i.BlockDeviceMappings {
						if have.Ebs != nil && aws.ToString(have.Ebs.VolumeId) == aws.ToString(in.VolumeId) {
							return nil
						}
					}
					in.InstanceId = &r.id
					_, err := call[awsec2.AttachVolumeOutput](r, in)
					return err
				})
			},
			read: func(r *request) (map[string]any, error) {
				i, err := r.instance()
				if err != nil {
					return nil, err
				}
				out := map[string]any{"InstanceId": r.id, "PrivateIp": i.PrivateIpAddress, "PublicIp": aws.ToString(i.PublicIpAddress), "PrivateDnsName": i.PrivateDnsName, "PublicDnsName": aws.ToString(i.PublicDnsName), "VpcId": i.VpcId}
				if i.Placement != nil {
					out["AvailabilityZone"] = i.Placement.AvailabilityZone
				}
				return out, nil
			},
			remove: func(r *request) error {
				if _, err := call[awsec2.TerminateInstancesOutput](r, &awsec2.TerminateInstancesInput{InstanceIds: []string{r.id}}); err != nil {
					return err
				}
				return r.until(r.instanceState, "terminated")
			},
		}, "Tags IamInstanceProfile Monitoring NetworkInterfaces Volumes SourceDestCheck PropagateTagsToVolumeOnCreation AvailabilityZone Tenancy PlacementGroupName HostId HostResourceGroupArn Affinity", prepareInstance,
			func(_ *request, out *awsec2.RunInstancesOutput) *string { return out.Instances[0].InstanceId }),
		"AWS::EC2::Volume": made(handler{
			inPlace: "Iops Size Tags Throughput VolumeType", update: updateVolume,
			find:     byTags("volume"),
			settle:   func(r *request) error { return r.until(r.volumeState, "available", "error") },
			read:     idAs("VolumeId"),
			snapshot: snapshotVolume,
			remove: func(r *request) error {
				if _, err := call[awsec2.DeleteVolumeOutput](r, &awsec2.DeleteVolumeInput{VolumeId: &r.id}); err != nil {
					return err
				}
				return r.untilNotFound(func() error { _, err := r.volumeState(); return err })
			},
		}, "Tags", func(r *request, in *awsec2.CreateVolumeInput) {
			in.TagSpecifications, in.ClientToken = r.tagSpecs(ec2types.ResourceTypeVolume), &r.token
		}, func(_ *request, out *awsec2.CreateVolumeOutput) *string { return out.VolumeId }),
		"AWS::EC2::VolumeAttachment": made(handler{
			find: func(r *request) (string, error) {
				v, err := r.volume(r.text("VolumeId"))
				for _, a := range v.Attachments {
					if aws.ToString(a.InstanceId) == r.text("InstanceId") {
						return r.text("VolumeId") + "|" + r.text("InstanceId"), nil
					}
				}
				return "", err
			},
			settle: func(r *request) error {
				return r.until(func() (string, error) {
					v, err := r.volume(r.text("VolumeId"))
					if err != nil || len(v.Attachments) == 0 {
						return "", err
					}
					return string(v.Attachments[0].State), nil
				}, "attached")
			},
			remove: func(r *request) error {
				in := &awsec2.DetachVolumeInput{VolumeId: aws.String(r.text("VolumeId")), InstanceId: aws.String(r.text("InstanceId"))}
				if _, err := call[awsec2.DetachVolumeOutput](r, in); err != nil && codeOf(err) != "IncorrectState" {
					return err
				}
				return r.wait(func() (bool, error) {
					v, err := r.volume(*in.VolumeId)
					return notFound(err) || err == nil && v.State == ec2types.VolumeStateAvailable, nil
				})
			},
		}, "", func(*request, *awsec2.AttachVolumeInput) {}, func(r *request, _ *awsec2.AttachVolumeOutput) *string {
			return aws.String(r.text("VolumeId") + "|" + r.text("InstanceId"))
		}),
		"AWS::EC2::NetworkInterface": made(handler{
			inPlace: "Description GroupSet SourceDestCheck Tags", update: updateInterface,
			find: byTags("network-interface"),
			settle: func(r *request) error {
				if !r.props.Has("SourceDestCheck") {
					return nil
				}
				_, err := call[awsec2.ModifyNetworkInterfaceAttributeOutput](r, &awsec2.ModifyNetworkInterfaceAttributeInput{NetworkInterfaceId: &r.id, SourceDestCheck: r.attribute("SourceDestCheck")})
				return err
			},
			read: func(r *request) (map[string]any, error) {
				n, err := r.networkInterface(r.id)
				others := []string{}
				for _, a := range n.PrivateIpAddresses {
					if !aws.ToBool(a.Primary) {
						others = append(others, aws.ToString(a.PrivateIpAddress))
					}
				}
				return map[string]any{"Id": r.id, "PrimaryPrivateIpAddress": n.PrivateIpAddress, "SecondaryPrivateIpAddresses": others, "VpcId": n.VpcId}, err
			},
			remove: one[awsec2.DeleteNetworkInterfaceOutput](func(r *request) any {
				return &awsec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: &r.id}
			}),
		}, "Tags GroupSet SourceDestCheck", func(r *request, in *awsec2.CreateNetworkInterfaceInput) {
			in.Groups, in.TagSpecifications, in.ClientToken = r.list("GroupSet"), r.tagSpecs(ec2types.ResourceTypeNetworkInterface), &r.token
		}, func(_ *request, out *awsec2.CreateNetworkInterfaceOutput) *string {
			return out.NetworkInterface.NetworkInterfaceId
		}),
		"AWS::EC2::NetworkInterfaceAttachment": made(handler{
			inPlace: "DeleteOnTermination",
			find: func(r *request) (string, error) {
				n, err := r.networkInterface(r.text("NetworkInterfaceId"))
				if err != nil || n.Attachment == nil || aws.ToString(n.Attachment.InstanceId) != r.text("InstanceId") {
					return "", err
				}
				return aws.ToString(n.Attachment.AttachmentId), nil
			},
			settle: func(r *request) error {
				// The property's default is to delete the interface with its instance; the
				// API's is to keep it.
				in := &awsec2.ModifyNetworkInterfaceAttributeInput{NetworkInterfaceId: aws.String(r.text("NetworkInterfaceId")), Attachment: &ec2types.NetworkInterfaceAttachmentChanges{
					AttachmentId: &r.id, DeleteOnTermination: aws.Bool(r.text("DeleteOnTermination") != "false"),
				}}
				_, err := call[awsec2.ModifyNetworkInterfaceAttributeOutput](r, in)
				return err
			},
			read: idAs("AttachmentId"),
			remove: func(r *request) error {
				if _, err := call[awsec2.DetachNetworkInterfaceOutput](r, &awsec2.DetachNetworkInterfaceInput{AttachmentId: &r.id, Force: aws.Bool(true)}); err != nil {
					return err
				}
				return r.wait(func() (bool, error) {
					n, err := r.networkInterface(r.text("NetworkInterfaceId"))
					return notFound(err) || n.Status == ec2types.NetworkInterfaceStatusAvailable, nil
				})
			},
		}, "DeleteOnTermination", func(*request, *awsec2.AttachNetworkInterfaceInput) {}, func(_ *request, out *awsec2.AttachNetworkInterfaceOutput) *string { return out.AttachmentId }),
		"AWS::EC2::EIPAssociation": madeWith(handler{
			find: func(r *request) (string, error) {
				in := &awsec2.DescribeAddressesInput{AllocationIds: r.list("AllocationId"), PublicIps: r.list("EIP")}
				a, err := r.address(in)
				if aws.ToString(a.InstanceId) != r.text("InstanceId") && aws.ToString(a.NetworkInterfaceId) != r.text("NetworkInterfaceId") {
					return "", err
				}
				return aws.ToString(a.AssociationId), err
			},
			read: idAs("Id"),
			remove: one[awsec2.DisassociateAddressOutput](func(r *request) any {
				return &awsec2.DisassociateAddressInput{AssociationId: &r.id}
			}),
		}, "EIP", func(r *request, in *awsec2.AssociateAddressInput) error {
			if r.props.Has("EIP") {
				a, err := r.address(&awsec2.DescribeAddressesInput{PublicIps: r.list("EIP")})
				in.AllocationId = a.AllocationId
				return err
			}
			return nil
		}, func(_ *request, out *awsec2.AssociateAddressOutput) *string { return out.AssociationId }),
		"AWS::EC2::KeyPair": {
			input: &awsec2.CreateKeyPairInput{}, own: "PublicKeyMaterial Tags",
			find: func(r *request) (string, error) {
				k, err := r.keyPair(r.text("KeyName"))
				return aws.ToString(k.KeyName), err
			},
			create: createKeyPair,
			read: func(r *request) (map[string]any, error) {
				k, err := r.keyPair(r.id)
				return map[string]any{"KeyPairId": k.KeyPairId, "KeyFingerprint": k.KeyFingerprint}, err
			},
			remove: removeKeyPair,
		},
	}
}

// prepareInstance sets the members of RunInstances that have another name or form in the template.
func prepareInstance(r *request, in *awsec2.RunInstancesInput) error {
	in.MinCount, in.MaxCount, in.ClientToken = aws.Int32(1), aws.Int32(1), &r.token
	in.TagSpecifications = r.tagSpecs(ec2types.ResourceTypeInstance)
	if r.text("PropagateTagsToVolumeOnCreation") == "true" {
		in.TagSpecifications = append(in.TagSpecifications, r.tagSpecs(ec2types.ResourceTypeVolume)...)
	}
	if name := r.text("IamInstanceProfile"); name != "" {
		in.IamInstanceProfile = &ec2types.IamInstanceProfileSpecification{Name: &name}
	}
	if r.props.Has("Monitoring") {
		on, err := strconv.ParseBool(r.text("Monitoring"))
		if err != nil {
			return r.wrongType("Monitoring", "Boolean")
		}
		in.Monitoring = &ec2types.RunInstancesMonitoringEnabled{Enabled: &on}
	}
	where := &template.Map{}
	for i := 0; i < len(placement); i += 2 {
		if r.props.Has(placement[i]) {
			where.Set(placement[i+1], r.props.Get(placement[i]))
		}
	}
	if len(where.Keys()) > 0 {
		in.Placement = &ec2types.Placement{}
		if err := r.fillWith(in.Placement, where, nil, ""); err != nil {
			return err
		}
	}
	list, _ := r.props.Get("NetworkInterfaces").([]any)
	for _, e := range list {
		m, ok := e.(*template.Map)
		if !ok {
			return r.wrongType("NetworkInterfaces", "List of Map")
		}
		var n ec2types.InstanceNetworkInterfaceSpecification
		if err := r.fillWith(&n, rename(m, "GroupSet", "Groups"), nil, "NetworkInterfaces."); err != nil {
			return err
		}
		in.NetworkInterfaces = append(in.NetworkInterfaces, n)
	}
	return nil
}

func (r *request) instance() (ec2types.Instance, error) {
	out, err := call[awsec2.DescribeInstancesOutput](r, &awsec2.DescribeInstancesInput{InstanceIds: []string{r.id}})
	if err != nil || len(out.Reservations) == 0 {
		return ec2types.Instance{}, err
	}
	return first(out.Reservations[0].Instances)
}

func (r *request) instanceState() (string, error) {
	i, err := r.instance()
	if err != nil || i.State == nil {
		return "", err
	}
	return string(i.State.Name), nil
}

func (r *request) volume(id string) (ec2types.Volume, error) {
	out, err := call[awsec2.DescribeVolumesOutput](r, &awsec2.DescribeVolumesInput{VolumeIds: []string{id}})
	if err != nil {
		return ec2types.Volume{}, err
	}
	return first(out.Volumes)
}

func (r *request) volumeState() (string, error) {
	v, err := r.volume(r.id)
	if v.State == ec2types.VolumeStateInUse { // already attached by another resource
		return string(ec2types.VolumeStateAvailable), err
	}
	return string(v.State), err
}

func (r *request) networkInterface(id string) (ec2types.NetworkInterface, error) {
	out, err := call[awsec2.DescribeNetworkInterfacesOutput](r, &awsec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: []string{id}})
	if err != nil {
		return ec2types.NetworkInterface{}, err
	}
	return first(out.NetworkInterfaces)
}

func (r *request) keyPair(name string) (ec2types.KeyPairInfo, error) {
	out, err := call[awsec2.DescribeKeyPairsOutput](r, &awsec2.DescribeKeyPairsInput{KeyNames: []string{name}})
	if err != nil {
		return ec2types.KeyPairInfo{}, err
	}
	return first(out.KeyPairs)
}

// snapshotVolume creates a snapshot of a volume and waits until it is complete. It creates none if an earlier run has done
// so or if the volume no longer exists.
func snapshotVolume(r *request) error {
	description := "Created by CloudFormation before the deletion of " + r.id + ", " + r.logical + " of " + r.o.rec.Name // our own wording
	find := func(in *awsec2.DescribeSnapshotsInput) (id, state string, err error) {
		out, err := call[awsec2.DescribeSnapshotsOutput](r, in)
		if err != nil {
			return "", "", err
		}
		for _, s := range out.Snapshots {
			if aws.ToString(s.Description) == description && (s.State != ec2types.SnapshotStateError || in.SnapshotIds != nil) {
				return *s.SnapshotId, string(s.State), nil
			}
		}
		return "", "", nil
	}
	id, _, err := find(&awsec2.DescribeSnapshotsInput{Filters: []ec2types.Filter{{Name: aws.String("volume-id"), Values: []string{r.id}}}})
	if err == nil && id == "" {
		in := &awsec2.CreateSnapshotInput{VolumeId: &r.id, Description: &description}
		if tags := r.tags(); len(tags) > 0 {
			in.TagSpecifications = []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeSnapshot}}
			for _, t := range tags {
				in.TagSpecifications[0].Tags = append(in.TagSpecifications[0].Tags, ec2types.Tag{Key: &t.Key, Value: &t.Value})
			}
		}
		var out *awsec2.CreateSnapshotOutput
		if out, err = call[awsec2.CreateSnapshotOutput](r, in); err == nil {
			id = *out.SnapshotId
		}
	}
	switch {
	case codeOf(err) == "InvalidVolume.NotFound":
		return nil
	case err != nil:
		return err
	}
	return r.until(func() (string, error) {
		_, state, err := find(&awsec2.DescribeSnapshotsInput{SnapshotIds: []string{id}})
		return state, err
	}, "completed", "error")
}
