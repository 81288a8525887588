package why

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/twin/account"
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

// machinesIn are machines that are all in one VPC and have the same user data.
type machinesIn struct {
	Machines
	vpc, userData string
}

func (m machinesIn) Instance(string) (machine.Instance, error) {
	return machine.Instance{VPCID: m.vpc, UserData: []byte(m.userData)}, nil
}

// A missing answer matters to a node only if the step at which it fails, or one before, depends on it.
func TestUnknownNode(t *testing.T) {
	const known, other = "arn:aws:iam::111122223333:role/known", "arn:aws:iam::111122223333:role/other"
	details := recording.Gap{Service: "iam", Operation: "GetAccountAuthorizationDetails", Code: "AccessDenied"}
	gateways := recording.Gap{Service: "ec2", Operation: "DescribeTransitGateways", Code: "UnauthorizedOperation"}
	route := recording.Gap{Service: "ec2", Operation: "DescribeRouteTables", Subject: "rtb-1", Code: recording.NotModelled, Message: "rtb-1 leads to vgw-1"}
	objects := recording.Gap{Service: recording.Kubernetes, Operation: "List", Cluster: "c", Code: recording.Unreachable}
	list := func(resource string) recording.Gap {
		return recording.Gap{Service: recording.Kubernetes, Operation: "List", Cluster: "c", Resource: resource, Code: "AccessDenied"}
	}
	zone := recording.Gap{Service: "route53", Operation: "ListHostedZonesByVPC", Subject: "Z1", Code: recording.NotModelled, Message: "the records of Z1 cannot be read"}
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
		{"where aws-auth is", list("configmaps"), known, node.StepIdentity, nil, true},
		{"secrets", list("secrets"), known, node.StepIdentity, nil, false},
		{"the kind of Karpenter's nodes", list("nodeclaims.karpenter.sh"), known, node.StepIdentity, nil, false},
		{"aws-auth, which could not be copied", recording.Gap{Service: recording.Kubernetes, Operation: "List", Cluster: "c", Resource: "configmaps", Subject: "kube-system/aws-auth", Code: recording.NotModelled}, known, node.StepIdentity, nil, true},
		{"another namespace's object", recording.Gap{Service: recording.Kubernetes, Operation: "List", Cluster: "c", Resource: "configmaps", Subject: "shop/settings", Code: recording.NotModelled}, known, node.StepIdentity, nil, false},
		{"another cluster's objects", recording.Gap{Service: recording.Kubernetes, Operation: "List", Cluster: "d", Code: "AccessDenied"}, known, node.StepIdentity, nil, false},
		{"access entries", recording.Gap{Service: "eks", Operation: "ListAccessEntries", Cluster: "c", Subject: "c", Code: "AccessDeniedException"}, known, node.StepIdentity, nil, true},
		{"own zones, whose names are also among those of the VPC", recording.Gap{Service: "route53", Operation: "ListHostedZones", Code: "AccessDenied"}, known, node.StepEndpoint, network(""), false},
		{"the zones of the VPC", recording.Gap{Service: "route53", Operation: "ListHostedZonesByVPC", Subject: "vpc-1", Code: "AccessDenied"}, known, node.StepEndpoint, network(""), true},
		{"the zones of another VPC", recording.Gap{Service: "route53", Operation: "ListHostedZonesByVPC", Subject: "vpc-2", Code: "AccessDenied"}, known, node.StepEndpoint, network(""), false},
		{"records of a zone that no node asks about", recording.Gap{Service: "route53", Operation: "ListResourceRecordSets", Subject: "corp.internal.", Code: "AccessDenied"}, known, node.StepEndpoint, network(""), false},
		{"records of a zone that has the registry's name", recording.Gap{Service: "route53", Operation: "ListResourceRecordSets", Subject: "ecr.us-east-1.amazonaws.com.", Code: "AccessDenied"}, known, node.StepEndpoint, network(""), true},
		{"records of a zone that has the endpoint's name", recording.Gap{Service: "route53", Operation: "GetHostedZone", Subject: "gr7.us-east-1.eks.amazonaws.com.", Code: "AccessDenied"}, known, "", nil, true},
		{"a secret in the user data that was masked", recording.Gap{Service: "ec2", Operation: "DescribeInstanceAttribute", Subject: "i-1", Code: recording.Redacted}, known, node.StepIdentity, nil, true},
		{"a secret in the user data of another instance", recording.Gap{Service: "ec2", Operation: "DescribeInstanceAttribute", Subject: "i-2", Code: recording.Redacted}, known, node.StepIdentity, nil, false},
		{"a pod that was not copied", recording.Gap{Service: recording.Kubernetes, Operation: "List", Cluster: "c", Resource: "pods", Subject: "kube-system/job-1", Code: recording.NotCopied}, known, node.StepIdentity, nil, false},
		{"another's zone, and no way to the endpoint", zone, known, node.StepEndpoint, network("rtb-2 has no route"), false},
		{"another's zone that has the endpoint's name", zone, known, node.StepEndpoint, network("the records of Z1 cannot be read"), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := New(Config{IAM: knownRoles{arn: known}, Machines: machinesIn{vpc: "vpc-1"}, Gaps: func(string) []recording.Gap { return []recording.Gap{tt.gap} }})
			e := api.NodeExplanation{Instance: "i-1", Account: "111122223333", Region: "us-east-1", Cluster: "c", Role: tt.role, Ready: tt.step == ""}
			if tt.step != "" {
				e.Steps = []api.Step{{Name: tt.step, State: api.StepFailed, Reason: tt.reason}}
			}
			if got := x.unknownNode(&e); (len(got) > 0) != tt.want {
				t.Errorf("unknown: %q", got)
			}
		})
	}
}

