package ec2

import "github.com/drydock-dev/drydock/internal/awsapi"

// insightsOperations are the operations of Reachability Analyzer.
func insightsOperations() []awsapi.Operation {
	return []awsapi.Operation{
		{Name: "CreateNetworkInsightsPath", Members: "ClientToken Destination DestinationIp DestinationPort DryRun FilterAtSource Protocol Source SourceIp TagSpecifications"},
		{Name: "DescribeNetworkInsightsPaths", Members: "NetworkInsightsPathIds" + paged},
		{Name: "DeleteNetworkInsightsPath", Members: "DryRun NetworkInsightsPathId"},
		{Name: "StartNetworkInsightsAnalysis", Members: "ClientToken DryRun FilterInArns FilterOutArns NetworkInsightsPathId TagSpecifications"},
		{Name: "DescribeNetworkInsightsAnalyses", Members: "AnalysisEndTime AnalysisStartTime NetworkInsightsAnalysisIds NetworkInsightsPathId" + paged},
		{Name: "DeleteNetworkInsightsAnalysis", Members: "DryRun NetworkInsightsAnalysisId"},
	}
}
