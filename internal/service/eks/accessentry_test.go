package eks_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/service/eks"
)

const viewPolicy = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy"

func TestAccessEntriesAreRefusedInConfigMapMode(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeConfigMap)
	const message = "The cluster's authentication mode must be set to one of [API, API_AND_CONFIG_MAP] to perform this operation."
	dev, jane := aws.String("dev"), aws.String(w.arn("user/jane"))
	_, err := w.client.ListAccessEntries(t.Context(), &awseks.ListAccessEntriesInput{ClusterName: dev})
	wantError(t, err, "InvalidRequestException", message)
	_, err = w.client.CreateAccessEntry(t.Context(), &awseks.CreateAccessEntryInput{ClusterName: dev, PrincipalArn: jane})
	wantError(t, err, "InvalidRequestException", message)
	_, err = w.client.DescribeAccessEntry(t.Context(), &awseks.DescribeAccessEntryInput{ClusterName: dev, PrincipalArn: jane})
	wantError(t, err, "InvalidRequestException", message)
	_, err = w.client.UpdateAccessEntry(t.Context(), &awseks.UpdateAccessEntryInput{ClusterName: dev, PrincipalArn: jane})
	wantError(t, err, "InvalidRequestException", message)
	_, err = w.client.DeleteAccessEntry(t.Context(), &awseks.DeleteAccessEntryInput{ClusterName: dev, PrincipalArn: jane})
	wantError(t, err, "InvalidRequestException", message)
	_, err = w.client.AssociateAccessPolicy(t.Context(), &awseks.AssociateAccessPolicyInput{
		ClusterName: dev, PrincipalArn: jane, PolicyArn: aws.String(viewPolicy), AccessScope: &ekstypes.AccessScope{Type: ekstypes.AccessScopeTypeCluster},
	})
	wantError(t, err, "InvalidRequestException", message)
	_, err = w.client.DisassociateAccessPolicy(t.Context(), &awseks.DisassociateAccessPolicyInput{ClusterName: dev, PrincipalArn: jane, PolicyArn: aws.String(viewPolicy)})
	wantError(t, err, "InvalidRequestException", message)
	_, err = w.client.ListAssociatedAccessPolicies(t.Context(), &awseks.ListAssociatedAccessPoliciesInput{ClusterName: dev, PrincipalArn: jane})
	wantError(t, err, "InvalidRequestException", message)
}

