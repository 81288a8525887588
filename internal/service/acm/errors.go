package acm

import (
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
)

// The texts are from memory of what users have reported, or follow the descriptions in
// https://docs.aws.amazon.com/acm/latest/APIReference.

func errNotFound(arn string) error {
	return awserr.Newf("ResourceNotFoundException", "Could not find certificate %s.", arn)
}

func errARN(arn string) error {
	return awserr.Newf("InvalidArnException", "%s is not a valid ARN.", arn)
}

func errInUse(arn, account string) error {
	return awserr.Newf("ResourceInUseException", "Certificate %s in account %s is in use.", arn, account)
}

func errInProgress(arn string) error {
	return awserr.Newf("RequestInProgressException", "Certificate %s is not issued yet.", arn)
}

func errManyCertificates() error {
	return awserr.Newf("LimitExceededException", "Error: you have reached your limit of %d certificates.", maxCertificates)
}

func errManyNames() error {
	return awserr.Newf("LimitExceededException", "Error: the maximum number of %d domain names has been exceeded.", maxNames)
}

func errDomain(name string) error {
	return awserr.Newf("InvalidParameterException", "The domain name %s is not valid.", name)
}

func errValidationDomain(name string) error {
	return awserr.Newf("InvalidDomainValidationOptionsException", "The validation domain of %s is not the name or a superdomain of it.", name)
}

func errReservedTag(key string) error {
	return awserr.Newf("InvalidTagException", "aws: prefixed tag key names are not allowed for external use: %s", key)
}

func errManyTags() error {
	return awserr.New("TooManyTagsException", "Certificates can have at most 50 tags.")
}

func errValidation(text string) error { return awserr.New("ValidationException", text) }

func errNotImported(arn string) error {
	return awserr.Newf("ValidationException", "Certificate %s was not imported and cannot be imported again.", arn)
}

func errTagsOnReimport() error {
	return awserr.New("ValidationException", "Tagging is not permitted on re-import.")
}

func errOptions(arn string) error {
	return awserr.Newf("InvalidStateException", "Certificate %s was imported: it has no options.", arn)
}

func errToken(string) error { return awserr.New("ValidationException", "The NextToken is not valid.") }
