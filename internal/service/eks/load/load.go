// Package load turns what another account's EKS answered (package twin/recording) into EKS's records. All names, ARNs and
// IDs stay as they are. For a cluster, it keeps the source's endpoint, certificate authority and issuer next to those of
// the control plane that the cluster reconciler starts here.
package load

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/catalog/addons"
	"github.com/drydock-dev/drydock/internal/catalog/eksversions"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/service/eks/cluster"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/twin/entities"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// A loader converts one recording.
type loader struct {
	r      *recording.Recording
	writes []module.Write
	gaps   []recording.Gap
	// clusters are those that have a record. Parts of others are left out.
	clusters map[string]bool
	// identities are the IAM roles and users by ARN.
	identities map[string]identity
	iam        *entities.Entities
}

// An identity is an IAM role or user of the source.
type identity struct {
	id      string
	created time.Time
}

// Records returns the writes for a recording, and what EKS's records cannot hold.
func Records(r *recording.Recording) ([]module.Write, []recording.Gap, error) {
	l := &loader{r: r, clusters: map[string]bool{}, identities: map[string]identity{}}
	for _, part := range []func() error{l.readIdentities, l.loadClusters, l.loadNodegroups, l.loadAddons, l.loadProfiles, l.loadEntries, l.loadAssociations, l.loadProviders, l.loadInsights, l.loadUpdates, l.loadCapabilities} {
		if err := part(); err != nil {
			return nil, nil, err
		}
	}
	return l.writes, l.gaps, nil
}

// each calls fn for each answer to an operation.
func each[In, Out any](l *loader, operation string, fn func(*In, *Out) error) error {
	pages, err := recording.Pages[In, Out](l.r, "eks", operation)
	if err != nil {
		return err
	}
	for _, p := range pages {
		if err := fn(p.Input, p.Output); err != nil {
			return fmt.Errorf("the source's answer to eks:%s: %w", operation, err)
		}
	}
	return nil
}

func (l *loader) readIdentities() (err error) {
	if l.iam, err = entities.Of(l.r); err != nil {
		return err
	}
	for _, r := range l.iam.Roles {
		l.identities[aws.ToString(r.Arn)] = identity{aws.ToString(r.RoleId), aws.ToTime(r.CreateDate)}
	}
	for _, u := range l.iam.Users {
		l.identities[aws.ToString(u.Arn)] = identity{aws.ToString(u.UserId), aws.ToTime(u.CreateDate)}
	}
	return nil
}

// identify returns the identity that something made at a time refers to. AWS does not say which it was: if the one that
// has the ARN now is younger, it is another.
func (l *loader) identify(principal string, made time.Time) record.Identity {
	out := record.Identity{ARN: principal}
	if a, err := arn.Parse(principal); err == nil && a.Resource == "root" {
		out.ID = a.Account
		return out
	}
	switch now, ok := l.identities[principal]; {
	case ok && !now.created.After(made):
		out.ID = now.id
	case ok || l.iam.Known(principal):
		out.ID = record.DeletedID
	}
	return out
}

var (
	namePattern = regexp.MustCompile(`^[0-9A-Za-z][A-Za-z0-9\-_]{0,99}$`)
	partName    = regexp.MustCompile(`^[0-9A-Za-z][A-Za-z0-9\-_]{0,255}$`)
	updateID    = regexp.MustCompile(`^[0-9A-Fa-f-]{1,64}$`)
	issuerID    = regexp.MustCompile(`^[0-9A-F]{32}$`)
)

// checkARN returns an error unless an ARN is of a resource of the account and region.
func (l *loader) checkARN(got *string, prefix string) error {
	a, err := arn.Parse(aws.ToString(got))
	if err != nil || a.Service != "eks" || a.Account != l.r.Source.Account || a.Region != l.r.Source.Region || !strings.HasPrefix(a.Resource, prefix) {
		return fmt.Errorf("%q is not the ARN of a %s of account %s in %s", aws.ToString(got), prefix, l.r.Source.Account, l.r.Source.Region)
	}
	return nil
}

func (l *loader) key(cluster string) store.Key {
	return store.Key{Account: l.r.Source.Account, Region: l.r.Source.Region, ID: cluster}
}

