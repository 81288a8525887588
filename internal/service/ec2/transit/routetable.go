package transit

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/quota"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// liveTable returns a route table that was not deleted.
func liveTable(r store.Reader, sc resource.Scope, id string) (record.TransitRouteTable, error) {
	t, err := resource.Get(r, record.TransitRouteTables, sc, id)
	if err == nil && !t.Live() {
		err = resource.TransitRouteTableID.NotFound(id)
	}
	return t, err
}

// gatewayOf returns the transit gateway of a route table.
func gatewayOf(r store.Reader, sc resource.Scope, t record.TransitRouteTable) record.TransitGateway {
	g, _ := record.TransitGateways.Get(r, sc.Key(t.GatewayID)) // the zero gateway has no default tables
	return g
}

// A tableView is a route table with its gateway.
type tableView struct {
	record.TransitRouteTable
	gateway record.TransitGateway
}

func (t tableView) SDK(resource.Scope) ec2types.TransitGatewayRouteTable {
	return ec2types.TransitGatewayRouteTable{
		TransitGatewayRouteTableId: aws.String(t.ID), TransitGatewayId: aws.String(t.GatewayID), State: ec2types.TransitGatewayRouteTableState(t.State),
		CreationTime: aws.Time(t.Created), DefaultAssociationRouteTable: aws.Bool(t.gateway.AssociationTable == t.ID),
		DefaultPropagationRouteTable: aws.Bool(t.gateway.PropagationTable == t.ID), Tags: t.Tags.SDK(),
	}
}

// CreateTransitGatewayRouteTable creates an empty route table.
func (s *Service) CreateTransitGatewayRouteTable(ctx context.Context, in *awsec2.CreateTransitGatewayRouteTableInput) (*awsec2.CreateTransitGatewayRouteTableOutput, error) {
	sc := resource.ScopeOf(ctx)
	tags, err := tag.Specified(ctx, in.TagSpecifications, ec2types.ResourceTypeTransitGatewayRouteTable)
	if err != nil {
		return nil, err
	}
	t := record.TransitRouteTable{ID: ids.Resource("tgw-rtb"), TransitLife: s.begin(), Tags: tags}
	err = s.Update(ctx, in.DryRun, func(tx *store.Tx) error {
		g, err := resource.Get(tx, record.TransitGateways, sc, aws.ToString(in.TransitGatewayId))
		switch {
		case err != nil:
			return err
		case !g.Live():
			return resource.TransitGatewayID.NotFound(g.ID)
		case g.State != record.TransitAvailable:
			return errState(g.ID)
		}
		live := func(t record.TransitRouteTable) bool { return t.Live() && t.GatewayID == g.ID }
		if err := quota.Room(tx, sc, quota.TransitRouteTables, record.TransitRouteTables, live, ec2err.Limit("TransitGatewayRouteTableLimitExceeded", "route tables per transit gateway")); err != nil {
			return err
		}
		t.GatewayID = g.ID
		return record.TransitRouteTables.Create(tx, sc.Key(t.ID), t)
	})
	return &awsec2.CreateTransitGatewayRouteTableOutput{TransitGatewayRouteTable: new(tableView{t, record.TransitGateway{}}.SDK(sc))}, err
}

// DeleteTransitGatewayRouteTable deletes a route table that no attachment uses and that is not a default one.
func (s *Service) DeleteTransitGatewayRouteTable(ctx context.Context, in *awsec2.DeleteTransitGatewayRouteTableInput) (*awsec2.DeleteTransitGatewayRouteTableOutput, error) {
	sc := resource.ScopeOf(ctx)
	var v tableView
	_, err := resource.Change(ctx, s.Core, record.TransitRouteTables, in.DryRun, in.TransitGatewayRouteTableId, func(tx *store.Tx, t *record.TransitRouteTable) error {
		v.gateway = gatewayOf(tx, sc, *t)
		switch {
		case !t.Live():
			return resource.TransitRouteTableID.NotFound(t.ID)
		case t.State != record.TransitAvailable:
			return errState(t.ID)
		case v.gateway.AssociationTable == t.ID || v.gateway.PropagationTable == t.ID:
			return ec2err.New("IncorrectState", "Cannot delete default route table %s.", t.ID) // from memory
		}
		used := resource.Exists(tx, record.TransitAttachments, sc, func(a record.TransitAttachment) bool { return a.Table == t.ID })
		if used {
			return ec2err.New("IncorrectState", "%s has non-deleted Associations.", t.ID) // from memory
		}
		propagating := resource.List(tx, record.TransitAttachments, sc, func(a record.TransitAttachment) bool { return slices.Contains(a.Propagates, t.ID) })
		for _, a := range propagating {
			a.Propagates = without(a.Propagates, t.ID)
			if err := record.TransitAttachments.Put(tx, sc.Key(a.ID), a); err != nil {
				return err
			}
		}
		s.enter(&t.TransitLife, record.TransitDeleting)
		v.TransitRouteTable = *t
		return nil
	})
	return &awsec2.DeleteTransitGatewayRouteTableOutput{TransitGatewayRouteTable: new(v.SDK(sc))}, err
}

