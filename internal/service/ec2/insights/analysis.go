package insights

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/reach"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// An Analysis is the result of analyzing a path at one point in time.
type Analysis struct {
	ID        string // nia-…
	PathID    string
	FilterIn  []string `json:",omitempty"` // ARNs
	FilterOut []string `json:",omitempty"`
	Started   time.Time
	Verdict   *reach.Verdict
	Tags      tag.Set `json:",omitempty"`
}

// maxTries limits how many packets an analysis tries.
const maxTries = 512

// analyze looks for a packet of the path that gets through. If there is none, it returns the
// verdict on the first packet.
func analyze(s *reach.Snapshot, p Path) *reach.Verdict {
	protocol, _ := reach.ParseProtocol(p.Protocol)
	f := reach.Flow{From: reach.At(p.Source), To: reach.At(p.Destination), Protocol: protocol}
	if p.Destination == "" {
		f.To = reach.Endpoint{}
	}
	from, to := p.SourceIP, p.DestinationIP
	ports := reach.PortRange{From: 0, To: 65535}
	if p.DestinationPort != 0 {
		ports = reach.PortRange{From: uint16(p.DestinationPort), To: uint16(p.DestinationPort)}
	}
	if c := p.Filter; c != nil {
		from = c.SourceAddress
		if c.DestinationAddress != "" {
			to = c.DestinationAddress
		}
		if c.SourcePorts != nil {
			f.SourcePorts = reach.Ports{*c.SourcePorts}
		}
		if c.DestinationPorts != nil {
			ports = *c.DestinationPorts
		}
	}
	f.From.Address, f.To.Address = addressOf(from), addressOf(to)
	sources, targets := []netip.Addr{f.From.Address}, []netip.Addr{f.To.Address}
	if strings.HasPrefix(p.Source, "igw-") && from == "" {
		sources = append([]netip.Addr{reach.Client}, s.OutsideAddresses()...)
	}
	if strings.HasPrefix(p.Destination, "igw-") && to == "" {
		targets = append([]netip.Addr{reach.Outside}, s.OutsideAddresses()...)
	}
	var first *reach.Verdict
	tries := 0
	for _, f.Port = range s.PortsOfInterest(protocol, ports) {
		for _, f.From.Address = range sources {
			for _, f.To.Address = range targets {
				v := s.Check(f)
				if v.Reachable {
					return v
				}
				if first == nil {
					first = v
				}
				if tries++; tries == maxTries {
					return first
				}
			}
		}
	}
	return first
}

// filterPath applies an analysis's filters to the path that was found.
func filterPath(v *reach.Verdict, in, out []string) {
	through := func(arn string) bool {
		id := arn[strings.LastIndex(arn, "/")+1:]
		return slices.ContainsFunc(v.Forward, func(h reach.Hop) bool { return h.ID == id })
	}
	refuse := func(code, arn, text string) {
		v.Reachable = false
		id := arn[strings.LastIndex(arn, "/")+1:]
		v.Explanations = append(v.Explanations, reach.Explanation{Code: code, Component: id, Kind: reach.KindOf(id), Text: text + " " + id})
	}
	if !v.Reachable {
		return
	}
	for _, a := range in {
		if !through(a) {
			refuse("COMPONENT_FILTER_RESTRICTION", a, "the path does not traverse")
		}
	}
	for _, a := range out {
		if through(a) {
			refuse("COMPONENT_FILTER_RESTRICTION_REMOVED_COMPONENT", a, "there is no path without")
		}
	}
}

func checkARNs(arns []string, param string) error {
	for _, a := range arns {
		if !strings.HasPrefix(a, "arn:") || !strings.Contains(a, "/") {
			return ec2err.InvalidValue(a, param, "") // from memory
		}
	}
	return nil
}

