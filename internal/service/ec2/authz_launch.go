package ec2

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/service/ec2/instance"
	"github.com/drydock-dev/drydock/internal/service/ec2/launchtemplate"
	"github.com/drydock-dev/drydock/internal/service/ec2/placement"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/store"
)

// A launchView is a launch as policies see it: the request's values, supplemented by its launch
// template's.
type launchView struct {
	s  *Service
	sc resource.Scope
	in *awsec2.RunInstancesInput
	// given is the request without its template, to tell which values come from the template.
	given    *awsec2.RunInstancesInput
	template string // ARN of the template, or empty
	// profile and role are the ARNs of the instance profile and its role, or empty.
	profile, role string
}

// launchTargets are the resources that RunInstances uses, each of which is authorized.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ExamplePolicies_EC2.html#iam-example-runinstances
func (s *Service) launchTargets(ctx context.Context, sc resource.Scope, in *awsec2.RunInstancesInput) []authz.Target {
	v := launchView{s: s, sc: sc, in: in, given: in}
	if in.LaunchTemplate != nil {
		// If the template does not exist, the handler returns the error.
		if merged, t, err := mergedLaunch(s.Store, sc, in); err == nil {
			v.in, v.template = merged, sc.ARN("launch-template", t.ID)
		}
	}
	v.findProfile(ctx)
	out := []authz.Target{v.instance(), v.image()}
	out = append(out, v.network()...)
	out = append(out, v.volumes()...)
	out = append(out, v.keyPairAndGroup()...)
	if c := v.in.CapacityReservationSpecification; c != nil && c.CapacityReservationTarget != nil && aws.ToString(c.CapacityReservationTarget.CapacityReservationId) != "" {
		out = append(out, v.target("capacity-reservation", *c.CapacityReservationTarget.CapacityReservationId, v.given.CapacityReservationSpecification == nil, nil))
	}
	if t := in.LaunchTemplate; t != nil {
		id := aws.ToString(t.LaunchTemplateId)
		if id == "" {
			id = aws.ToString(t.LaunchTemplateName)
		}
		out = append(out, v.target("launch-template", id, false, nil))
	}
	if v.role != "" {
		out = append(out, v.passed())
	}
	return out
}

// spotTargets are the resources that RequestSpotInstances uses.
func (s *Service) spotTargets(ctx context.Context, sc resource.Scope, in *awsec2.RequestSpotInstancesInput) []authz.Target {
	launch := instance.SpotLaunch(in)
	v := launchView{s: s, sc: sc, in: launch, given: launch}
	v.in.TagSpecifications = in.TagSpecifications
	v.findProfile(ctx)
	out := append([]authz.Target{v.target("spot-instances-request", "", false, nil), v.image()}, v.network()...)
	for _, t := range v.volumes() {
		if t.Type == "snapshot" {
			out = append(out, t)
		}
	}
	out = append(out, v.keyPairAndGroup()...)
	if v.role != "" {
		out = append(out, v.passed())
	}
	return out
}

// mergedLaunch returns a request merged with its launch template version.
func mergedLaunch(r store.Reader, sc resource.Scope, in *awsec2.RunInstancesInput) (*awsec2.RunInstancesInput, launchtemplate.Template, error) {
	t, err := launchtemplate.Find(r, sc, in.LaunchTemplate.LaunchTemplateId, in.LaunchTemplate.LaunchTemplateName)
	if err != nil {
		return nil, t, err
	}
	n, err := t.Version(aws.ToString(in.LaunchTemplate.Version))
	if err != nil {
		return nil, t, err
	}
	version, err := launchtemplate.GetVersion(r, sc, t, n)
	if err != nil {
		return nil, t, err
	}
	given, err := launchtemplate.CompactJSON(in)
	if err != nil {
		return nil, t, err
	}
	merged, err := launchtemplate.OverlayJSON(version.Data, given)
	if err != nil {
		return nil, t, err
	}
	var base awsec2.RunInstancesInput
	out := new(awsec2.RunInstancesInput)
	if err := json.Unmarshal(version.Data, &base); err != nil {
		return nil, t, err
	}
	if err := json.Unmarshal(merged, out); err != nil {
		return nil, t, err
	}
	out.TagSpecifications = instance.MergeTagSpecs(base.TagSpecifications, in.TagSpecifications)
	out.BlockDeviceMappings = instance.MergeDevices(base.BlockDeviceMappings, in.BlockDeviceMappings)
	return out, t, nil
}

