package wire

import (
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/awsapi/model"
)

// ownWords marks a constraint whose violation a service reports in its own words rather than its framework's.
const ownWords constraint = "own"

// A deviation is a constraint of a model that AWS does not enforce as the model states it.
type deviation struct {
	// at lists shape names, or members of operations as Operation.member, where member is a path in the model. They
	// are separated by spaces.
	at   string
	kind constraint
	// answer returns the service's own message, about the member at path, in place of the framework's. If it is nil,
	// the handler checks the value, or AWS accepts it.
	answer func(path string) string
}

// deviations are by model name, each with its reason.
var deviations = map[string][]deviation{
	"cloudtrail": {
		// LookupEvents has exceptions for both:
		// https://docs.aws.amazon.com/awscloudtrail/latest/APIReference/API_LookupEvents.html
		{at: "LookupAttributeKey", kind: enum},
		{at: "LookupEvents.MaxResults", kind: bounds},
	},
	"iam": {
		// https://github.com/kubecost/docs/pull/36
		{at: "entityNameType existingUserNameType groupNameType instanceProfileNameType policyNameType roleNameType userNameType customSuffixType", kind: pattern,
			answer: func(path string) string {
				return "The specified value for " + path + " is invalid. It must contain only alphanumeric characters and/or the following: +=,.@_-"
			}},
		// moto, checked against AWS
		{at: "pathType policyPathType", kind: pattern,
			answer: func(path string) string {
				return "The specified value for " + path + " is invalid. It must begin and end with / and contain only alphanumeric characters and/or / characters."
			}},
		// The access key of Drydock's default credentials is "test".
		{at: "accessKeyIdType", kind: length},
	},
	"service-quotas": {
		{at: "NextToken", kind: pattern}, // it is InvalidPaginationTokenException
	},
	"sqs": {
		// it is EmptyBatchRequest
		{at: "ChangeMessageVisibilityBatch.Entries DeleteMessageBatch.Entries SendMessageBatch.Entries", kind: required},
	},
	"ssm": {
		{at: "ParameterStringFilterKey", kind: pattern}, // it is InvalidFilterKey, recorded by moto's authors
	},
}

// deviates returns the deviation for a violation by the current member, or nil.
func (c *checker) deviates(m *model.Member, kind constraint) *deviation {
	for i, d := range deviations[c.op.Service.Name] {
		at := strings.Fields(d.at)
		if d.kind == kind && (slices.Contains(at, m.Shape.Name) || slices.Contains(at, c.op.Name+"."+c.memberPath())) {
			return &deviations[c.op.Service.Name][i]
		}
	}
	return nil
}