// Each read of EKS and each kind of Kubernetes objects that a verdict about a pod depends on makes it unknown, and no other does.
func TestUnknownPod(t *testing.T) {
	list := func(resource string) recording.Gap {
		return recording.Gap{Service: recording.Kubernetes, Operation: "List", Cluster: "c", Resource: resource, Code: "AccessDenied"}
	}
	failed := func(step, evidence string) []api.Step {
		return []api.Step{{Name: step, State: api.StepFailed, Evidence: evidence, Reason: &api.Reason{By: node.ByKubernetes, Text: evidence}}}
	}
	for _, tt := range []struct {
		name  string
		gap   recording.Gap
		steps []api.Step
		want  bool
	}{
		{"all objects", list(""), nil, true},
		{"pods", list("pods"), nil, true},
		{"service accounts", list("serviceaccounts"), nil, true},
		{"secrets, and a pod that runs", list("secrets"), nil, false},
		{"secrets, and a pod that lacks one", list("secrets"), failed("volumes", `MountVolume.SetUp failed for volume "a" : secret "a" not found`), true},
		{"secrets, and a pod that fits no node", list("secrets"), failed(podScheduling, "0/1 nodes are available"), false},
		{"claims, and a pod that lacks one", list("persistentvolumeclaims"), failed(podScheduling, `persistentvolumeclaim "data" not found`), true},
		{"aws-auth, and a pod that has no node", list("configmaps"), failed(podScheduling, "0/0 nodes are available"), true},
		{"aws-auth, and a pod whose node does not join", list("configmaps"), failed(podNode, "ARN is not mapped"), true},
		{"nodes, and a pod that has no node", list("nodes"), failed(podScheduling, "0/0 nodes are available"), true},
		{"deployments", list("deployments.apps"), nil, false},
		{"roles", list("roles.rbac.authorization.k8s.io"), nil, false},
		{"another pod, which could not be copied", recording.Gap{Service: recording.Kubernetes, Operation: "List", Cluster: "c", Resource: "pods", Subject: "default/other", Code: recording.NotModelled}, nil, false},
		{"the pod, which could not be copied", recording.Gap{Service: recording.Kubernetes, Operation: "List", Cluster: "c", Resource: "pods", Subject: "default/web", Code: recording.NotModelled}, nil, true},
		{"another cluster's pods", recording.Gap{Service: recording.Kubernetes, Operation: "List", Cluster: "d", Resource: "pods", Code: "AccessDenied"}, nil, false},
		{"Fargate profiles", recording.Gap{Service: "eks", Operation: "ListFargateProfiles", Cluster: "c", Subject: "c", Code: "AccessDeniedException"}, nil, true},
		{"records of a zone with the registry", recording.Gap{Service: "route53", Operation: "ListResourceRecordSets", Subject: "corp.internal.", Code: "AccessDenied"}, nil, true},
		{"records of another zone", recording.Gap{Service: "route53", Operation: "ListResourceRecordSets", Subject: "shop.internal.", Code: "AccessDenied"}, nil, false},
		{"records of a zone with the registry, and a pod without its ConfigMap", recording.Gap{Service: "route53", Operation: "ListResourceRecordSets", Subject: "corp.internal.", Code: "AccessDenied"}, failed(podConfiguration, `configmap "a" not found`), false},
		{"the list of clusters", recording.Gap{Service: "eks", Operation: "ListClusters", Code: "AccessDeniedException"}, nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := New(Config{Gaps: func(string) []recording.Gap { return []recording.Gap{tt.gap} }})
			e := api.PodExplanation{Account: "111122223333", Cluster: "c", Namespace: "default", Pod: "web", Steps: tt.steps}
			if got := x.unknownPod(&e, &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: "registry.corp.internal:5000/app:1"}}}}, func() []string { return nil }); (len(got) > 0) != tt.want {
				t.Errorf("unknown: %q", got)
			}
		})
	}
}