// target returns a resource of the launch. fromTemplate means that the launch template names it,
// not the request.
func (v *launchView) target(kind, id string, fromTemplate bool, keys map[string][]string) authz.Target {
	if keys == nil {
		keys = map[string][]string{}
	}
	maps.Copy(keys, keyed("ec2:launchtemplate", v.template, "ec2:islaunchtemplateresource", strconv.FormatBool(fromTemplate && v.template != "")))
	t := authz.Target{Type: kind, ID: id, Keys: keys}
	if id == "" {
		for _, spec := range v.in.TagSpecifications {
			if string(spec.ResourceType) == kind {
				t.Tags, t.TagKeys = tagPairs(spec.Tags)
			}
		}
	}
	return t
}

// keyPairAndGroup returns the launch's key pair and placement group, if it has them.
func (v *launchView) keyPairAndGroup() (out []authz.Target) {
	if name := aws.ToString(v.in.KeyName); name != "" {
		out = append(out, v.target("key-pair", name, v.given.KeyName == nil, nil))
	}
	if name := v.placementGroup(); name != "" {
		out = append(out, v.target("placement-group", name, v.given.Placement == nil, nil))
	}
	return out
}

// placementGroup returns the name of the launch's placement group, which its ARN has, or "".
func (v *launchView) placementGroup() string {
	g, err := placement.Requested(v.s.Store, v.sc, v.in.Placement)
	switch {
	case g != nil:
		return g.Name
	case err != nil && v.in.Placement != nil: // the handler returns the error
		return aws.ToString(v.in.Placement.GroupName)
	}
	return ""
}

func (v *launchView) instance() authz.Target {
	in := v.in
	kind := string(in.InstanceType)
	if kind == "" {
		kind = "m1.small" // EC2's default
	}
	market, tenancy, group := "on-demand", "default", ""
	if in.InstanceMarketOptions != nil && in.InstanceMarketOptions.MarketType != "" {
		market = string(in.InstanceMarketOptions.MarketType)
	}
	if p := in.Placement; p != nil {
		if p.Tenancy != "" {
			tenancy = string(p.Tenancy)
		}
	}
	if name := v.placementGroup(); name != "" {
		group = v.sc.ARN("placement-group", name)
	}
	operator := ""
	if in.Operator != nil {
		operator = aws.ToString(in.Operator.Principal)
	}
	keys := keyed(
		"ec2:instanceid", "", "ec2:instancetype", kind, "ec2:instancemarkettype", market, "ec2:tenancy", tenancy, "ec2:placementgroup", group,
		"ec2:ebsoptimized", strconv.FormatBool(aws.ToBool(in.EbsOptimized)), "ec2:rootdevicetype", "ebs", "ec2:instanceprofile", v.profile,
		"ec2:productcode", "", "ec2:managedresourceoperator", operator, "ec2:cpuoptionsamdsevsnp", "", "ec2:instancebandwidthweighting", "",
		"ec2:instanceautorecovery", "default")
	maps.Copy(keys, v.metadata())
	maps.Copy(keys, v.zone())
	return v.target("instance", "", v.given.InstanceType == "", keys)
}

// metadata returns the condition keys for the metadata options: the launch's, or EC2's defaults.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/configuring-instance-metadata-options.html
func (v *launchView) metadata() map[string][]string {
	endpoint, tokens, hops, tags := "enabled", "optional", "1", "disabled"
	if m := v.in.MetadataOptions; m != nil {
		if m.HttpEndpoint != "" {
			endpoint = string(m.HttpEndpoint)
		}
		if m.HttpTokens != "" {
			tokens = string(m.HttpTokens)
		}
		if m.HttpPutResponseHopLimit != nil {
			hops = itoa(m.HttpPutResponseHopLimit)
		}
		if m.InstanceMetadataTags != "" {
			tags = string(m.InstanceMetadataTags)
		}
	}
	return keyed("ec2:metadatahttpendpoint", endpoint, "ec2:metadatahttptokens", tokens, "ec2:metadatahttpputresponsehoplimit", hops, "ec2:instancemetadatatags", tags)
}

// subnets returns the launch's subnets in the order of its interfaces.
func (v *launchView) subnets() []string {
	var out []string
	for _, nic := range v.in.NetworkInterfaces {
		switch {
		case aws.ToString(nic.SubnetId) != "":
			out = append(out, *nic.SubnetId)
		case aws.ToString(nic.NetworkInterfaceId) != "":
			if e, err := record.NetworkInterfaces.Get(v.s.Store, v.sc.Key(*nic.NetworkInterfaceId)); err == nil {
				out = append(out, e.SubnetID)
			}
		}
	}
	if id := aws.ToString(v.in.SubnetId); id != "" {
		out = append(out, id)
	}
	if len(out) == 0 {
		if sn, err := v.s.SubnetOf(v.sc, v.in, nil); err == nil {
			out = append(out, sn.ID)
		}
	}
	return resource.SortedUnique(out)
}

