package cloudformation

import "github.com/drydock-dev/drydock/internal/awsapi"

// constraints correct the API model.
var constraints = []awsapi.Constraint{
	{At: "CreateStack.StackName", Max: new(float64(maxStackName)), Pattern: "[a-zA-Z][-a-zA-Z0-9]*", Source: "https://github.com/hashicorp/terraform-provider-aws/issues/42668"},
	{At: "StackNameOrId", Pattern: "[a-zA-Z][-a-zA-Z0-9]*|arn:[-a-zA-Z0-9:/._+]*", Source: "https://github.com/aws/aws-toolkit-vscode/issues/1427"},
	{At: "TemplateBody", Max: new(float64(maxBody)), Source: "https://github.com/aws-quickstart/quickstart-git2s3/issues/78"},
}
