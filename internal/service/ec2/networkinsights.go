package ec2

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
	"github.com/drydock-dev/drydock/internal/store"
)

var (
	insightsPaths    = store.NewCollection[insightsPathRecord]("ec2", "network-insights-path")
	insightsAnalyses = store.NewCollection[insightsAnalysisRecord]("ec2", "network-insights-analysis")
)

var (
	insightsPathID = idKind{"nip", "", "InvalidNetworkInsightsPathId.NotFound",
		"The networkInsightsPath ID '%s' does not exist", "The networkInsightsPath IDs '%s' do not exist"}
	insightsAnalysisID = idKind{"nia", "", "InvalidNetworkInsightsAnalysisId.NotFound",
		"The networkInsightsAnalysis ID '%s' does not exist", "The networkInsightsAnalysis IDs '%s' do not exist"}
)

// An insightsPathRecord is a question to Reachability Analyzer.
type insightsPathRecord struct {
	ID              string // nip-…
	Source          string
	SourceIP        string `json:",omitempty"`
	Destination     string `json:",omitempty"`
	DestinationIP   string `json:",omitempty"`
	DestinationPort int32  `json:",omitempty"`
	Protocol        string
	Filter          *insightsFilter `json:",omitempty"` // at the source
	Created         time.Time
	Tags            Tags `json:",omitempty"`
}

// An insightsFilter narrows the packets that are looked at.
type insightsFilter struct {
	SourceAddress, DestinationAddress string           `json:",omitempty"`
	SourcePorts, DestinationPorts     *reach.PortRange `json:",omitempty"`
}

