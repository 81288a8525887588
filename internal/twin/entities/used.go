package entities

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"sigs.k8s.io/yaml"

	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// Used are the names of the roles, users and instance profiles that clusters, their parts and instances use.
type Used struct{ Roles, Users, Profiles map[string]bool }

// add adds the principal with an ARN.
func (u *Used) add(arns ...*string) {
	for _, arn := range arns {
		if name, ok := roleName(aws.ToString(arn)); ok {
			u.Roles[name] = true
		} else if _, name, ok := strings.Cut(aws.ToString(arn), ":user/"); ok {
			u.Users[name[strings.LastIndexByte(name, '/')+1:]] = true
		} else if _, name, ok := strings.Cut(aws.ToString(arn), ":instance-profile/"); ok {
			u.Profiles[name[strings.LastIndexByte(name, '/')+1:]] = true
		}
	}
}

// UsedIn returns what is used according to a recording, whose answers of EKS, EC2 and Kubernetes it looks at.
func UsedIn(r *recording.Recording) (*Used, error) {
	u := &Used{Roles: map[string]bool{}, Users: map[string]bool{}, Profiles: map[string]bool{}}
	for _, read := range []func() error{
		func() error {
			return eachOf(r, "eks", "DescribeCluster", func(_ *awseks.DescribeClusterInput, out *awseks.DescribeClusterOutput) {
				if c := out.Cluster; c != nil {
					u.add(c.RoleArn)
					if c.ComputeConfig != nil {
						u.add(c.ComputeConfig.NodeRoleArn)
					}
				}
			})
		},
		func() error {
			return eachOf(r, "eks", "DescribeNodegroup", func(_ *awseks.DescribeNodegroupInput, out *awseks.DescribeNodegroupOutput) {
				if g := out.Nodegroup; g != nil {
					u.add(g.NodeRole)
				}
			})
		},
		func() error {
			return eachOf(r, "eks", "DescribeFargateProfile", func(_ *awseks.DescribeFargateProfileInput, out *awseks.DescribeFargateProfileOutput) {
				if p := out.FargateProfile; p != nil {
					u.add(p.PodExecutionRoleArn)
				}
			})
		},
		func() error {
			return eachOf(r, "eks", "DescribeAddon", func(_ *awseks.DescribeAddonInput, out *awseks.DescribeAddonOutput) {
				if a := out.Addon; a != nil {
					u.add(a.ServiceAccountRoleArn)
				}
			})
		},
		func() error {
			return eachOf(r, "eks", "DescribePodIdentityAssociation", func(_ *awseks.DescribePodIdentityAssociationInput, out *awseks.DescribePodIdentityAssociationOutput) {
				if a := out.Association; a != nil {
					u.add(a.RoleArn, a.TargetRoleArn)
				}
			})
		},
		func() error {
			return eachOf(r, "eks", "DescribeAccessEntry", func(_ *awseks.DescribeAccessEntryInput, out *awseks.DescribeAccessEntryOutput) {
				if e := out.AccessEntry; e != nil {
					u.add(e.PrincipalArn)
				}
			})
		},
		func() error {
			return eachOf(r, "ec2", "DescribeInstances", func(_ *awsec2.DescribeInstancesInput, out *awsec2.DescribeInstancesOutput) {
				for _, res := range out.Reservations {
					for _, i := range res.Instances {
						if i.IamInstanceProfile != nil {
							u.add(i.IamInstanceProfile.Arn)
						}
					}
				}
			})
		},
		func() error {
			return eachOf(r, "ec2", "DescribeLaunchTemplateVersions", func(_ *awsec2.DescribeLaunchTemplateVersionsInput, out *awsec2.DescribeLaunchTemplateVersionsOutput) {
				for _, v := range out.LaunchTemplateVersions {
					if v.LaunchTemplateData != nil && v.LaunchTemplateData.IamInstanceProfile != nil {
						p := v.LaunchTemplateData.IamInstanceProfile
						u.add(p.Arn)
						if p.Name != nil {
							u.Profiles[*p.Name] = true
						}
					}
				}
			})
		},
		func() error {
			return eachOf(r, "autoscaling", "DescribeLaunchConfigurations", func(_ *awsautoscaling.DescribeLaunchConfigurationsInput, out *awsautoscaling.DescribeLaunchConfigurationsOutput) {
				for _, c := range out.LaunchConfigurations {
					u.add(c.IamInstanceProfile)
					if name := aws.ToString(c.IamInstanceProfile); name != "" && !strings.HasPrefix(name, "arn:") {
						u.Profiles[name] = true
					}
				}
			})
		},
		func() error { return u.inKubernetes(r) },
	} {
		if err := read(); err != nil {
			return nil, err
		}
	}
	return u, nil
}

