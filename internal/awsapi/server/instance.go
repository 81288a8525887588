package server

import (
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/model"
	"github.com/drydock-dev/drydock/internal/awsapi/sigv4"
)

// instanceScheme is the authorization scheme of programs such as cfn-signal that run on an instance without
// credentials: the instance's identity document in base64, a colon, and the document's signature.
// [seen] cfnbootstrap/aws_client.py of aws-cfn-bootstrap
const instanceScheme = "CFN_V1 "

// instanceOperations are the operations that an instance may call that way. The programs use GET, which is otherwise
// refused for services with the query protocol.
var instanceOperations = map[string]bool{"cloudformation.SignalResource": true, "cloudformation.DescribeStackResource": true}

// routeInstance sets the service of a request by an instance: only CloudFormation knows the scheme.
func (x *exchange) routeInstance() (err error) {
	if x.service, err = model.Get("cloudformation"); err != nil {
		return err
	}
	x.call.Service = x.service.Package
	return nil
}

// verifyInstance checks an instance's identity document and makes the instance the caller.
func (x *exchange) verifyInstance() error {
	text, signature, ok := strings.Cut(strings.TrimSpace(x.identity), ":")
	document, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil {
		return &sigv4.Error{Kind: sigv4.Incomplete, Message: "Authorization header requires an identity document and its signature."}
	}
	raw, err := base64.StdEncoding.DecodeString(signature)
	service := x.s.registry.service(x.service.Name)
	if err != nil || service == nil || service.Instance == nil {
		return &sigv4.Error{Kind: sigv4.Mismatch}
	}
	x.call.Principal, x.call.Region, err = service.Instance(x.r.Context(), document, raw)
	if err != nil {
		return &sigv4.Error{Kind: sigv4.Mismatch}
	}
	x.call.Account = x.call.Principal.Account
	if strings.Contains(x.req.Host, ".amazonaws.com") {
		x.call.Region = regionOfHost(x.req.Host)
	}
	return nil
}

// notForInstances refuses an operation that instances may not call with their identity document.
func (x *exchange) notForInstances() error {
	if x.identity == "" || instanceOperations[x.service.Name+"."+x.op.Name] {
		return nil
	}
	return awserr.Newf("AccessDenied", "Instance %s is not allowed to call %s", x.call.Principal.Name, x.op.Name).WithStatus(http.StatusForbidden)
}
