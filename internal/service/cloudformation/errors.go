package cloudformation

import "github.com/drydock-dev/drydock/internal/awsapi/awserr"

// stackNotFound is ValidationError, by whose text clients know that it means what
// it says: Terraform's aws_cloudformation_stack looks for "does not exist".
func stackNotFound(name string) error {
	return awserr.Newf("ValidationError", "Stack with id %s does not exist", name)
}