// An object is what may name a role: a service account, aws-auth, or a node class of Karpenter.
type object struct {
	Metadata struct {
		Namespace, Name string
		Annotations     map[string]string
	}
	Data map[string]any
	Spec struct{ Role, InstanceProfile any }
}

func (u *Used) inKubernetes(r *recording.Recording) error {
	for _, a := range r.Answers {
		if a.Service != recording.Kubernetes {
			continue
		}
		q, err := a.KubernetesList()
		if err != nil {
			return err
		}
		if !slices.Contains([]string{"serviceaccounts", "configmaps", "ec2nodeclasses"}, q.Resource) {
			continue
		}
		for _, raw := range a.Pages {
			var page struct{ Items []object }
			if err := json.Unmarshal(raw, &page); err != nil {
				return fmt.Errorf("the %s of cluster %s in the recording: %w", q.Resource, q.Cluster, err)
			}
			for _, o := range page.Items {
				u.inObject(q.Resource, &o)
			}
		}
	}
	return nil
}

func (u *Used) inObject(resource string, o *object) {
	switch resource {
	case "serviceaccounts":
		u.add(aws.String(o.Metadata.Annotations["eks.amazonaws.com/role-arn"]))
	case "configmaps":
		if o.Metadata.Namespace != "kube-system" || o.Metadata.Name != "aws-auth" {
			return
		}
		for _, key := range []string{"mapRoles", "mapUsers"} {
			text, _ := o.Data[key].(string)
			var mapped []struct{ RoleARN, UserARN string }
			if yaml.Unmarshal([]byte(text), &mapped) == nil { // a malformed mapping grants no access
				for _, m := range mapped {
					u.add(&m.RoleARN, &m.UserARN)
				}
			}
		}
	case "ec2nodeclasses":
		if name, ok := o.Spec.Role.(string); ok {
			u.Roles[name] = true
		}
		if name, ok := o.Spec.InstanceProfile.(string); ok {
			u.Profiles[name] = true
		}
	}
}

// Trim removes from the pages of GetAccountAuthorizationDetails all that is not used.
func (u *Used) Trim(pages []*awsiam.GetAccountAuthorizationDetailsOutput) {
	policies := map[string]bool{}
	for _, p := range pages {
		p.GroupDetailList = nil
		p.UserDetailList = slices.DeleteFunc(p.UserDetailList, func(x iamtypes.UserDetail) bool { return !u.Users[aws.ToString(x.UserName)] })
		p.RoleDetailList = slices.DeleteFunc(p.RoleDetailList, func(x iamtypes.RoleDetail) bool {
			return !u.Roles[aws.ToString(x.RoleName)] && !slices.ContainsFunc(x.InstanceProfileList, func(i iamtypes.InstanceProfile) bool { return u.Profiles[aws.ToString(i.InstanceProfileName)] })
		})
		for i := range p.UserDetailList {
			p.UserDetailList[i].GroupList = nil // groups are not kept, and only the identity matters
		}
		for _, x := range p.RoleDetailList {
			for _, arn := range PoliciesOf(x.AttachedManagedPolicies, x.PermissionsBoundary) {
				policies[arn] = true
			}
		}
	}
	for _, p := range pages {
		p.Policies = slices.DeleteFunc(p.Policies, func(x iamtypes.ManagedPolicyDetail) bool { return !policies[aws.ToString(x.Arn)] })
	}
}
