package awserr

// Range returns the error for a number outside the range that a service's model allows, or nil if it is inside. The
// code is ValidationError or ValidationException, whichever the service uses for requests that violate its model.
//
// [seen] hashicorp/terraform-provider-aws#157 (ELB), aws-cloudformation/cfn-lint#807 (its version 2);
// https://github.com/localstack/localstack, tests/aws/services/kms/test_kms.snapshot.json
func Range(code, member string, n, lowest, highest int32) error {
	const format = "1 validation error detected: Value '%d' at '%s' failed to satisfy constraint: Member must have value %s than or equal to %d"
	switch {
	case n < lowest:
		return Newf(code, format, n, member, "greater", lowest)
	case n > highest:
		return Newf(code, format, n, member, "less", highest)
	}
	return nil
}