func (l *loader) gap(operation, subject, format string, args ...any) {
	cluster, _, _ := strings.Cut(subject, "/")
	l.gaps = append(l.gaps, recording.Gap{Service: "eks", Operation: operation, Cluster: cluster, Subject: subject, Code: recording.NotModelled, Message: fmt.Sprintf(format, args...)})
}

func (l *loader) loadClusters() error {
	read := map[string]bool{} // the clusters whose objects were read
	for _, a := range l.r.Answers {
		if a.Service == recording.Kubernetes && len(a.Pages) > 0 {
			q, err := a.KubernetesList()
			if err != nil {
				return err
			}
			read[q.Cluster] = true
		}
	}
	interfaces, err := l.interfaces()
	if err != nil {
		return err
	}
	return each(l, "DescribeCluster", func(_ *awseks.DescribeClusterInput, out *awseks.DescribeClusterOutput) error {
		c := out.Cluster
		if c == nil || !namePattern.MatchString(aws.ToString(c.Name)) {
			return fmt.Errorf("invalid name of a cluster")
		}
		name := *c.Name
		if err := l.checkARN(c.Arn, "cluster/"+name); err != nil {
			return err
		}
		if c.Status != ekstypes.ClusterStatusActive && c.Status != ekstypes.ClusterStatusUpdating {
			l.gap("DescribeCluster", name, "cluster %s is %s: only clusters that work are copied", name, c.Status)
			return nil
		}
		if _, ok := eksversions.Lookup(aws.ToString(c.Version)); !ok {
			l.gap("DescribeCluster", name, "cluster %s has Kubernetes %s, which Drydock does not have", name, aws.ToString(c.Version))
			return nil
		}
		if c.ResourcesVpcConfig == nil || c.KubernetesNetworkConfig == nil || c.AccessConfig == nil || c.Endpoint == nil || c.CertificateAuthority == nil ||
			cmp.Or(c.KubernetesNetworkConfig.ServiceIpv4Cidr, c.KubernetesNetworkConfig.ServiceIpv6Cidr) == nil {
			l.gap("DescribeCluster", name, "the source did not say everything about cluster %s", name)
			return nil
		}
		ca, err := base64.StdEncoding.DecodeString(aws.ToString(c.CertificateAuthority.Data))
		if err != nil {
			return fmt.Errorf("the certificate authority of cluster %s: %w", name, err)
		}
		source := &record.Source{Endpoint: *c.Endpoint, CAPEM: ca}
		if c.Identity != nil && c.Identity.Oidc != nil {
			source.Issuer = aws.ToString(c.Identity.Oidc.Issuer)
		}
		if source.PlaneID = path.Base(source.Issuer); !issuerID.MatchString(source.PlaneID) {
			return fmt.Errorf("the issuer of cluster %s, %q, does not end with an ID", name, source.Issuer)
		}
		// The ID in the issuer begins the endpoint's host, too. No other name may lead to the copy.
		if u, err := url.Parse(source.Endpoint); err == nil && strings.HasPrefix(strings.ToUpper(u.Host), source.PlaneID+".") &&
			(strings.HasSuffix(u.Host, ".amazonaws.com") || strings.HasSuffix(u.Host, ".api.aws")) {
			source.AWSHost = u.Host
		}
		if source.ObjectsRead = read[name]; !source.ObjectsRead && !l.has(name) {
			l.gaps = append(l.gaps, recording.Gap{Service: recording.Kubernetes, Operation: "List", Cluster: name, Code: recording.NotModelled, Message: "the objects in cluster " + name + " were not read"})
		}
		rec := record.Cluster{
			Cluster: *c, UID: ids.UUID(), Since: l.r.Source.Started, Source: source,
			SelfManagedAddons: !source.ObjectsRead, Interfaces: interfaces[aws.ToString(c.ResourcesVpcConfig.VpcId)+" Amazon EKS "+name],
		}
		// The components start with these settings.
		if err := cluster.CheckComponents(*c); err != nil {
			l.gap("DescribeCluster", name, "cluster %s has the default settings of the control plane's components, because Drydock does not know those of the source: %.200q", name, err.Error())
			rec.Cluster.KubeApiServerConfig, rec.Cluster.KubeControllerManagerConfig, rec.Cluster.KubeSchedulerConfig = nil, nil, nil
		}
		rec.Cluster.Status = ekstypes.ClusterStatusCreating
		rec.Cluster.Endpoint, rec.Cluster.CertificateAuthority = nil, &ekstypes.Certificate{}
		if rec.Cluster.Health == nil {
			rec.Cluster.Health = &ekstypes.ClusterHealth{}
		}
		if c.AccessConfig.AuthenticationMode == ekstypes.AuthenticationModeConfigMap {
			// Who created a cluster cannot be read. Without access entries, the twin's root could not look into it.
			rec.BootstrapAdmin, rec.Creator = true, l.identify(arn.New("iam", "", l.r.Source.Account, "root"), time.Time{})
		}
		if c.ComputeConfig != nil && c.ComputeConfig.NodeRoleArn != nil {
			rec.NodeRole = l.identify(*c.ComputeConfig.NodeRoleArn, aws.ToTime(c.CreatedAt))
		}
		l.clusters[name] = true
		l.writes = append(l.writes, module.Put(record.Clusters, l.key(name), rec))
		return nil
	})
}

