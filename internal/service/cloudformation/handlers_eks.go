package cloudformation

import (
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
)

// failedIn returns the error of a resource whose creation or update EKS accepted but could
// not complete.
func failedIn(issues []string) error {
	return fmt.Errorf("Resource handler returned message: \"[%s] (Service: null, Status Code: 0, Request ID: null)\" (RequestToken: %s, HandlerErrorCode: GeneralServiceException)", //nolint:staticcheck // AWS's words
		strings.Join(issues, ", "), ids.UUID())
}

func issue(code, message any, resources []string) string {
	return fmt.Sprintf("Issue(Code=%v, Message=%v, ResourceIds=[%s])", code, message, strings.Join(resources, ", "))
}

// parts returns the two halves of the resource's ID.
func (r *request) parts(sep string) (*string, *string) {
	a, b, _ := strings.Cut(r.id, sep)
	return &a, &b
}

func eksHandlers() map[string]handler {
	return map[string]handler{
		"AWS::EKS::Cluster": {
			input: &awseks.CreateClusterInput{}, own: "Name Tags Logging",
			inPlace: "AccessConfig ComputeConfig ControlPlaneScalingConfig DeletionProtection Force KubernetesNetworkConfig Logging RemoteNetworkConfig ResourcesVpcConfig StorageConfig Tags UpgradePolicy Version ZonalShiftConfig", update: updateCluster,
			find: func(r *request) (string, error) {
				c, err := r.cluster(r.name("Name", 100))
				return aws.ToString(c.Name), err
			},
			create: func(r *request) (string, error) {
				in := &awseks.CreateClusterInput{}
				if err := r.fill(in, "Name Tags Logging"); err != nil {
					return "", err
				}
				logging, err := r.logging()
				if err != nil {
					return "", err
				}
				in.Name, in.Tags, in.Logging, in.ClientRequestToken = aws.String(r.name("Name", 100)), r.tagMap(), logging, &r.token
				_, err = call[awseks.CreateClusterOutput](r, in)
				return *in.Name, err
			},
			settle: func(r *request) error {
				return r.wait(func() (bool, error) {
					c, err := r.cluster(r.id)
					if err == nil && c.Status == ekstypes.ClusterStatusFailed {
						var issues []string
						if c.Health != nil {
							for _, i := range c.Health.Issues {
								issues = append(issues, issue(i.Code, aws.ToString(i.Message), i.ResourceIds))
							}
						}
						err = failedIn(issues)
					}
					return c.Status == ekstypes.ClusterStatusActive, err
				})
			},
			read: func(r *request) (map[string]any, error) {
				c, err := r.cluster(r.id)
				if err != nil {
					return nil, err
				}
				out := map[string]any{"Id": r.id, "Name": r.id, "Arn": c.Arn, "Endpoint": c.Endpoint, "EncryptionConfigKeyArn": ""}
				if c.CertificateAuthority != nil {
					out["CertificateAuthorityData"] = c.CertificateAuthority.Data
				}
				if c.ResourcesVpcConfig != nil {
					out["ClusterSecurityGroupId"] = c.ResourcesVpcConfig.ClusterSecurityGroupId
				}
				if c.Identity != nil && c.Identity.Oidc != nil {
					out["OpenIdConnectIssuerUrl"] = c.Identity.Oidc.Issuer
				}
				for _, e := range c.EncryptionConfig {
					if e.Provider != nil {
						out["EncryptionConfigKeyArn"] = e.Provider.KeyArn
					}
				}
				return out, nil
			},
			remove: func(r *request) error {
				c, err := r.cluster(r.id)
				if err == nil && c.Status != ekstypes.ClusterStatusDeleting {
					_, err = call[awseks.DeleteClusterOutput](r, &awseks.DeleteClusterInput{Name: &r.id})
				}
				return r.untilGone(err, func() error { _, err := r.cluster(r.id); return err })
			},
		},
		"AWS::EKS::Nodegroup": {
			input: &awseks.CreateNodegroupInput{}, own: "NodegroupName Tags ForceUpdateEnabled",
			inPlace: "ForceUpdateEnabled Labels LaunchTemplate NodeRepairConfig ReleaseVersion ScalingConfig Tags Taints UpdateConfig Version WarmPoolConfig", update: updateNodegroup,
			find: func(r *request) (string, error) {
				n, err := r.nodegroup(aws.String(r.text("ClusterName")), aws.String(r.name("NodegroupName", 63)))
				return aws.ToString(n.ClusterName) + "/" + aws.ToString(n.NodegroupName), err
			},
			create: func(r *request) (string, error) {
				in := &awseks.CreateNodegroupInput{}
				if err := r.fill(in, "NodegroupName Tags ForceUpdateEnabled"); err != nil { // the last one is for updates only
					return "", err
				}
				in.NodegroupName, in.Tags, in.ClientRequestToken = aws.String(r.name("NodegroupName", 63)), r.tagMap(), &r.token
				_, err := call[awseks.CreateNodegroupOutput](r, in)
				return aws.ToString(in.ClusterName) + "/" + *in.NodegroupName, err
			},
			settle: func(r *request) error {
				return r.wait(func() (bool, error) {
					n, err := r.nodegroup(r.parts("/"))
					if err == nil && n.Status == ekstypes.NodegroupStatusCreateFailed {
						var issues []string
						if n.Health != nil {
							for _, i := range n.Health.Issues {
								issues = append(issues, issue(i.Code, aws.ToString(i.Message), i.ResourceIds))
							}
						}
						err = failedIn(issues)
					}
					return n.Status == ekstypes.NodegroupStatusActive || n.Status == ekstypes.NodegroupStatusDegraded, err
				})
			},
			read: func(r *request) (map[string]any, error) {
				n, err := r.nodegroup(r.parts("/"))
				return map[string]any{"Id": r.id, "Arn": n.NodegroupArn, "ClusterName": n.ClusterName, "NodegroupName": n.NodegroupName}, err
			},
			remove: func(r *request) error {
				cluster, name := r.parts("/")
				n, err := r.nodegroup(cluster, name)
				if err == nil && n.Status != ekstypes.NodegroupStatusDeleting {
					_, err = call[awseks.DeleteNodegroupOutput](r, &awseks.DeleteNodegroupInput{ClusterName: cluster, NodegroupName: name})
				}
				err = r.untilGone(err, func() error {
					n, err := r.nodegroup(cluster, name)
					if err == nil && n.Status == ekstypes.NodegroupStatusDeleteFailed {
						return failedIn([]string{"Nodegroup " + r.id + " is in state DELETE_FAILED"})
					}
					return err
				})
				return err
			},
		},
		"AWS::EKS::Addon": {
			input: &awseks.CreateAddonInput{}, own: "Tags PreserveOnDelete",
			inPlace: "AddonVersion ConfigurationValues PodIdentityAssociations PreserveOnDelete ResolveConflicts ServiceAccountRoleArn Tags", update: updateAddon,
			find: func(r *request) (string, error) {
				a, err := r.addon(aws.String(r.text("ClusterName")), aws.String(r.text("AddonName")))
				return aws.ToString(a.ClusterName) + "|" + aws.ToString(a.AddonName), err
			},
			create: func(r *request) (string, error) {
				in := &awseks.CreateAddonInput{}
				if err := r.fill(in, "Tags PreserveOnDelete"); err != nil {
					return "", err
				}
				in.Tags, in.ClientRequestToken = r.tagMap(), &r.token
				_, err := call[awseks.CreateAddonOutput](r, in)
				return aws.ToString(in.ClusterName) + "|" + aws.ToString(in.AddonName), err
			},
			settle: func(r *request) error {
				return r.wait(func() (bool, error) {
					a, err := r.addon(r.parts("|"))
					if err == nil && a.Status == ekstypes.AddonStatusCreateFailed {
						var issues []string
						if a.Health != nil {
							for _, i := range a.Health.Issues {
								issues = append(issues, issue(i.Code, aws.ToString(i.Message), i.ResourceIds))
							}
						}
						err = failedIn(issues)
					}
					return a.Status == ekstypes.AddonStatusActive, err
				})
			},
			read: func(r *request) (map[string]any, error) {
				a, err := r.addon(r.parts("|"))
				return map[string]any{"Arn": a.AddonArn}, err
			},
			remove: func(r *request) error {
				cluster, name := r.parts("|")
				_, err := call[awseks.DeleteAddonOutput](r, &awseks.DeleteAddonInput{ClusterName: cluster, AddonName: name, Preserve: r.text("PreserveOnDelete") == "true"})
				return r.untilGone(err, func() error { _, err := r.addon(cluster, name); return err })
			},
		},
		"AWS::EKS::AccessEntry": {
			input: &awseks.CreateAccessEntryInput{}, own: "Tags AccessPolicies",
			inPlace: "AccessPolicies KubernetesGroups Tags Username", update: updateAccessEntry,
			find: func(r *request) (string, error) {
				e, err := r.entry(aws.String(r.text("ClusterName")), aws.String(r.text("PrincipalArn")))
				return aws.ToString(e.PrincipalArn) + "|" + aws.ToString(e.ClusterName), err
			},
			create: func(r *request) (string, error) {
				in := &awseks.CreateAccessEntryInput{}
				if err := r.fill(in, "Tags AccessPolicies"); err != nil {
					return "", err
				}
				in.Tags, in.ClientRequestToken = r.tagMap(), &r.token
				_, err := call[awseks.CreateAccessEntryOutput](r, in)
				return aws.ToString(in.PrincipalArn) + "|" + aws.ToString(in.ClusterName), err
			},
			settle: func(r *request) error {
				policies, _ := r.props.Get("AccessPolicies").([]any)
				principal, cluster := r.parts("|")
				for _, p := range policies {
					in := &awseks.AssociateAccessPolicyInput{ClusterName: cluster, PrincipalArn: principal}
					m, ok := p.(*template.Map)
					if !ok {
						return r.notHonoured("AccessPolicies")
					}
					if err := r.fillWith(in, m, nil, "AccessPolicies."); err != nil {
						return err
					}
					if _, err := call[awseks.AssociateAccessPolicyOutput](r, in); err != nil {
						return err
					}
				}
				return nil
			},
			read: func(r *request) (map[string]any, error) {
				principal, cluster := r.parts("|")
				e, err := r.entry(cluster, principal)
				return map[string]any{"AccessEntryArn": e.AccessEntryArn}, err
			},
			remove: func(r *request) error {
				principal, cluster := r.parts("|")
				_, err := call[awseks.DeleteAccessEntryOutput](r, &awseks.DeleteAccessEntryInput{ClusterName: cluster, PrincipalArn: principal})
				return err
			},
		},
		"AWS::EKS::FargateProfile": {
			input: &awseks.CreateFargateProfileInput{}, own: "FargateProfileName Tags Selectors",
			inPlace: "Tags", update: func(r *request) error {
				p, err := r.fargate(r.parts("|"))
				if err != nil {
					return err
				}
				return r.retagEKS(p.FargateProfileArn)
			},
			find: func(r *request) (string, error) {
				p, err := r.fargate(aws.String(r.text("ClusterName")), aws.String(r.name("FargateProfileName", 63)))
				return aws.ToString(p.ClusterName) + "|" + aws.ToString(p.FargateProfileName), err
			},
			create: func(r *request) (string, error) {
				in := &awseks.CreateFargateProfileInput{}
				if err := r.fill(in, "FargateProfileName Tags Selectors"); err != nil {
					return "", err
				}
				selectors, err := r.selectors()
				if err != nil {
					return "", err
				}
				in.FargateProfileName, in.Tags, in.Selectors, in.ClientRequestToken = aws.String(r.name("FargateProfileName", 63)), r.tagMap(), selectors, &r.token
				_, err = call[awseks.CreateFargateProfileOutput](r, in)
				return aws.ToString(in.ClusterName) + "|" + *in.FargateProfileName, err
			},
			settle: func(r *request) error {
				return r.wait(func() (bool, error) {
					p, err := r.fargate(r.parts("|"))
					if err == nil && p.Status == ekstypes.FargateProfileStatusCreateFailed {
						err = failedIn([]string{"Fargate profile " + r.id + " is in state CREATE_FAILED"})
					}
					return p.Status == ekstypes.FargateProfileStatusActive, err
				})
			},
			read: func(r *request) (map[string]any, error) {
				p, err := r.fargate(r.parts("|"))
				return map[string]any{"Arn": p.FargateProfileArn}, err
			},
			remove: func(r *request) error {
				cluster, name := r.parts("|")
				_, err := call[awseks.DeleteFargateProfileOutput](r, &awseks.DeleteFargateProfileInput{ClusterName: cluster, FargateProfileName: name})
				return r.untilGone(err, func() error { _, err := r.fargate(cluster, name); return err })
			},
		},
		"AWS::EKS::IdentityProviderConfig": {
			input: &awseks.AssociateIdentityProviderConfigInput{}, own: "IdentityProviderConfigName Oidc Tags Type",
			inPlace: "Tags", update: func(r *request) error {
				p, err := r.identityProvider()
				if err != nil {
					return err
				}
				return r.retagEKS(p.IdentityProviderConfigArn)
			},
			find: func(r *request) (string, error) {
				r.id = r.providerID()
				_, err := r.identityProvider()
				return r.id, err
			},
			create: func(r *request) (string, error) {
				in := &awseks.AssociateIdentityProviderConfigInput{}
				if err := r.fill(in, "IdentityProviderConfigName Oidc Tags Type"); err != nil {
					return "", err
				}
				in.Oidc = &ekstypes.OidcIdentityProviderConfigRequest{IdentityProviderConfigName: aws.String(r.name("IdentityProviderConfigName", 63))}
				if err := r.fillIn(in.Oidc, "Oidc", "RequiredClaims"); err != nil {
					return "", err
				}
				if oidc, ok := r.props.Get("Oidc").(*template.Map); ok {
					in.Oidc.RequiredClaims = keysAndValues(oidc.Get("RequiredClaims"))
				}
				in.Tags, in.ClientRequestToken = r.tagMap(), &r.token
				_, err := call[awseks.AssociateIdentityProviderConfigOutput](r, in)
				return r.providerID(), err
			},
			settle: func(r *request) error {
				return r.wait(func() (bool, error) {
					p, err := r.identityProvider()
					return err == nil && p.Status == ekstypes.ConfigStatusActive, err
				})
			},
			read: func(r *request) (map[string]any, error) {
				p, err := r.identityProvider()
				return map[string]any{"IdentityProviderConfigArn": aws.ToString(p.IdentityProviderConfigArn)}, err
			},
			remove: func(r *request) error {
				cluster, config := r.providerOf()
				_, err := call[awseks.DisassociateIdentityProviderConfigOutput](r, &awseks.DisassociateIdentityProviderConfigInput{ClusterName: cluster, IdentityProviderConfig: config})
				return r.untilGone(err, func() error { _, err := r.identityProvider(); return err })
			},
		},
		"AWS::EKS::PodIdentityAssociation": {
			input: &awseks.CreatePodIdentityAssociationInput{}, own: "Tags",
			inPlace: "DisableSessionTags Policy RoleArn Tags TargetRoleArn", update: updateAssociation,
			find: func(r *request) (string, error) {
				out, err := call[awseks.ListPodIdentityAssociationsOutput](r, &awseks.ListPodIdentityAssociationsInput{
					ClusterName: aws.String(r.text("ClusterName")), Namespace: aws.String(r.text("Namespace")), ServiceAccount: aws.String(r.text("ServiceAccount")),
				})
				if err != nil || len(out.Associations) == 0 {
					return "", err
				}
				return aws.ToString(out.Associations[0].AssociationArn), nil
			},
			create: func(r *request) (string, error) {
				in := &awseks.CreatePodIdentityAssociationInput{}
				if err := r.fill(in, "Tags"); err != nil {
					return "", err
				}
				in.Tags, in.ClientRequestToken = r.tagMap(), &r.token
				out, err := call[awseks.CreatePodIdentityAssociationOutput](r, in)
				if err != nil {
					return "", err
				}
				return *out.Association.AssociationArn, nil
			},
			read: func(r *request) (map[string]any, error) {
				cluster, id := r.association()
				out, err := call[awseks.DescribePodIdentityAssociationOutput](r, &awseks.DescribePodIdentityAssociationInput{ClusterName: cluster, AssociationId: id})
				if err != nil {
					return nil, err
				}
				return map[string]any{"AssociationArn": r.id, "AssociationId": id, "ExternalId": aws.ToString(out.Association.ExternalId)}, nil
			},
			remove: func(r *request) error {
				cluster, id := r.association()
				_, err := call[awseks.DeletePodIdentityAssociationOutput](r, &awseks.DeletePodIdentityAssociationInput{ClusterName: cluster, AssociationId: id})
				return err
			},
		},
	}
}

