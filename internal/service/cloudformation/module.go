package cloudformation

import (
	"context"

	awscloudformation "github.com/aws/aws-sdk-go-v2/service/cloudformation"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/module"
)

// Module declares the service to the daemon. instance verifies the identity documents with which programs of instances call it;
// see awsapi.Service.
func (s *Service) Module(instance func(ctx context.Context, document, signature []byte) (awsapi.Principal, string, error)) module.Module {
	aws := s.AWS()
	aws.Instance = instance
	return module.Module{Service: aws, Resolver: resolver{s}, Tagging: s.taggable(), Run: s.Run}
}

// AWS declares the operations that the service answers.
func (s *Service) AWS() awsapi.Service {
	const (
		noTypes = "resource types are those of docs/compatibility.md"
	)
	return awsapi.Service{
		Name: "cloudformation", Handler: s, Authorization: authorization, Constraints: constraints,
		Operations: []awsapi.Operation{
			{Name: "CreateStack", Members: "Capabilities ClientRequestToken DeploymentConfig.Mode DisableRollback EnableTerminationProtection NotificationARNs OnFailure Parameters.ParameterKey " +
				"Parameters.ParameterValue RoleARN StackName StackPolicyBody StackPolicyURL Tags TemplateBody TemplateURL TimeoutInMinutes",
				Except: "the deployment mode EXPRESS; resource types, properties and parts of templates that are not handled: see CloudFormation's resource types above"},
			{Name: "UpdateStack", Members: "Capabilities ClientRequestToken DeploymentConfig.Mode DisableRollback NotificationARNs Parameters.ParameterKey Parameters.ParameterValue Parameters.UsePreviousValue " +
				"RoleARN StackName StackPolicyBody StackPolicyDuringUpdateBody StackPolicyDuringUpdateURL StackPolicyURL Tags TemplateBody TemplateURL UsePreviousTemplate",
				Except: "the deployment mode EXPRESS; changes of properties that the resource's handler cannot make in place fail the resource"},
			{Name: "CancelUpdateStack", Members: "ClientRequestToken StackName"},
			{Name: "ContinueUpdateRollback", Members: "ClientRequestToken ResourcesToSkip RoleARN StackName"},
			{Name: "RollbackStack", Members: "ClientRequestToken DeploymentConfig.Mode RoleARN StackName", Except: "the deployment mode EXPRESS"},
			{Name: "SignalResource", Members: "LogicalResourceId StackName Status UniqueId"},
			{Name: "SetStackPolicy", Members: "StackName StackPolicyBody StackPolicyURL"},
			{Name: "GetStackPolicy", Members: "StackName"},
			{Name: "CreateChangeSet", Members: "Capabilities ChangeSetName ChangeSetType ClientToken DeploymentConfig.Mode Description ImportExistingResources IncludeNestedStacks NotificationARNs OnStackFailure Parameters.ParameterKey " +
				"Parameters.ParameterValue Parameters.UsePreviousValue ResourcesToImport.LogicalResourceId ResourcesToImport.ResourceIdentifier ResourcesToImport.ResourceType RoleARN StackName Tags TemplateBody TemplateURL UsePreviousTemplate",
				Except: "imports of types that docs/cloudformation.md does not list; the deployment mode EXPRESS"},
			{Name: "DescribeChangeSet", Members: "ChangeSetName IncludePropertyValues NextToken StackName"},
			{Name: "ExecuteChangeSet", Members: "ChangeSetName ClientRequestToken DisableRollback StackName"},
			{Name: "DeleteChangeSet", Members: "ChangeSetName StackName"},
			{Name: "ListChangeSets", Members: "NextToken StackName"},
			{Name: "DeleteStack", Members: "ClientRequestToken DeploymentConfig.Mode RetainResources RoleARN StackName", Except: "the deployment mode EXPRESS"},
			{Name: "DescribeStacks", Members: "NextToken StackName", Settled: awsapi.SettledWhen(settled)},
			{Name: "ListStacks", Members: "NextToken StackStatusFilter"},
			{Name: "DescribeStackEvents", Members: "NextToken StackName"},
			{Name: "DescribeStackResource", Members: "LogicalResourceId StackName"},
			{Name: "DescribeStackResources", Members: "LogicalResourceId PhysicalResourceId StackName"},
			{Name: "ListStackResources", Members: "NextToken StackName"},
			{Name: "DetectStackDrift", Members: "LogicalResourceIds StackName"},
			{Name: "DetectStackResourceDrift", Members: "LogicalResourceId StackName"},
			{Name: "DescribeStackDriftDetectionStatus", Members: "StackDriftDetectionId"},
			{Name: "DescribeStackResourceDrifts", Members: "MaxResults NextToken StackName StackResourceDriftStatusFilters"},
			{Name: "GetTemplate", Members: "ChangeSetName StackName TemplateStage"},
			{Name: "GetTemplateSummary", Members: "StackName TemplateBody TemplateURL"},
			{Name: "ValidateTemplate", Members: "TemplateBody TemplateURL", ReadOnly: true},
			{Name: "ListExports", Members: "NextToken"},
			{Name: "ListImports", Members: "ExportName NextToken"},
			{Name: "UpdateTerminationProtection", Members: "EnableTerminationProtection StackName"},
		},
		Refused: []awsapi.Refusal{
			{Operations: "DescribeType ListTypes", Why: noTypes},
		},
	}
}

// settled reports whether a waiter for stacks may be done, because no operation is in progress.
func settled(out *awscloudformation.DescribeStacksOutput) bool {
	for _, st := range out.Stacks {
		if inProgress(st.StackStatus) {
			return false
		}
	}
	return true
}
