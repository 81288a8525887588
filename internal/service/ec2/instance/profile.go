package instance

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/store"
)

// associated returns the instance that has an association.
func associated(r store.Reader, sc resource.Scope, id string) (record.Instance, error) {
	found := resource.List(r, record.Instances, sc, func(i record.Instance) bool { return i.Profile != nil && i.Profile.AssociationID == id })
	if len(found) == 0 {
		return record.Instance{}, ec2err.New("InvalidAssociationID.NotFound", "An invalid association-id of '%s' was given", id)
	}
	return found[0], nil
}

// newAssociation returns a new association with the profile in a request.
func (s *Service) newAssociation(ctx context.Context, sc resource.Scope, spec *ec2types.IamInstanceProfileSpecification) (*record.InstanceProfile, error) {
	if spec == nil || spec.Arn == nil && spec.Name == nil {
		return nil, ec2err.Missing("IamInstanceProfile")
	}
	p, err := s.findProfile(ctx, sc, spec)
	if err != nil {
		return nil, err
	}
	p.AssociationID = ids.Resource("iip-assoc")
	return p, nil
}

// AssociateIamInstanceProfile gives a profile to an instance that has none.
func (s *Service) AssociateIamInstanceProfile(ctx context.Context, in *awsec2.AssociateIamInstanceProfileInput) (*awsec2.AssociateIamInstanceProfileOutput, error) {
	sc := resource.ScopeOf(ctx)
	profile, err := s.newAssociation(ctx, sc, in.IamInstanceProfile)
	if err != nil {
		return nil, err
	}
	i, err := resource.Change(ctx, s.Core, record.Instances, nil, in.InstanceId, func(tx *store.Tx, i *record.Instance) error {
		switch {
		case i.State != record.Running && i.State != record.Stopped && i.State != record.Pending && i.State != record.Stopping:
			return ec2err.InstanceState(i.ID, "associated")
		case i.Profile != nil:
			return ec2err.New("IncorrectState", "There is an existing association for instance %s", i.ID)
		}
		i.Profile = profile
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.AssociateIamInstanceProfileOutput{IamInstanceProfileAssociation: i.Association(ec2types.IamInstanceProfileAssociationStateAssociating)}, nil
}

// reassociate replaces or removes the profile of an association's instance, and returns the
// instance as it was before.
func (s *Service) reassociate(ctx context.Context, id *string, profile *record.InstanceProfile) (before record.Instance, err error) {
	sc := resource.ScopeOf(ctx)
	err = s.Store.Update(ctx, func(tx *store.Tx) (err error) {
		if before, err = associated(tx, sc, aws.ToString(id)); err != nil {
			return err
		}
		i := before
		i.Profile = profile
		return record.Instances.Put(tx, sc.Key(i.ID), i)
	})
	return before, err
}

// ReplaceIamInstanceProfileAssociation changes an instance's profile.
func (s *Service) ReplaceIamInstanceProfileAssociation(ctx context.Context, in *awsec2.ReplaceIamInstanceProfileAssociationInput) (*awsec2.ReplaceIamInstanceProfileAssociationOutput, error) {
	profile, err := s.newAssociation(ctx, resource.ScopeOf(ctx), in.IamInstanceProfile)
	if err != nil {
		return nil, err
	}
	i, err := s.reassociate(ctx, in.AssociationId, profile)
	i.Profile = profile
	return &awsec2.ReplaceIamInstanceProfileAssociationOutput{IamInstanceProfileAssociation: i.Association(ec2types.IamInstanceProfileAssociationStateAssociating)}, err
}

// DisassociateIamInstanceProfile removes an instance's profile.
func (s *Service) DisassociateIamInstanceProfile(ctx context.Context, in *awsec2.DisassociateIamInstanceProfileInput) (*awsec2.DisassociateIamInstanceProfileOutput, error) {
	i, err := s.reassociate(ctx, in.AssociationId, nil)
	if err != nil {
		return nil, err
	}
	return &awsec2.DisassociateIamInstanceProfileOutput{IamInstanceProfileAssociation: i.Association(ec2types.IamInstanceProfileAssociationStateDisassociating)}, nil
}

// DescribeIamInstanceProfileAssociations lists the associations of instances.
func (s *Service) DescribeIamInstanceProfileAssociations(ctx context.Context, in *awsec2.DescribeIamInstanceProfileAssociationsInput) (*awsec2.DescribeIamInstanceProfileAssociationsOutput, error) {
	sc := resource.ScopeOf(ctx)
	match, err := filter.Compile(in.Filters, filter.Fields[record.Instance]{
		"instance-id": filter.One(func(i record.Instance) string { return i.ID }),
		"state":       func(record.Instance) []string { return []string{"associated"} },
	}, nil)
	if err != nil {
		return nil, err
	}
	for _, id := range in.AssociationIds {
		if _, err := associated(s.Store, sc, id); err != nil {
			return nil, err
		}
	}
	named := map[string]bool{}
	for _, id := range in.AssociationIds {
		named[id] = true
	}
	found := resource.List(s.Store, record.Instances, sc, func(i record.Instance) bool {
		return i.Profile != nil && (len(named) == 0 || named[i.Profile.AssociationID]) && match(i)
	})
	found, next, err := resource.Paginate(found, func(i record.Instance) string { return i.ID }, in.MaxResults, in.NextToken, resource.Limits{Min: 5, Max: 1000})
	return &awsec2.DescribeIamInstanceProfileAssociationsOutput{NextToken: next, IamInstanceProfileAssociations: resource.Map(found, func(i record.Instance) ec2types.IamInstanceProfileAssociation {
		return *i.Association(ec2types.IamInstanceProfileAssociationStateAssociated)
	})}, err
}
