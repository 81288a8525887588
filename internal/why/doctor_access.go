package why

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// diagnoseAccess looks at who may enter the cluster: whether aws-auth can be read, and whether the roles of access entries exist and are
// those that the entries were made for.
func (x *Explainer) diagnoseAccess(ctx context.Context, d *api.Diagnosis) error {
	plane, err := x.planeOf(&api.NodeExplanation{Account: d.Account, Region: d.Region, Cluster: d.Cluster})
	if err != nil {
		return nil //nolint:nilerr // the cluster's own finding says that it has no control plane
	}
	known, err := x.cfg.EKS.KnownPrincipals(ctx, plane)
	if err != nil {
		return err
	}
	d.Checked += 1 + len(known.Entries)
	if known.Invalid != nil {
		find(d, api.HarmError, "aws-auth", "kube-system/aws-auth", "some entries cannot be parsed, so they have no effect: "+known.Invalid.Error(), nil, oneSketch("correct the ConfigMap: kubectl edit -n kube-system configmap aws-auth"))
	}
	for _, principal := range known.Entries {
		if !strings.Contains(principal, ":"+d.Account+":role/") || strings.Contains(principal, ":role/aws-service-role/") {
			continue
		}
		of := " --cluster-name " + d.Cluster + " --principal-arn " + principal + " --region " + d.Region
		remake := oneSketch("delete the access entry; if the role is still needed, create it again with the type, groups and policies that the first two commands show",
			"aws eks describe-access-entry"+of, "aws eks list-associated-access-policies"+of, "aws eks delete-access-entry"+of)
		if _, err := x.cfg.IAM.RoleByARN(ctx, principal); err != nil {
			if unknown := x.unknownRole(d.Account, principal); len(unknown) > 0 && !slices.Contains(known.Gone, principal) {
				find(d, api.HarmUnknown, "access-entry", principal, "whether the role exists is unknown: "+unknown[0], nil, nil)
			} else {
				find(d, api.HarmWarning, "access-entry", principal, "the role does not exist; another role of that name will not be let in by this entry", nil, remake)
			}
			continue
		}
		if refused, ok := errors.AsType[*eks.Refusal](x.cfg.EKS.TryNode(ctx, plane, principal, "EC2_LINUX")); ok && refused.Cause() == eks.CauseStaleEntry {
			find(d, api.HarmError, "access-entry", principal, "the entry belongs to a deleted role of the same name, so the present role cannot log in with it", nil, remake)
		}
	}
	return nil
}

// diagnoseDNS looks at whether there is anything with which pods can resolve names: a pod of CoreDNS, if there are nodes. What keeps such
// pods from running is found with the other pods. Nodes of EKS Auto Mode have a DNS server of their own.
func (x *Explainer) diagnoseDNS(ctx context.Context, d *api.Diagnosis) error {
	c, err := x.cfg.EKS.DescribeCluster(ctx, &awseks.DescribeClusterInput{Name: &d.Cluster})
	if err != nil {
		return err
	}
	if m := c.Cluster.ComputeConfig; m != nil && aws.ToBool(m.Enabled) {
		return nil
	}
	nodes, err := x.cfg.Inventory.PodsOfNodes(ctx, d.Cluster)
	if err != nil || len(nodes) == 0 {
		return err
	}
	d.Checked++
	pods, err := x.cfg.Inventory.PodsOfDNS(ctx, d.Cluster)
	if err != nil || pods > 0 {
		return err
	}
	unknown := x.unknown(d.Account, func(g recording.Gap) bool {
		kind, _, _ := strings.Cut(g.Resource, ".")
		return g.Service == recording.Kubernetes && g.Cluster == d.Cluster && g.Code != recording.Redacted && (g.Subject == "" || strings.HasPrefix(g.Subject, "kube-system/")) &&
			(kind == "" || kind == "pods" || kind == "deployments" || kind == "services" || kind == "nodes" || kind == "replicasets")
	})
	if len(unknown) > 0 {
		find(d, api.HarmUnknown, "dns", "kube-system/coredns", "whether there is a pod of CoreDNS is unknown: "+unknown[0], nil, nil)
		return nil
	}
	find(d, api.HarmError, "dns", "kube-system/coredns", "there is no pod of CoreDNS, so no pod can resolve names", nil, oneSketch("give its Deployment replicas, or install the add-on if there is no Deployment",
		"kubectl -n kube-system scale deployment coredns --replicas 2", "aws eks create-addon --cluster-name "+d.Cluster+" --addon-name coredns --region "+d.Region))
	return nil
}