// A pod that no node takes may have had a node that the twin does not know enough about.
func TestUnknownPodWithoutItsNode(t *testing.T) {
	x := New(Config{Gaps: func(string) []recording.Gap { return nil }})
	const lost = "the source did not allow ec2:DescribeInstanceAttribute for i-1"
	for step, want := range map[string]int{podScheduling: 1, podNode: 1, podConfiguration: 0} {
		e := api.PodExplanation{Account: "111122223333", Cluster: "c", Namespace: "default", Pod: "web", Steps: []api.Step{{Name: step, State: api.StepFailed}}}
		if got := x.unknownPod(&e, nil, func() []string { return []string{lost} }); len(got) != want {
			t.Errorf("it fails at %s: unknown %q", step, got)
		}
	}
}

// A pod that was read but is not in the twin is not said not to exist, and a cluster that was not read is unknown.
func TestUnknownIsNotAbsent(t *testing.T) {
	const account = "111122223333"
	pod := recording.Gap{Service: recording.Kubernetes, Operation: "List", Cluster: "c", Resource: "pods", Subject: "shop/import-1", Code: recording.NotCopied, Message: "pod shop/import-1 had ended"}
	x := New(Config{Gaps: func(string) []recording.Gap { return []recording.Gap{pod} }})
	for name, want := range map[string][]string{"import-1": {pod.Message}, "import-2": nil} {
		if got := x.unknownMaker(&api.PodExplanation{Account: account, Cluster: "c", Namespace: "shop", Pod: name}); !slices.Equal(got, want) {
			t.Errorf("%s: %q", name, got)
		}
	}
	clusters := recording.Gap{Service: "eks", Operation: "DescribeCluster", Cluster: "c", Subject: "c", Code: "AccessDeniedException"}
	x = New(Config{EKS: noClusters{}, Gaps: func(string) []recording.Gap { return []recording.Gap{clusters} }})
	for name, status := range map[string]int{"c": api.StatusUnknown, "d": http.StatusBadRequest} {
		_, err := x.OnlyCluster(t.Context(), account, "us-east-1", name)
		w := httptest.NewRecorder()
		refuse(w, err, http.StatusBadRequest)
		if w.Code != status {
			t.Errorf("cluster %s: %d %s", name, w.Code, w.Body)
		}
	}
	if err := x.Known(t.Context(), account, "us-east-1", "c"); err == nil || !strings.Contains(err.Error(), "did not allow eks:DescribeCluster") {
		t.Errorf("got %v", err)
	}
}

// Whether a role exists depends only on the lists that name roles.
func TestUnknownRole(t *testing.T) {
	const role = "arn:aws:iam::111122223333:role/team/node"
	for _, tt := range []struct {
		gap  recording.Gap
		want bool
	}{
		{recording.Gap{Service: "iam", Operation: "GetAccountAuthorizationDetails", Code: "AccessDenied"}, true},
		{recording.Gap{Service: "iam", Operation: "GetAccountAuthorizationDetails", Code: recording.NotAsked}, false},                     // those of clusters are kept
		{recording.Gap{Service: "iam", Operation: "GetRole", Subject: "arn:aws:iam::111122223333:role/node", Code: "AccessDenied"}, true}, // asked without its path
		{recording.Gap{Service: "iam", Operation: "GetRole", Subject: "arn:aws:iam::111122223333:role/other", Code: "AccessDenied"}, false},
		{recording.Gap{Service: "iam", Operation: "GetRolePolicy", Subject: role, Code: "AccessDenied"}, false},
		{recording.Gap{Service: "iam", Operation: "ListOpenIDConnectProviders", Code: "AccessDenied"}, false},
	} {
		x := New(Config{Gaps: func(string) []recording.Gap { return []recording.Gap{tt.gap} }})
		if got := x.unknownRole("111122223333", role); (len(got) > 0) != tt.want {
			t.Errorf("%+v: unknown: %q", tt.gap, got)
		}
	}
}

