package cloudformation

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
)

func updateVolume(r *request) error {
	if r.changed("Size", "VolumeType", "Iops", "Throughput") {
		in := &awsec2.ModifyVolumeInput{VolumeId: &r.id}
		if err := r.onlyChanged(in, "Size", "VolumeType", "Iops", "Throughput"); err != nil {
			return err
		}
		if _, err := call[awsec2.ModifyVolumeOutput](r, in); err != nil {
			return err
		}
	}
	return r.retag(r.id)
}

func updateInterface(r *request) error {
	if r.changed("Description") {
		in := &awsec2.ModifyNetworkInterfaceAttributeInput{NetworkInterfaceId: &r.id, Description: &ec2types.AttributeValue{Value: aws.String(r.text("Description"))}}
		if _, err := call[awsec2.ModifyNetworkInterfaceAttributeOutput](r, in); err != nil {
			return err
		}
	}
	if r.changed("GroupSet") && r.props.Has("GroupSet") {
		in := &awsec2.ModifyNetworkInterfaceAttributeInput{NetworkInterfaceId: &r.id, Groups: r.list("GroupSet")}
		if _, err := call[awsec2.ModifyNetworkInterfaceAttributeOutput](r, in); err != nil {
			return err
		}
	}
	return r.retag(r.id)
}

// updateInstance first makes the changes that are possible while an instance runs, then
// those that require it to be stopped.
func updateInstance(r *request) error {
	modify := func(in *awsec2.ModifyInstanceAttributeInput) error {
		in.InstanceId = &r.id
		_, err := call[awsec2.ModifyInstanceAttributeOutput](r, in)
		return err
	}
	if r.changed("SecurityGroupIds") && r.props.Has("SecurityGroupIds") {
		if err := modify(&awsec2.ModifyInstanceAttributeInput{Groups: r.list("SecurityGroupIds")}); err != nil {
			return err
		}
	}
	if r.changed("DisableApiTermination") {
		if err := modify(&awsec2.ModifyInstanceAttributeInput{DisableApiTermination: r.attribute("DisableApiTermination")}); err != nil {
			return err
		}
	}
	if r.changed("InstanceInitiatedShutdownBehavior") && r.props.Has("InstanceInitiatedShutdownBehavior") {
		if err := modify(&awsec2.ModifyInstanceAttributeInput{InstanceInitiatedShutdownBehavior: &ec2types.AttributeValue{Value: aws.String(r.text("InstanceInitiatedShutdownBehavior"))}}); err != nil {
			return err
		}
	}
	if r.changed("Monitoring") {
		var err error
		if ids := []string{r.id}; r.text("Monitoring") == "true" {
			_, err = call[awsec2.MonitorInstancesOutput](r, &awsec2.MonitorInstancesInput{InstanceIds: ids})
		} else {
			_, err = call[awsec2.UnmonitorInstancesOutput](r, &awsec2.UnmonitorInstancesInput{InstanceIds: ids})
		}
		if err != nil {
			return err
		}
	}
	if r.changed("IamInstanceProfile") {
		if err := r.useProfile(r.text("IamInstanceProfile")); err != nil {
			return err
		}
	}
	if r.changed("MetadataOptions") && r.props.Has("MetadataOptions") {
		in := &awsec2.ModifyInstanceMetadataOptionsInput{InstanceId: &r.id}
		if err := r.fillIn(in, "MetadataOptions", ""); err != nil {
			return err
		}
		if _, err := call[awsec2.ModifyInstanceMetadataOptionsOutput](r, in); err != nil {
			return err
		}
	}
	if r.changed("InstanceType", "UserData", "EbsOptimized") {
		if _, err := call[awsec2.StopInstancesOutput](r, &awsec2.StopInstancesInput{InstanceIds: []string{r.id}}); err != nil {
			return err
		}
		if err := r.until(r.instanceState, "stopped", "terminated"); err != nil {
			return err
		}
		if r.changed("InstanceType") && r.props.Has("InstanceType") {
			if err := modify(&awsec2.ModifyInstanceAttributeInput{InstanceType: &ec2types.AttributeValue{Value: aws.String(r.text("InstanceType"))}}); err != nil {
				return err
			}
		}
		if r.changed("UserData") {
			if err := modify(&awsec2.ModifyInstanceAttributeInput{UserData: &ec2types.SecureBlobAttributeValue{Value: []byte(r.text("UserData"))}}); err != nil {
				return err
			}
		}
		if r.changed("EbsOptimized") {
			if err := modify(&awsec2.ModifyInstanceAttributeInput{EbsOptimized: r.attribute("EbsOptimized")}); err != nil {
				return err
			}
		}
		if _, err := call[awsec2.StartInstancesOutput](r, &awsec2.StartInstancesInput{InstanceIds: []string{r.id}}); err != nil {
			return err
		}
		if err := r.until(r.instanceState, "running", "terminated"); err != nil {
			return err
		}
	}
	return r.retag(r.id)
}