// untilGone waits until describe reports that the resource does not exist.
func (r *request) untilGone(err error, describe func() error) error {
	if err != nil {
		return err
	}
	return r.wait(func() (bool, error) {
		err := describe()
		if notFound(err) {
			return true, nil
		}
		return false, err
	})
}

// association returns the cluster and the ID from the ARN of an association.
func (r *request) association() (cluster, id *string) {
	parts := strings.Split(r.id, "/")
	if len(parts) < 3 {
		return aws.String(r.text("ClusterName")), &r.id
	}
	return &parts[len(parts)-2], &parts[len(parts)-1]
}

func (r *request) cluster(name string) (ekstypes.Cluster, error) {
	out, err := call[awseks.DescribeClusterOutput](r, &awseks.DescribeClusterInput{Name: &name})
	if err != nil {
		return ekstypes.Cluster{}, err
	}
	return *out.Cluster, nil
}

func (r *request) nodegroup(cluster, name *string) (ekstypes.Nodegroup, error) {
	out, err := call[awseks.DescribeNodegroupOutput](r, &awseks.DescribeNodegroupInput{ClusterName: cluster, NodegroupName: name})
	if err != nil {
		return ekstypes.Nodegroup{}, err
	}
	return *out.Nodegroup, nil
}

func (r *request) addon(cluster, name *string) (ekstypes.Addon, error) {
	out, err := call[awseks.DescribeAddonOutput](r, &awseks.DescribeAddonInput{ClusterName: cluster, AddonName: name})
	if err != nil {
		return ekstypes.Addon{}, err
	}
	return *out.Addon, nil
}