// Subnets of a cluster that are not there were perhaps not read.
func TestDiagnoseMissingSubnets(t *testing.T) {
	denied := recording.Gap{Service: "ec2", Operation: "DescribeSubnets", Code: "UnauthorizedOperation"}
	for _, tt := range []struct {
		name string
		gaps []recording.Gap
		twin bool
		harm string
		text string
	}{
		{"not allowed", []recording.Gap{denied}, true, api.HarmUnknown, "the source did not allow ec2:DescribeSubnets"},
		{"another account's", nil, true, api.HarmUnknown, "was not read"},
		{"deleted", nil, false, api.HarmError, "does not exist"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := New(Config{Gaps: func(string) []recording.Gap { return tt.gaps }, IsTwin: func(string) bool { return tt.twin }})
			var d api.Diagnosis
			x.diagnoseMissing(&d, map[string][]string{"subnet-1": {"the cluster"}, "subnet-2": {"node group ng"}}, []ec2types.Subnet{{SubnetId: aws.String("subnet-1")}})
			if len(d.Findings) != 1 || d.Findings[0].Subject != "subnet-2" || d.Findings[0].Harm != tt.harm || !strings.Contains(d.Findings[0].Text, tt.text) {
				t.Errorf("found %+v", d.Findings)
			}
		})
	}
}

// What a host outside of the twin answers to user data is unknown, if user data is what fails.
func TestUnknownHosts(t *testing.T) {
	const endpoint = "https://ABC.gr7.us-east-1.eks.amazonaws.com"
	for _, tt := range []struct {
		name, step, userData, want string
	}{
		{"a script from elsewhere", node.StepScript, "#!/bin/bash\nset -e\ncurl -fsSL https://artifacts.example.com/setup.sh | bash", "user data asks artifacts.example.com, which is outside of the twin"},
		{"AWS, the metadata service and the cluster", node.StepScript, "curl http://169.254.169.254/latest\ncurl http://[fd00:ec2::254]/latest\ncurl https://sts.us-east-1.amazonaws.com/ https://eks.us-east-1.api.aws/\ncurl " + endpoint + " https://10.9.9.9:443", ""},
		{"objects", node.StepScript, "curl https://s3.us-east-1.amazonaws.com/b/k | bash\naws s3 cp s3://corp/setup.sh - | bash\naws s3 cp s3://corp/setup.sh -", "user data asks s3.us-east-1.amazonaws.com, which is outside of the twin; user data reads s3://corp/setup.sh, which the import does not copy"},
		{"a parameter", node.StepBootstrap, "aws ssm get-parameter --name /corp/token", "user data reads ssm get-parameter, which the import does not copy"},
		{"an invalid NodeConfig", node.StepUserData, "# see https://artifacts.example.com/", ""},
		{"a step that has nothing to do with it", node.StepIdentity, "curl https://artifacts.example.com/", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := New(Config{
				Machines: machinesIn{userData: tt.userData}, IsTwin: func(string) bool { return true },
				PlaneAt: func(host string) (string, string, bool) { return "", "", host == "10.9.9.9:443" },
			})
			e := api.NodeExplanation{Instance: "i-1", Account: "111122223333", Steps: []api.Step{{Name: tt.step, State: api.StepFailed}}}
			if got := strings.Join(x.unknownHosts(&e), "; "); got != tt.want {
				t.Errorf("got %q", got)
			}
		})
	}
}

// A prediction that differs from what AWS showed is said to. A change in the twin may be the reason.
func TestDisagreement(t *testing.T) {
	ready := &account.NodeObservation{Name: "n", Ready: "True"}
	failed := []api.Step{{Name: node.StepImage, State: api.StepFailed}}
	for _, tt := range []struct {
		name     string
		observed account.Observation
		predicts bool // ready
		changed  bool
		want     string
	}{
		{"both ready", account.Observation{State: "running", NodesRead: true, Node: ready}, true, false, ""},
		{"neither", account.Observation{State: "running", NodesRead: true}, false, false, ""},
		{"only predicted", account.Observation{State: "running", NodesRead: true}, true, false, "Drydock predicts that the node is Ready, and it was not: something that Drydock does not know keeps it out"},
		{"only predicted, after a change", account.Observation{State: "running", NodesRead: true}, true, true, "Drydock predicts that the node is Ready, and it was not: either because of a change in the twin, or because something that Drydock does not know keeps it out"},
		{"only observed", account.Observation{State: "running", NodesRead: true, Node: ready}, false, false, "Drydock predicts that the node fails at image, and it was Ready: it would not join again, or Drydock is wrong"},
		{"nodes were not read", account.Observation{State: "running"}, true, false, ""},
		{"the instance was stopped", account.Observation{State: "stopped", NodesRead: true}, true, false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := New(Config{Changed: func(string) bool { return tt.changed }, Observed: func(string, string) (account.Observation, bool) { return tt.observed, true }})
			e := api.NodeExplanation{Instance: "i-1", Account: "111122223333", Ready: tt.predicts}
			if !tt.predicts {
				e.Steps = failed
			}
			x.observe(&e)
			if e.Disagreement != tt.want {
				t.Errorf("got %q", e.Disagreement)
			}
		})
	}
}

