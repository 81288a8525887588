package transit

import (
	"context"
	"net/netip"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/firewall"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/store"
)

// destination parses the block of a route.
func destination(in *string) (string, error) {
	if in == nil {
		return "", ec2err.Missing("DestinationCidrBlock")
	}
	p, ok := resource.ParseCIDR(*in)
	if !ok {
		p, ok = resource.ParseCIDR6(*in)
	}
	if !ok {
		return "", ec2err.CIDR(*in, "DestinationCidrBlock")
	}
	return p.String(), nil
}

// target checks the attachment of a static route: one of the table's gateway, or none for a black hole.
func target(tx *store.Tx, sc resource.Scope, t record.TransitRouteTable, attachment *string, blackhole *bool) (string, error) {
	if aws.ToBool(blackhole) {
		if aws.ToString(attachment) != "" {
			return "", ec2err.Combination("TransitGatewayAttachmentId cannot be specified for a blackhole route.") // from memory
		}
		return "", nil
	}
	if aws.ToString(attachment) == "" {
		return "", ec2err.Missing("TransitGatewayAttachmentId")
	}
	a, err := liveAttachment(tx, sc, *attachment)
	if err == nil && a.GatewayID != t.GatewayID {
		err = errOtherGateway(a.ID, t.ID)
	}
	return a.ID, err
}

// change edits a live route table.
func (s *Service) change(ctx context.Context, dryRun *bool, id *string, edit func(tx *store.Tx, sc resource.Scope, t *record.TransitRouteTable) error) (resource.Scope, record.TransitRouteTable, error) {
	sc := resource.ScopeOf(ctx)
	t, err := resource.Change(ctx, s.Core, record.TransitRouteTables, dryRun, id, func(tx *store.Tx, t *record.TransitRouteTable) error {
		switch {
		case !t.Live():
			return resource.TransitRouteTableID.NotFound(t.ID)
		case t.State != record.TransitAvailable:
			return errState(t.ID)
		}
		t.Routes, t.Lists = slices.Clone(t.Routes), slices.Clone(t.Lists)
		return edit(tx, sc, t)
	})
	return sc, t, err
}

func find(routes []record.TransitRoute, destination string) int {
	return slices.IndexFunc(routes, func(r record.TransitRoute) bool { return r.Destination == destination })
}