func without(all []string, gone string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == gone })
}

// DescribeTransitGatewayRouteTables lists route tables. Deleted ones stay listed for an hour.
func (s *Service) DescribeTransitGatewayRouteTables(ctx context.Context, in *awsec2.DescribeTransitGatewayRouteTablesInput) (*awsec2.DescribeTransitGatewayRouteTablesOutput, error) {
	sc := resource.ScopeOf(ctx)
	type v = record.TransitRouteTable
	found, next, err := resource.Describe(s.Store, sc, record.TransitRouteTables, resource.Query{
		IDs: in.TransitGatewayRouteTableIds, Filters: in.Filters, DryRun: in.DryRun, MaxResults: in.MaxResults, NextToken: in.NextToken, Limits: limits,
	}, filter.Fields[v]{
		"default-association-route-table": filter.Flag(func(t v) bool { return gatewayOf(s.Store, sc, t).AssociationTable == t.ID }),
		"default-propagation-route-table": filter.Flag(func(t v) bool { return gatewayOf(s.Store, sc, t).PropagationTable == t.ID }),
		"state":                           filter.One(func(t v) string { return t.State }),
		"transit-gateway-id":              filter.One(func(t v) string { return t.GatewayID }),
		"transit-gateway-route-table-id":  filter.One(func(t v) string { return t.ID }),
	})
	return &awsec2.DescribeTransitGatewayRouteTablesOutput{NextToken: next, TransitGatewayRouteTables: resource.Map(found, func(t v) ec2types.TransitGatewayRouteTable {
		return tableView{t, gatewayOf(s.Store, sc, t)}.SDK(sc)
	})}, err
}

// RouteTablesSettled reports whether none of the tables is changing its state.
func RouteTablesSettled(out *awsec2.DescribeTransitGatewayRouteTablesOutput) bool {
	return !slices.ContainsFunc(out.TransitGatewayRouteTables, func(t ec2types.TransitGatewayRouteTable) bool { return changing(string(t.State)) })
}

// link changes the relation of an attachment to a route table of its gateway.
func (s *Service) link(ctx context.Context, dryRun *bool, attachment, table *string, change func(a *record.TransitAttachment, table string) error) (record.TransitAttachment, error) {
	sc := resource.ScopeOf(ctx)
	var out record.TransitAttachment
	err := s.Update(ctx, dryRun, func(tx *store.Tx) error {
		t, err := liveTable(tx, sc, aws.ToString(table))
		if err != nil {
			return err
		}
		a, err := liveAttachment(tx, sc, aws.ToString(attachment))
		switch {
		case err != nil:
			return err
		case a.GatewayID != t.GatewayID:
			return errOtherGateway(a.ID, t.ID)
		case t.State != record.TransitAvailable:
			return errState(t.ID)
		case a.State == record.TransitPending:
			return errState(a.ID)
		}
		if err := change(&a, t.ID); err != nil {
			return err
		}
		out = a
		return record.TransitAttachments.Put(tx, sc.Key(a.ID), a)
	})
	return out, err
}

func association(a record.TransitAttachment, table *string, state ec2types.TransitGatewayAssociationState) *ec2types.TransitGatewayAssociation {
	return &ec2types.TransitGatewayAssociation{
		TransitGatewayAttachmentId: aws.String(a.ID), TransitGatewayRouteTableId: table, State: state,
		ResourceId: aws.String(a.VPCID), ResourceType: ec2types.TransitGatewayAttachmentResourceTypeVpc,
	}
}

