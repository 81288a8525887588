package wire

import (
	"strings"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/model"
)

// This file holds the differences between services that share a protocol: their errors for requests that do not fit
// the model.

// A validator builds the errors for a request that does not fit the model.
type validator struct {
	// violated returns the error for violated constraints of the model (at least one).
	violated func([]violation) *awserr.Error
	// own says that the service's handlers check everything but required members themselves, in the service's own
	// words.
	own bool
	// masked says that messages show secrets as '***'. Most services leave them out.
	masked bool
	// invalid returns the error for a value that is not of the parameter's type.
	invalid func(param, value, want string) *awserr.Error
}

// validators are the exceptions, by model name. Other services use their protocol's default.
var validators = map[string]validator{
	// EKS validates requests itself and reports that in its own exception. All SDKs check for required members first,
	// so the text is a guess.
	"eks": {violated: coral("InvalidParameterException"), own: true, invalid: serialization},
	"sts": {violated: coral("ValidationError"), masked: true, invalid: malformedInput},
	"iam": {violated: coral("ValidationError"), masked: true, invalid: malformedInput},
	// Neither service models another exception that fits.
	"service-quotas": {violated: coral("IllegalArgumentException"), invalid: serialization},
	"pricing":        {violated: coral("InvalidParameterException"), invalid: serialization},
	// Recorded by LocalStack's tests (tests/aws/services/logs/test_logs_events.snapshot.json).
	"logs":       {violated: coral("InvalidParameterException"), invalid: serialization},
	"ecr":        {violated: atParameter, invalid: serialization},
	"ecr-public": {violated: atParameter, invalid: serialization},
	// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/CommonErrors.html
	"sqs": {violated: missingParameter, own: true, invalid: serialization},
	// https://docs.aws.amazon.com/Route53/latest/APIReference/CommonErrors.html
	"route53": {violated: coral("InvalidInput"), invalid: invalidInput},
	"s3":      {violated: malformedXML, own: true, invalid: invalidArgument},
}

func validation(svc *model.Service) validator {
	if v, ok := validators[svc.Name]; ok {
		return v
	}
	switch svc.Protocol {
	case model.ProtocolEC2:
		return validator{violated: missingParameter, own: true, invalid: invalidParameterValue}
	case model.ProtocolQuery:
		return validator{violated: coral("ValidationError"), invalid: malformedInput}
	default:
		return validator{violated: coral("ValidationException"), invalid: serialization}
	}
}

// missingParameter is EC2's: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
func missingParameter(found []violation) *awserr.Error {
	return awserr.Newf("MissingParameter", "The request must contain the parameter %s", found[0].param)
}

// atParameter is ECR's error, which reports one violation: https://github.com/jenkins-x/jx/issues/1344
func atParameter(found []violation) *awserr.Error {
	v := found[0]
	text := v.text
	if p, ok := strings.CutPrefix(text, patternWords); ok {
		text = "must satisfy regular expression '" + p + "'"
	}
	return awserr.Newf("InvalidParameterException", "Invalid parameter at '%s' failed to satisfy constraint: '%s'", v.path, text)
}

func invalidParameterValue(param, value, want string) *awserr.Error {
	return awserr.Newf("InvalidParameterValue", "Value (%s) for parameter %s is invalid. Expected: '%s'.", clip(value), param, want)
}

func malformedInput(param, value, want string) *awserr.Error {
	return awserr.Newf("MalformedInput", "Value (%s) for parameter %s is not a valid %s.", clip(value), param, want)
}

func invalidInput(param, value, want string) *awserr.Error {
	return awserr.Newf("InvalidInput", "Value (%s) for parameter %s is not a valid %s.", clip(value), param, want)
}

func invalidArgument(param, value, want string) *awserr.Error {
	return awserr.Newf("InvalidArgument", "Value (%s) for parameter %s is not a valid %s.", clip(value), param, want)
}

func malformedXML([]violation) *awserr.Error {
	return awserr.New("MalformedXML", "The XML you provided was not well-formed or did not validate against our published schema")
}

// serialization is the error for text (of a query parameter or header) that is not of the member's type. For JSON
// values see decoder.jsonValue, whose texts ("STRING_VALUE can not be converted to an Integer") clients have
// reported, e.g. https://github.com/aws/aws-cdk/pull/27087.
func serialization(param, value, want string) *awserr.Error {
	return awserr.Newf("SerializationException", "Value (%s) at '%s' can not be converted to %s", clip(value), param, want)
}

