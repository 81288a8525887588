package wire

import (
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/awsapi/model"
)

// ownWords marks what a service refuses in other words than its framework's.
const ownWords constraint = "own"

// A deviation is a constraint of a model that AWS does not enforce as it stands there.
type deviation struct {
	// at are names of shapes, or operations' members: Operation.member, the latter by its
	// path in the model; separated by spaces.
	at   string
	kind constraint
	// answer is what the service says instead of the framework, of the member at path.
	// Nil: the handler judges, or AWS accepts the value.
	answer func(path string) string
}

// deviations are by model name. Each says why.
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
		{at: "NextToken", kind: pattern}, // is InvalidPaginationTokenException
	},
	"ssm": {
		{at: "ParameterStringFilterKey", kind: pattern}, // is InvalidFilterKey, recorded by moto's authors
	},
}

// deviates finds the deviation that applies to a violation by the member that the way
// leads to.
func (c *checker) deviates(m *model.Member, kind constraint) *deviation {
	for i, d := range deviations[c.op.Service.Name] {
		at := strings.Fields(d.at)
		if d.kind == kind && (slices.Contains(at, m.Shape.Name) || slices.Contains(at, c.op.Name+"."+c.memberPath())) {
			return &deviations[c.op.Service.Name][i]
		}
	}
	return nil
}
