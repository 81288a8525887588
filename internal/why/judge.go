package why

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/reach"
	"github.com/drydock-dev/drydock/internal/service/ec2"
)

// This file has the judges of changes to faults, quotas, roles, keys and instances. Those of pods are in
// pod_judge.go, those of the network in internal/advice.

// faultFixes returns the fix for a failure that a fault caused, or nil if the fault is gone.
func (x *Explainer) faultFixes(account, region, id string) []advice.Fix {
	all := x.cfg.Faults.List(account, region)
	i := slices.IndexFunc(all, func(f fault.Fault) bool { return f.ID == id })
	if i < 0 {
		return nil
	}
	return advice.Try(func(changes []advice.Change) error {
		without := fault.NewSet(fault.Config{})
		without.Replace(slices.DeleteFunc(slices.Clone(all), func(f fault.Fault) bool { return f.ID == changes[0].Resource }))
		if other := without.Another(&all[i]); other != nil {
			return errors.New(other.Why() + " does the same; " + other.Fix() + " ends it")
		}
		return nil
	}, []advice.Change{{Kind: advice.ClearFault, Resource: id}}, all[i].Fix())
}

// startFixes returns the fix that starts an instance that was stopped from outside.
func (x *Explainer) startFixes(account, region, id string) []advice.Fix {
	i, ok := x.cfg.EC2.InstanceByID(account, region, id)
	if !ok || i.State == nil || i.State.Name != ec2types.InstanceStateNameStopped && i.State.Name != ec2types.InstanceStateNameStopping {
		return nil
	}
	commands := []string{"aws ec2 start-instances --instance-ids " + id + " --region " + region}
	if i.State.Name == ec2types.InstanceStateNameStopping { // EC2 does not start it yet
		commands = slices.Insert(commands, 0, "aws ec2 wait instance-stopped --instance-ids "+id+" --region "+region)
	}
	return advice.Try(func([]advice.Change) error { return x.launches(account, region, &i, 1) },
		[]advice.Change{{Kind: advice.StartInstance, Resource: id}}, commands...)
}

// launches returns why EC2 would not launch more instances like one that exists, or nil: capacity, and the quota of
// vCPUs.
func (x *Explainer) launches(account, region string, like *ec2types.Instance, more int) error {
	typ, spot, zone := string(like.InstanceType), like.InstanceLifecycle == ec2types.InstanceLifecycleTypeSpot, ""
	if p := like.Placement; p != nil {
		zone = aws.ToString(p.AvailabilityZone)
	}
	if f := x.cfg.Faults.NoCapacity(account, region, typ, zone, capacityType(spot)); f != nil {
		return errors.New(f.Why() + " is in force; " + f.Fix() + " ends it")
	}
	if use, ok := x.cfg.EC2.VCPUUse(context.Background(), account, region, typ, spot); ok && use.Room() < more {
		return fmt.Errorf("the quota %s has %d of %d vCPUs in use, and another %s needs %d", use.Code, use.Running, use.Limit, typ, use.Each)
	}
	return nil
}

func capacityType(spot bool) string {
	if spot {
		return "spot"
	}
	return "on-demand"
}

// replaceable returns why an instance cannot be launched again while it still runs, or nil.
func (x *Explainer) replaceable(e *api.NodeExplanation, i *ec2types.Instance) error {
	if err := x.launches(e.Account, e.Region, i, 1); err != nil {
		return err
	}
	if x.cfg.Network == nil {
		return nil
	}
	s, err := x.cfg.Network(context.Background(), e.Account, e.Region)
	if err != nil {
		return err
	}
	if !advice.HasRoom(s, aws.ToString(i.SubnetId)) {
		return fmt.Errorf("the subnet %s has no free address", aws.ToString(i.SubnetId))
	}
	return nil
}

// roleMay returns a judge of changes to a role's policies, which asks whether the role could then perform an action.
func (x *Explainer) roleMay(roleARN, action, resource string) advice.Judge {
	return func(changes []advice.Change) error {
		who, err := x.principalOf(roleARN)
		if err != nil {
			return err
		}
		policies, _ := x.cfg.IAM.PoliciesOf(who)
		return node.Permitted(policy.Request{Action: action, Resource: resource, ResourceAccount: who.Account, Principal: authz.PrincipalOf(who)}, policies)(changes)
	}
}

