package wire_test

import (
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/drydock-dev/drydock/internal/awsapi/model"
	"github.com/drydock-dev/drydock/internal/awsapi/wire"
)

func operation(t testing.TB, service, name string) *model.Operation {
	t.Helper()
	svc, err := model.Get(service)
	if err != nil {
		t.Fatal(err)
	}
	op := svc.Operations[name]
	if op == nil {
		t.Fatalf("%s has no operation %s", service, name)
	}
	return op
}

func TestSmoke(t *testing.T) {
	var in awsec2.DescribeInstancesInput
	m, err := wire.Decode(operation(t, "ec2", "DescribeInstances"), &wire.Request{Method: "POST", Body: []byte("Action=DescribeInstances&Version=2016-11-15&Filter.1.Name=vpc-id&Filter.1.Value.1=a&Filter.1.Value.2=b&DryRun=true")}, &in)
	t.Logf("%v %v %+v", m, err, in.Filters)
	r, err := wire.Encode(operation(t, "ec2", "DescribeInstances"), &awsec2.DescribeInstancesOutput{Reservations: []ec2types.Reservation{{Instances: []ec2types.Instance{{InstanceId: aws.String("i-1")}}}}}, "rid", "")
	t.Logf("%s %v", r.Body, err)
	r, err = wire.Encode(operation(t, "sts", "GetCallerIdentity"), &sts.GetCallerIdentityOutput{Account: aws.String("1")}, "rid", "application/json")
	t.Logf("%s %v", r.Body, err)
	r, err = wire.Encode(operation(t, "sts", "GetCallerIdentity"), &sts.GetCallerIdentityOutput{Account: aws.String("1")}, "rid", "")
	t.Logf("%s %v", r.Body, err)
	var cin awseks.UpdateClusterConfigInput
	m, err = wire.Decode(operation(t, "eks", "UpdateClusterConfig"), &wire.Request{Method: "POST", EscapedPath: "/clusters/a%2Fb/update-config", Header: http.Header{}, Body: []byte(`{"resourcesVpcConfig":{"subnetIds":["a"],"endpointPublicAccess":false,"foo":1}}`)}, &cin)
	t.Logf("%v %v %+v %s", m, err, cin.ResourcesVpcConfig, *cin.Name)
	r = wire.EncodeError(operation(t, "eks", "CreateCluster").Service, operation(t, "eks", "CreateCluster"), &ekstypes.ResourceInUseException{Message: aws.String("m"), ClusterName: aws.String("x")}, "rid")
	t.Logf("%d %v %s", r.Status, r.Header, r.Body)
}
