package wire_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/model"
	"github.com/drydock-dev/drydock/internal/awsapi/wire"
)

func TestEncodeError(t *testing.T) {
	secret := errors.New("secret of the store")
	for _, c := range []struct {
		name   string
		op     string
		err    error
		accept string
		status int
		header string // "Name: value"
		body   string
	}{
		{
			name: "ec2 has its own envelope", op: "ec2.RunInstances",
			err:    awserr.New("InvalidSubnetID.NotFound", "The subnet ID 'subnet-1' does not exist").WithCause(secret),
			status: 400,
			body:   xmlDecl + `<Response><Errors><Error><Code>InvalidSubnetID.NotFound</Code><Message>The subnet ID 'subnet-1' does not exist</Message></Error></Errors><RequestID>rid</RequestID></Response>`,
		},
		{name: "ec2 dry runs are 412", op: "ec2.RunInstances", err: awserr.New("DryRunOperation", "m"), status: 412},
		{name: "ec2 denials are 403", op: "ec2.RunInstances", err: awserr.New("UnauthorizedOperation", "m"), status: 403},
		{name: "ec2 authentication failures are 401", op: "ec2.RunInstances", err: awserr.New("AuthFailure", "m"), status: 401},
		{name: "ec2 throttles with 503", op: "ec2.RunInstances", err: awserr.New("RequestLimitExceeded", "m"), status: 503},
		{name: "ec2 capacity is the server's fault", op: "ec2.RunInstances", err: awserr.New("InsufficientInstanceCapacity", "m"), status: 500},
		{
			name: "query takes code and status from the exception", op: "iam.GetRole",
			err:    &iamtypes.NoSuchEntityException{Message: aws.String("The role with name x cannot be found.")},
			status: 404,
			body:   `<ErrorResponse xmlns="https://iam.amazonaws.com/doc/2010-05-08/"><Error><Type>Sender</Type><Code>NoSuchEntity</Code><Message>The role with name x cannot be found.</Message></Error><RequestId>rid</RequestId></ErrorResponse>`,
		},
		{name: "query finds the status of a code", op: "iam.GetRole", err: awserr.New("NoSuchEntity", "m"), status: 404},
		{name: "query finds the code of a shape", op: "iam.GetRole", err: awserr.New("NoSuchEntityException", "m"), status: 404},
		{name: "a handler's status wins", op: "iam.GetRole", err: awserr.New("NoSuchEntity", "m").WithStatus(410), status: 410},
		{
			name: "query answers in JSON when asked to", op: "sts.GetCallerIdentity", accept: "application/json",
			err: awserr.New("SignatureDoesNotMatch", `"m"`), status: 403,
			body: `{"Error":{"Code":"SignatureDoesNotMatch","Message":"\"m\"","Type":"Sender"},"RequestId":"rid"}`,
		},
		{
			name: "rest-json renders the exception's members", op: "eks.CreateCluster",
			err:    fmt.Errorf("creating: %w", &ekstypes.ResourceInUseException{Message: aws.String("Cluster already exists with name: dev"), ClusterName: aws.String("dev")}),
			status: 409, header: "X-Amzn-Errortype: ResourceInUseException",
			body: `{"message":"Cluster already exists with name: dev","clusterName":"dev"}`,
		},
		{
			name: "rest-json finds the exception of a code", op: "eks.CreateCluster",
			err: awserr.New("InvalidParameterException", "m"), status: 400, header: "X-Amzn-Errortype: InvalidParameterException",
			body: `{"message":"m"}`,
		},
		{
			name: "json names the type in the body", op: "ssm.GetParameter",
			err: awserr.New("ParameterNotFound", "m"), status: 400,
			body: `{"__type":"ParameterNotFound","message":"m"}`,
		},
		{
			name: "a query-compatible service sends its old code too", op: "sqs.GetQueueUrl",
			err:    &sqstypes.QueueDoesNotExist{Message: aws.String("The specified queue does not exist.")},
			status: 400, header: "X-Amzn-Query-Error: AWS.SimpleQueueService.NonExistentQueue;Sender",
			body: `{"__type":"QueueDoesNotExist","message":"The specified queue does not exist."}`,
		},
		{
			name: "a query-compatible service answers in its old form", op: "sqs?query.GetQueueUrl",
			err: &sqstypes.QueueDoesNotExist{Message: aws.String("m")}, status: 400,
			body: `<ErrorResponse xmlns="http://sqs.amazonaws.com/doc/2012-11-05/"><Error><Type>Sender</Type><Code>AWS.SimpleQueueService.NonExistentQueue</Code><Message>The specified queue does not exist for this wsdl version.</Message><Detail></Detail></Error><RequestId>rid</RequestId></ErrorResponse>`,
		},
		{
			name: "route53 wraps errors as query does", op: "route53.GetHostedZone",
			err: awserr.New("NoSuchHostedZone", "m"), status: 404,
			body: `<ErrorResponse xmlns="https://route53.amazonaws.com/doc/2013-04-01/"><Error><Type>Sender</Type><Code>NoSuchHostedZone</Code><Message>m</Message></Error><RequestId>rid</RequestId></ErrorResponse>`,
		},
		{
			name: "s3 does not wrap errors", op: "s3.ListObjectsV2",
			err: awserr.New("NoSuchBucket", "m").WithStatus(404), status: 404,
			body: xmlDecl + `<Error><Code>NoSuchBucket</Code><Message>m</Message><RequestId>rid</RequestId><HostId>rid</HostId></Error>`,
		},
		{
			name: "an unknown error is internal and silent", op: "eks.CreateCluster",
			err: secret, status: 500, header: "X-Amzn-Errortype: InternalFailure",
			body: `{"message":"The request processing has failed because of an unknown error, exception or failure."}`,
		},
		{
			name: "ec2 calls an unknown error InternalError", op: "ec2.RunInstances", err: secret, status: 500,
			body: xmlDecl + `<Response><Errors><Error><Code>InternalError</Code><Message>The request processing has failed because of an unknown error, exception or failure.</Message></Error></Errors><RequestID>rid</RequestID></Response>`,
		},
		{
			name: "a generic error finds its exception by its code", op: "eks.CreateCluster",
			err:    &smithy.GenericAPIError{Code: "ResourceInUseException", Message: "m"},
			status: 409, header: "X-Amzn-Errortype: ResourceInUseException", body: `{"message":"m"}`,
		},
		{name: "what is not implemented is 501", op: "eks.CreateCluster", err: awserr.NotImplemented("x"), status: 501},
	} {
		t.Run(c.name, func(t *testing.T) {
			op := operation(t, c.op)
			r := wire.EncodeErrorAs(op.Service, op, c.err, "rid", c.accept)
			if r.Status != c.status {
				t.Errorf("status %d, want %d", r.Status, c.status)
			}
			if c.body != "" && string(r.Body) != c.body {
				t.Errorf("body\n%s\nwant\n%s", r.Body, c.body)
			}
			if name, value, ok := strings.Cut(c.header, ": "); ok && r.Header.Get(name) != value {
				t.Errorf("header %s: %q, want %q", name, r.Header.Get(name), value)
			}
			if strings.Contains(string(r.Body), "secret") {
				t.Errorf("the cause leaks: %s", r.Body)
			}
		})
	}
}

func TestEncodeErrorWithoutAnOperation(t *testing.T) {
	for _, name := range append(model.Names(), "") {
		var svc *model.Service
		if name != "" {
			svc = service(t, name)
		}
		r := wire.EncodeError(svc, nil, awserr.New("UnknownOperationException", "m"), "rid")
		if r.Status < 400 || len(r.Body) == 0 {
			t.Errorf("%s: %d %q", name, r.Status, r.Body)
		}
	}
}

// A nil exception of a type is a handler's bug, not a reason to panic.
func TestEncodeErrorOfNil(t *testing.T) {
	op := operation(t, "eks.CreateCluster")
	r := wire.EncodeError(op.Service, op, (*awserr.Error)(nil), "rid")
	if r.Status != 500 {
		t.Errorf("status %d", r.Status)
	}
}
