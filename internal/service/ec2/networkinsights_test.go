package ec2_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
)

// components formats a path as the kinds of its components.
func components(path []ec2types.PathComponent) string {
	var out []string
	for i, c := range path {
		if int(*c.SequenceNumber) != i+1 {
			out = append(out, "out of sequence")
		}
		out = append(out, strings.Split(*c.Component.Id, "-")[0])
	}
	return strings.Join(out, " ")
}

// The walk-through in the Reachability Analyzer guide: from the internet gateway to port 22 of an
// instance, before and after adding the rule that allows it.
// https://docs.aws.amazon.com/vpc/latest/reachability/getting-started-cli.html
func TestReachabilityAnalyzer(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	i := w.launch(t, 1, func(*awsec2.RunInstancesInput) {})[0]
	w.await(t, ec2types.InstanceStateNameRunning, *i.InstanceId)
	igw := must(w.DescribeInternetGateways(ctx, &awsec2.DescribeInternetGatewaysInput{}))(t).InternetGateways[0].InternetGatewayId
	in := &awsec2.CreateNetworkInsightsPathInput{
		Source: igw, Destination: i.InstanceId, Protocol: ec2types.ProtocolTcp,
		FilterAtSource: &ec2types.PathRequestFilter{DestinationPortRange: &ec2types.RequestFilterPortRange{FromPort: aws.Int32(22), ToPort: aws.Int32(22)}},
	}
	path := must(w.CreateNetworkInsightsPath(ctx, in))(t).NetworkInsightsPath
	if *path.Source != *igw || *path.Destination != *i.InstanceId || path.Protocol != "tcp" || *path.FilterAtSource.DestinationPortRange.ToPort != 22 ||
		!strings.HasSuffix(*path.DestinationArn, ":instance/"+*i.InstanceId) || !strings.Contains(*path.NetworkInsightsPathArn, ":network-insights-path/nip-") {
		t.Errorf("path: %+v", path)
	}
	analyze := func(change func(*awsec2.StartNetworkInsightsAnalysisInput)) ec2types.NetworkInsightsAnalysis {
		t.Helper()
		start := &awsec2.StartNetworkInsightsAnalysisInput{NetworkInsightsPathId: path.NetworkInsightsPathId}
		if change != nil {
			change(start)
		}
		a := must(w.StartNetworkInsightsAnalysis(ctx, start))(t).NetworkInsightsAnalysis
		if a.Status != ec2types.AnalysisStatusRunning || a.NetworkPathFound != nil {
			t.Errorf("started: %+v", a)
		}
		found := must(w.DescribeNetworkInsightsAnalyses(ctx, &awsec2.DescribeNetworkInsightsAnalysesInput{NetworkInsightsAnalysisIds: []string{*a.NetworkInsightsAnalysisId}}))(t).NetworkInsightsAnalyses
		if len(found) != 1 || found[0].Status != ec2types.AnalysisStatusSucceeded {
			t.Fatalf("analyses: %+v", found)
		}
		return found[0]
	}
	a := analyze(nil)
	if *a.NetworkPathFound || len(a.Explanations) != 1 || *a.Explanations[0].ExplanationCode != "ENI_SG_RULES_MISMATCH" ||
		*a.Explanations[0].Direction != "ingress" || *a.Explanations[0].SecurityGroups[0].Id != *i.SecurityGroups[0].GroupId ||
		*a.Explanations[0].NetworkInterface.Id != *i.NetworkInterfaces[0].NetworkInterfaceId {
		t.Errorf("before the rule: %+v", a)
	}
	// The rule allows one address, which may be the source, since that can be any address on the
	// internet.
	must(w.AuthorizeSecurityGroupIngress(ctx, &awsec2.AuthorizeSecurityGroupIngressInput{
		GroupId: i.SecurityGroups[0].GroupId, IpProtocol: aws.String("tcp"), FromPort: aws.Int32(22), ToPort: aws.Int32(22), CidrIp: aws.String("198.51.100.7/32"),
	}))(t)
	a = analyze(nil)
	if !*a.NetworkPathFound || len(a.Explanations) != 0 {
		t.Fatalf("after the rule: %+v", a.Explanations)
	}
	if diff := cmp.Diff([]string{"igw acl sg eni i", "i eni sg acl rtb igw"}, []string{components(a.ForwardPathComponents), components(a.ReturnPathComponents)}); diff != "" {
		t.Error(diff)
	}
	first := a.ForwardPathComponents[0]
	if first.InboundHeader.DestinationAddresses[0] != *i.PublicIpAddress+"/32" || first.OutboundHeader.DestinationAddresses[0] != *i.PrivateIpAddress+"/32" ||
		first.InboundHeader.SourceAddresses[0] != "198.51.100.7/32" || *first.InboundHeader.Protocol != "6" {
		t.Errorf("at the gateway: %+v %+v", first.InboundHeader, first.OutboundHeader)
	}
	if acl := a.ForwardPathComponents[1].AclRule; *acl.RuleNumber != 100 || *acl.RuleAction != "allow" || *acl.Protocol != "all" || *acl.Egress {
		t.Errorf("ACL rule: %+v", acl)
	}
	if route := a.ReturnPathComponents[4].RouteTableRoute; *route.GatewayId != *igw || *route.Origin != "createroute" || *route.State != "active" {
		t.Errorf("route: %+v", route)
	}
	filtered := analyze(func(in *awsec2.StartNetworkInsightsAnalysisInput) {
		in.FilterOutArns = []string{*first.Component.Arn}
	})
	if *filtered.NetworkPathFound || *filtered.Explanations[0].ExplanationCode != "COMPONENT_FILTER_RESTRICTION_REMOVED_COMPONENT" {
		t.Errorf("without the gateway: %+v", filtered)
	}

	of := &awsec2.DescribeNetworkInsightsAnalysesInput{NetworkInsightsPathId: path.NetworkInsightsPathId}
	if all := must(w.DescribeNetworkInsightsAnalyses(ctx, of))(t).NetworkInsightsAnalyses; len(all) != 3 {
		t.Errorf("%d analyses, want 3", len(all))
	}
	_, err := w.DeleteNetworkInsightsPath(ctx, &awsec2.DeleteNetworkInsightsPathInput{NetworkInsightsPathId: path.NetworkInsightsPathId})
	wantError(t, err, "AnalysisExistsForNetworkInsightsPath", "The network insights path '"+*path.NetworkInsightsPathId+"' has analyses and cannot be deleted.")
	of.Filters = filter("path-found", "false")
	for _, a := range must(w.DescribeNetworkInsightsAnalyses(ctx, of))(t).NetworkInsightsAnalyses {
		must(w.DeleteNetworkInsightsAnalysis(ctx, &awsec2.DeleteNetworkInsightsAnalysisInput{NetworkInsightsAnalysisId: a.NetworkInsightsAnalysisId}))(t)
	}
	must(w.DeleteNetworkInsightsAnalysis(ctx, &awsec2.DeleteNetworkInsightsAnalysisInput{NetworkInsightsAnalysisId: a.NetworkInsightsAnalysisId}))(t)
	must(w.DeleteNetworkInsightsPath(ctx, &awsec2.DeleteNetworkInsightsPathInput{NetworkInsightsPathId: path.NetworkInsightsPathId}))(t)
	_, err = w.DescribeNetworkInsightsPaths(ctx, &awsec2.DescribeNetworkInsightsPathsInput{NetworkInsightsPathIds: []string{*path.NetworkInsightsPathId}})
	wantError(t, err, "InvalidNetworkInsightsPathId.NotFound", "The networkInsightsPath ID '"+*path.NetworkInsightsPathId+"' does not exist")
}