// CreateTransitGatewayRoute adds a static route.
func (s *Service) CreateTransitGatewayRoute(ctx context.Context, in *awsec2.CreateTransitGatewayRouteInput) (*awsec2.CreateTransitGatewayRouteOutput, error) {
	to, err := destination(in.DestinationCidrBlock)
	if err != nil {
		return nil, err
	}
	r := record.TransitRoute{Destination: to}
	sc, _, err := s.change(ctx, in.DryRun, in.TransitGatewayRouteTableId, func(tx *store.Tx, sc resource.Scope, t *record.TransitRouteTable) error {
		if find(t.Routes, to) >= 0 {
			return errRouteExists(to, t.ID)
		}
		var err error
		if r.AttachmentID, err = target(tx, sc, *t, in.TransitGatewayAttachmentId, in.Blackhole); err != nil {
			return err
		}
		t.Routes = append(t.Routes, r)
		n := 0
		for _, o := range resource.List(tx, record.TransitRouteTables, sc, func(o record.TransitRouteTable) bool { return o.GatewayID == t.GatewayID && o.Live() }) {
			n += len(o.Routes)
		}
		if n >= routesOfGateway {
			return ec2err.Limit("RouteLimitExceeded", "routes per transit gateway")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.CreateTransitGatewayRouteOutput{Route: new(s.route(sc, r))}, nil
}

// ReplaceTransitGatewayRoute changes the target of a static route.
func (s *Service) ReplaceTransitGatewayRoute(ctx context.Context, in *awsec2.ReplaceTransitGatewayRouteInput) (*awsec2.ReplaceTransitGatewayRouteOutput, error) {
	to, err := destination(in.DestinationCidrBlock)
	if err != nil {
		return nil, err
	}
	r := record.TransitRoute{Destination: to}
	sc, _, err := s.change(ctx, in.DryRun, in.TransitGatewayRouteTableId, func(tx *store.Tx, sc resource.Scope, t *record.TransitRouteTable) error {
		i := find(t.Routes, to)
		if i < 0 {
			return errNoRoute(to, t.ID)
		}
		var err error
		r.AttachmentID, err = target(tx, sc, *t, in.TransitGatewayAttachmentId, in.Blackhole)
		t.Routes[i] = r
		return err
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.ReplaceTransitGatewayRouteOutput{Route: new(s.route(sc, r))}, nil
}

// DeleteTransitGatewayRoute removes a static route.
func (s *Service) DeleteTransitGatewayRoute(ctx context.Context, in *awsec2.DeleteTransitGatewayRouteInput) (*awsec2.DeleteTransitGatewayRouteOutput, error) {
	to, err := destination(in.DestinationCidrBlock)
	if err != nil {
		return nil, err
	}
	var r record.TransitRoute
	sc, _, err := s.change(ctx, in.DryRun, in.TransitGatewayRouteTableId, func(_ *store.Tx, _ resource.Scope, t *record.TransitRouteTable) error {
		i := find(t.Routes, to)
		if i < 0 {
			return errNoRoute(to, t.ID)
		}
		r = t.Routes[i]
		t.Routes = slices.Delete(t.Routes, i, i+1)
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := s.route(sc, r)
	out.State = ec2types.TransitGatewayRouteStateDeleted
	return &awsec2.DeleteTransitGatewayRouteOutput{Route: &out}, nil
}

// route renders a route for the SDK.
func (s *Service) route(sc resource.Scope, r record.TransitRoute) ec2types.TransitGatewayRoute {
	out := ec2types.TransitGatewayRoute{
		DestinationCidrBlock: aws.String(r.Destination), PrefixListId: resource.Optional(r.List),
		State: ec2types.TransitGatewayRouteStateBlackhole, Type: ec2types.TransitGatewayRouteTypeStatic,
	}
	if r.Propagated {
		out.Type = ec2types.TransitGatewayRouteTypePropagated
	}
	if r.AttachmentID == "" {
		return out
	}
	if r.Live(s.Store, sc) {
		out.State = ec2types.TransitGatewayRouteStateActive
	}
	a, _ := record.TransitAttachments.Get(s.Store, sc.Key(r.AttachmentID)) // it may be gone
	out.TransitGatewayAttachments = []ec2types.TransitGatewayRouteAttachment{{
		TransitGatewayAttachmentId: aws.String(r.AttachmentID), ResourceId: resource.Optional(a.VPCID), ResourceType: ec2types.TransitGatewayAttachmentResourceTypeVpc,
	}}
	return out
}

// Entries returns a function that returns the blocks of a prefix list, of AWS's or the scope's own.
func Entries(r store.Reader, sc resource.Scope) func(list string) []string {
	return func(list string) []string {
		p, err := firewall.FindPrefixList(r, sc, list)
		if err != nil {
			return nil
		}
		return resource.Map(p.Entries(), func(e record.PrefixListEntry) string { return e.CIDR })
	}
}

// SearchTransitGatewayRoutes lists the routes of a table that match all filters.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_SearchTransitGatewayRoutes.html
func (s *Service) SearchTransitGatewayRoutes(ctx context.Context, in *awsec2.SearchTransitGatewayRoutesInput) (*awsec2.SearchTransitGatewayRoutesOutput, error) {
	sc := resource.ScopeOf(ctx)
	if len(in.Filters) == 0 {
		return nil, ec2err.Missing("Filter")
	}
	t, err := resource.Get(s.Store, record.TransitRouteTables, sc, aws.ToString(in.TransitGatewayRouteTableId))
	if err != nil {
		return nil, err
	}
	type v = ec2types.TransitGatewayRoute
	attached := func(get func(ec2types.TransitGatewayRouteAttachment) string) func(v) []string {
		return func(r v) []string { return resource.Map(r.TransitGatewayAttachments, get) }
	}
	var plain []ec2types.Filter
	var search []func(v) bool
	for _, f := range in.Filters {
		relation, ok := relations[aws.ToString(f.Name)]
		if !ok {
			plain = append(plain, f)
			continue
		}
		var wanted []netip.Prefix
		for _, text := range f.Values {
			p, err := netip.ParsePrefix(text)
			if a, aerr := netip.ParseAddr(text); err != nil && aerr == nil {
				p, err = netip.PrefixFrom(a, a.BitLen()), nil
			}
			if err != nil {
				return nil, ec2err.CIDR(text, *f.Name)
			}
			wanted = append(wanted, p.Masked())
		}
		search = append(search, func(r v) bool {
			have, err := netip.ParsePrefix(aws.ToString(r.DestinationCidrBlock))
			return err == nil && slices.ContainsFunc(wanted, func(p netip.Prefix) bool { return relation(have, p) })
		})
	}
	match, err := filter.Compile(plain, filter.Fields[v]{
		"attachment.transit-gateway-attachment-id": attached(func(a ec2types.TransitGatewayRouteAttachment) string {
			return aws.ToString(a.TransitGatewayAttachmentId)
		}),
		"attachment.resource-id":   attached(func(a ec2types.TransitGatewayRouteAttachment) string { return aws.ToString(a.ResourceId) }),
		"attachment.resource-type": attached(func(a ec2types.TransitGatewayRouteAttachment) string { return string(a.ResourceType) }),
		"prefix-list-id":           filter.One(func(r v) string { return aws.ToString(r.PrefixListId) }),
		"state":                    filter.One(func(r v) string { return string(r.State) }),
		"type":                     filter.One(func(r v) string { return string(r.Type) }),
	}, nil)
	if err != nil {
		return nil, err
	}
	if err := resource.CheckDryRun(in.DryRun); err != nil {
		return nil, err
	}
	most := int(aws.ToInt32(in.MaxResults))
	if most == 0 {
		most = 1000
	}
	out := &awsec2.SearchTransitGatewayRoutesOutput{Routes: []v{}, AdditionalRoutesAvailable: aws.Bool(false)}
	for _, r := range record.TransitRoutes(s.Store, sc, t, Entries(s.Store, sc)) {
		sdk := s.route(sc, r)
		if !match(sdk) || slices.ContainsFunc(search, func(ok func(v) bool) bool { return !ok(sdk) }) {
			continue
		}
		if len(out.Routes) == most {
			out.AdditionalRoutesAvailable = aws.Bool(true)
			break
		}
		out.Routes = append(out.Routes, sdk)
	}
	if slices.ContainsFunc(in.Filters, func(f ec2types.Filter) bool { return aws.ToString(f.Name) == "route-search.longest-prefix-match" }) {
		out.Routes = longest(out.Routes)
	}
	return out, nil
}

// relations say by the name of a filter whether a route's block has the wanted relation to the filter's.
var relations = map[string]func(route, wanted netip.Prefix) bool{
	"route-search.exact-match":          func(r, w netip.Prefix) bool { return r == w },
	"route-search.longest-prefix-match": func(r, w netip.Prefix) bool { return resource.Within(r, w) },
	"route-search.subnet-of-match":      func(r, w netip.Prefix) bool { return resource.Within(w, r) },
	"route-search.supernet-of-match":    func(r, w netip.Prefix) bool { return resource.Within(r, w) },
}

// longest returns the route with the longest prefix.
func longest(routes []ec2types.TransitGatewayRoute) []ec2types.TransitGatewayRoute {
	bits := func(r ec2types.TransitGatewayRoute) int {
		p, _ := netip.ParsePrefix(aws.ToString(r.DestinationCidrBlock))
		return p.Bits()
	}
	if len(routes) == 0 {
		return routes
	}
	return []ec2types.TransitGatewayRoute{slices.MaxFunc(routes, func(a, b ec2types.TransitGatewayRoute) int { return bits(a) - bits(b) })}
}

// reference renders a reference to a prefix list for the SDK.
func (s *Service) reference(sc resource.Scope, t record.TransitRouteTable, r record.TransitRoute, state ec2types.TransitGatewayPrefixListReferenceState) *ec2types.TransitGatewayPrefixListReference {
	out := &ec2types.TransitGatewayPrefixListReference{
		TransitGatewayRouteTableId: aws.String(t.ID), PrefixListId: aws.String(r.Destination), PrefixListOwnerId: aws.String(sc.Account),
		State: state, Blackhole: aws.Bool(r.AttachmentID == ""),
	}
	if p, err := firewall.FindPrefixList(s.Store, sc, r.Destination); err == nil && p.Managed {
		out.PrefixListOwnerId = aws.String("AWS")
	}
	if r.AttachmentID != "" {
		a, _ := record.TransitAttachments.Get(s.Store, sc.Key(r.AttachmentID)) // it may be gone
		out.TransitGatewayAttachment = &ec2types.TransitGatewayPrefixListAttachment{
			TransitGatewayAttachmentId: aws.String(r.AttachmentID), ResourceId: resource.Optional(a.VPCID), ResourceType: ec2types.TransitGatewayAttachmentResourceTypeVpc,
		}
	}
	return out
}

// CreateTransitGatewayPrefixListReference adds routes to all blocks of a prefix list, as they are at any time.
func (s *Service) CreateTransitGatewayPrefixListReference(ctx context.Context, in *awsec2.CreateTransitGatewayPrefixListReferenceInput) (*awsec2.CreateTransitGatewayPrefixListReferenceOutput, error) {
	r := record.TransitRoute{Destination: aws.ToString(in.PrefixListId)}
	sc, t, err := s.change(ctx, in.DryRun, in.TransitGatewayRouteTableId, func(tx *store.Tx, sc resource.Scope, t *record.TransitRouteTable) error {
		if _, err := firewall.FindPrefixList(tx, sc, r.Destination); err != nil {
			return err
		}
		if find(t.Lists, r.Destination) >= 0 {
			return errListExists(r.Destination, t.ID)
		}
		var err error
		r.AttachmentID, err = target(tx, sc, *t, in.TransitGatewayAttachmentId, in.Blackhole)
		t.Lists = append(t.Lists, r)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.CreateTransitGatewayPrefixListReferenceOutput{TransitGatewayPrefixListReference: s.reference(sc, t, r, ec2types.TransitGatewayPrefixListReferenceStatePending)}, nil
}

// ModifyTransitGatewayPrefixListReference changes the target of these routes.
func (s *Service) ModifyTransitGatewayPrefixListReference(ctx context.Context, in *awsec2.ModifyTransitGatewayPrefixListReferenceInput) (*awsec2.ModifyTransitGatewayPrefixListReferenceOutput, error) {
	r := record.TransitRoute{Destination: aws.ToString(in.PrefixListId)}
	sc, t, err := s.change(ctx, in.DryRun, in.TransitGatewayRouteTableId, func(tx *store.Tx, sc resource.Scope, t *record.TransitRouteTable) error {
		i := find(t.Lists, r.Destination)
		if i < 0 {
			return errNoReference(r.Destination, t.ID)
		}
		var err error
		r.AttachmentID, err = target(tx, sc, *t, in.TransitGatewayAttachmentId, in.Blackhole)
		t.Lists[i] = r
		return err
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.ModifyTransitGatewayPrefixListReferenceOutput{TransitGatewayPrefixListReference: s.reference(sc, t, r, ec2types.TransitGatewayPrefixListReferenceStateModifying)}, nil
}

// DeleteTransitGatewayPrefixListReference removes these routes.
func (s *Service) DeleteTransitGatewayPrefixListReference(ctx context.Context, in *awsec2.DeleteTransitGatewayPrefixListReferenceInput) (*awsec2.DeleteTransitGatewayPrefixListReferenceOutput, error) {
	var r record.TransitRoute
	sc, t, err := s.change(ctx, in.DryRun, in.TransitGatewayRouteTableId, func(_ *store.Tx, _ resource.Scope, t *record.TransitRouteTable) error {
		i := find(t.Lists, aws.ToString(in.PrefixListId))
		if i < 0 {
			return errNoReference(aws.ToString(in.PrefixListId), t.ID)
		}
		r = t.Lists[i]
		t.Lists = slices.Delete(t.Lists, i, i+1)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.DeleteTransitGatewayPrefixListReferenceOutput{TransitGatewayPrefixListReference: s.reference(sc, t, r, ec2types.TransitGatewayPrefixListReferenceStateDeleting)}, nil
}

// GetTransitGatewayPrefixListReferences lists a table's references to prefix lists.
func (s *Service) GetTransitGatewayPrefixListReferences(ctx context.Context, in *awsec2.GetTransitGatewayPrefixListReferencesInput) (*awsec2.GetTransitGatewayPrefixListReferencesOutput, error) {
	sc := resource.ScopeOf(ctx)
	t, err := resource.Get(s.Store, record.TransitRouteTables, sc, aws.ToString(in.TransitGatewayRouteTableId))
	if err != nil {
		return nil, err
	}
	type v = ec2types.TransitGatewayPrefixListReference
	attached := func(get func(ec2types.TransitGatewayPrefixListAttachment) *string) func(v) []string {
		return filter.One(func(r v) string {
			if r.TransitGatewayAttachment == nil {
				return ""
			}
			return aws.ToString(get(*r.TransitGatewayAttachment))
		})
	}
	match, err := filter.Compile(in.Filters, filter.Fields[v]{
		"attachment.resource-id":                   attached(func(a ec2types.TransitGatewayPrefixListAttachment) *string { return a.ResourceId }),
		"attachment.transit-gateway-attachment-id": attached(func(a ec2types.TransitGatewayPrefixListAttachment) *string { return a.TransitGatewayAttachmentId }),
		"attachment.resource-type": filter.One(func(r v) string {
			if r.TransitGatewayAttachment == nil {
				return ""
			}
			return string(r.TransitGatewayAttachment.ResourceType)
		}),
		"is-blackhole":         filter.Flag(func(r v) bool { return *r.Blackhole }),
		"prefix-list-id":       filter.One(func(r v) string { return *r.PrefixListId }),
		"prefix-list-owner-id": filter.One(func(r v) string { return *r.PrefixListOwnerId }),
		"state":                filter.One(func(r v) string { return string(r.State) }),
	}, nil)
	if err != nil {
		return nil, err
	}
	if err := resource.CheckDryRun(in.DryRun); err != nil {
		return nil, err
	}
	all := resource.Map(t.Lists, func(r record.TransitRoute) v {
		return *s.reference(sc, t, r, ec2types.TransitGatewayPrefixListReferenceStateAvailable)
	})
	all = slices.DeleteFunc(all, func(r v) bool { return !match(r) })
	page, next, err := resource.Paginate(all, func(r v) string { return *r.PrefixListId }, in.MaxResults, in.NextToken, limits)
	return &awsec2.GetTransitGatewayPrefixListReferencesOutput{TransitGatewayPrefixListReferences: page, NextToken: next}, err
}
