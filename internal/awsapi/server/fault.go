package server

import (
	"context"
	"errors"
	"net/http"

	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/model"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/journal"
)

// inject delays or fails a call for which a fault is set. It runs after the signature check, which identifies the
// caller, and before the policies, as throttling does. Calls between services pass it, too.
func (i *invocation) inject(ctx context.Context) error {
	if i.s.cfg.Faults == nil {
		return nil
	}
	e := i.s.cfg.Faults.Call(fault.Call{
		Account: i.call.Account, Region: i.call.Region,
		Services: [2]string{i.call.Service, i.service.SigningName}, Operation: i.call.Operation,
		Principals: [2]string{i.call.Principal.ARN, i.call.Principal.RoleARN},
	})
	if e.Delay > 0 {
		i.delayed = e.Delayed
		if err := i.s.pause(ctx, e.Delay); err != nil {
			return err
		}
	}
	if e.Failed == nil {
		return nil
	}
	return fault.Because(FaultError(i.service, e.Failed), e.Failed)
}

// FaultError returns the error of a call that fails because of f.
func FaultError(svc *model.Service, f *fault.Fault) *awserr.Error {
	switch {
	case f.Kind == fault.Throttle:
		return throttled(svc)
	case f.Code == "":
		return unwell(svc, f)
	}
	message := f.Message
	if message == "" {
		message, _ = FaultText(f.Code)
	}
	return awserr.New(f.Code, message).WithStatus(f.Status) // 0 means the model's status
}

// throttled is the error for a caller that exceeds its request rate.
func throttled(svc *model.Service) *awserr.Error {
	switch familyOf(svc) {
	case familyEC2:
		// https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html
		return awserr.New("RequestLimitExceeded", textRequestLimit).WithStatus(http.StatusServiceUnavailable)
	case familyS3:
		// https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
		return awserr.New("SlowDown", "Please reduce your request rate.").WithStatus(http.StatusServiceUnavailable)
	case familyRESTJSON:
		// EKS's text, as seen by bootstrap.sh: https://github.com/awslabs/amazon-eks-ami/pull/218
		return awserr.New("TooManyRequestsException", textTooMany).WithStatus(http.StatusTooManyRequests)
	case familyJSON:
		// https://github.com/dask/dask-cloudprovider/issues/309
		return awserr.New("ThrottlingException", textRate).WithStatus(http.StatusBadRequest)
	}
	// https://github.com/eksctl-io/eksctl/issues/384
	return awserr.New("Throttling", textRate).WithStatus(http.StatusBadRequest)
}

// unwell is a service's own failure, with the status that f sets.
func unwell(svc *model.Service, f *fault.Fault) *awserr.Error {
	if f.Status == http.StatusServiceUnavailable {
		code := "ServiceUnavailable"
		if familyOf(svc) == familyEC2 {
			code = "Unavailable"
		}
		text, _ := FaultText(code)
		return awserr.New(code, text).WithStatus(f.Status)
	}
	e := awserr.New("InternalFailure", textFailure)
	if familyOf(svc) == familyEC2 {
		e = awserr.New("InternalError", textEC2Internal)
	}
	if f.Status == 0 {
		return e.WithStatus(http.StatusInternalServerError)
	}
	return e.WithStatus(f.Status)
}

const (
	textRequestLimit = "Request limit exceeded."
	textRate         = "Rate exceeded"
	textTooMany      = "Too Many Requests"
	textUnavailable  = "The request has failed due to a temporary failure of the server."
)

// FaultText returns the message that services send with a code that many of them share.
// https://docs.aws.amazon.com/IAM/latest/APIReference/CommonErrors.html and
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
func FaultText(code string) (string, bool) {
	text, ok := map[string]string{
		"InternalError":            textEC2Internal,
		"InternalFailure":          textFailure,
		"ServiceUnavailable":       textUnavailable,
		"Unavailable":              "The server is overloaded and can't handle the request.",
		"RequestLimitExceeded":     textRequestLimit,
		"Throttling":               textRate,
		"ThrottlingException":      textRate,
		"TooManyRequestsException": textTooMany,
		"RequestExpired":           textEC2Expired,
		"ExpiredToken":             textExpiredToken,
		"ExpiredTokenException":    textExpiredToken,
		"InvalidClientTokenId":     textInvalidToken,
	}[code]
	return text, ok
}

// noteFault records which fault made a call fail, for explanations.
func (i *invocation) noteFault(f *fault.Fault, err error) {
	i.fault = f
	fields := map[string]any{
		"requestId": i.call.RequestID, "service": i.call.Service, "operation": i.call.Operation,
		"principal": i.call.Principal.ARN, "fault": f,
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		fields["errorCode"], fields["errorMessage"] = api.ErrorCode(), api.ErrorMessage()
	}
	i.s.cfg.Journal.Append(journal.Entry{Time: i.start, Account: i.call.Account, Region: i.call.Region, Kind: journal.KindDecision, Fields: fields})
}