func (v *launchView) zone() map[string][]string {
	zone, id := "", ""
	if ids := v.subnets(); len(ids) > 0 {
		if sn, err := record.Subnets.Get(v.s.Store, v.sc.Key(ids[0])); err == nil {
			zone, id = sn.Zone, sn.ZoneID
		}
	}
	return keyed("ec2:availabilityzone", zone, "ec2:availabilityzoneid", id)
}

func (v *launchView) image() authz.Target {
	return v.target("image", aws.ToString(v.in.ImageId), v.given.ImageId == nil, nil)
}

// network returns the launch's interfaces, subnets and groups.
func (v *launchView) network() []authz.Target {
	var out []authz.Target
	subnetFromTemplate := v.given.SubnetId == nil && v.given.NetworkInterfaces == nil
	ids := v.subnets()
	for _, id := range ids {
		out = append(out, v.target("subnet", id, subnetFromTemplate, nil))
	}
	if len(ids) == 0 {
		out = append(out, v.target("subnet", "", false, nil))
	}
	var groups []string
	nics := v.in.NetworkInterfaces
	if len(nics) == 0 {
		nics = []ec2types.InstanceNetworkInterfaceSpecification{{SubnetId: v.in.SubnetId}}
		groups = append(groups, v.in.SecurityGroupIds...)
		groups = append(groups, v.in.SecurityGroups...)
	}
	for _, nic := range nics {
		groups = append(groups, nic.Groups...)
		public := ""
		if nic.AssociatePublicIpAddress != nil {
			public = strconv.FormatBool(*nic.AssociatePublicIpAddress)
		}
		keys := keyed("ec2:associatepublicipaddress", public, "ec2:authorizedservice", "", "ec2:managedresourceoperator", "", "ec2:networkinterfaceid", "")
		subnet := aws.ToString(nic.SubnetId)
		if subnet == "" && len(ids) > 0 {
			subnet = ids[0]
		}
		if sn, err := record.Subnets.Get(v.s.Store, v.sc.Key(subnet)); err == nil {
			maps.Copy(keys, keyed("ec2:subnet", v.sc.ARN("subnet", sn.ID), "ec2:vpc", v.sc.ARN("vpc", sn.VPCID), "ec2:availabilityzone", sn.Zone))
		}
		id := aws.ToString(nic.NetworkInterfaceId)
		if id != "" {
			keys = nil
		}
		out = append(out, v.target("network-interface", id, v.given.NetworkInterfaces == nil, keys))
	}
	groupsFromTemplate := v.given.SecurityGroupIds == nil && v.given.SecurityGroups == nil && v.given.NetworkInterfaces == nil
	if len(groups) == 0 {
		groups = v.defaultGroup(ids)
	}
	for _, g := range resource.SortedUnique(groups) {
		out = append(out, v.target("security-group", g, groupsFromTemplate, nil))
	}
	return out
}

// defaultGroup returns the default group of the VPC, for a launch that names no group.
func (v *launchView) defaultGroup(subnetIDs []string) []string {
	if len(subnetIDs) == 0 {
		return []string{""}
	}
	sn, err := record.Subnets.Get(v.s.Store, v.sc.Key(subnetIDs[0]))
	if err != nil {
		return []string{""}
	}
	vpc, err := record.VPCs.Get(v.s.Store, v.sc.Key(sn.VPCID))
	if err != nil {
		return []string{""}
	}
	return []string{vpc.DefaultGroupID}
}

