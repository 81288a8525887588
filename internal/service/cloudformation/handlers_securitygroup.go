package cloudformation

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
)

const securityGroup = "AWS::EC2::SecurityGroup"

func securityGroupHandlers() map[string]handler {
	return map[string]handler{
		securityGroup: {
			input: &awsec2.CreateSecurityGroupInput{}, own: "Tags GroupDescription GroupName SecurityGroupIngress SecurityGroupEgress",
			find:    byTags("security-group"),
			inPlace: "SecurityGroupIngress SecurityGroupEgress Tags",
			update:  updateSecurityGroup,
			create: func(r *request) (string, error) {
				in := &awsec2.CreateSecurityGroupInput{TagSpecifications: r.tagSpecs(ec2types.ResourceTypeSecurityGroup)}
				if err := r.fill(in, "Tags GroupDescription GroupName SecurityGroupIngress SecurityGroupEgress"); err != nil {
					return "", err
				}
				in.Description, in.GroupName = nonEmpty(r.text("GroupDescription")), aws.String(r.name("GroupName", 255))
				out, err := call[awsec2.CreateSecurityGroupOutput](r, in)
				if err != nil {
					return "", err
				}
				r.given = map[string]any{"GroupName": *in.GroupName}
				return *out.GroupId, nil
			},
			settle: func(r *request) error {
				if r.props.Has("SecurityGroupEgress") { // the template's rules replace the default one, which allows all outbound traffic
					_, err := call[awsec2.RevokeSecurityGroupEgressOutput](r, &awsec2.RevokeSecurityGroupEgressInput{GroupId: &r.id, IpPermissions: []ec2types.IpPermission{
						{IpProtocol: aws.String("-1"), IpRanges: []ec2types.IpRange{{CidrIp: aws.String("0.0.0.0/0")}}},
					}})
					if err != nil && !notFound(err) {
						return err
					}
				}
				for _, property := range []string{"SecurityGroupIngress", "SecurityGroupEgress"} {
					rules, _ := r.props.Get(property).([]any)
					for _, e := range rules {
						m, ok := e.(*template.Map)
						if !ok {
							return r.notHonoured(property)
						}
						if _, err := r.authorize(property == "SecurityGroupIngress", r.id, m); err != nil && codeOf(err) != "InvalidPermission.Duplicate" {
							return err
						}
					}
				}
				return nil
			},
			read: func(r *request) (map[string]any, error) {
				out, err := call[awsec2.DescribeSecurityGroupsOutput](r, &awsec2.DescribeSecurityGroupsInput{GroupIds: []string{r.id}})
				if err != nil || len(out.SecurityGroups) == 0 {
					return nil, err
				}
				return map[string]any{"Id": r.id, "GroupId": r.id, "VpcId": out.SecurityGroups[0].VpcId, "GroupName": out.SecurityGroups[0].GroupName}, nil
			},
			remove: func(r *request) error {
				_, err := call[awsec2.DeleteSecurityGroupOutput](r, &awsec2.DeleteSecurityGroupInput{GroupId: &r.id})
				return err
			},
		},
		"AWS::EC2::SecurityGroupIngress": ruleHandler(true),
		"AWS::EC2::SecurityGroupEgress":  ruleHandler(false),
	}
}

// permission converts a security group's rule to the API's form.
func (r *request) permission(m *template.Map) ([]ec2types.IpPermission, error) {
	get := func(k string) *string {
		text, _ := template.Text(m.Get(k))
		return nonEmpty(text)
	}
	out := ec2types.IpPermission{IpProtocol: get("IpProtocol")}
	if err := r.fillWith(&out, m, strings.Fields("CidrIp CidrIpv6 Description SourcePrefixListId DestinationPrefixListId SourceSecurityGroupId DestinationSecurityGroupId SourceSecurityGroupOwnerId GroupId"), ""); err != nil {
		return nil, err
	}
	if v := get("CidrIp"); v != nil {
		out.IpRanges = []ec2types.IpRange{{CidrIp: v, Description: get("Description")}}
	}
	if v := get("CidrIpv6"); v != nil {
		out.Ipv6Ranges = []ec2types.Ipv6Range{{CidrIpv6: v, Description: get("Description")}}
	}
	for _, k := range []string{"SourcePrefixListId", "DestinationPrefixListId"} {
		if v := get(k); v != nil {
			out.PrefixListIds = []ec2types.PrefixListId{{PrefixListId: v, Description: get("Description")}}
		}
	}
	for _, k := range []string{"SourceSecurityGroupId", "DestinationSecurityGroupId"} {
		if v := get(k); v != nil {
			out.UserIdGroupPairs = []ec2types.UserIdGroupPair{{GroupId: v, UserId: get("SourceSecurityGroupOwnerId"), Description: get("Description")}}
		}
	}
	return []ec2types.IpPermission{out}, nil
}

