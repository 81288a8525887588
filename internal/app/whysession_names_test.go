package app

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// TestWhySessionNames breaks the names of the agent's endpoints in a closed network. AWS says TargetNotConnected each time. The
// explanation says what the agent sees, and its fix is the setting that was broken.
func TestWhySessionNames(t *testing.T) {
	w := newSessionWorld(t, "300000000077")
	w.user = api.Caller{AccessKeyID: w.account}
	testkit.Must(w.iam.AttachRolePolicy(t.Context(), &awsiam.AttachRolePolicyInput{RoleName: aws.String("node"), PolicyArn: aws.String("arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore")}))(t)
	w.endpoint(t, "ssm")
	w.endpoint(t, "ssmmessages")
	id := w.run(t, al2023Image, "node")
	w.until(t, id, isOpen)
	off := &ec2types.AttributeBooleanValue{Value: aws.Bool(false)}
	attribute := func(in awsec2.ModifyVpcAttributeInput) func() {
		in.VpcId = &w.vpc
		return func() { testkit.Must(w.ec2.ModifyVpcAttribute(t.Context(), &in))(t) }
	}
	withoutNames := func(service string) func() {
		return func() {
			testkit.Must(w.ec2.ModifyVpcEndpoint(t.Context(), &awsec2.ModifyVpcEndpointInput{VpcEndpointId: aws.String(w.endpoints[service]), PrivateDnsEnabled: aws.Bool(false)}))(t)
		}
	}
	for _, tt := range []struct {
		name, evidence, code, fix string
		breakIt                   func()
	}{
		{
			"DNS is off", "ssm.us-east-1.amazonaws.com: dial tcp: lookup ssm.us-east-1.amazonaws.com on 169.254.169.253:53: read udp ",
			"NAME_NOT_RESOLVED", "aws ec2 modify-vpc-attribute --vpc-id " + w.vpc + " --enable-dns-support Value=true --region us-east-1", attribute(awsec2.ModifyVpcAttributeInput{EnableDnsSupport: off}),
		},
		{ // so private DNS has no effect, and the name is that of a public address
			"host names are off", "ssm.us-east-1.amazonaws.com: dial tcp 99.", "NO_ROUTE_TO_DESTINATION",
			"aws ec2 modify-vpc-attribute --vpc-id " + w.vpc + " --enable-dns-hostnames Value=true --region us-east-1", attribute(awsec2.ModifyVpcAttributeInput{EnableDnsHostnames: off}),
		},
		{
			"ssm has no private DNS", "ssm.us-east-1.amazonaws.com: dial tcp 99.", "NO_ROUTE_TO_DESTINATION",
			"aws ec2 modify-vpc-endpoint --vpc-endpoint-id " + w.endpoints["ssm"] + " --private-dns-enabled --region us-east-1", withoutNames("ssm"),
		},
		{
			"ssmmessages has no private DNS", "ssmmessages.us-east-1.amazonaws.com: dial tcp 99.", "NO_ROUTE_TO_DESTINATION",
			"aws ec2 modify-vpc-endpoint --vpc-endpoint-id " + w.endpoints["ssmmessages"] + " --private-dns-enabled --region us-east-1", withoutNames("ssmmessages"),
		},
	} {
		tt.breakIt()
		w.until(t, id, func(e *api.SessionExplanation) bool { return !e.Open })
		_, err := w.root.StartSession(t.Context(), &awsssm.StartSessionInput{Target: &id})
		testkit.WantError(t, err, "TargetNotConnected", id+" is not connected.")
		e := w.why(t, id, "")
		s := w.failed(t, e, "network", tt.code)
		if !strings.HasPrefix(s.Evidence, tt.evidence) || len(s.Reason.Fixes) == 0 || s.Reason.Fixes[0].Shell() != tt.fix {
			t.Fatalf("%s:\n%s", tt.name, e.Text())
		}
		w.mend(t, s)
		w.until(t, id, isOpen)
	}
}