// principalOf returns a session of a role.
func (x *Explainer) principalOf(roleARN string) (awsapi.Principal, error) {
	r, err := x.cfg.IAM.RoleByARN(context.Background(), roleARN)
	if err != nil {
		return awsapi.Principal{}, err
	}
	a, err := arn.Parse(roleARN)
	return awsapi.Principal{
		Type: awsapi.AssumedRole, Account: a.Account, RoleARN: roleARN, UserID: r.ID + ":session",
		ARN: arn.New("sts", "", a.Account, "assumed-role/"+roleName(roleARN)+"/session"),
	}, err
}

// trusting returns the fix that lets a service assume a role, in addition to those that
// already may.
func (x *Explainer) trusting(role, service string) []advice.Fix {
	r, err := x.cfg.IAM.RoleByARN(context.Background(), role)
	if err != nil || !roleNames.MatchString(roleName(role)) || trusts(r.Trust, role, service) {
		return nil
	}
	wanted := trustStatement{Effect: "Allow", Principal: map[string]string{"Service": service}, Action: []string{"sts:AssumeRole"}}
	return advice.Try(func(changes []advice.Change) error {
		after, err := policy.WithStatement(r.Trust, changes[0].Value)
		if err == nil && !trusts(after, role, service) {
			err = errors.New("the trust policy denies it to " + service)
		}
		return err
	}, []advice.Change{{Kind: advice.AddStatement, Resource: role, Value: wanted.String()}},
		"aws iam update-assume-role-policy --role-name "+roleName(role)+" --policy-document "+withStatement(r.Trust, wanted))
}

// trusts reports whether a trust policy currently lets a service assume the role. A service
// that was refused may not have tried again yet.
func trusts(trust, role, service string) bool {
	doc, err := policy.Parse(policy.Trust, trust)
	return err == nil && policy.Evaluate(policy.Request{Action: "sts:AssumeRole", Resource: role, Principal: policy.Principal{Service: service}},
		policy.Policies{Trust: &policy.Source{Document: doc}}).Allowed
}

// vcpuNeed is what the missing instances of a node group need of a quota.
type vcpuNeed struct {
	use     ec2.VCPUUse // of the largest type
	missing int
}

// vcpus returns what a node group with a desired size needs. It returns false if the group's launch template chooses
// the type.
func (x *Explainer) vcpus(ctx context.Context, account, region string, g *ekstypes.Nodegroup, desired int) (n vcpuNeed, ok bool) {
	for _, t := range g.InstanceTypes {
		u, known := x.cfg.EC2.VCPUUse(ctx, account, region, t, g.CapacityType == ekstypes.CapacityTypesSpot)
		if known && u.Each > n.use.Each {
			n.use, ok = u, true
		}
	}
	n.missing = desired
	for _, m := range x.cfg.Machines.Instances(account, region) {
		if m.Tags["eks:cluster-name"] == aws.ToString(g.ClusterName) && m.Tags["eks:nodegroup-name"] == aws.ToString(g.NodegroupName) {
			n.missing--
		}
	}
	return n, ok
}

// raise returns the change and the command that request the vCPUs for all missing instances at once, if the quota is
// too small.
func (n vcpuNeed) raise(region string) (changes []advice.Change, commands []string) {
	if n.missing <= n.use.Room() {
		return nil, nil
	}
	wanted := strconv.Itoa(n.use.Running + n.missing*n.use.Each)
	return []advice.Change{{Kind: advice.RaiseQuota, Resource: n.use.Code, Value: wanted}},
		[]string{"aws service-quotas request-service-quota-increase --service-code ec2 --quota-code " + n.use.Code + " --desired-value " + wanted + " --region " + region}
}

// fits returns why the quota is too small after the changes, or nil.
func (n vcpuNeed) fits(changes []advice.Change) error {
	for _, c := range changes {
		if c.Kind == advice.RaiseQuota && c.Resource == n.use.Code {
			limit, err := strconv.Atoi(c.Value)
			if err != nil {
				return err
			}
			n.use.Limit = max(n.use.Limit, limit)
		}
	}
	if n.missing > n.use.Room() {
		return fmt.Errorf("the quota %s has room for %d of %d instances", n.use.Code, n.use.Room(), n.missing)
	}
	return nil
}