func (r *request) entry(cluster, principal *string) (ekstypes.AccessEntry, error) {
	out, err := call[awseks.DescribeAccessEntryOutput](r, &awseks.DescribeAccessEntryInput{ClusterName: cluster, PrincipalArn: principal})
	if err != nil {
		return ekstypes.AccessEntry{}, err
	}
	return *out.AccessEntry, nil
}

func (r *request) fargate(cluster, name *string) (ekstypes.FargateProfile, error) {
	out, err := call[awseks.DescribeFargateProfileOutput](r, &awseks.DescribeFargateProfileInput{ClusterName: cluster, FargateProfileName: name})
	if err != nil {
		return ekstypes.FargateProfile{}, err
	}
	return *out.FargateProfile, nil
}

// providerID returns the physical ID of an identity provider: NAME|CLUSTER|oidc.
func (r *request) providerID() string {
	return r.name("IdentityProviderConfigName", 63) + "|" + r.text("ClusterName") + "|" + r.text("Type")
}

// providerOf returns the cluster and the names of an identity provider from its physical ID.
func (r *request) providerOf() (cluster *string, config *ekstypes.IdentityProviderConfig) {
	name, rest, _ := strings.Cut(r.id, "|")
	in, typ, _ := strings.Cut(rest, "|")
	return &in, &ekstypes.IdentityProviderConfig{Name: &name, Type: &typ}
}