// AssociateTransitGatewayRouteTable lets a table route what comes from an attachment that has no table.
func (s *Service) AssociateTransitGatewayRouteTable(ctx context.Context, in *awsec2.AssociateTransitGatewayRouteTableInput) (*awsec2.AssociateTransitGatewayRouteTableOutput, error) {
	a, err := s.link(ctx, in.DryRun, in.TransitGatewayAttachmentId, in.TransitGatewayRouteTableId, func(a *record.TransitAttachment, table string) error {
		if a.Table != "" {
			return errAssociated(a.ID)
		}
		a.Table = table
		return nil
	})
	return &awsec2.AssociateTransitGatewayRouteTableOutput{Association: association(a, in.TransitGatewayRouteTableId, ec2types.TransitGatewayAssociationStateAssociating)}, err
}

// DisassociateTransitGatewayRouteTable leaves an attachment without a table.
func (s *Service) DisassociateTransitGatewayRouteTable(ctx context.Context, in *awsec2.DisassociateTransitGatewayRouteTableInput) (*awsec2.DisassociateTransitGatewayRouteTableOutput, error) {
	a, err := s.link(ctx, in.DryRun, in.TransitGatewayAttachmentId, in.TransitGatewayRouteTableId, func(a *record.TransitAttachment, table string) error {
		if a.Table != table {
			return errNotAssociated(a.ID, table)
		}
		a.Table = ""
		return nil
	})
	return &awsec2.DisassociateTransitGatewayRouteTableOutput{Association: association(a, in.TransitGatewayRouteTableId, ec2types.TransitGatewayAssociationStateDisassociating)}, err
}

func propagation(a record.TransitAttachment, table *string, state ec2types.TransitGatewayPropagationState) *ec2types.TransitGatewayPropagation {
	return &ec2types.TransitGatewayPropagation{
		TransitGatewayAttachmentId: aws.String(a.ID), TransitGatewayRouteTableId: table, State: state,
		ResourceId: aws.String(a.VPCID), ResourceType: ec2types.TransitGatewayAttachmentResourceTypeVpc,
	}
}

// EnableTransitGatewayRouteTablePropagation gives a table routes to the blocks of an attachment's VPC.
func (s *Service) EnableTransitGatewayRouteTablePropagation(ctx context.Context, in *awsec2.EnableTransitGatewayRouteTablePropagationInput) (*awsec2.EnableTransitGatewayRouteTablePropagationOutput, error) {
	a, err := s.link(ctx, in.DryRun, in.TransitGatewayAttachmentId, in.TransitGatewayRouteTableId, func(a *record.TransitAttachment, table string) error {
		if slices.Contains(a.Propagates, table) {
			return errPropagates(a.ID, table)
		}
		a.Propagates = append(slices.Clone(a.Propagates), table)
		slices.Sort(a.Propagates)
		return nil
	})
	return &awsec2.EnableTransitGatewayRouteTablePropagationOutput{Propagation: propagation(a, in.TransitGatewayRouteTableId, ec2types.TransitGatewayPropagationStateEnabled)}, err
}

// DisableTransitGatewayRouteTablePropagation removes these routes.
func (s *Service) DisableTransitGatewayRouteTablePropagation(ctx context.Context, in *awsec2.DisableTransitGatewayRouteTablePropagationInput) (*awsec2.DisableTransitGatewayRouteTablePropagationOutput, error) {
	a, err := s.link(ctx, in.DryRun, in.TransitGatewayAttachmentId, in.TransitGatewayRouteTableId, func(a *record.TransitAttachment, table string) error {
		if !slices.Contains(a.Propagates, table) {
			return errNotPropagated(a.ID, table)
		}
		a.Propagates = without(a.Propagates, table)
		return nil
	})
	return &awsec2.DisableTransitGatewayRouteTablePropagationOutput{Propagation: propagation(a, in.TransitGatewayRouteTableId, ec2types.TransitGatewayPropagationStateDisabled)}, err
}