func TestAccessEntryLife(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	dev, role := aws.String("dev"), aws.String(w.arn("role/path/dev"))
	made, err := w.client.CreateAccessEntry(t.Context(), &awseks.CreateAccessEntryInput{ClusterName: dev, PrincipalArn: role, KubernetesGroups: []string{"devs"}})
	if err != nil {
		t.Fatal(err)
	}
	e := made.AccessEntry
	if !regexp.MustCompile(`^arn:aws:eks:us-east-1:` + w.account + `:access-entry/dev/role/` + w.account + `/dev/[0-9a-f-]{36}$`).MatchString(*e.AccessEntryArn) {
		t.Errorf("ARN = %s", *e.AccessEntryArn)
	}
	if want := "arn:aws:sts::" + w.account + ":assumed-role/dev/{{SessionName}}"; *e.Username != want || *e.Type != "STANDARD" {
		t.Errorf("username = %s, want %s; type %s", *e.Username, want, *e.Type)
	}
	_, err = w.client.CreateAccessEntry(t.Context(), &awseks.CreateAccessEntryInput{ClusterName: dev, PrincipalArn: role})
	wantError(t, err, "ResourceInUseException", "The specified access entry resource is already in use on this cluster.")

	up, err := w.client.UpdateAccessEntry(t.Context(), &awseks.UpdateAccessEntryInput{ClusterName: dev, PrincipalArn: role, KubernetesGroups: []string{"ops"}, Username: aws.String("dev:{{SessionName}}")})
	if err != nil || up.AccessEntry.KubernetesGroups[0] != "ops" || *up.AccessEntry.Username != "dev:{{SessionName}}" {
		t.Fatalf("UpdateAccessEntry = %+v, %v", up, err)
	}
	scope := &ekstypes.AccessScope{Type: ekstypes.AccessScopeTypeNamespace, Namespaces: []string{"dev-*"}}
	if _, err := w.client.AssociateAccessPolicy(t.Context(), &awseks.AssociateAccessPolicyInput{ClusterName: dev, PrincipalArn: role, PolicyArn: aws.String(viewPolicy), AccessScope: scope}); err != nil {
		t.Fatal(err)
	}
	list, err := w.client.ListAccessEntries(t.Context(), &awseks.ListAccessEntriesInput{ClusterName: dev, AssociatedPolicyArn: aws.String(viewPolicy)})
	if err != nil || len(list.AccessEntries) != 1 || list.AccessEntries[0] != *role {
		t.Errorf("entries with the view policy = %v, %v", list, err)
	}
	policies, err := w.client.ListAssociatedAccessPolicies(t.Context(), &awseks.ListAssociatedAccessPoliciesInput{ClusterName: dev, PrincipalArn: role})
	if err != nil || len(policies.AssociatedAccessPolicies) != 1 || policies.AssociatedAccessPolicies[0].AccessScope.Namespaces[0] != "dev-*" {
		t.Errorf("policies = %+v, %v", policies, err)
	}
	if _, err := w.client.DisassociateAccessPolicy(t.Context(), &awseks.DisassociateAccessPolicyInput{ClusterName: dev, PrincipalArn: role, PolicyArn: aws.String(viewPolicy)}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.DeleteAccessEntry(t.Context(), &awseks.DeleteAccessEntryInput{ClusterName: dev, PrincipalArn: role}); err != nil {
		t.Fatal(err)
	}
	_, err = w.client.DescribeAccessEntry(t.Context(), &awseks.DescribeAccessEntryInput{ClusterName: dev, PrincipalArn: role})
	wantError(t, err, "ResourceNotFoundException", "The specified principalArn could not be found. You can view your available access entries with 'list-access-entries'.")
}

func TestAClusterInAPIModeIsBornWithTwoEntries(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApiAndConfigMap)
	service := w.arn("role/aws-service-role/eks.amazonaws.com/AWSServiceRoleForAmazonEKS")
	for principal, want := range map[string][]string{
		service:       {"AmazonEKSClusterInsightsPolicy", "AmazonEKSEventPolicy"},
		w.arn("root"): {"AmazonEKSClusterAdminPolicy"},
	} {
		out, err := w.client.ListAssociatedAccessPolicies(t.Context(), &awseks.ListAssociatedAccessPoliciesInput{ClusterName: aws.String("dev"), PrincipalArn: &principal})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range out.AssociatedAccessPolicies {
			got = append(got, (*p.PolicyArn)[strings.LastIndexByte(*p.PolicyArn, '/')+1:])
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", principal, diff)
		}
	}
	_, err := w.client.DeleteAccessEntry(t.Context(), &awseks.DeleteAccessEntryInput{ClusterName: aws.String("dev"), PrincipalArn: &service})
	wantError(t, err, "InvalidParameterException", "The caller is not allowed to modify access entries with a principalArn value of a Service Linked Role")
}