// unknownParameter is EC2's error for a parameter that its operation does not have:
// https://github.com/aws/aws-sdk-cpp/issues/327.
func unknownParameter(param string) *awserr.Error {
	return awserr.Newf("UnknownParameter", "The parameter %s is not recognized", param)
}

// malformed is the error for a request that cannot be read at all.
func malformed(svc *model.Service, detail string) *awserr.Error {
	switch svc.Protocol {
	case model.ProtocolEC2, model.ProtocolQuery:
		return awserr.New("MalformedQueryString", detail)
	case model.ProtocolRESTXML:
		if svc.Name == "s3" {
			return malformedXML(nil)
		}
		return awserr.New("InvalidInput", "Invalid XML ; "+detail)
	default:
		return awserr.New("SerializationException", detail)
	}
}

// clip shortens client data that a message quotes.
func clip(s string) string {
	const most = 128
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// sqsCodes are the codes of SQS's errors from when it used the query protocol, if they differ from the exception's
// name. SDKs get them in the x-amzn-query-error header and show them instead of the name. The model no longer has
// them. https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/CommonErrors.html
var sqsCodes = map[string]string{
	"AccessDeniedException":             "AccessDenied",
	"BatchEntryIdsNotDistinct":          "AWS.SimpleQueueService.BatchEntryIdsNotDistinct",
	"BatchRequestTooLong":               "AWS.SimpleQueueService.BatchRequestTooLong",
	"EmptyBatchRequest":                 "AWS.SimpleQueueService.EmptyBatchRequest",
	"InvalidBatchEntryId":               "AWS.SimpleQueueService.InvalidBatchEntryId",
	"KmsAccessDenied":                   "KMS.AccessDeniedException",
	"KmsDisabled":                       "KMS.DisabledException",
	"KmsInvalidKeyUsage":                "KMS.InvalidKeyUsageException",
	"KmsInvalidState":                   "KMS.InvalidStateException",
	"KmsNotFound":                       "KMS.NotFoundException",
	"KmsOptInRequired":                  "KMS.OptInRequired",
	"KmsThrottled":                      "KMS.ThrottlingException",
	"InvalidParameterValueException":    "InvalidParameterValue",
	"MissingRequiredParameterException": "MissingParameter",
	"MessageNotInflight":                "AWS.SimpleQueueService.MessageNotInflight",
	"PurgeQueueInProgress":              "AWS.SimpleQueueService.PurgeQueueInProgress",
	"QueueDeletedRecently":              "AWS.SimpleQueueService.QueueDeletedRecently",
	"QueueDoesNotExist":                 "AWS.SimpleQueueService.NonExistentQueue",
	"QueueNameExists":                   "QueueAlreadyExists",
	"TooManyEntriesInBatchRequest":      "AWS.SimpleQueueService.TooManyEntriesInBatchRequest",
	"UnsupportedOperation":              "AWS.SimpleQueueService.UnsupportedOperation",
}

// queryCode returns the code of a query-compatible service's exception in the query protocol.
func queryCode(svc *model.Service, code string) string {
	if c, ok := sqsCodes[code]; ok && svc.Name == "sqs" {
		return c
	}
	return code
}

// queryText returns the text of an error in the query protocol, whose code is code.
func queryText(svc *model.Service, code, text string) string {
	if svc.Name == "sqs" && code == sqsCodes["QueueDoesNotExist"] {
		return "The specified queue does not exist for this wsdl version." // [recorded] LocalStack's tests/aws/services/sqs/test_sqs.py, test_non_existent_queue
	}
	return text
}

// typeName returns the name of a plan's type for error messages.
func (p *plan) typeName() string {
	switch p.kind {
	case kindBool:
		return "Boolean"
	case kindInt:
		if p.typ.Bits() == 64 {
			return "Long"
		}
		return "Integer"
	case kindFloat:
		return "Double"
	case kindTime:
		return "Timestamp"
	case kindBlob:
		return "Blob"
	case kindList:
		return "List"
	case kindMap:
		return "Map"
	case kindStruct, kindUnion:
		return "Structure"
	default:
		return "String"
	}
}
