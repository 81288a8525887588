package organizations

import (
	orgtypes "github.com/aws/aws-sdk-go-v2/service/organizations/types"
)

// The texts are AWS's, as quoted in public issues and by moto, whose answers are compared with AWS's. Those marked so
// are from memory.

func errNotInUse() error {
	return &orgtypes.AWSOrganizationsNotInUseException{Message: new("Your account is not a member of an organization.")}
}

func errManagementOnly() error {
	return &orgtypes.AccessDeniedException{Message: new("You don't have permissions to access this resource.")}
}

func errAlreadyIn() error {
	return &orgtypes.AlreadyInOrganizationException{Message: new("The provided account is already a member of an organization.")}
}

func errNotEmpty() error {
	return &orgtypes.OrganizationNotEmptyException{Message: new("To delete an organization you must first remove all member accounts (except the master).")}
}

func errNoRoot() error {
	return &orgtypes.RootNotFoundException{Message: new("You specified a root that doesn't exist.")}
}

func errNoUnit() error {
	return &orgtypes.OrganizationalUnitNotFoundException{Message: new("You specified an organizational unit that doesn't exist.")}
}

func errNoParent() error {
	return &orgtypes.ParentNotFoundException{Message: new("You specified parent that doesn't exist.")}
}

func errNoChild() error {
	return &orgtypes.ChildNotFoundException{Message: new("You specified a child that doesn't exist.")} // from memory
}

func errNoAccount() error {
	return &orgtypes.AccountNotFoundException{Message: new("You specified an account that doesn't exist.")}
}

func errNoTarget() error {
	return &orgtypes.TargetNotFoundException{Message: new("You specified a target that doesn't exist.")}
}

func errNoPolicy() error {
	return &orgtypes.PolicyNotFoundException{Message: new("You specified a policy that doesn't exist.")}
}

func errNoCreation() error {
	return &orgtypes.CreateAccountStatusNotFoundException{Message: new("You specified a create account request that doesn't exist.")} // from memory
}

func errUnitExists() error {
	return &orgtypes.DuplicateOrganizationalUnitException{Message: new("An OU with the same name already exists.")}
}

func errUnitNotEmpty() error {
	return &orgtypes.OrganizationalUnitNotEmptyException{Message: new("The specified OU is not empty. Move all accounts to another root or to other OUs, remove all child OUs, and try the operation again.")}
}

func errPolicyExists() error {
	return &orgtypes.DuplicatePolicyException{Message: new("A policy with the same name and type already exists.")}
}

func errPolicyInUse() error {
	return &orgtypes.PolicyInUseException{Message: new("The policy is attached to one or more entities. You must detach it from all roots, organizational units (OUs), and accounts before performing this operation.")}
}

func errAttached() error {
	return &orgtypes.DuplicatePolicyAttachmentException{Message: new("A policy is already attached to the specified target.")} // from memory
}

func errNotAttached() error {
	return &orgtypes.PolicyNotAttachedException{Message: new("The specified policy is not attached to the specified target.")} // from memory
}

func errLastPolicy() error { // from memory
	return &orgtypes.ConstraintViolationException{Message: new("You cannot remove the last policy attached to the specified target. You should have at least one attached at any time."),
		Reason: orgtypes.ConstraintViolationExceptionReasonMinPolicyTypeAttachmentLimitExceeded}
}

func errManyPolicies() error { // from memory
	return &orgtypes.ConstraintViolationException{Message: new("You have attached the maximum number of policies to the specified target."),
		Reason: orgtypes.ConstraintViolationExceptionReasonMaxPolicyTypeAttachmentLimitExceeded}
}

func errLimit(reason orgtypes.ConstraintViolationExceptionReason) error { // from memory
	return &orgtypes.ConstraintViolationException{Message: new("You have exceeded the maximum number of entities of this type in your organization."), Reason: reason}
}

func errTypeEnabled() error {
	return &orgtypes.PolicyTypeAlreadyEnabledException{Message: new("The specified policy type is already enabled.")}
}

func errTypeNotEnabled() error {
	return &orgtypes.PolicyTypeNotEnabledException{Message: new("This operation can be performed only for enabled policy types.")}
}

func errMalformed(why string) error {
	return &orgtypes.MalformedPolicyDocumentException{Message: new("The provided policy document does not meet the requirements of the specified policy type. " + why)} // [seen] its first sentence
}

func errInvalid(text string) error {
	return &orgtypes.InvalidInputException{Message: &text}
}