func TestCreateAccessEntryRefusesWhatAWSRefuses(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	role := w.arn("role/path/dev")
	for name, tt := range map[string]struct {
		in      awseks.CreateAccessEntryInput
		code    string
		message string
	}{
		"no such role":          {awseks.CreateAccessEntryInput{PrincipalArn: aws.String(w.arn("role/nobody"))}, "InvalidParameterException", "The specified principalArn is invalid: invalid principal."},
		"a role session":        {awseks.CreateAccessEntryInput{PrincipalArn: aws.String("arn:aws:sts::" + w.account + ":assumed-role/dev/s")}, "InvalidParameterException", "The specified principalArn is invalid: invalid principal."},
		"no ARN":                {awseks.CreateAccessEntryInput{PrincipalArn: aws.String("jane")}, "InvalidParameterException", "The specified principalArn is invalid: invalid ARN."},
		"a service-linked role": {awseks.CreateAccessEntryInput{PrincipalArn: aws.String(w.arn("role/aws-service-role/x.amazonaws.com/X"))}, "InvalidParameterException", "The caller is not allowed to modify access entries with a principalArn value of a Service Linked Role"},
		"system:masters":        {awseks.CreateAccessEntryInput{PrincipalArn: &role, KubernetesGroups: []string{"system:masters"}}, "InvalidParameterException", "The kubernetes group name system:masters is invalid, it cannot start with system:"},
		"an eks: group":         {awseks.CreateAccessEntryInput{PrincipalArn: &role, KubernetesGroups: []string{"eks:x"}}, "InvalidParameterException", "The kubernetes group name eks:x is invalid, it cannot start with eks:"},
		"a system: user":        {awseks.CreateAccessEntryInput{PrincipalArn: &role, Username: aws.String("system:admin")}, "InvalidParameterException", "The username must not begin with system:"},
		"an unknown type":       {awseks.CreateAccessEntryInput{PrincipalArn: &role, Type: aws.String("LINUX")}, "InvalidParameterException", "AccessEntry type must be one of [EC2_LINUX, EC2_WINDOWS, FARGATE_LINUX, HYBRID_LINUX, HYPERPOD_LINUX, EC2, STANDARD]"},
		"a node that is a user": {awseks.CreateAccessEntryInput{PrincipalArn: aws.String(w.arn("user/jane")), Type: aws.String("EC2_LINUX")}, "InvalidParameterException", "AccessEntry principalArn must be IAM role when using types [EC2_LINUX, EC2_WINDOWS, FARGATE_LINUX, HYBRID_LINUX, EC2]"},
		"a node with groups":    {awseks.CreateAccessEntryInput{PrincipalArn: &role, Type: aws.String("EC2_LINUX"), KubernetesGroups: []string{"x"}}, "InvalidParameterException", `The specified kubernetesGroups is invalid: setting kubernetesGroups is not allowed when the type is "EC2_LINUX"`},
		"a node with a name":    {awseks.CreateAccessEntryInput{PrincipalArn: &role, Type: aws.String("EC2_WINDOWS"), Username: aws.String("x")}, "InvalidParameterException", `The specified username is invalid: setting username is not allowed when the type is "EC2_WINDOWS"`},
		"a node from elsewhere": {awseks.CreateAccessEntryInput{PrincipalArn: aws.String("arn:aws:iam::999999999999:role/node"), Type: aws.String("EC2_LINUX")}, "InvalidParameterException", "AccessEntry principalArn must be from the same account as the cluster when using types [EC2_LINUX, EC2_WINDOWS, FARGATE_LINUX, HYBRID_LINUX, EC2]"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.in.ClusterName = aws.String("dev")
			_, err := w.client.CreateAccessEntry(t.Context(), &tt.in)
			wantError(t, err, tt.code, tt.message)
		})
	}
}

func TestAssociateAccessPolicyRefusesWhatAWSRefuses(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	role, node := w.arn("role/path/dev"), w.arn("role/node")
	for principal, typ := range map[string]string{role: "STANDARD", node: "EC2_LINUX"} {
		if _, err := w.client.CreateAccessEntry(t.Context(), &awseks.CreateAccessEntryInput{ClusterName: aws.String("dev"), PrincipalArn: &principal, Type: &typ}); err != nil {
			t.Fatal(err)
		}
	}
	whole := &ekstypes.AccessScope{Type: ekstypes.AccessScopeTypeCluster}
	for name, tt := range map[string]struct {
		principal, policy string
		scope             *ekstypes.AccessScope
		code, message     string
	}{
		"an unknown policy":              {role, "arn:aws:eks::aws:cluster-access-policy/Nope", whole, "ResourceNotFoundException", "The specified policyArn could not be found. You can view your available access policies with 'list-access-policies'"},
		"a policy of IAM":                {role, "arn:aws:iam::aws:policy/AmazonEKSClusterPolicy", whole, "InvalidParameterException", "The policyArn parameter format is not valid"},
		"no namespaces":                  {role, viewPolicy, &ekstypes.AccessScope{Type: ekstypes.AccessScopeTypeNamespace}, "InvalidParameterException", "At least 1 namespace must be provided if the type is set as namespace"},
		"namespaces for a whole cluster": {role, viewPolicy, &ekstypes.AccessScope{Type: ekstypes.AccessScopeTypeCluster, Namespaces: []string{"x"}}, "InvalidParameterException", "accessScope should not include namespaces if the type is not set as namespace"},
		"a node":                         {node, viewPolicy, whole, "InvalidParameterException", `This operation can only be performed on Access Entries with a type of "STANDARD".`},
		"a service-linked policy":        {role, "arn:aws:eks::aws:cluster-access-policy/AmazonEKSHybridPolicy", whole, "InvalidParameterException", "The policyArn arn:aws:eks::aws:cluster-access-policy/AmazonEKSHybridPolicy is designated for AWS service-linked roles only."},
		"no entry":                       {w.arn("user/jane"), viewPolicy, whole, "ResourceNotFoundException", "The specified principalArn could not be found. You can view your available access entries with 'list-access-entries'."},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.client.AssociateAccessPolicy(t.Context(), &awseks.AssociateAccessPolicyInput{ClusterName: aws.String("dev"), PrincipalArn: &tt.principal, PolicyArn: &tt.policy, AccessScope: tt.scope})
			wantError(t, err, tt.code, tt.message)
		})
	}
}

