package server

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/model"
)

const (
	textEC2Internal = "An internal error has occurred"
	textFailure     = "The request processing has failed because of an unknown error, exception or failure."
)

// internalFailure is the error for Drydock's own bugs.
func internalFailure(svc *model.Service) error {
	if svc.Protocol == model.ProtocolEC2 {
		// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
		return awserr.New("InternalError", textEC2Internal).WithStatus(http.StatusInternalServerError)
	}
	// https://docs.aws.amazon.com/IAM/latest/APIReference/CommonErrors.html
	return awserr.New("InternalFailure", textFailure).WithStatus(http.StatusInternalServerError)
}

// unknownAction is the error for an operation that the model does not have.
func unknownAction(svc *model.Service, name, version string) error {
	switch svc.Protocol {
	case model.ProtocolEC2:
		// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
		return awserr.Newf("InvalidAction", "The action %s is not valid for this web service.", name)
	case model.ProtocolQuery:
		// In the words of IAM, STS, Auto Scaling and CloudFormation: https://github.com/boto/boto/issues/2856 and
		// many others.
		if version == "" {
			version = "NO_VERSION_SPECIFIED"
		}
		return awserr.Newf("InvalidAction", "Could not find operation %s for version %s", name, version)
	case model.ProtocolRESTXML:
		if svc.Name == "s3" {
			return awserr.New("MethodNotAllowed", "The specified method is not allowed against this resource.").WithStatus(http.StatusMethodNotAllowed)
		}
		return awserr.New("InvalidAction", "The requested operation is not valid.").WithStatus(http.StatusNotFound)
	case model.ProtocolRESTJSON:
		return awserr.New("UnknownOperationException", "").WithStatus(http.StatusNotFound)
	}
	// json: {"__type":"com.amazon.coral.service#UnknownOperationException"}, without a message
	return awserr.New("UnknownOperationException", "")
}

// missingAction is the error for a query request without an Action.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
func missingAction(svc *model.Service) error {
	if svc.Protocol == model.ProtocolEC2 {
		return awserr.New("MissingParameter", "The request must contain the parameter Action")
	}
	return awserr.New("MissingAction", "The request is missing an action or a required parameter.")
}

func notHandled(svc *model.Service, op string) error {
	return awserr.NotImplemented(actionName(svc, op))
}

// unhandled is the error for a call between services whose operation is not handled. It says why, if that is known.
func (r *registry) unhandled(in any) error {
	pkg, name, _ := strings.Cut(strings.TrimPrefix(fmt.Sprintf("%T", in), "*"), ".")
	name = strings.TrimSuffix(name, "Input")
	if svc := r.service(pkg); svc != nil {
		what := actionName(svc.model, name)
		if why := svc.refused[name]; why != "" {
			what += ". " + why
		}
		return awserr.NotImplemented(what)
	}
	return awserr.NotImplemented("the service " + pkg)
}

// methodNotAllowed is the error for a query-protocol request that a link could have sent. AWS deviation: AWS accepts
// GET for every operation of the query protocols.
func methodNotAllowed(svc *model.Service, op, method string) error {
	return awserr.Newf("MethodNotAllowed", "%s must be sent by POST, not %.10s: Drydock does not act on links, which any web page could contain. See docs/compatibility.md.",
		actionName(svc, op), method).WithStatus(http.StatusMethodNotAllowed)
}

// maxRefused is how many of the unsupported members an error message lists.
const maxRefused = 50

func notHonoured(action string, members []string) error {
	text := strings.Join(members[:min(len(members), maxRefused)], ", ")
	if more := len(members) - maxRefused; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return awserr.NotImplemented(action + " with " + text)
}

// withSupports names the command that shows what Drydock implements: of the operation,
// as far as the request is understood.
func withSupports(e *awserr.Error, svc *model.Service, op *model.Operation) error {
	named := *e
	named.Message += "; to see what it implements: drydock supports"
	if svc != nil {
		named.Message += " " + svc.Name
		if op != nil {
			named.Message += " " + op.Name
		}
	}
	return &named
}

func unknownService(signingName string) error {
	return awserr.NotImplemented("the service " + fmt.Sprintf("%.40q", signingName))
}

// tooLarge is the error for a body above the limit. AWS deviation: services answer in different ways, some by closing
// the connection; this is the answer of API Gateway and S3.
func tooLarge(svc *model.Service, limit int64) error {
	code := "RequestEntityTooLargeException"
	switch familyOf(svc) {
	case familyEC2, familyQuery:
		code = "RequestEntityTooLarge"
	case familyS3:
		code = "EntityTooLarge"
	}
	return awserr.Newf(code, "Request body is larger than %d bytes.", limit).WithStatus(http.StatusRequestEntityTooLarge)
}

// incompleteBody is S3's error for a body that ends too early; other services close the connection.
// https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
func incompleteBody() error {
	return awserr.New("IncompleteBody", "You did not provide the number of bytes specified by the Content-Length HTTP header.")
}
