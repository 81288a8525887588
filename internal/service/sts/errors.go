package sts

import (
	"cmp"
	"fmt"
	"net/http"
	"time"

	ststypes "github.com/aws/aws-sdk-go-v2/service/sts/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/policy"
)

// Texts without another source are from
// https://docs.aws.amazon.com/STS/latest/APIReference/CommonErrors.html.

func validationError(message string) error { return awserr.New("ValidationError", message) }

// https://github.com/aws/aws-cli/issues/2283
func invalidARN(s string) error { return validationError(s + " is invalid") }

// No source.
func invalidAccessKeyID(id string) error {
	return validationError("The access key ID " + id + " does not identify an account.")
}

// accessDenied returns the error for a denied action. AssumeRole gives a reason only for an
// explicit deny, so that callers cannot find out which roles exist.
// https://repost.aws/knowledge-center/iam-assume-role-error
func accessDenied(caller awsapi.Principal, d policy.Decision) error {
	if !d.ExplicitDeny {
		d.Reason = ""
	}
	return awserr.New("AccessDenied", d.Message(cmp.Or(caller.ARN, caller.Name))).WithStatus(http.StatusForbidden)
}

func mfaFailed(why string) error {
	return awserr.New("AccessDenied", "MultiFactorAuthentication failed"+why).WithStatus(http.StatusForbidden)
}

// https://github.com/y13i/sgviz/issues/9
func mfaIncomplete() error {
	return mfaFailed(", must provide both MFA serial number and one time pass code.")
}

// https://github.com/aws/aws-cli/issues/6325
func mfaUnknown() error {
	return mfaFailed(", unable to validate MFA code.  Please verify your MFA serial number is valid and associated with this user.")
}

// https://github.com/aws/aws-cli/issues/2279
func mfaInvalid() error { return mfaFailed(" with invalid MFA one time pass code.") }

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

// Code and text are from memory. The policies must exist in the role's account:
// https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html
func noSuchSessionPolicy(arn string) error {
	m := "The policy " + arn + " does not exist or is not attachable."
	return &ststypes.MalformedPolicyDocumentException{Message: &m}
}

// No source.
func tooManyPolicyARNs() error {
	return validationError(fmt.Sprintf("A session takes at most %d managed policies.", maxSessionPolicies))
}

// Tags, as recorded from AWS: localstack/localstack tests/aws/services/sts/test_sts.snapshot.json

func duplicateTags() error {
	return awserr.New("InvalidParameterValue", "Duplicate tag keys found. Please note that Tag keys are case insensitive.")
}

func transitiveTagTaken() error {
	return awserr.New("InvalidParameterValue", "One of the specified transitive tag keys can't be set because it conflicts with a transitive tag key from the calling session.")
}

func transitiveTagMissing() error {
	return awserr.New("InvalidParameterValue", "The specified transitive tag key must be included in the requested tags.")
}

// Web identities. AWS gives a caller without credentials no further details.
// https://repost.aws/knowledge-center/eks-troubleshoot-irsa-errors
func notByWebIdentity() error {
	return awserr.New("AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity").WithStatus(http.StatusForbidden)
}

func invalidToken(format string, args ...any) error {
	m := fmt.Sprintf(format, args...)
	return &ststypes.InvalidIdentityTokenException{Message: &m}
}

// https://github.com/kubernetes-sigs/aws-load-balancer-controller/issues/2315
func noProvider(issuer string) error {
	return invalidToken("No OpenIDConnect provider found in your account for %s", issuer)
}

// https://github.com/awslabs/amazon-eks-irsa-cfn/pull/18
func wrongAudience() error { return invalidToken("Incorrect token audience") }

// https://github.com/aws/aws-sdk-js-v3/issues/3052
func noVerificationKey() error {
	return invalidToken("Couldn't retrieve verification key from your identity provider,  please reference AssumeRoleWithWebIdentity documentation for requirements")
}

// [seen] in shell transcripts of AssumeRoleWithWebIdentity
func wrongSignature() error { return invalidToken("Token signature invalid") }

// https://github.com/aws/aws-sdk-java-v2/issues/5709
func tokenExpired(now, end time.Time) error {
	m := fmt.Sprintf("Token expired: current date/time %d must be before the expiration date/time %d", now.Unix(), end.Unix())
	return &ststypes.ExpiredTokenException{Message: &m}
}

// [seen] in Terraform's output and in articles about IRSA
func notAToken() error {
	return invalidToken("The ID Token provided is not a valid JWT. (You may see this error if you sent an Access Token)")
}

// [seen] aws/aws-sdk-ruby#2698, aws-actions/configure-aws-credentials#502
func missingClaim(name string) error { return invalidToken("Missing a required claim: %s", name) }

// [seen] with issuers that are not URLs, such as kubernetes/serviceaccount
func issuerIsNoURL() error { return invalidToken("Issuer must be a valid URL") }

// The texts below are from memory.

func tokenNotYet() error { return invalidToken("Token is not valid yet") }

func rejectedClaim(format string, args ...any) error {
	m := fmt.Sprintf(format, args...)
	return &ststypes.IDPRejectedClaimException{Message: &m}
}

// SAML. Texts without another source are from
// https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_saml.html.

func notBySAML() error {
	return awserr.New("AccessDenied", "Not authorized to perform sts:AssumeRoleWithSAML").WithStatus(http.StatusForbidden)
}

// No source for the first.
func malformedResponse() error { return invalidToken("Your request included an invalid SAML response") }
func responseSignature() error { return invalidToken("Response signature invalid") }
func otherSAMLIssuer() error   { return invalidToken("Issuer not present in specified provider") }
func noSAMLProvider() error    { return invalidToken("Specified provider doesn't exist") }
func otherSAMLAudience() error {
	return invalidToken("Response does not contain the required audience.")
}
func noSAMLSessionName() error { return invalidToken("RoleSessionName is required in AuthnResponse") }
func badSAMLSessionName() error {
	return invalidToken("RoleSessionName in AuthnResponse must match [a-zA-Z_0-9+=,.@-]{2,64}")
}

func samlExpired() error {
	m := "Token must be redeemed within 5 minutes of issuance"
	return &ststypes.ExpiredTokenException{Message: &m}
}

func samlRejected() error {
	return rejectedClaim("The identity provider reports that the authentication failed")
} // from memory

func invalidAuthorizationMessage() error {
	m := "Message is not valid"
	return &ststypes.InvalidAuthorizationMessageException{Message: &m}
}