// users returns a page of the attachments that use a table.
func (s *Service) users(ctx context.Context, table *string, filters []ec2types.Filter, dryRun *bool, most *int32, token *string, uses func(record.TransitAttachment, string) bool) ([]record.TransitAttachment, *string, error) {
	sc := resource.ScopeOf(ctx)
	if _, err := resource.Get(s.Store, record.TransitRouteTables, sc, aws.ToString(table)); err != nil {
		return nil, nil, err
	}
	known := attachmentFields()
	return resource.Describe(s.Store, sc, record.TransitAttachments, resource.Query{
		Filters: filters, DryRun: dryRun, MaxResults: most, NextToken: token, Limits: limits, NoTags: true,
	}, filter.Fields[record.TransitAttachment]{
		"resource-id":                   known["vpc-id"],
		"resource-type":                 filter.One(func(record.TransitAttachment) string { return "vpc" }),
		"transit-gateway-attachment-id": known["transit-gateway-attachment-id"],
	}, func(a record.TransitAttachment) bool { return uses(a, *table) })
}

// GetTransitGatewayRouteTableAssociations lists the attachments for which a table routes.
func (s *Service) GetTransitGatewayRouteTableAssociations(ctx context.Context, in *awsec2.GetTransitGatewayRouteTableAssociationsInput) (*awsec2.GetTransitGatewayRouteTableAssociationsOutput, error) {
	found, next, err := s.users(ctx, in.TransitGatewayRouteTableId, in.Filters, in.DryRun, in.MaxResults, in.NextToken, func(a record.TransitAttachment, t string) bool { return a.Table == t })
	return &awsec2.GetTransitGatewayRouteTableAssociationsOutput{NextToken: next, Associations: resource.Map(found, func(a record.TransitAttachment) ec2types.TransitGatewayRouteTableAssociation {
		return ec2types.TransitGatewayRouteTableAssociation{
			TransitGatewayAttachmentId: aws.String(a.ID), ResourceId: aws.String(a.VPCID), ResourceType: ec2types.TransitGatewayAttachmentResourceTypeVpc,
			State: ec2types.TransitGatewayAssociationStateAssociated,
		}
	})}, err
}

// GetTransitGatewayRouteTablePropagations lists the attachments that propagate to a table.
func (s *Service) GetTransitGatewayRouteTablePropagations(ctx context.Context, in *awsec2.GetTransitGatewayRouteTablePropagationsInput) (*awsec2.GetTransitGatewayRouteTablePropagationsOutput, error) {
	found, next, err := s.users(ctx, in.TransitGatewayRouteTableId, in.Filters, in.DryRun, in.MaxResults, in.NextToken, func(a record.TransitAttachment, t string) bool { return slices.Contains(a.Propagates, t) })
	return &awsec2.GetTransitGatewayRouteTablePropagationsOutput{NextToken: next, TransitGatewayRouteTablePropagations: resource.Map(found, func(a record.TransitAttachment) ec2types.TransitGatewayRouteTablePropagation {
		return ec2types.TransitGatewayRouteTablePropagation{
			TransitGatewayAttachmentId: aws.String(a.ID), ResourceId: aws.String(a.VPCID), ResourceType: ec2types.TransitGatewayAttachmentResourceTypeVpc,
			State: ec2types.TransitGatewayPropagationStateEnabled,
		}
	})}, err
}

// GetTransitGatewayAttachmentPropagations lists the tables to which an attachment propagates.
func (s *Service) GetTransitGatewayAttachmentPropagations(ctx context.Context, in *awsec2.GetTransitGatewayAttachmentPropagationsInput) (*awsec2.GetTransitGatewayAttachmentPropagationsOutput, error) {
	sc := resource.ScopeOf(ctx)
	a, err := resource.Get(s.Store, record.TransitAttachments, sc, aws.ToString(in.TransitGatewayAttachmentId))
	if err != nil {
		return nil, err
	}
	match, err := filter.Compile(in.Filters, filter.Fields[string]{"transit-gateway-route-table-id": filter.One(func(t string) string { return t })}, nil)
	if err != nil {
		return nil, err
	}
	if err := resource.CheckDryRun(in.DryRun); err != nil {
		return nil, err
	}
	found := slices.DeleteFunc(slices.Clone(a.Propagates), func(t string) bool { return !match(t) })
	found, next, err := resource.Paginate(found, func(t string) string { return t }, in.MaxResults, in.NextToken, limits)
	return &awsec2.GetTransitGatewayAttachmentPropagationsOutput{NextToken: next, TransitGatewayAttachmentPropagations: resource.Map(found, func(t string) ec2types.TransitGatewayAttachmentPropagation {
		return ec2types.TransitGatewayAttachmentPropagation{TransitGatewayRouteTableId: aws.String(t), State: ec2types.TransitGatewayPropagationStateEnabled}
	})}, err
}