// has reports whether a gap says already that the objects of a cluster are unknown.
func (l *loader) has(cluster string) bool {
	return slices.ContainsFunc(l.r.Gaps(), func(g recording.Gap) bool {
		return g.Service == recording.Kubernetes && g.Cluster == cluster
	})
}

// interfaces returns the interfaces of control planes by subnet, by VPC and description.
func (l *loader) interfaces() (map[string]map[string]string, error) {
	out := map[string]map[string]string{}
	pages, err := recording.Pages[awsec2.DescribeNetworkInterfacesInput, awsec2.DescribeNetworkInterfacesOutput](l.r, "ec2", "DescribeNetworkInterfaces")
	if err != nil {
		return nil, err
	}
	for _, p := range pages {
		for _, i := range p.Output.NetworkInterfaces {
			if !strings.HasPrefix(aws.ToString(i.Description), "Amazon EKS ") {
				continue
			}
			of := aws.ToString(i.VpcId) + " " + aws.ToString(i.Description)
			if out[of] == nil {
				out[of] = map[string]string{}
			}
			out[of][aws.ToString(i.SubnetId)] = aws.ToString(i.NetworkInterfaceId)
		}
	}
	return out, nil
}

// A template is the version of a launch template from which a group launches, and the image in it.
type template struct{ id, version, image string }

// templates returns the launch templates of Auto Scaling groups by the names of the groups.
func (l *loader) templates() (map[string]template, error) {
	versions, err := recording.Pages[awsec2.DescribeLaunchTemplateVersionsInput, awsec2.DescribeLaunchTemplateVersionsOutput](l.r, "ec2", "DescribeLaunchTemplateVersions")
	if err != nil {
		return nil, err
	}
	images := map[string]string{}
	for _, p := range versions {
		for _, v := range p.Output.LaunchTemplateVersions {
			if v.LaunchTemplateData != nil {
				images[fmt.Sprint(aws.ToString(v.LaunchTemplateId), " ", aws.ToInt64(v.VersionNumber))] = aws.ToString(v.LaunchTemplateData.ImageId)
			}
		}
	}
	groups, err := recording.Pages[awsautoscaling.DescribeAutoScalingGroupsInput, awsautoscaling.DescribeAutoScalingGroupsOutput](l.r, "autoscaling", "DescribeAutoScalingGroups")
	if err != nil {
		return nil, err
	}
	out := map[string]template{}
	for _, p := range groups {
		for _, g := range p.Output.AutoScalingGroups {
			spec := g.LaunchTemplate
			if m := g.MixedInstancesPolicy; m != nil && m.LaunchTemplate != nil {
				spec = m.LaunchTemplate.LaunchTemplateSpecification
			}
			if spec != nil {
				t := template{id: aws.ToString(spec.LaunchTemplateId), version: aws.ToString(spec.Version)}
				t.image = images[t.id+" "+t.version]
				out[aws.ToString(g.AutoScalingGroupName)] = t
			}
		}
	}
	return out, nil
}