func (p insightsPathRecord) sdk(sc scope) ec2types.NetworkInsightsPath {
	out := ec2types.NetworkInsightsPath{
		NetworkInsightsPathId: aws.String(p.ID), NetworkInsightsPathArn: aws.String(sc.arn("network-insights-path", p.ID)),
		CreatedDate: aws.Time(p.Created), Protocol: ec2types.Protocol(p.Protocol),
		Source: aws.String(p.Source), SourceArn: aws.String(sc.componentARN(p.Source)), SourceIp: optional(p.SourceIP),
		Destination: optional(p.Destination), DestinationIp: optional(p.DestinationIP), Tags: p.Tags.sdk(),
	}
	if p.Destination != "" {
		out.DestinationArn = aws.String(sc.componentARN(p.Destination))
	}
	if p.DestinationPort != 0 {
		out.DestinationPort = aws.Int32(p.DestinationPort)
	}
	if f := p.Filter; f != nil {
		out.FilterAtSource = &ec2types.PathFilter{
			SourceAddress: optional(f.SourceAddress), DestinationAddress: optional(f.DestinationAddress),
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

// pathEnd reads the ID of a path's end from an ID or ARN.
func pathEnd(s, param string) (string, error) {
	id := s
	if strings.HasPrefix(s, "arn:") {
		id = s[strings.LastIndex(s, "/")+1:]
	}
	for _, prefix := range []string{"i-", "eni-", "igw-", "vpce-"} {
		if strings.HasPrefix(id, prefix) && isHex(id[len(prefix):]) {
			return id, nil
		}
	}
	return "", errInvalidValue(s, param, "") // from memory
}

func pathAddress(s *string, param string) (string, error) {
	if s == nil {
		return "", nil
	}
	a, err := netip.ParseAddr(*s)
	if err != nil || !a.Is4() {
		return "", errInvalidValue(*s, param, "It is not a valid IPv4 address.") // from memory
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
		return nil, errInvalidValue(strconv.Itoa(int(from))+"-"+strconv.Itoa(int(to)), param, "It is not a valid port range.") // from memory
	}
	return &reach.PortRange{From: uint16(from), To: uint16(to)}, nil
}

// newInsightsPath checks a request.
func newInsightsPath(in *awsec2.CreateNetworkInsightsPathInput) (insightsPathRecord, error) {
	p := insightsPathRecord{ID: ids.Resource("nip"), Protocol: string(in.Protocol)}
	if in.Source == nil {
		return p, errMissing("source")
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
		return p, errInvalidValue(in.Protocol, "protocol", "")
	}
	if p.SourceIP, err = pathAddress(in.SourceIp, "sourceIp"); err != nil {
		return p, err
	}
	if p.DestinationIP, err = pathAddress(in.DestinationIp, "destinationIp"); err != nil {
		return p, err
	}
	if port := in.DestinationPort; port != nil {
		if *port < 0 || *port > 65535 {
			return p, errInvalidValue(*port, "destinationPort", "")
		}
		p.DestinationPort = *port
	}
	if f := in.FilterAtSource; f != nil {
		if in.SourceIp != nil || in.DestinationPort != nil {
			return p, errCombination("The parameter FilterAtSource cannot be used with the parameters SourceIp and DestinationPort.") // from memory
		}
		p.Filter = &insightsFilter{}
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
		return p, errf("MissingParameter", "The request must include either the Destination parameter or the FilterAtSource.DestinationAddress parameter. Add the required parameter and retry the request.")
	}
	return p, nil
}

// CreateNetworkInsightsPath notes a question.
func (s *Service) CreateNetworkInsightsPath(ctx context.Context, in *awsec2.CreateNetworkInsightsPathInput) (*awsec2.CreateNetworkInsightsPathOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	p, err := newInsightsPath(in)
	if err != nil {
		return nil, err
	}
	if p.Tags, err = specifiedTags(ctx, in.TagSpecifications, ec2types.ResourceTypeNetworkInsightsPath); err != nil {
		return nil, err
	}
	network, err := s.Reach(ctx, sc.account, sc.region)
	if err != nil {
		return nil, err
	}
	for _, id := range []string{p.Source, p.Destination} {
		if id != "" && network.Get(id) == nil {
			return nil, errComponentNotFound(id)
		}
	}
	p.Created = s.now()
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		if done, err := recallOne(tx, s, sc, "CreateNetworkInsightsPath", in.ClientToken, in, insightsPaths, insightsPathID, &p); done || err != nil {
			return err
		}
		if err := insightsPaths.Create(tx, sc.key(p.ID), p); err != nil {
			return err
		}
		return s.remember(tx, sc, "CreateNetworkInsightsPath", in.ClientToken, in, false, p.ID)
	})
	if err != nil {
		return nil, err
	}
	out := p.sdk(sc)
	return &awsec2.CreateNetworkInsightsPathOutput{NetworkInsightsPath: &out}, nil
}

// errComponentNotFound is the error of the resource's own kind.
func errComponentNotFound(id string) error {
	for _, k := range []idKind{instanceID, networkInterfaceID, internetGatewayID} {
		if strings.HasPrefix(id, k.prefix+"-") {
			return k.notFound(id)
		}
	}
	return errf("InvalidVpcEndpointId.NotFound", "The Vpc Endpoint Id '%s' does not exist", id)
}

// DeleteNetworkInsightsPath deletes a path that has no analyses.
func (s *Service) DeleteNetworkInsightsPath(ctx context.Context, in *awsec2.DeleteNetworkInsightsPathInput) (*awsec2.DeleteNetworkInsightsPathOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	if in.NetworkInsightsPathId == nil {
		return nil, errMissing("networkInsightsPathId")
	}
	id := *in.NetworkInsightsPathId
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		if _, err := get(tx, insightsPaths, sc, insightsPathID, id); err != nil {
			return err
		}
		used, err := exists(tx, insightsAnalyses, sc, func(a insightsAnalysisRecord) bool { return a.PathID == id })
		if err != nil {
			return err
		}
		if used {
			// Terraform retries on the code; the text is from memory.
			return errf("AnalysisExistsForNetworkInsightsPath", "The network insights path '%s' has analyses and cannot be deleted.", id)
		}
		insightsPaths.Delete(tx, sc.key(id))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.DeleteNetworkInsightsPathOutput{NetworkInsightsPathId: aws.String(id)}, nil
}

func insightsPathFields() fields[insightsPathRecord] {
	type v = insightsPathRecord
	filter := func(get func(*insightsFilter) string) func(v) []string {
		return one(func(p v) string {
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
	return fields[v]{
		"destination":                             one(func(p v) string { return p.Destination }),
		"protocol":                                one(func(p v) string { return p.Protocol }),
		"source":                                  one(func(p v) string { return p.Source }),
		"filter-at-source.source-address":         filter(func(f *insightsFilter) string { return f.SourceAddress }),
		"filter-at-source.destination-address":    filter(func(f *insightsFilter) string { return f.DestinationAddress }),
		"filter-at-source.source-port-range":      filter(func(f *insightsFilter) string { return ports(f.SourcePorts) }),
		"filter-at-source.destination-port-range": filter(func(f *insightsFilter) string { return ports(f.DestinationPorts) }),
		// FilterAtDestination is not honoured, so that no path has one.
		"filter-at-destination.source-address":         never[v],
		"filter-at-destination.destination-address":    never[v],
		"filter-at-destination.source-port-range":      never[v],
		"filter-at-destination.destination-port-range": never[v],
	}
}

// DescribeNetworkInsightsPaths lists paths.
func (s *Service) DescribeNetworkInsightsPaths(ctx context.Context, in *awsec2.DescribeNetworkInsightsPathsInput) (*awsec2.DescribeNetworkInsightsPathsOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	match, err := compileFilters(in.Filters, insightsPathFields(), func(p insightsPathRecord) Tags { return p.Tags })
	if err != nil {
		return nil, err
	}
	if err := checkDryRun(in.DryRun); err != nil {
		return nil, err
	}
	found, err := choose(s.store, insightsPaths, sc, insightsPathID, in.NetworkInsightsPathIds, match)
	if err != nil {
		return nil, err
	}
	found, next, err := paginate(found, func(p insightsPathRecord) string { return p.ID }, in.MaxResults, in.NextToken, limits{1, 100})
	return &awsec2.DescribeNetworkInsightsPathsOutput{NetworkInsightsPaths: sdkAll(sc, found), NextToken: next}, err
}
