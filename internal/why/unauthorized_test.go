package why

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	authnv1 "k8s.io/api/authentication/v1"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/service/eks"
)

// closed is a cluster that admits only its principals.
type closed struct {
	EKS
	principals eks.KnownPrincipals
	opens      bool   // it has started to admit everyone
	host       string // of the cluster dev
}

func (c closed) APIEndpoints(context.Context, string, string) ([]eks.APIEndpoint, error) {
	return []eks.APIEndpoint{{ARN: "arn:aws:eks:us-east-1:000000000000:cluster/dev", Host: c.host}}, nil
}

func (c closed) MapRoles(_ context.Context, _, role, _ string) (mapRoles string, exists bool, err error) {
	return "- rolearn: " + role + "\n", true, nil
}

func (c closed) TryNodeEntry(context.Context, string, string, string, bool) error { return nil }

func (c closed) TryNode(context.Context, string, string, string) error {
	return errors.New("not a node")
}

func (c closed) Authenticate(_ context.Context, planeID, _ string) (authnv1.UserInfo, error) {
	if c.opens {
		return authnv1.UserInfo{}, nil
	}
	return authnv1.UserInfo{}, errors.New(planeID + " does not know the role")
}

func (c closed) KnownPrincipals(context.Context, string) (eks.KnownPrincipals, error) {
	return c.principals, nil
}

// The explanation names what the cluster knows instead of a node's role, and each way to
// map the role.
func TestUnauthorized(t *testing.T) {
	const plain, withPath = "arn:aws:iam::000000000000:role/node", "arn:aws:iam::000000000000:role/team/node"
	const entry, mapping = "aws eks create-access-entry --cluster-name dev --principal-arn ", "kubectl patch configmap aws-auth --namespace kube-system --type merge --patch '{\"data\":{\"mapRoles\":\"- rolearn: "
	for _, tt := range []struct {
		name, role string
		principals eks.KnownPrincipals
		text       string
		fixes      []string
	}{
		{"nobody is known", plain, eks.KnownPrincipals{API: true}, "the cluster maps no roles", []string{entry + plain}},
		{"another role is", plain, eks.KnownPrincipals{API: true, ConfigMap: true, Entries: []string{"arn:aws:iam::000000000000:role/admin"}}, "the cluster maps arn:aws:iam::000000000000:role/admin", []string{entry + plain, mapping + plain}},
		{"many are", plain, eks.KnownPrincipals{API: true, Entries: make([]string, 6)}, "the cluster maps 6 other roles", []string{entry + plain}},
		{"aws-auth cannot be read", plain, eks.KnownPrincipals{ConfigMap: true, Invalid: errors.New("line 3")}, "maps no roles: line 3", []string{mapping + plain}},
		{"it has an entry by now", plain, eks.KnownPrincipals{API: true, Entries: []string{plain}}, "the cluster maps", nil},
		{"it is mapped by now", withPath, eks.KnownPrincipals{ConfigMap: true, Mapped: []string{plain}}, "the cluster maps", nil},
		{"a path", withPath, eks.KnownPrincipals{ConfigMap: true, Mapped: []string{withPath}}, "must be left out in aws-auth: tokens are for " + plain, []string{mapping + withPath}},
		{"an instance profile", plain, eks.KnownPrincipals{ConfigMap: true, Mapped: []string{"arn:aws:iam::000000000000:instance-profile/node"}}, "is an instance profile; nodes are identified by their role, " + plain, []string{mapping + plain}},
		{"a session", plain, eks.KnownPrincipals{ConfigMap: true, Mapped: []string{"arn:aws:sts::000000000000:assumed-role/node/i-1"}}, "is a session; use the role's ARN, " + plain, []string{mapping + plain}},
		{"another account", plain, eks.KnownPrincipals{ConfigMap: true, Mapped: []string{"arn:aws:iam::111122223333:role/node"}}, "is in another account or not of the same kind as " + plain, []string{mapping + plain}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			clusters := closed{principals: tt.principals}
			x := Tokens{EKS: clusters, PlaneAt: func(host string) (planeID, cluster string, ok bool) { return "p-1", "dev", host == "dev.example" }}
			in := machine.Instance{RoleARN: tt.role}
			if why := x.Unauthorized(t.Context(), in, "", "other.example", "token"); why != nil {
				t.Errorf("of no cluster: %+v", why)
			}
			why := x.Unauthorized(t.Context(), in, "", "dev.example", "token")
			if why == nil || why.By != node.ByCluster || why.Component != tt.role || !strings.HasPrefix(why.Text, "p-1 does not know the role; ") || !strings.Contains(why.Text, tt.text) {
				t.Fatalf("%+v, want %s", why, tt.text)
			}
			fixes := advice.Flat(New(Config{EKS: clusters}).reason("000000000000", "us-east-1", why).Fixes)
			if len(fixes) != len(tt.fixes) {
				t.Fatalf("fixes %q", fixes)
			}
			for i, fix := range tt.fixes {
				if !strings.HasPrefix(fixes[i], fix) {
					t.Errorf("fix %s, want %s", fixes[i], fix)
				}
			}
		})
	}
	clusters := closed{principals: eks.KnownPrincipals{API: true, ConfigMap: true}}
	auto := Tokens{EKS: clusters, PlaneAt: func(string) (planeID, cluster string, ok bool) { return "p-1", "dev", true }}
	why := auto.Unauthorized(t.Context(), machine.Instance{RoleARN: plain, Operator: "eks.amazonaws.com"}, "", "dev.example", "token")
	want := []string{
		entry + plain + " --type EC2 --region us-east-1",
		"aws eks associate-access-policy --cluster-name dev --principal-arn " + plain + " --policy-arn arn:aws:eks::aws:cluster-access-policy/AmazonEKSAutoNodePolicy --access-scope type=cluster --region us-east-1",
	}
	if fixes := New(Config{EKS: clusters}).reason("000000000000", "us-east-1", why).Fixes; len(fixes) != 1 || !slices.Equal(fixes[0].Commands, want) {
		t.Errorf("of EKS Auto Mode: %+v, want %q", fixes, want)
	}
	x := Tokens{EKS: closed{opens: true}, PlaneAt: func(string) (planeID, cluster string, ok bool) { return "p-1", "dev", true }}
	if why := x.Unauthorized(t.Context(), machine.Instance{RoleARN: plain}, "", "dev.example", "token"); why != nil {
		t.Errorf("it would get in now: %+v", why)
	}
}