// StartNetworkInsightsAnalysis analyzes a path. The analysis is complete when the call returns.
func (s *Service) StartNetworkInsightsAnalysis(ctx context.Context, in *awsec2.StartNetworkInsightsAnalysisInput) (*awsec2.StartNetworkInsightsAnalysisOutput, error) {
	sc := resource.ScopeOf(ctx)
	if in.NetworkInsightsPathId == nil {
		return nil, ec2err.Missing("networkInsightsPathId")
	}
	if err := checkARNs(in.FilterInArns, "filterInArn"); err != nil {
		return nil, err
	}
	if err := checkARNs(in.FilterOutArns, "filterOutArn"); err != nil {
		return nil, err
	}
	tags, err := tag.Specified(ctx, in.TagSpecifications, ec2types.ResourceTypeNetworkInsightsAnalysis)
	if err != nil {
		return nil, err
	}
	network, err := s.Reach(ctx, sc.Account, sc.Region)
	if err != nil {
		return nil, err
	}
	a, err := resource.Create(ctx, s.Core, Analyses, in.DryRun, in.ClientToken, in, func(tx *store.Tx, a *Analysis) error {
		p, err := resource.Get(tx, Paths, sc, *in.NetworkInsightsPathId)
		if err != nil {
			return err
		}
		*a = Analysis{
			ID: ids.Resource("nia"), PathID: p.ID, FilterIn: in.FilterInArns, FilterOut: in.FilterOutArns,
			Started: s.Now(), Verdict: analyze(network, p), Tags: tags,
		}
		filterPath(a.Verdict, a.FilterIn, a.FilterOut)
		return nil
	})
	if err != nil {
		return nil, err
	}
	// AWS responds before it has analyzed the path.
	out := a.SDK(sc)
	out.Status, out.NetworkPathFound = ec2types.AnalysisStatusRunning, nil
	out.ForwardPathComponents, out.ReturnPathComponents, out.Explanations = nil, nil, nil
	return &awsec2.StartNetworkInsightsAnalysisOutput{NetworkInsightsAnalysis: &out}, nil
}

// DeleteNetworkInsightsAnalysis deletes an analysis.
func (s *Service) DeleteNetworkInsightsAnalysis(ctx context.Context, in *awsec2.DeleteNetworkInsightsAnalysisInput) (*awsec2.DeleteNetworkInsightsAnalysisOutput, error) {
	sc := resource.ScopeOf(ctx)
	if in.NetworkInsightsAnalysisId == nil {
		return nil, ec2err.Missing("networkInsightsAnalysisId")
	}
	id := *in.NetworkInsightsAnalysisId
	err := s.Update(ctx, in.DryRun, func(tx *store.Tx) error {
		if _, err := resource.Get(tx, Analyses, sc, id); err != nil {
			return err
		}
		Analyses.Delete(tx, sc.Key(id))
		return nil
	})
	return &awsec2.DeleteNetworkInsightsAnalysisOutput{NetworkInsightsAnalysisId: aws.String(id)}, err
}

// DescribeNetworkInsightsAnalyses lists analyses.
func (s *Service) DescribeNetworkInsightsAnalyses(ctx context.Context, in *awsec2.DescribeNetworkInsightsAnalysesInput) (*awsec2.DescribeNetworkInsightsAnalysesOutput, error) {
	sc := resource.ScopeOf(ctx)
	type v = Analysis
	match, err := filter.Compile(in.Filters, filter.Fields[v]{
		"path-found": filter.Flag(func(a v) bool { return a.Verdict.Reachable }),
		"status":     filter.One(func(v) string { return string(ec2types.AnalysisStatusSucceeded) }),
	}, func(a v) tag.Set { return a.Tags })
	if err != nil {
		return nil, err
	}
	if err := resource.CheckDryRun(in.DryRun); err != nil {
		return nil, err
	}
	found, err := resource.Choose(s.Store, Analyses, sc, in.NetworkInsightsAnalysisIds, func(a v) bool {
		return match(a) && (in.NetworkInsightsPathId == nil || a.PathID == *in.NetworkInsightsPathId) &&
			(in.AnalysisStartTime == nil || !a.Started.Before(*in.AnalysisStartTime)) &&
			(in.AnalysisEndTime == nil || !a.Started.After(*in.AnalysisEndTime))
	})
	if err != nil {
		return nil, err
	}
	found, next, err := resource.Paginate(found, func(a v) string { return a.ID }, in.MaxResults, in.NextToken, resource.Limits{Min: 1, Max: 100})
	return &awsec2.DescribeNetworkInsightsAnalysesOutput{NetworkInsightsAnalyses: resource.SDKAll(sc, found), NextToken: next}, err
}

// Version 2: explanations name the attribute or target group that blocks traffic, and verdicts have
// no commands.
var Analyses = resource.NewKind("network-insights-analysis", AnalysisID, func(v *Analysis) (string, *tag.Set) { return v.ID, &v.Tags }, store.Same)
