package ec2_test

import (
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// TestManagedInstances: only an AWS service may operate instances. They are listed only on request, and have a policy
// that lets users look at them.
func TestManagedInstances(t *testing.T) {
	w := newWorld(t)
	const operator = "eks.amazonaws.com"
	in := &awsec2.RunInstancesInput{
		ImageId: image(t, "x86_64"), InstanceType: "m5.large", MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
		Operator: &ec2types.OperatorRequest{Principal: aws.String(operator)},
	}
	_, err := w.RunInstances(t.Context(), in)
	testkit.WantErrorWith(t, err, "OperationNotPermitted", "reserved for AWS services")
	ctx := awsapi.WithCall(t.Context(), &awsapi.Call{
		Account: w.account, Region: testkit.Region, Service: "ec2", InvokedBy: operator, Principal: awsapi.Principal{Type: awsapi.AssumedRole, Account: w.account},
	})
	id := *must(w.service.RunInstances(ctx, in))(t).Instances[0].InstanceId
	w.launch(t, 1, nil)
	i := w.await(t, ec2types.InstanceStateNameRunning, id)[0]
	if o := i.Operator; !aws.ToBool(o.Managed) || aws.ToString(o.Principal) != operator || !aws.ToBool(o.HiddenByDefault) {
		t.Errorf("%+v", o)
	}
	list := func(in *awsec2.DescribeInstancesInput) (out []string) {
		for _, r := range must(w.DescribeInstances(t.Context(), in))(t).Reservations {
			out = append(out, instanceIDs(r.Instances)...)
		}
		return out
	}
	if got := list(&awsec2.DescribeInstancesInput{}); len(got) != 1 || got[0] == id {
		t.Errorf("by default: %v", got)
	}
	if got := list(&awsec2.DescribeInstancesInput{IncludeManagedResources: aws.Bool(true)}); len(got) != 2 {
		t.Errorf("with managed resources: %v", got)
	}
	filters := []ec2types.Filter{{Name: aws.String("operator.principal"), Values: []string{operator}}}
	if got := list(&awsec2.DescribeInstancesInput{IncludeManagedResources: aws.Bool(true), Filters: filters}); !slices.Equal(got, []string{id}) {
		t.Errorf("by operator: %v", got)
	}
	r, ok := w.service.Authz().Resource(t.Context(), w.account, testkit.Region, "instance", id)
	if !ok || r.Policy == nil || r.Keys["ec2:managedresourceoperator"][0] != operator {
		t.Errorf("%+v", r)
	}
}
