package sts

import (
	"fmt"
	"net/http"
	"strings"

	ststypes "github.com/aws/aws-sdk-go-v2/service/sts/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/policy"
)

// Texts without another source are those of
// https://docs.aws.amazon.com/STS/latest/APIReference/CommonErrors.html.

func constraints(failed []string) error {
	plural := ""
	if len(failed) > 1 {
		plural = "s"
	}
	return validationError(fmt.Sprintf("%d validation error%s detected: %s", len(failed), plural, strings.Join(failed, "; ")))
}

func validationError(message string) error { return awserr.New("ValidationError", message) }

// https://github.com/aws/aws-cli/issues/2283
func invalidARN(s string) error { return validationError(s + " is invalid") }

// No source.
func invalidAccessKeyID(id string) error {
	return validationError("The access key ID " + id + " names no account.")
}

// accessDenied tells who may not do what; AssumeRole gives a reason only for an
// explicit deny, so that nobody learns which roles exist.
// https://repost.aws/knowledge-center/iam-assume-role-error
func accessDenied(caller awsapi.Principal, d policy.Decision) error {
	if !d.ExplicitDeny {
		d.Reason = ""
	}
	return awserr.New("AccessDenied", d.Message(caller.ARN)).WithStatus(http.StatusForbidden)
}

// https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_roles.html
func rootMayNot() error {
	return awserr.New("AccessDenied", "Roles may not be assumed by root accounts.").WithStatus(http.StatusForbidden)
}

// https://github.com/aws/aws-sdk-js/issues/1543
func sessionsMayNot(operation string) error {
	return awserr.New("AccessDenied", "Cannot call "+operation+" with session credentials").WithStatus(http.StatusForbidden)
}

// https://repost.aws/knowledge-center/iam-role-chaining-limit
func longerThanRole() error {
	return validationError("The requested DurationSeconds exceeds the MaxSessionDuration set for this role.")
}

// https://github.com/aws/eks-anywhere/pull/9485
func longerThanChain() error {
	return validationError("The requested DurationSeconds exceeds the 1 hour session limit for roles assumed by role chaining.")
}

func malformedDocument(err error) error {
	m := err.Error()
	return &ststypes.MalformedPolicyDocumentException{Message: &m}
}

func policyTooLarge(percent int) error {
	m := fmt.Sprintf("Packed policy consumes %d%% of allotted space, please use smaller policy.", percent)
	return &ststypes.PackedPolicyTooLargeException{Message: &m}
}

// No source.
func tooManyPolicyARNs() error {
	return validationError(fmt.Sprintf("A session takes at most %d managed policies.", maxSessionPolicies))
}

func duplicateTags() error {
	return awserr.New("InvalidParameterValue", "Duplicate tag keys found. Please note that Tag keys are case insensitive.")
}