func TestListAccessPolicies(t *testing.T) {
	w := newWorld(t)
	out, err := w.client.ListAccessPolicies(t.Context(), &awseks.ListAccessPoliciesInput{})
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, p := range out.AccessPolicies {
		found = found || *p.Arn == viewPolicy && *p.Name == "AmazonEKSViewPolicy"
	}
	if !found {
		t.Errorf("AmazonEKSViewPolicy is not among %d policies", len(out.AccessPolicies))
	}
}

// An entry for a node role is tried without storing it. It is refused if CreateAccessEntry would refuse it, or if
// people would lose access.
func TestTryNodeEntry(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	plane, _ := w.planes.only()
	dev, role := aws.String("dev"), w.arn("role/path/dev")
	try := func(typ string, replace bool, want string) {
		t.Helper()
		err := w.svc.TryNodeEntry(t.Context(), plane.ID, role, typ, replace)
		if got := fmt.Sprint(err); !strings.Contains(got, want) {
			t.Errorf("%s, %t: %s, want %s", typ, replace, got, want)
		}
	}
	isNode := func(want string) {
		t.Helper()
		refused, _ := errors.AsType[*eks.Refusal](w.svc.TryNode(t.Context(), plane.ID, role, "EC2_LINUX"))
		if got := refused; got == nil && want != "" || got != nil && got.Cause() != want {
			t.Errorf("TryNode: %v, want %s", got, want)
		}
	}
	isNode(eks.CauseNotMapped)
	try("EC2_LINUX", false, "<nil>")
	try("STANDARD", false, "would not be a node's role")
	if _, err := w.client.DescribeAccessEntry(t.Context(), &awseks.DescribeAccessEntryInput{ClusterName: dev, PrincipalArn: &role}); err == nil {
		t.Error("the entry was stored")
	}
	if _, err := w.client.CreateAccessEntry(t.Context(), &awseks.CreateAccessEntryInput{ClusterName: dev, PrincipalArn: &role}); err != nil {
		t.Fatal(err)
	}
	isNode(eks.CauseNotNodeEntry)
	try("EC2_LINUX", false, "already in use on this cluster")
	try("EC2_LINUX", true, "<nil>")
	if _, err := w.client.UpdateAccessEntry(t.Context(), &awseks.UpdateAccessEntryInput{ClusterName: dev, PrincipalArn: &role, KubernetesGroups: []string{"devs"}}); err != nil {
		t.Fatal(err)
	}
	try("EC2_LINUX", true, "people who use the role lose")
	if _, err := w.client.DeleteAccessEntry(t.Context(), &awseks.DeleteAccessEntryInput{ClusterName: dev, PrincipalArn: &role}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.CreateAccessEntry(t.Context(), &awseks.CreateAccessEntryInput{ClusterName: dev, PrincipalArn: &role, Type: aws.String("EC2_LINUX")}); err != nil {
		t.Fatal(err)
	}
	isNode("")
	if err := w.svc.TryNode(t.Context(), plane.ID, role, "FARGATE_LINUX"); err == nil {
		t.Error("an entry of instances is taken for one of Fargate")
	}
	if _, err := w.client.DeleteAccessEntry(t.Context(), &awseks.DeleteAccessEntryInput{ClusterName: dev, PrincipalArn: &role}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.CreateAccessEntry(t.Context(), &awseks.CreateAccessEntryInput{ClusterName: dev, PrincipalArn: &role, Type: aws.String("FARGATE_LINUX")}); err != nil {
		t.Fatal(err)
	}
	isNode(eks.CauseNotNodeEntry)
	if err := w.svc.TryNode(t.Context(), plane.ID, role, "FARGATE_LINUX"); err != nil {
		t.Errorf("Fargate's entry: %v", err)
	}
}
