package why

import (
	"context"
	"testing"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// knownRoles is an IAM that has only one role.
type knownRoles struct {
	IAM
	arn string
}

func (k knownRoles) RoleByARN(_ context.Context, roleARN string) (iam.Role, error) {
	if roleARN != k.arn {
		return iam.Role{}, context.Canceled // any error
	}
	return iam.Role{}, nil
}

// A missing answer matters to a node only if the step at which it fails, or one before, depends on it.
func TestUnknownNode(t *testing.T) {
	const known, other = "arn:aws:iam::111122223333:role/known", "arn:aws:iam::111122223333:role/other"
	details := recording.Gap{Service: "iam", Operation: "GetAccountAuthorizationDetails", Code: "AccessDenied"}
	gateways := recording.Gap{Service: "ec2", Operation: "DescribeTransitGateways", Code: "UnauthorizedOperation"}
	route := recording.Gap{Service: "ec2", Operation: "DescribeRouteTables", Subject: "rtb-1", Code: recording.NotModelled, Message: "rtb-1 leads to vgw-1"}
	objects := recording.Gap{Service: recording.Kubernetes, Operation: "List", Subject: "the objects of cluster c", Code: recording.Unreachable}
	network := func(text string) *api.Reason { return &api.Reason{By: node.ByNetwork, Text: text} }
	for _, tt := range []struct {
		name   string
		gap    recording.Gap
		role   string
		step   string // that fails; none if the node is Ready
		reason *api.Reason
		want   bool
	}{
		{"a role that was read by itself", details, known, node.StepIdentity, nil, false},
		{"a role that was not read", details, other, node.StepIdentity, nil, true},
		{"what was not kept, and an instance that does not run", recording.Gap{Service: "iam", Operation: details.Operation, Code: recording.NotAsked}, "", node.StepIdentity, nil, false},
		{"transit gateways, and a node that is Ready", gateways, known, "", nil, false},
		{"transit gateways, and a cluster that does not know the role", gateways, known, node.StepIdentity, nil, false},
		{"transit gateways, and no way to the endpoint", gateways, known, node.StepEndpoint, network("vpc-1 and vpc-2 are not connected"), true},
		{"a route that leads elsewhere", route, known, node.StepEndpoint, network("rtb-2 has no route"), false},
		{"a route that cannot be followed", route, known, node.StepEndpoint, network("the route of rtb-1 is a blackhole"), true},
		{"keys", recording.Gap{Service: "kms", Operation: "ListKeys", Code: "AccessDeniedException"}, known, node.StepEndpoint, network(""), false},
		{"load balancers", recording.Gap{Service: recording.ELBv2, Operation: "DescribeLoadBalancers", Code: "AccessDenied"}, known, node.StepEndpoint, network(""), false},
		{"policies of the organization", recording.Gap{Service: recording.Organizations, Operation: "ListPoliciesForTarget", Subject: "111122223333", Code: "AccessDeniedException"}, known, node.StepIdentity, nil, false},
		{"objects of a cluster that is not needed for the verdict", objects, known, node.StepEndpoint, network(""), false},
		{"objects of the cluster that decides", objects, known, node.StepIdentity, nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := New(Config{IAM: knownRoles{arn: known}, Gaps: func(string) []recording.Gap { return []recording.Gap{tt.gap} }})
			e := api.NodeExplanation{Instance: "i-1", Account: "111122223333", Cluster: "c", Role: tt.role, Ready: tt.step == ""}
			if tt.step != "" {
				e.Steps = []api.Step{{Name: tt.step, State: api.StepFailed, Reason: tt.reason}}
			}
			if got := x.unknownNode(&e); (len(got) > 0) != tt.want {
				t.Errorf("unknown: %q", got)
			}
		})
	}
}
