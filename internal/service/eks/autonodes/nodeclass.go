package autonodes

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/automode"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// resolve finds what a NodeClass means. The conditions that are not met have Karpenter's reasons, or EKS's.
func (s *Service) resolve(ctx context.Context, key store.Key, rec *record.Cluster, nc *automode.NodeClass) *automode.Resolved {
	svc := s.AsService(ctx, key.Account, key.Region)
	vpc := aws.ToString(rec.Cluster.ResourcesVpcConfig.VpcId)
	out := &automode.Resolved{Problems: map[string]automode.Problem{}}
	var err error
	switch out.Subnets, err = s.subnets(svc, vpc, nc.SubnetSelectorTerms); {
	case err != nil:
		out.Problems[automode.SubnetsReady] = automode.Problem{Reason: "SubnetsLookupFailed", Message: err.Error()}
	case len(out.Subnets) == 0:
		out.Problems[automode.SubnetsReady] = automode.Problem{Reason: "SubnetsNotFound", Message: "SubnetSelector did not match any Subnets"}
	}
	switch out.SecurityGroups, err = s.securityGroups(svc, vpc, nc.SecurityGroupSelectorTerms); {
	case err != nil:
		out.Problems[automode.SecurityGroupsReady] = automode.Problem{Reason: "SecurityGroupsLookupFailed", Message: err.Error()}
	case len(out.SecurityGroups) == 0:
		out.Problems[automode.SecurityGroupsReady] = automode.Problem{Reason: "SecurityGroupsNotFound", Message: "SecurityGroupSelector did not match any SecurityGroups"}
	}
	profile, problem := s.profile(ctx, svc, key, rec, nc)
	out.InstanceProfile = profile
	if problem != nil {
		out.Problems[automode.InstanceProfileReady] = *problem
	}
	return out
}

// filters returns the filters of a selector term.
func filters(vpc string, t automode.Term, id, name string) []ec2types.Filter {
	add := func(out []ec2types.Filter, key, value string) []ec2types.Filter {
		if value == "" {
			return out
		}
		return append(out, ec2types.Filter{Name: &key, Values: []string{value}})
	}
	out := add(add(add(nil, "vpc-id", vpc), id, t.ID), name, t.Name)
	for k, v := range t.Tags {
		if v == "*" {
			out = add(out, "tag-key", k)
		} else {
			out = add(out, "tag:"+k, v)
		}
	}
	return out
}

