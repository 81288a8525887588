package insights

import (
	"context"
	"net/netip"
	"strconv"
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

var Paths = resource.NewKind("network-insights-path", PathID, func(v *Path) (string, *tag.Set) { return v.ID, &v.Tags })

var (
	PathID = resource.IDKind{Prefix: "nip", Malformed: "", NotFoundCode: "InvalidNetworkInsightsPathId.NotFound",
		NotFoundOne: "The networkInsightsPath ID '%s' does not exist", NotFoundMany: "The networkInsightsPath IDs '%s' do not exist"}
	AnalysisID = resource.IDKind{Prefix: "nia", Malformed: "", NotFoundCode: "InvalidNetworkInsightsAnalysisId.NotFound",
		NotFoundOne: "The networkInsightsAnalysis ID '%s' does not exist", NotFoundMany: "The networkInsightsAnalysis IDs '%s' do not exist"}
)

// A Path is a path to be analyzed by Reachability Analyzer.
type Path struct {
	ID              string // nip-…
	Source          string
	SourceIP        string `json:",omitempty"`
	Destination     string `json:",omitempty"`
	DestinationIP   string `json:",omitempty"`
	DestinationPort int32  `json:",omitempty"`
	Protocol        string
	Filter          *filterPart `json:",omitempty"` // filter at the source
	Created         time.Time
	Tags            tag.Set `json:",omitempty"`
}

// A filterPart narrows down the packets to analyze.
type filterPart struct {
	SourceAddress, DestinationAddress string           `json:",omitempty"`
	SourcePorts, DestinationPorts     *reach.PortRange `json:",omitempty"`
}

// SDK renders the record for the SDK.
func (p Path) SDK(sc resource.Scope) ec2types.NetworkInsightsPath {
	out := ec2types.NetworkInsightsPath{
		NetworkInsightsPathId: aws.String(p.ID), NetworkInsightsPathArn: aws.String(sc.ARN("network-insights-path", p.ID)),
		CreatedDate: aws.Time(p.Created), Protocol: ec2types.Protocol(p.Protocol),
		Source: aws.String(p.Source), SourceArn: aws.String(componentARN(sc, p.Source)), SourceIp: resource.Optional(p.SourceIP),
		Destination: resource.Optional(p.Destination), DestinationIp: resource.Optional(p.DestinationIP), Tags: p.Tags.SDK(),
	}
	if p.Destination != "" {
		out.DestinationArn = aws.String(componentARN(sc, p.Destination))
	}
	if p.DestinationPort != 0 {
		out.DestinationPort = aws.Int32(p.DestinationPort)
	}
	if f := p.Filter; f != nil {
		out.FilterAtSource = &ec2types.PathFilter{
			SourceAddress: resource.Optional(f.SourceAddress), DestinationAddress: resource.Optional(f.DestinationAddress),
			SourcePortRange: sdkPorts(f.SourcePorts), DestinationPortRange: sdkPorts(f.DestinationPorts),
		}
	}
	return out
}

func sdkPorts(r *reach.PortRange) *ec2types.FilterPortRange {
	if r == nil {
		return nil
	}
	return &ec2types.FilterPortRange{FromPort: aws.Int32(int32(r.From)), ToPort: aws.Int32(int32(r.To))}
}

// pathEnd returns the ID of an end of a path, given as an ID or ARN.
func pathEnd(s, param string) (string, error) {
	id := s
	if strings.HasPrefix(s, "arn:") {
		id = s[strings.LastIndex(s, "/")+1:]
	}
	for _, prefix := range []string{"i-", "eni-", "igw-", "vpce-"} {
		if strings.HasPrefix(id, prefix) && resource.IsHex(id[len(prefix):]) {
			return id, nil
		}
	}
	return "", ec2err.InvalidValue(s, param, "") // from memory
}

func pathAddress(s *string, param string) (string, error) {
	if s == nil {
		return "", nil
	}
	a, err := netip.ParseAddr(*s)
	if err != nil || !a.Is4() {
		return "", ec2err.InvalidValue(*s, param, "It is not a valid IPv4 address.") // from memory
	}
	return a.String(), nil
}

func pathPorts(r *ec2types.RequestFilterPortRange, param string) (*reach.PortRange, error) {
	if r == nil {
		return nil, nil
	}
	from, to := int32(0), int32(65535)
	if r.FromPort != nil {
		from, to = *r.FromPort, *r.FromPort
	}
	if r.ToPort != nil {
		to = *r.ToPort
	}
	if from < 0 || to > 65535 || from > to {
		return nil, ec2err.InvalidValue(strconv.Itoa(int(from))+"-"+strconv.Itoa(int(to)), param, "It is not a valid port range.") // from memory
	}
	return &reach.PortRange{From: uint16(from), To: uint16(to)}, nil
}

// newPath checks a request and returns the path to store.
func newPath(in *awsec2.CreateNetworkInsightsPathInput) (Path, error) {
	p := Path{ID: ids.Resource("nip"), Protocol: string(in.Protocol)}
	if in.Source == nil {
		return p, ec2err.Missing("source")
	}
	var err error
	if p.Source, err = pathEnd(*in.Source, "source"); err != nil {
		return p, err
	}
	if in.Destination != nil {
		if p.Destination, err = pathEnd(*in.Destination, "destination"); err != nil {
			return p, err
		}
	}
	if in.Protocol != ec2types.ProtocolTcp && in.Protocol != ec2types.ProtocolUdp {
		return p, ec2err.InvalidValue(in.Protocol, "protocol", "")
	}
	if p.SourceIP, err = pathAddress(in.SourceIp, "sourceIp"); err != nil {
		return p, err
	}
	if p.DestinationIP, err = pathAddress(in.DestinationIp, "destinationIp"); err != nil {
		return p, err
	}
	if port := in.DestinationPort; port != nil {
		if *port < 0 || *port > 65535 {
			return p, ec2err.InvalidValue(*port, "destinationPort", "")
		}
		p.DestinationPort = *port
	}
	if f := in.FilterAtSource; f != nil {
		if in.SourceIp != nil || in.DestinationPort != nil {
			return p, ec2err.Combination("The parameter FilterAtSource cannot be used with the parameters SourceIp and DestinationPort.") // from memory
		}
		p.Filter = &filterPart{}
		if p.Filter.SourceAddress, err = pathAddress(f.SourceAddress, "filterAtSource.sourceAddress"); err != nil {
			return p, err
		}
		if p.Filter.DestinationAddress, err = pathAddress(f.DestinationAddress, "filterAtSource.destinationAddress"); err != nil {
			return p, err
		}
		if p.Filter.SourcePorts, err = pathPorts(f.SourcePortRange, "filterAtSource.sourcePortRange"); err != nil {
			return p, err
		}
		if p.Filter.DestinationPorts, err = pathPorts(f.DestinationPortRange, "filterAtSource.destinationPortRange"); err != nil {
			return p, err
		}
	}
	if p.Destination == "" && (p.Filter == nil || p.Filter.DestinationAddress == "") {
		// https://github.com/hashicorp/terraform-provider-aws/issues/38132
		return p, ec2err.New("MissingParameter", "The request must include either the Destination parameter or the FilterAtSource.DestinationAddress parameter. Add the required parameter and retry the request.")
	}
	return p, nil
}

// CreateNetworkInsightsPath stores a path.
func (s *Service) CreateNetworkInsightsPath(ctx context.Context, in *awsec2.CreateNetworkInsightsPathInput) (*awsec2.CreateNetworkInsightsPathOutput, error) {
	sc := resource.ScopeOf(ctx)
	p, err := newPath(in)
	if err != nil {
		return nil, err
	}
	if p.Tags, err = tag.Specified(ctx, in.TagSpecifications, ec2types.ResourceTypeNetworkInsightsPath); err != nil {
		return nil, err
	}
	network, err := s.Reach(ctx, sc.Account, sc.Region)
	if err != nil {
		return nil, err
	}
	for _, id := range []string{p.Source, p.Destination} {
		if id != "" && network.Get(id) == nil {
			return nil, errComponentNotFound(id)
		}
	}
	p.Created = s.Now()
	made, err := resource.Create(ctx, s.Core, Paths, in.DryRun, in.ClientToken, in, func(_ *store.Tx, made *Path) error {
		*made = p
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.CreateNetworkInsightsPathOutput{NetworkInsightsPath: new(made.SDK(sc))}, nil
}

// errComponentNotFound returns the error of the component's own kind.
func errComponentNotFound(id string) error {
	for _, k := range []resource.IDKind{resource.InstanceID, resource.NetworkInterfaceID, resource.InternetGatewayID} {
		if strings.HasPrefix(id, k.Prefix+"-") {
			return k.NotFound(id)
		}
	}
	return ec2err.New("InvalidVpcEndpointId.NotFound", "The Vpc Endpoint Id '%s' does not exist", id)
}

// DeleteNetworkInsightsPath deletes a path without analyses.
func (s *Service) DeleteNetworkInsightsPath(ctx context.Context, in *awsec2.DeleteNetworkInsightsPathInput) (*awsec2.DeleteNetworkInsightsPathOutput, error) {
	sc := resource.ScopeOf(ctx)
	if in.NetworkInsightsPathId == nil {
		return nil, ec2err.Missing("networkInsightsPathId")
	}
	id := *in.NetworkInsightsPathId
	err := s.Update(ctx, in.DryRun, func(tx *store.Tx) error {
		if _, err := resource.Get(tx, Paths, sc, id); err != nil {
			return err
		}
		used := resource.Exists(tx, Analyses, sc, func(a Analysis) bool { return a.PathID == id })
		if used {
			// Terraform retries on the code. The text is from memory.
			return ec2err.New("AnalysisExistsForNetworkInsightsPath", "The network insights path '%s' has analyses and cannot be deleted.", id)
		}
		Paths.Delete(tx, sc.Key(id))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.DeleteNetworkInsightsPathOutput{NetworkInsightsPathId: aws.String(id)}, nil
}

func pathFields() filter.Fields[Path] {
	type v = Path
	f := func(get func(*filterPart) string) func(v) []string {
		return filter.One(func(p v) string {
			if p.Filter == nil {
				return ""
			}
			return get(p.Filter)
		})
	}
	ports := func(r *reach.PortRange) string {
		if r == nil {
			return ""
		}
		return r.String()
	}
	return filter.Fields[v]{
		"destination":                             filter.One(func(p v) string { return p.Destination }),
		"protocol":                                filter.One(func(p v) string { return p.Protocol }),
		"source":                                  filter.One(func(p v) string { return p.Source }),
		"filter-at-source.source-address":         f(func(f *filterPart) string { return f.SourceAddress }),
		"filter-at-source.destination-address":    f(func(f *filterPart) string { return f.DestinationAddress }),
		"filter-at-source.source-port-range":      f(func(f *filterPart) string { return ports(f.SourcePorts) }),
		"filter-at-source.destination-port-range": f(func(f *filterPart) string { return ports(f.DestinationPorts) }),
		// FilterAtDestination is not supported, so no path has one.
		"filter-at-destination.source-address":         filter.Never[v],
		"filter-at-destination.destination-address":    filter.Never[v],
		"filter-at-destination.source-port-range":      filter.Never[v],
		"filter-at-destination.destination-port-range": filter.Never[v],
	}
}

// DescribeNetworkInsightsPaths lists paths.
func (s *Service) DescribeNetworkInsightsPaths(ctx context.Context, in *awsec2.DescribeNetworkInsightsPathsInput) (*awsec2.DescribeNetworkInsightsPathsOutput, error) {
	sc := resource.ScopeOf(ctx)
	found, next, err := resource.Describe(s.Store, sc, Paths, resource.Query{
		IDs: in.NetworkInsightsPathIds, Filters: in.Filters, DryRun: in.DryRun, MaxResults: in.MaxResults, NextToken: in.NextToken, Limits: resource.Limits{Min: 1, Max: 100},
	}, pathFields())
	return &awsec2.DescribeNetworkInsightsPathsOutput{NetworkInsightsPaths: resource.SDKAll(sc, found), NextToken: next}, err
}