func (l *loader) loadNodegroups() error {
	templates, err := l.templates()
	if err != nil {
		return err
	}
	return each(l, "DescribeNodegroup", func(_ *awseks.DescribeNodegroupInput, out *awseks.DescribeNodegroupOutput) error {
		g := out.Nodegroup
		if g == nil || !l.clusters[aws.ToString(g.ClusterName)] {
			return nil
		}
		if !partName.MatchString(aws.ToString(g.NodegroupName)) {
			return fmt.Errorf("a node group of cluster %s has an invalid name", *g.ClusterName)
		}
		if err := l.checkARN(g.NodegroupArn, "nodegroup/"+*g.ClusterName+"/"+aws.ToString(g.NodegroupName)+"/"); err != nil {
			return err
		}
		rec := record.Nodegroup{
			Nodegroup: *g, UUID: path.Base(*g.NodegroupArn), Since: l.r.Source.Started, MachineTypes: g.InstanceTypes,
			Role: l.identify(aws.ToString(g.NodeRole), aws.ToTime(g.CreatedAt)), ScalingGroupMade: true, AccessEntryMade: true,
		}
		rec.InstanceProfile = "eks-" + rec.UUID
		if rec.Nodegroup.Resources == nil {
			rec.Nodegroup.Resources = &ekstypes.NodegroupResources{}
		}
		if rec.Nodegroup.Health == nil {
			rec.Nodegroup.Health = &ekstypes.NodegroupHealth{Issues: []ekstypes.Issue{}}
		}
		if rec.Nodegroup.ScalingConfig == nil || rec.Nodegroup.UpdateConfig == nil {
			return fmt.Errorf("node group %s has no scaling or update configuration", *g.NodegroupName)
		}
		t := templates[rec.ResourceName()]
		if t.id == "" {
			l.gap("DescribeNodegroup", *g.ClusterName+"/"+*g.NodegroupName, "the launch template of node group %s was not read, so it cannot launch nodes", *g.NodegroupName)
		}
		rec.LaunchTemplateID, rec.TemplateVersion, rec.ImageID = t.id, t.version, t.image
		l.writes = append(l.writes, module.Put(record.Nodegroups, l.key(*g.ClusterName).Below(*g.NodegroupName), rec))
		return nil
	})
}

func (l *loader) loadAddons() error {
	return each(l, "DescribeAddon", func(_ *awseks.DescribeAddonInput, out *awseks.DescribeAddonOutput) error {
		a := out.Addon
		if a == nil || !l.clusters[aws.ToString(a.ClusterName)] {
			return nil
		}
		if !partName.MatchString(aws.ToString(a.AddonName)) {
			return fmt.Errorf("an add-on of cluster %s has an invalid name", *a.ClusterName)
		}
		if err := l.checkARN(a.AddonArn, "addon/"+*a.ClusterName+"/"+aws.ToString(a.AddonName)+"/"); err != nil {
			return err
		}
		if _, ok := addons.Lookup(*a.AddonName); !ok {
			l.gap("DescribeAddon", *a.ClusterName+"/"+*a.AddonName, "add-on %s of cluster %s is not in Drydock's catalogue", *a.AddonName, *a.ClusterName)
			return nil
		}
		if a.Health == nil {
			a.Health = &ekstypes.AddonHealth{Issues: []ekstypes.AddonIssue{}}
		}
		l.writes = append(l.writes, module.Put(record.Addons, l.key(*a.ClusterName).Below(*a.AddonName), record.Addon{Addon: *a, Since: l.r.Source.Started, Applied: true, Had: true}))
		return nil
	})
}