func (s *Service) subnets(ctx context.Context, vpc string, terms []automode.Term) ([]automode.Subnet, error) {
	var out []automode.Subnet
	for _, t := range terms {
		got, err := s.Network.DescribeSubnets(ctx, &awsec2.DescribeSubnetsInput{Filters: filters(vpc, t, "subnet-id", "tag:Name")})
		if err != nil {
			return nil, err
		}
		for _, sn := range got.Subnets {
			if !slices.ContainsFunc(out, func(o automode.Subnet) bool { return o.ID == *sn.SubnetId }) {
				out = append(out, automode.Subnet{ID: *sn.SubnetId, Zone: *sn.AvailabilityZone, ZoneID: aws.ToString(sn.AvailabilityZoneId)})
			}
		}
	}
	slices.SortFunc(out, func(a, b automode.Subnet) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

func (s *Service) securityGroups(ctx context.Context, vpc string, terms []automode.Term) ([]automode.SecurityGroup, error) {
	var out []automode.SecurityGroup
	for _, t := range terms {
		got, err := s.Network.DescribeSecurityGroups(ctx, &awsec2.DescribeSecurityGroupsInput{Filters: filters(vpc, t, "group-id", "group-name")})
		if err != nil {
			return nil, err
		}
		for _, g := range got.SecurityGroups {
			if !slices.ContainsFunc(out, func(o automode.SecurityGroup) bool { return o.ID == *g.GroupId }) {
				out = append(out, automode.SecurityGroup{ID: *g.GroupId, Name: aws.ToString(g.GroupName)})
			}
		}
	}
	slices.SortFunc(out, func(a, b automode.SecurityGroup) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

// profile returns the instance profile of a NodeClass's nodes. EKS makes one for a role, unless it exists: it creates
// the profile itself, and adds the role as the cluster role, which must be allowed to pass it.
func (s *Service) profile(ctx, svc context.Context, key store.Key, rec *record.Cluster, nc *automode.NodeClass) (string, *automode.Problem) {
	name, role := nc.InstanceProfile, nc.Role
	if name != "" {
		got, err := s.InstanceProfiles.GetInstanceProfile(svc, &awsiam.GetInstanceProfileInput{InstanceProfileName: &name})
		switch {
		case err != nil:
			return "", &automode.Problem{Reason: "InstanceProfileNotFound", Message: err.Error()}
		case len(got.InstanceProfile.Roles) == 0:
			return "", &automode.Problem{Reason: "InstanceProfileNotFound", Message: "Instance profile " + name + " has no role"}
		}
		role = aws.ToString(got.InstanceProfile.Roles[0].RoleName)
	}
	if !s.mayJoin(key, role) {
		// [seen] in events of NodeClasses
		return "", &automode.Problem{Reason: "UnauthorizedNodeRole", Message: "Role " + role + " is unauthorized to join nodes to the cluster"}
	}
	if name != "" {
		return name, nil
	}
	name = profileName(key.Region, key.ID, role)
	got, err := s.InstanceProfiles.GetInstanceProfile(svc, &awsiam.GetInstanceProfileInput{InstanceProfileName: &name})
	if err == nil && len(got.InstanceProfile.Roles) > 0 {
		return name, nil
	}
	if err != nil {
		_, err = s.InstanceProfiles.CreateInstanceProfile(svc, &awsiam.CreateInstanceProfileInput{InstanceProfileName: &name})
	}
	if err == nil || isCode(err, "EntityAlreadyExists") {
		var cluster context.Context
		if cluster, err = s.AsClusterRole(ctx, key, rec); err == nil {
			_, err = s.AutoNodes.AddRoleToInstanceProfile(cluster, &awsiam.AddRoleToInstanceProfileInput{InstanceProfileName: &name, RoleName: &role})
		}
	}
	if err != nil && !isCode(err, "LimitExceeded") { // it has its one role already
		return "", &automode.Problem{Reason: "InstanceProfileCreationFailed", Message: "Error creating instance profile: " + err.Error()}
	}
	return name, nil
}

// mayJoin reports whether a role has an access entry for nodes.
// https://docs.aws.amazon.com/eks/latest/userguide/create-node-class.html#auto-node-access-entry
func (s *Service) mayJoin(key store.Key, role string) bool {
	for _, e := range record.AccessEntries.All(s.Store, key.AllBelow()) {
		a, err := arn.Parse(*e.Value.Entry.PrincipalArn)
		if err == nil && strings.HasPrefix(a.Resource, "role/") && roleName(a.Resource) == role && strings.HasPrefix(*e.Value.Entry.Type, "EC2") {
			return true
		}
	}
	return false
}

// removeProfile deletes the instance profile that EKS made for a NodeClass, unless an instance still uses it.
func (s *Service) removeProfile(ctx context.Context, key store.Key, rec *record.Cluster, nc *automode.NodeClass) error {
	if nc.Role == "" {
		return nil
	}
	if c := rec.Cluster.ComputeConfig; nc.Name != "default" && c != nil && roleName(aws.ToString(c.NodeRoleArn)) == nc.Role {
		return nil // the default NodeClass uses it
	}
	svc := s.AsService(ctx, key.Account, key.Region)
	name := profileName(key.Region, key.ID, nc.Role)
	_, err := s.InstanceProfiles.RemoveRoleFromInstanceProfile(svc, &awsiam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: &name, RoleName: &nc.Role})
	if err == nil || isCode(err, "NoSuchEntity") {
		_, err = s.InstanceProfiles.DeleteInstanceProfile(svc, &awsiam.DeleteInstanceProfileInput{InstanceProfileName: &name})
	}
	if isCode(err, "NoSuchEntity") {
		return nil
	}
	return err
}

// isCode reports whether err has an IAM error code in either spelling: the SDK's types end in Exception.
func isCode(err error, want string) bool {
	return strings.TrimSuffix(awserr.CodeOf(err), "Exception") == want
}