// Where evicted pods go is unknown without their controllers, and without the objects that decide about placing.
func TestUnknownMoves(t *testing.T) {
	list := func(resource, subject, code string) recording.Gap {
		return recording.Gap{Service: recording.Kubernetes, Operation: "List", Cluster: "c", Resource: resource, Subject: subject, Code: code, Message: "no"}
	}
	for _, tt := range []struct {
		gap            recording.Gap
		moves, upgrade bool
	}{
		{list("", "", recording.Unreachable), true, true},
		{list("deployments.apps", "", "AccessDenied"), true, true},
		{list("deployments.apps", "shop/web", recording.NotModelled), true, true},
		{list("storageclasses.storage.k8s.io", "", "AccessDenied"), true, true},
		{list("persistentvolumeclaims", "shop/data", recording.NotModelled), false, true},
		{list("configmaps", "", "AccessDenied"), false, true},
		{list("secrets", "", "AccessDenied"), false, false},
		{list("deployments.apps", "", recording.Redacted), false, false},
		{recording.Gap{Service: "eks", Operation: "ListAddons", Cluster: "c", Code: "AccessDeniedException"}, false, true},
	} {
		x := New(Config{Gaps: func(string) []recording.Gap { return []recording.Gap{tt.gap} }})
		if got := x.UnknownMoves("111122223333", "c"); (got != "") != tt.moves {
			t.Errorf("%+v: moves are unknown: %q", tt.gap, got)
		}
		if got := x.UnknownOfUpgrade("111122223333", "c"); (len(got) > 0) != tt.upgrade {
			t.Errorf("%+v: unknown %q", tt.gap, got)
		}
	}
}

// Why says of which cluster or node group there are updates that were not read.
func TestUnreadUpdates(t *testing.T) {
	x := New(Config{Gaps: func(string) []recording.Gap {
		return []recording.Gap{
			{Service: "eks", Operation: "ListUpdates", Cluster: "c", Subject: "c", Code: recording.NotAsked, Message: "only the first 20 updates of c were read"},
			{Service: "eks", Operation: "ListUpdates", Cluster: "c", Subject: "c/ng", Code: "AccessDeniedException"},
			{Service: "eks", Operation: "ListUpdates", Cluster: "c2", Subject: "c2", Code: "AccessDeniedException"},
			{Service: "eks", Operation: "ListAddons", Cluster: "c", Subject: "c", Code: "AccessDeniedException"},
		}
	}})
	for of, want := range map[string]string{"c": "only the first 20 updates of c were read; the source did not allow eks:ListUpdates for c/ng", "c/ng": "the source did not allow eks:ListUpdates for c/ng", "d": ""} {
		if got := strings.Join(x.unreadUpdates("111122223333", of), "; "); got != want {
			t.Errorf("%s: %s", of, got)
		}
	}
}

// Why says of which cluster there are access entries that were not read.
func TestUnreadEntries(t *testing.T) {
	x := New(Config{Gaps: func(string) []recording.Gap {
		return []recording.Gap{
			{Service: "eks", Operation: "ListAccessEntries", Cluster: "c", Subject: "c", Code: "AccessDeniedException"},
			{Service: "eks", Operation: "DescribeAccessEntry", Cluster: "c2", Subject: "c2/arn:aws:iam::111122223333:role/a", Code: "AccessDeniedException"},
			{Service: "eks", Operation: "ListAssociatedAccessPolicies", Cluster: "c3", Subject: "c3/arn:aws:iam::111122223333:role/a", Code: "AccessDeniedException"},
		}
	}})
	for of, want := range map[string]string{
		"c": "the source did not allow eks:ListAccessEntries for c", "c2": "the source did not allow eks:DescribeAccessEntry for c2/arn:aws:iam::111122223333:role/a", "c3": "", "d": "",
	} {
		if got := strings.Join(x.unreadEntries("111122223333", of), "; "); got != want {
			t.Errorf("%s: %s", of, got)
		}
	}
}

// noClusters is an EKS without clusters.
type noClusters struct{ EKS }

func (noClusters) Clusters(context.Context) ([]eks.ClusterStatus, error) { return nil, nil }