func (l *loader) loadProfiles() error {
	return each(l, "DescribeFargateProfile", func(_ *awseks.DescribeFargateProfileInput, out *awseks.DescribeFargateProfileOutput) error {
		p := out.FargateProfile
		if p == nil || !l.clusters[aws.ToString(p.ClusterName)] {
			return nil
		}
		if !partName.MatchString(aws.ToString(p.FargateProfileName)) {
			return fmt.Errorf("a Fargate profile of cluster %s has an invalid name", *p.ClusterName)
		}
		if err := l.checkARN(p.FargateProfileArn, "fargateprofile/"+*p.ClusterName+"/"+aws.ToString(p.FargateProfileName)+"/"); err != nil {
			return err
		}
		l.writes = append(l.writes, module.Put(record.FargateProfiles, l.key(*p.ClusterName).Below(*p.FargateProfileName), record.FargateProfile{
			Profile: *p, UUID: path.Base(*p.FargateProfileArn), Since: l.r.Source.Started, AccessEntryMade: true, Role: l.identify(aws.ToString(p.PodExecutionRoleArn), aws.ToTime(p.CreatedAt)),
		}))
		return nil
	})
}

func (l *loader) loadEntries() error {
	policies := map[string][]ekstypes.AssociatedAccessPolicy{}
	if err := each(l, "ListAssociatedAccessPolicies", func(in *awseks.ListAssociatedAccessPoliciesInput, out *awseks.ListAssociatedAccessPoliciesOutput) error {
		of := aws.ToString(in.ClusterName) + "/" + aws.ToString(in.PrincipalArn)
		policies[of] = append(policies[of], out.AssociatedAccessPolicies...)
		return nil
	}); err != nil {
		return err
	}
	return each(l, "DescribeAccessEntry", func(_ *awseks.DescribeAccessEntryInput, out *awseks.DescribeAccessEntryOutput) error {
		e := out.AccessEntry
		if e == nil || !l.clusters[aws.ToString(e.ClusterName)] {
			return nil
		}
		if err := l.checkARN(e.AccessEntryArn, "access-entry/"+*e.ClusterName+"/"); err != nil {
			return err
		}
		if e.PrincipalArn == nil || e.Username == nil || e.Type == nil {
			return fmt.Errorf("access entry %s has no principal, user name or type", *e.AccessEntryArn)
		}
		l.writes = append(l.writes, module.Put(record.AccessEntries, l.key(*e.ClusterName).Below(*e.PrincipalArn), record.AccessEntry{
			Entry: *e, PrincipalID: l.identify(*e.PrincipalArn, aws.ToTime(e.CreatedAt)).ID, Policies: policies[*e.ClusterName+"/"+*e.PrincipalArn],
			Managed: strings.Contains(*e.PrincipalArn, ":role/aws-service-role/"),
		}))
		return nil
	})
}

func (l *loader) loadAssociations() error {
	return each(l, "DescribePodIdentityAssociation", func(_ *awseks.DescribePodIdentityAssociationInput, out *awseks.DescribePodIdentityAssociationOutput) error {
		a := out.Association
		if a == nil || !l.clusters[aws.ToString(a.ClusterName)] {
			return nil
		}
		if err := l.checkARN(a.AssociationArn, "podidentityassociation/"+*a.ClusterName+"/"); err != nil {
			return err
		}
		if a.Namespace == nil || a.ServiceAccount == nil {
			return fmt.Errorf("association %s has no service account", *a.AssociationArn)
		}
		l.writes = append(l.writes, module.Put(record.PodIdentities, record.PodIdentityKey(l.key(*a.ClusterName), *a.Namespace, *a.ServiceAccount), record.PodIdentity{Association: *a}))
		return nil
	})
}

func (l *loader) loadProviders() error {
	return each(l, "DescribeIdentityProviderConfig", func(in *awseks.DescribeIdentityProviderConfigInput, out *awseks.DescribeIdentityProviderConfigOutput) error {
		if out.IdentityProviderConfig == nil || out.IdentityProviderConfig.Oidc == nil || !l.clusters[aws.ToString(in.ClusterName)] {
			return nil
		}
		o := out.IdentityProviderConfig.Oidc
		if err := l.checkARN(o.IdentityProviderConfigArn, "identityproviderconfig/"+*in.ClusterName+"/oidc/"); err != nil {
			return err
		}
		l.writes = append(l.writes, module.Put(record.IdentityProviders, record.IdentityProviderKey(l.key(*in.ClusterName), aws.ToString(o.IdentityProviderConfigName)), record.IdentityProvider{Config: *o}))
		return nil
	})
}
