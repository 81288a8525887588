package wire_test

import (
	"errors"
	"net/http"
	"reflect"
	"testing"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/route53"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/model"
	"github.com/drydock-dev/drydock/internal/awsapi/wire"
)

// Each decoder is fuzzed with the requests of decodeCases as seeds, one operation
// with many kinds of members per protocol. Whatever comes in: no panic, no hang,
// and no error but AWS's with a client's status.

func fuzzDecode(f *testing.F, protocol, op string, in any) {
	f.Helper()
	for _, c := range decodeCases {
		if operation(f, c.op).Service.Protocol == protocol && len(c.req.Body) < 1<<16 {
			f.Add(c.req.EscapedPath, c.req.RawQuery, c.req.Body)
		}
	}
	f.Fuzz(func(t *testing.T, path, query string, body []byte) {
		o := operation(t, op)
		v := reflect.New(reflect.TypeOf(in).Elem()).Interface()
		members, err := wire.Decode(o, &wire.Request{
			Method: o.Method, EscapedPath: path, RawQuery: query, Header: http.Header{}, Body: body,
		}, v)
		o.Service.MatchREST(o.Method, path, query)
		if err == nil {
			if members == nil {
				t.Error("no members")
			}
			return
		}
		var e *awserr.Error
		if !errors.As(err, &e) {
			t.Fatalf("error %v is not AWS's", err)
		}
		if r := wire.EncodeError(o.Service, o, err, "rid"); r.Status < 400 || r.Status >= 500 {
			t.Errorf("status %d of %v", r.Status, err)
		}
	})
}

func FuzzDecodeEC2(f *testing.F) {
	fuzzDecode(f, model.ProtocolEC2, "ec2.RunInstances", &awsec2.RunInstancesInput{})
}

func FuzzDecodeQuery(f *testing.F) {
	fuzzDecode(f, model.ProtocolQuery, "iam.CreateRole", &awsiam.CreateRoleInput{})
}

func FuzzDecodeJSON(f *testing.F) {
	fuzzDecode(f, model.ProtocolJSON, "ssm.StartAutomationExecution", &awsssm.StartAutomationExecutionInput{})
}

func FuzzDecodeRESTJSON(f *testing.F) {
	f.Add("/clusters", "", []byte(`{"name":"dev","roleArn":"r","resourcesVpcConfig":{"subnetIds":["s"]},"logging":{"clusterLogging":[{"enabled":true}]}}`))
	fuzzDecode(f, model.ProtocolRESTJSON, "eks.CreateCluster", &awseks.CreateClusterInput{})
}

func FuzzDecodeRESTXML(f *testing.F) {
	f.Add("/2013-04-01/hostedzone/Z1/rrset", "", []byte(`<ChangeResourceRecordSetsRequest><ChangeBatch><Changes><Change><Action>CREATE</Action><ResourceRecordSet><Name>a</Name><Type>A</Type><TTL>60</TTL></ResourceRecordSet></Change></Changes></ChangeBatch></ChangeResourceRecordSetsRequest>`))
	fuzzDecode(f, model.ProtocolRESTXML, "route53.ChangeResourceRecordSets", &route53.ChangeResourceRecordSetsInput{})
}
