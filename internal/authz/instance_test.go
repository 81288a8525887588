package authz_test

import (
	"context"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscloudformation "github.com/aws/aws-sdk-go-v2/service/cloudformation"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/policy"
)

// TestInstancesNeedNoPermission: only the policy of a VPC endpoint can deny a call that an instance makes with its
// identity document.
func TestInstancesNeedNoPermission(t *testing.T) {
	in := &awscloudformation.SignalResourceInput{StackName: aws.String("s"), LogicalResourceId: aws.String("R"), UniqueId: aws.String("i-1"), Status: "SUCCESS"}
	for _, tt := range []struct{ through, document, denied string }{
		{"", "", ""},
		{"vpce-1", "", ""},
		{"vpce-1", `{"Statement":[{"Effect":"Allow","Principal":"*","Action":"cloudformation:SignalResource","Resource":"*"}]}`, ""},
		{"vpce-1", `{"Statement":[{"Effect":"Allow","Principal":"*","Action":"cloudformation:DescribeStacks","Resource":"*"}]}`,
			"because no VPC endpoint policy allows the cloudformation:SignalResource action"},
	} {
		a := authz.New(authz.Config{
			Policies:       func(awsapi.Principal) (policy.Policies, bool) { return policy.Policies{}, false },
			EndpointPolicy: func(context.Context, string, string, string) (string, bool) { return tt.document, true },
		})
		call := awsapi.Call{
			Service: "cloudformation", Operation: "SignalResource", Account: "111122223333", Region: "us-east-1", VPCEndpoint: awsapi.VPCEndpoint{ID: tt.through},
			Principal: awsapi.Principal{Type: awsapi.InstanceCaller, Account: "111122223333", Name: "i-1", ARN: "arn:aws:ec2:us-east-1:111122223333:instance/i-1"},
		}
		err := a.Authorize(t.Context(), &call, in)
		if (err == nil) != (tt.denied == "") || err != nil && !strings.Contains(err.Error(), tt.denied) {
			t.Errorf("through %q with %s: %v, want %q", tt.through, tt.document, err, tt.denied)
		}
	}
}