// useProfile replaces the instance profile of the instance, or removes it.
func (r *request) useProfile(name string) error {
	out, err := call[awsec2.DescribeIamInstanceProfileAssociationsOutput](r, &awsec2.DescribeIamInstanceProfileAssociationsInput{Filters: []ec2types.Filter{{Name: aws.String("instance-id"), Values: []string{r.id}}}})
	if err != nil {
		return err
	}
	profile := &ec2types.IamInstanceProfileSpecification{Name: &name}
	switch have := out.IamInstanceProfileAssociations; {
	case len(have) == 0 && name != "":
		_, err = call[awsec2.AssociateIamInstanceProfileOutput](r, &awsec2.AssociateIamInstanceProfileInput{InstanceId: &r.id, IamInstanceProfile: profile})
	case len(have) > 0 && name != "":
		_, err = call[awsec2.ReplaceIamInstanceProfileAssociationOutput](r, &awsec2.ReplaceIamInstanceProfileAssociationInput{AssociationId: have[0].AssociationId, IamInstanceProfile: profile})
	case len(have) > 0:
		_, err = call[awsec2.DisassociateIamInstanceProfileOutput](r, &awsec2.DisassociateIamInstanceProfileInput{AssociationId: have[0].AssociationId})
	}
	return err
}

// updateACLEntry replaces the entry with the same rule number.
func updateACLEntry(r *request) error {
	in := &awsec2.ReplaceNetworkAclEntryInput{Egress: aws.Bool(false)}
	if err := r.fill(in, "Icmp"); err != nil {
		return err
	}
	if r.props.Has("Icmp") {
		in.IcmpTypeCode = &ec2types.IcmpTypeCode{}
		if err := r.fillIn(in.IcmpTypeCode, "Icmp", ""); err != nil {
			return err
		}
	}
	_, err := call[awsec2.ReplaceNetworkAclEntryOutput](r, in)
	return err
}

// updatePrefixList changes the size or the name of a list, then its entries.
func updatePrefixList(r *request) error {
	l, err := r.prefixList()
	if err != nil {
		return err
	}
	if r.changed("PrefixListName") {
		if _, err := call[awsec2.ModifyManagedPrefixListOutput](r, &awsec2.ModifyManagedPrefixListInput{PrefixListId: &r.id, PrefixListName: aws.String(r.text("PrefixListName"))}); err != nil {
			return err
		}
	}
	if size := r.text("MaxEntries"); size != "" && size != fmt.Sprint(aws.ToInt32(l.MaxEntries)) {
		n, err := strconv.ParseInt(size, 10, 32)
		if err != nil {
			return r.wrongType("MaxEntries", "Integer")
		}
		if _, err := call[awsec2.ModifyManagedPrefixListOutput](r, &awsec2.ModifyManagedPrefixListInput{PrefixListId: &r.id, MaxEntries: aws.Int32(int32(n))}); err != nil {
			return err
		}
		if err := r.listSettled(); err != nil {
			return err
		}
	}
	have, err := call[awsec2.GetManagedPrefixListEntriesOutput](r, &awsec2.GetManagedPrefixListEntriesInput{PrefixListId: &r.id})
	if err != nil {
		return err
	}
	in := &awsec2.ModifyManagedPrefixListInput{PrefixListId: &r.id, CurrentVersion: l.Version}
	var wanted []string
	err = each(r, "Entries", "", func(e *ec2types.AddPrefixListEntry, _ *template.Map) error {
		wanted = append(wanted, aws.ToString(e.Cidr))
		if !slices.ContainsFunc(have.Entries, func(h ec2types.PrefixListEntry) bool {
			return aws.ToString(h.Cidr) == aws.ToString(e.Cidr) && aws.ToString(h.Description) == aws.ToString(e.Description)
		}) {
			in.AddEntries = append(in.AddEntries, *e)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, h := range have.Entries {
		if !slices.Contains(wanted, aws.ToString(h.Cidr)) {
			in.RemoveEntries = append(in.RemoveEntries, ec2types.RemovePrefixListEntry{Cidr: h.Cidr})
		}
	}
	if len(in.AddEntries)+len(in.RemoveEntries) > 0 {
		if _, err := call[awsec2.ModifyManagedPrefixListOutput](r, in); err != nil {
			return err
		}
	}
	return r.retag(r.id)
}

// listSettled waits until no change to a prefix list is in progress.
func (r *request) listSettled() error {
	return r.wait(func() (bool, error) {
		l, err := r.prefixList()
		switch l.State {
		case ec2types.PrefixListStateCreateFailed, ec2types.PrefixListStateModifyFailed:
			return false, fmt.Errorf("%s is in state %s: %s", r.id, l.State, aws.ToString(l.StateMessage))
		case ec2types.PrefixListStateCreateComplete, ec2types.PrefixListStateModifyComplete:
			return true, err
		}
		return false, err
	})
}

// updateRuleDescription returns a function that changes the description of a security
// group's rule.
func updateRuleDescription(ingress bool) func(*request) error {
	return func(r *request) error {
		rules := []ec2types.SecurityGroupRuleDescription{{SecurityGroupRuleId: &r.id, Description: aws.String(r.text("Description"))}}
		var err error
		if ingress {
			_, err = call[awsec2.UpdateSecurityGroupRuleDescriptionsIngressOutput](r, &awsec2.UpdateSecurityGroupRuleDescriptionsIngressInput{GroupId: aws.String(r.text("GroupId")), SecurityGroupRuleDescriptions: rules})
		} else {
			_, err = call[awsec2.UpdateSecurityGroupRuleDescriptionsEgressOutput](r, &awsec2.UpdateSecurityGroupRuleDescriptionsEgressInput{GroupId: aws.String(r.text("GroupId")), SecurityGroupRuleDescriptions: rules})
		}
		return err
	}
}