// volumes returns the volumes that the launch creates: the image's, overridden and extended by the
// launch's.
func (v *launchView) volumes() []authz.Target {
	type volume struct {
		kind, size, iops, throughput, encrypted, snapshot string
	}
	byDevice := map[string]volume{}
	if img, ok := v.s.LookupImage(v.sc, aws.ToString(v.in.ImageId)); ok {
		for _, d := range img.Devices {
			byDevice[d.Name] = volume{kind: d.Type, size: strconv.Itoa(int(d.SizeGiB)), encrypted: strconv.FormatBool(d.Encrypted)}
		}
	}
	for _, m := range v.in.BlockDeviceMappings {
		name := aws.ToString(m.DeviceName)
		if m.NoDevice != nil {
			delete(byDevice, name)
			continue
		}
		if m.Ebs == nil {
			continue
		}
		d := byDevice[name]
		if m.Ebs.VolumeType != "" {
			d.kind = string(m.Ebs.VolumeType)
		}
		if m.Ebs.VolumeSize != nil {
			d.size = itoa(m.Ebs.VolumeSize)
		}
		if m.Ebs.Encrypted != nil {
			d.encrypted = strconv.FormatBool(*m.Ebs.Encrypted)
		}
		if id := aws.ToString(m.Ebs.SnapshotId); id != "" {
			d.snapshot = "arn:aws:ec2:" + v.sc.Region + "::snapshot/" + id
		}
		d.iops, d.throughput = itoa(m.Ebs.Iops), itoa(m.Ebs.Throughput)
		byDevice[name] = d
	}
	if len(byDevice) == 0 {
		byDevice[""] = volume{}
	}
	seen := map[volume]bool{}
	var out []authz.Target
	for _, name := range slices.Sorted(maps.Keys(byDevice)) {
		d := byDevice[name]
		if seen[d] {
			continue
		}
		seen[d] = true
		keys := keyed("ec2:volumetype", d.kind, "ec2:volumesize", d.size, "ec2:volumeiops", d.iops, "ec2:volumethroughput", d.throughput,
			"ec2:encrypted", d.encrypted, "ec2:parentsnapshot", d.snapshot, "ec2:volumeid", "", "ec2:managedresourceoperator", "",
			"ec2:volumeinitializationrate", "", "ec2:kmskeyid", "")
		maps.Copy(keys, v.zone())
		out = append(out, v.target("volume", "", v.given.BlockDeviceMappings == nil, keys))
	}
	return out
}

// findProfile looks up the launch's instance profile and its role, which the caller must be allowed
// to pass.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/permission-to-pass-iam-roles.html
func (v *launchView) findProfile(ctx context.Context) {
	p := v.in.IamInstanceProfile
	if p == nil {
		return
	}
	v.profile = aws.ToString(p.Arn)
	name := v.profile[strings.LastIndexByte(v.profile, '/')+1:]
	if name == "" {
		if name = aws.ToString(p.Name); name == "" {
			return
		}
		v.profile = arn.IAM(v.sc.Account, "instance-profile/"+name)
	}
	if v.s.profiles == nil {
		return
	}
	found, ok, err := v.s.profiles.InstanceProfile(ctx, v.sc.Account, name)
	if ok && err == nil { // otherwise the handler returns the error
		v.profile, v.role = found.ARN, found.RoleARN
	}
}

// fleetTargets are what CreateFleet touches. An instant fleet calls RunInstances as
// its user, which is authorized then. Other fleets launch as EC2 Fleet's own role, to
// which the caller can only pass roles that it may pass itself.
func (s *Service) fleetTargets(ctx context.Context, sc resource.Scope, in *awsec2.CreateFleetInput) []authz.Target {
	created := func(kind string) authz.Target {
		t := authz.Target{Type: kind}
		for _, spec := range in.TagSpecifications {
			if string(spec.ResourceType) == kind {
				t.Tags, t.TagKeys = tagPairs(spec.Tags)
			}
		}
		return t
	}
	out := []authz.Target{created("fleet")}
	instance := created("instance")
	instance.Keys = keyed("ec2:instanceid", "", "ec2:rootdevicetype", "ebs", "ec2:cpuoptionsamdsevsnp", "", "ec2:instancebandwidthweighting", "", "ec2:placementgroup", "")
	out = append(out, instance)
	if volume := created("volume"); volume.Tags != nil {
		out = append(out, volume)
	}
	out = append(out, configTargets(in.LaunchTemplateConfigs)...)
	if in.Type != ec2types.FleetTypeInstant {
		out = append(out, s.profileTargets(ctx, sc, in.LaunchTemplateConfigs)...)
	}
	return out
}

// configTargets are the resources that a fleet's configurations name.
func configTargets(configs []ec2types.FleetLaunchTemplateConfigRequest) []authz.Target {
	var out []authz.Target
	seen := map[string]bool{}
	add := func(kind string, id *string) {
		if v := aws.ToString(id); v != "" && !seen[kind+v] {
			seen[kind+v] = true
			out = append(out, authz.Target{Type: kind, ID: v})
		}
	}
	for _, c := range configs {
		if t := c.LaunchTemplateSpecification; t != nil {
			add("launch-template", t.LaunchTemplateId)
			add("launch-template", t.LaunchTemplateName)
		}
		for _, o := range c.Overrides {
			for id := range strings.SplitSeq(aws.ToString(o.SubnetId), ",") {
				add("subnet", aws.String(strings.TrimSpace(id)))
			}
			add("image", o.ImageId)
		}
	}
	return out
}
