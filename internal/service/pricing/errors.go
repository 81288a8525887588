package pricing

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	pricingtypes "github.com/aws/aws-sdk-go-v2/service/pricing/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
)

func invalid(format string, args ...any) error {
	return &pricingtypes.InvalidParameterException{Message: aws.String(fmt.Sprintf(format, args...))}
}

// https://github.com/aws/aws-sdk-go-v2/issues/840
func errNoServiceCode() error {
	return invalid("Input Parameters are invalid. serviceCode cannot be null or empty")
}

// https://github.com/cloud-barista/cb-spider/issues/1055
func errServiceCodeForm() error { return invalid("ServiceCode can only contain a-z, A-Z, 0-9") }

// from memory
func errServiceCode(code string) error {
	return &pricingtypes.NotFoundException{Message: aws.String("Invalid ServiceCode: " + code + ". Drydock only knows the products of AmazonEC2.")}
}

// from memory
func errAttribute(name string) error {
	return &pricingtypes.NotFoundException{Message: aws.String("Invalid attribute name: " + name)}
}

// from memory
func errFormat(format string) error {
	return invalid("Input Parameters are invalid. Invalid formatVersion: %s", format)
}

// from memory
func errNextToken() error {
	return &pricingtypes.InvalidNextTokenException{Message: aws.String("Invalid NextToken")}
}

// errRegion is an endpoint's error for a signature for another region. The endpoints exist in only
// three regions, and Drydock serves them all.
func errRegion(region string) error {
	return awserr.Newf("InvalidSignatureException", "Credential should be scoped to a valid region, not '%s'. The Price List API has endpoints in us-east-1, ap-south-1 and eu-central-1.", region)
}