// mayLaunch returns why faults keep a node group from launching instances, or nil.
func (x *Explainer) mayLaunch(account, region string, g *ekstypes.Nodegroup) error {
	spot := g.CapacityType == ekstypes.CapacityTypesSpot
	s, err := x.cfg.Network(context.Background(), account, region)
	if err != nil {
		return err
	}
	var last error
	for _, subnet := range g.Subnets {
		if !advice.HasRoom(s, subnet) {
			last = fmt.Errorf("the subnet %s has no free address", subnet)
			continue
		}
		zone := ""
		if sn, ok := s.Get(subnet).(*reach.Subnet); ok {
			zone = sn.Zone
		}
		for _, t := range g.InstanceTypes {
			f := x.cfg.Faults.NoCapacity(account, region, t, zone, capacityType(spot))
			if f == nil {
				return nil
			}
			last = errors.New(f.Why() + " is in force; " + f.Fix() + " ends it")
		}
		if len(g.InstanceTypes) == 0 { // the launch template chooses the type
			return nil
		}
	}
	return last
}

// keyUsable returns a judge of changes to a cluster's key, which asks whether the cluster's role could then use the key,
// by its policy and grants. The key is taken to be enabled, because each of these changes leaves it so.
func (x *Explainer) keyUsable(role, key, region string) advice.Judge {
	return func(changes []advice.Change) error {
		who, err := x.principalOf(role)
		if err != nil {
			return err
		}
		stored := x.cfg.Authorizer.Stored(context.Background(), authz.Explanation{
			Principal: who, ResourceType: "key", Keys: map[string][]string{"aws:RequestedRegion": {region}},
			Explanation: policy.Explanation{Decision: policy.Decision{Action: "kms:Decrypt", Resource: key}},
		})
		if stored.Policy == nil {
			return fmt.Errorf("there is no key %s", key)
		}
		policies, _ := x.cfg.IAM.PoliciesOf(who)
		policies.Resource, policies.ResourceRequired, policies.Grants = []policy.Source{*stored.Policy}, stored.PolicyRequired, stored.Grants
		for _, c := range changes {
			if c.Kind == advice.CreateGrant {
				policies.Grants = append(slices.Clip(policies.Grants), policy.Source{Name: "grant", Document: &policy.Document{Statements: []policy.Statement{{
					Principals: &policy.Principals{AWS: []string{c.Value}}, Actions: []string{"kms:Encrypt", "kms:Decrypt", "kms:DescribeKey"}, Resources: []string{key},
				}}}})
			}
		}
		for _, action := range []string{"kms:Encrypt", "kms:Decrypt", "kms:DescribeKey"} {
			d := policy.Evaluate(policy.Request{Action: action, Resource: key, Principal: authz.PrincipalOf(who)}, policies)
			if !d.Allowed {
				return fmt.Errorf("%s may not %s: %s", role, action, d.Reason)
			}
		}
		return nil
	}
}

// keyFixes returns the commands that resolve an issue with a cluster's key.
func (x *Explainer) keyFixes(issue *ekstypes.ClusterIssue, region, role string) []advice.Fix {
	if len(issue.ResourceIds) == 0 {
		return nil
	}
	key := issue.ResourceIds[0]
	kms := func(command, rest string) string {
		return "aws kms " + command + " --region " + region + " --key-id " + key + rest
	}
	judge := x.keyUsable(role, key, region)
	switch issue.Code {
	case ekstypes.ClusterIssueCodeKmsKeyDisabled:
		return advice.Try(judge, []advice.Change{{Kind: advice.EnableKey, Resource: key}}, kms("enable-key", ""))
	case ekstypes.ClusterIssueCodeKmsKeyMarkedForDeletion:
		return advice.Try(judge, []advice.Change{{Kind: advice.EnableKey, Resource: key}}, kms("cancel-key-deletion", ""), kms("enable-key", ""))
	case ekstypes.ClusterIssueCodeKmsGrantRevoked:
		return advice.Try(judge, []advice.Change{{Kind: advice.CreateGrant, Resource: key, Value: role}}, kms("create-grant", " --grantee-principal "+role+" --operations Encrypt Decrypt DescribeKey"))
	}
	return nil
}

// clusterARN returns the ARN of a cluster.
func clusterARN(e *api.NodeExplanation) string {
	return arn.New("eks", e.Region, e.Account, "cluster/"+e.Cluster)
}

// metadataAnswers returns a judge of a change to an instance's metadata service.
func (q *question) metadataAnswers(changes []advice.Change) error {
	if f := q.x.cfg.Faults.Instance(fault.IMDS, q.e.Account, q.e.Region, changes[0].Resource); f != nil {
		return errors.New(f.Why() + " is in force; " + f.Fix() + " ends it")
	}
	if changes[0].Kind != advice.EnableMetadata {
		return errors.New("its metadata service stays off")
	}
	return nil
}