func (r *request) identityProvider() (ekstypes.OidcIdentityProviderConfig, error) {
	cluster, config := r.providerOf()
	out, err := call[awseks.DescribeIdentityProviderConfigOutput](r, &awseks.DescribeIdentityProviderConfigInput{ClusterName: cluster, IdentityProviderConfig: config})
	if err != nil {
		return ekstypes.OidcIdentityProviderConfig{}, err
	}
	return *out.IdentityProviderConfig.Oidc, nil
}

// logging converts ClusterLogging.EnabledTypes[{Type}] to the API's form.
func (r *request) logging() (*ekstypes.Logging, error) {
	if !r.props.Has("Logging") {
		return nil, nil
	}
	var given struct {
		ClusterLogging struct {
			EnabledTypes []struct{ Type ekstypes.LogType }
		}
	}
	if err := r.fillIn(&given, "Logging", ""); err != nil {
		return nil, err
	}
	setup := ekstypes.LogSetup{Enabled: aws.Bool(true)}
	for _, t := range given.ClusterLogging.EnabledTypes {
		setup.Types = append(setup.Types, t.Type)
	}
	if len(setup.Types) == 0 {
		return nil, nil
	}
	return &ekstypes.Logging{ClusterLogging: []ekstypes.LogSetup{setup}}, nil
}

// selectors converts the Selectors property, turning labels from a list of keys and values
// into a map.
func (r *request) selectors() (out []ekstypes.FargateProfileSelector, err error) {
	list, _ := r.props.Get("Selectors").([]any)
	for _, e := range list {
		var s ekstypes.FargateProfileSelector
		m, ok := e.(*template.Map)
		if !ok {
			return nil, r.notHonoured("Selectors")
		}
		if err := r.fillWith(&s, m, []string{"Labels"}, "Selectors."); err != nil {
			return nil, err
		}
		s.Labels = keysAndValues(m.Get("Labels"))
		out = append(out, s)
	}
	return out, nil
}

// keysAndValues converts a list of Key and Value into a map, or into nil if it is empty.
func keysAndValues(v any) (out map[string]string) {
	list, _ := v.([]any)
	for _, e := range list {
		if pair, ok := e.(*template.Map); ok {
			key, _ := template.Text(pair.Get("Key"))
			value, _ := template.Text(pair.Get("Value"))
			if out == nil {
				out = map[string]string{}
			}
			out[key] = value
		}
	}
	return out
}
