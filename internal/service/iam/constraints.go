package iam

import "github.com/drydock-dev/drydock/internal/awsapi"

// constraints correct the API model.
var constraints = []awsapi.Constraint{
	{
		At: "existingUserNameType groupNameType instanceProfileNameType policyNameType roleNameType userNameType customSuffixType",
		PatternText: func(path string) string {
			return "The specified value for " + path + " is invalid. It must contain only alphanumeric characters and/or the following: +=,.@_-"
		},
		Source: "https://github.com/kubecost/docs/pull/36",
	},
	{
		At: "pathType policyPathType",
		PatternText: func(path string) string {
			return "The specified value for " + path + " is invalid. It must begin and end with / and contain only alphanumeric characters and/or / characters."
		},
		Source: "moto, checked against AWS",
	},
	{At: "accessKeyIdType", Unchecked: awsapi.UncheckedSize, Source: `AWS deviation: the access key of Drydock's default credentials is "test"`},
}