// authorize adds a rule to a security group and returns the rule's ID.
func (r *request) authorize(ingress bool, group string, m *template.Map) (string, error) {
	permissions, err := r.permission(m)
	if err != nil {
		return "", err
	}
	var rules []ec2types.SecurityGroupRule
	if ingress {
		out, err := call[awsec2.AuthorizeSecurityGroupIngressOutput](r, &awsec2.AuthorizeSecurityGroupIngressInput{GroupId: &group, IpPermissions: permissions})
		if err != nil {
			return "", err
		}
		rules = out.SecurityGroupRules
	} else {
		out, err := call[awsec2.AuthorizeSecurityGroupEgressOutput](r, &awsec2.AuthorizeSecurityGroupEgressInput{GroupId: &group, IpPermissions: permissions})
		if err != nil {
			return "", err
		}
		rules = out.SecurityGroupRules
	}
	if len(rules) == 0 {
		return "", nil
	}
	return aws.ToString(rules[0].SecurityGroupRuleId), nil
}

// ruleHandler returns the handler of a security group's rule that is a resource of its own.
func ruleHandler(ingress bool) handler {
	return handler{
		input: &ec2types.IpPermission{}, own: "CidrIp CidrIpv6 Description SourcePrefixListId DestinationPrefixListId SourceSecurityGroupId DestinationSecurityGroupId SourceSecurityGroupOwnerId GroupId",
		inPlace: "Description", update: updateRuleDescription(ingress),
		find: func(r *request) (string, error) {
			out, err := call[awsec2.DescribeSecurityGroupRulesOutput](r, &awsec2.DescribeSecurityGroupRulesInput{Filters: []ec2types.Filter{{Name: aws.String("group-id"), Values: []string{r.text("GroupId")}}}})
			if err != nil {
				return "", err
			}
			peer := r.text("SourceSecurityGroupId") + r.text("DestinationSecurityGroupId")
			list := r.text("SourcePrefixListId") + r.text("DestinationPrefixListId")
			for _, rule := range out.SecurityGroupRules {
				theirs := ""
				if rule.ReferencedGroupInfo != nil {
					theirs = aws.ToString(rule.ReferencedGroupInfo.GroupId)
				}
				if aws.ToBool(rule.IsEgress) != ingress && aws.ToString(rule.IpProtocol) == r.text("IpProtocol") && r.port("FromPort") == aws.ToInt32(rule.FromPort) && r.port("ToPort") == aws.ToInt32(rule.ToPort) &&
					aws.ToString(rule.CidrIpv4) == r.text("CidrIp") && aws.ToString(rule.CidrIpv6) == r.text("CidrIpv6") && aws.ToString(rule.PrefixListId) == list && theirs == peer {
					return aws.ToString(rule.SecurityGroupRuleId), nil
				}
			}
			return "", nil
		},
		create: func(r *request) (string, error) { return r.authorize(ingress, r.text("GroupId"), r.props) },
		read:   func(r *request) (map[string]any, error) { return map[string]any{"Id": r.id}, nil },
		remove: func(r *request) error {
			var err error
			if ingress {
				_, err = call[awsec2.RevokeSecurityGroupIngressOutput](r, &awsec2.RevokeSecurityGroupIngressInput{GroupId: aws.String(r.text("GroupId")), SecurityGroupRuleIds: []string{r.id}})
			} else {
				_, err = call[awsec2.RevokeSecurityGroupEgressOutput](r, &awsec2.RevokeSecurityGroupEgressInput{GroupId: aws.String(r.text("GroupId")), SecurityGroupRuleIds: []string{r.id}})
			}
			return err
		},
	}
}

// port returns a rule's port as EC2 stores it: rules for all protocols have -1.
func (r *request) port(property string) int32 {
	var n int32
	_, err := fmt.Sscan(r.text(property), &n)
	if err != nil || r.text("IpProtocol") == "-1" {
		return -1
	}
	return n
}

// updateSecurityGroup removes the rules that the template no longer has; settle adds the
// new ones.
func updateSecurityGroup(r *request) error {
	for _, property := range []string{"SecurityGroupIngress", "SecurityGroupEgress"} {
		now, _ := r.props.Get(property).([]any)
		before, _ := r.was.props.Get(property).([]any)
		for _, e := range before {
			m, ok := e.(*template.Map)
			if !ok || slices.ContainsFunc(now, func(n any) bool { return template.Equal(n, e) }) {
				continue
			}
			permissions, err := r.permission(m)
			if err != nil {
				return err
			}
			if property == "SecurityGroupIngress" {
				_, err = call[awsec2.RevokeSecurityGroupIngressOutput](r, &awsec2.RevokeSecurityGroupIngressInput{GroupId: &r.id, IpPermissions: permissions})
			} else {
				_, err = call[awsec2.RevokeSecurityGroupEgressOutput](r, &awsec2.RevokeSecurityGroupEgressInput{GroupId: &r.id, IpPermissions: permissions})
			}
			if err != nil && !notFound(err) {
				return err
			}
		}
	}
	if r.was.props.Has("SecurityGroupEgress") && !r.props.Has("SecurityGroupEgress") {
		everywhere := &template.Map{}
		everywhere.Set("IpProtocol", "-1")
		everywhere.Set("CidrIp", "0.0.0.0/0")
		if _, err := r.authorize(false, r.id, everywhere); err != nil && codeOf(err) != "InvalidPermission.Duplicate" {
			return err
		}
	}
	return r.retag(r.id)
}
