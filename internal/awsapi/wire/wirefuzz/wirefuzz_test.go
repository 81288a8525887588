package wirefuzz_test

import (
	"errors"
	"net/http"
	"reflect"
	"testing"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/model"
	"github.com/drydock-dev/drydock/internal/awsapi/wire"
	"github.com/drydock-dev/drydock/internal/awsapi/wire/shapetype"
)

// Each decoder is fuzzed with an operation that has many kinds of members. Whatever comes in, there must be no panic,
// no hang, and no error except AWS's with a client's status. The seeds are requests of the tables in package wire.

type seed struct{ path, query, body string }

func fuzzDecode(f *testing.F, service, operation string, seeds ...seed) {
	f.Helper()
	for _, s := range seeds {
		f.Add(s.path, s.query, []byte(s.body))
	}
	svc, err := model.Get(service)
	if err != nil {
		f.Fatal(err)
	}
	op := svc.Operations[operation]
	typ := shapetype.Of(op.Input, 12)
	f.Fuzz(func(t *testing.T, path, query string, body []byte) {
		members, err := wire.Decode(op, &wire.Request{
			Method: op.Method, EscapedPath: path, RawQuery: query, Header: http.Header{}, Body: body,
		}, reflect.New(typ).Interface())
		svc.MatchREST(op.Method, path, query)
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
		if r := wire.EncodeError(svc, op, err, "rid"); r.Status < 400 || r.Status >= 500 {
			t.Errorf("status %d of %v", r.Status, err)
		}
	})
}

func FuzzDecodeEC2(f *testing.F) {
	fuzzDecode(f, "ec2", "RunInstances",
		seed{"/", "", "Action=RunInstances&Version=2016-11-15&MinCount=1&MaxCount=1&NetworkInterface.1.DeviceIndex=0&NetworkInterface.1.Ipv6Addresses.1.Ipv6Address=%3A%3A1"},
		seed{"/", "", "MinCount=1&MaxCount=2&TagSpecification.1.ResourceType=instance&TagSpecification.1.Tag.1.Key=k&TagSpecification.1.Tag.1.Value=v&SecurityGroupId.100000000=sg"},
		seed{"/", "Action=RunInstances&MinCount=1&X-Amz-Signature=0", "BlockDeviceMapping.1.Ebs.VolumeSize=many"},
		seed{"/", "", "MaxCount=%zz&a.b.c.d="},
		seed{"/", "", "InstanceMarketOptions.SpotOptions.ValidUntil=2024-01-02T03%3A04%3A05Z&SecurityGroupId.one=x"},
	)
}

func FuzzDecodeQuery(f *testing.F) {
	fuzzDecode(f, "autoscaling", "CreateAutoScalingGroup",
		seed{"/", "", "Action=CreateAutoScalingGroup&Version=2011-01-01&AutoScalingGroupName=a&MinSize=1&MaxSize=2&Tags.member.1.Key=k&Tags.member.1.PropagateAtLaunch=true"},
		seed{"/", "", "AutoScalingGroupName=a&MinSize=one&AvailabilityZones="},
		seed{"/", "", "Tags.member.1.Colour=red&Speed=1&Tags.entry.1.key=x&Tags.member.x=1"},
		seed{"/", "", "MixedInstancesPolicy.LaunchTemplate.Overrides.member.1.InstanceType=m5.large&MixedInstancesPolicy.LaunchTemplate.Overrides.member.1.InstanceRequirements.VCpuCount.Min=1"},
	)
}

func FuzzDecodeQueryMaps(f *testing.F) {
	svc, err := model.Get("sqs")
	if err != nil {
		f.Fatal(err)
	}
	op := svc.Query().Operations["SendMessageBatch"]
	typ := shapetype.Of(op.Input, 12)
	f.Add([]byte("QueueUrl=u&SendMessageBatchRequestEntry.1.Id=a&SendMessageBatchRequestEntry.1.MessageAttribute.1.Name=n&SendMessageBatchRequestEntry.1.MessageAttribute.1.Value.BinaryValue=AA%3D%3D"))
	f.Fuzz(func(t *testing.T, body []byte) {
		_, err := wire.Decode(op, &wire.Request{Method: "POST", Header: http.Header{}, Body: body}, reflect.New(typ).Interface())
		var e *awserr.Error
		if err != nil && !errors.As(err, &e) {
			t.Fatalf("error %v is not AWS's", err)
		}
	})
}

func FuzzDecodeJSON(f *testing.F) {
	fuzzDecode(f, "ssm", "StartAutomationExecution",
		seed{"/", "", `{"DocumentName":"d","Parameters":{"a":["b"]},"Targets":[{"Key":"k","Values":["v"]}],"Tags":null}`},
		seed{"/", "", `{"DocumentName":1,"MaxConcurrency":"5","Colour":"red"}`},
		seed{"/", "", `{"TargetMaps":[{"a":["b"]},null],"TargetLocations":{}}`},
		seed{"/", "", `{"DocumentName":"n`},
		seed{"/", "", `[[[[]]]]`},
	)
}

func FuzzDecodeRESTJSON(f *testing.F) {
	fuzzDecode(f, "eks", "CreateNodegroup",
		seed{"/clusters/dev/node-groups", "", `{"nodegroupName":"ng","nodeRole":"r","subnets":["s"],"scalingConfig":{"minSize":1.0,"maxSize":1e1},"labels":{"a":"b"}}`},
		seed{"/clusters/a%2Fb/node-groups", "speed=1&X-Amz-Date=now", `{"scalingConfig":{"minSize":"1"},"colour":1}`},
		seed{"/clusters//node-groups", "%zz", ``},
		seed{"/clusters/%zz/node-groups", "", `{"taints":[{"effect":1}]}`},
	)
}

func FuzzDecodeRESTXML(f *testing.F) {
	const path = "/2013-04-01/hostedzone/Z1/rrset"
	fuzzDecode(f, "route53", "ChangeResourceRecordSets",
		seed{path, "", `<ChangeResourceRecordSetsRequest xmlns="https://route53.amazonaws.com/doc/2013-04-01/"><ChangeBatch><Changes><Change><Action>CREATE</Action><ResourceRecordSet><Name>a</Name><Type>A</Type><TTL>60</TTL></ResourceRecordSet></Change></Changes></ChangeBatch></ChangeResourceRecordSetsRequest>`},
		seed{path, "", `<!DOCTYPE x [<!ENTITY e "e">]><a>&e;</a>`},
		seed{path, "", `<a><ChangeBatch>text<Colour/></ChangeBatch></a>`},
		seed{path + "/", "x=1", `<?xml version="1.0" encoding="latin1"?><a/>`},
	)
}
