package ec2

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// An instance's profile association is part of its record.

func (i instanceRecord) association(state ec2types.IamInstanceProfileAssociationState) *ec2types.IamInstanceProfileAssociation {
	return &ec2types.IamInstanceProfileAssociation{
		AssociationId: aws.String(i.Profile.AssociationID), InstanceId: aws.String(i.ID), State: state,
		IamInstanceProfile: &ec2types.IamInstanceProfile{Arn: aws.String(i.Profile.ARN), Id: aws.String(i.Profile.ID)},
	}
}

func errProfileAssociation(id string) error {
	return errf("InvalidAssociationID.NotFound", "An invalid association-id of '%s' was given", id)
}

// associated finds the instance of an association.
func associated(r store.Reader, sc scope, id string) (instanceRecord, error) {
	found, err := list(r, instances, sc, func(i instanceRecord) bool { return i.Profile != nil && i.Profile.AssociationID == id })
	if err == nil && len(found) == 0 {
		err = errProfileAssociation(id)
	}
	if err != nil {
		return instanceRecord{}, err
	}
	return found[0], nil
}

// newAssociation is a new association with the profile that a request names.
func (s *Service) newAssociation(ctx context.Context, sc scope, spec *ec2types.IamInstanceProfileSpecification) (*instanceProfile, error) {
	if spec == nil || spec.Arn == nil && spec.Name == nil {
		return nil, errMissing("IamInstanceProfile")
	}
	p, err := s.findProfile(ctx, sc, spec)
	if err != nil {
		return nil, err
	}
	p.AssociationID = ids.Resource("iip-assoc")
	return p, nil
}

// AssociateIamInstanceProfile gives an instance without a profile one.
func (s *Service) AssociateIamInstanceProfile(ctx context.Context, in *awsec2.AssociateIamInstanceProfileInput) (*awsec2.AssociateIamInstanceProfileOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	profile, err := s.newAssociation(ctx, sc, in.IamInstanceProfile)
	if err != nil {
		return nil, err
	}
	var i instanceRecord
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		if i, err = get(tx, instances, sc, instanceID, aws.ToString(in.InstanceId)); err != nil {
			return err
		}
		switch {
		case i.State != stateRunning && i.State != stateStopped && i.State != statePending && i.State != stateStopping:
			return errInstanceState(i.ID, "associated")
		case i.Profile != nil:
			return errf("IncorrectState", "There is an existing association for instance %s", i.ID)
		}
		i.Profile = profile
		return instances.Put(tx, sc.key(i.ID), i)
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.AssociateIamInstanceProfileOutput{IamInstanceProfileAssociation: i.association(ec2types.IamInstanceProfileAssociationStateAssociating)}, nil
}

// ReplaceIamInstanceProfileAssociation changes an instance's profile.
func (s *Service) ReplaceIamInstanceProfileAssociation(ctx context.Context, in *awsec2.ReplaceIamInstanceProfileAssociationInput) (*awsec2.ReplaceIamInstanceProfileAssociationOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	profile, err := s.newAssociation(ctx, sc, in.IamInstanceProfile)
	if err != nil {
		return nil, err
	}
	var i instanceRecord
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		if i, err = associated(tx, sc, aws.ToString(in.AssociationId)); err != nil {
			return err
		}
		i.Profile = profile
		return instances.Put(tx, sc.key(i.ID), i)
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.ReplaceIamInstanceProfileAssociationOutput{IamInstanceProfileAssociation: i.association(ec2types.IamInstanceProfileAssociationStateAssociating)}, nil
}

// DisassociateIamInstanceProfile takes an instance's profile away.
func (s *Service) DisassociateIamInstanceProfile(ctx context.Context, in *awsec2.DisassociateIamInstanceProfileInput) (*awsec2.DisassociateIamInstanceProfileOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	var gone *ec2types.IamInstanceProfileAssociation
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		i, err := associated(tx, sc, aws.ToString(in.AssociationId))
		if err != nil {
			return err
		}
		gone = i.association(ec2types.IamInstanceProfileAssociationStateDisassociating)
		i.Profile = nil
		return instances.Put(tx, sc.key(i.ID), i)
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.DisassociateIamInstanceProfileOutput{IamInstanceProfileAssociation: gone}, nil
}

// DescribeIamInstanceProfileAssociations lists the associations of instances.
func (s *Service) DescribeIamInstanceProfileAssociations(ctx context.Context, in *awsec2.DescribeIamInstanceProfileAssociationsInput) (*awsec2.DescribeIamInstanceProfileAssociationsOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	match, err := compileFilters(in.Filters, fields[instanceRecord]{
		"instance-id": one(func(i instanceRecord) string { return i.ID }),
		"state":       func(instanceRecord) []string { return []string{"associated"} },
	}, nil)
	if err != nil {
		return nil, err
	}
	for _, id := range in.AssociationIds {
		if _, err := associated(s.store, sc, id); err != nil {
			return nil, err
		}
	}
	named := map[string]bool{}
	for _, id := range in.AssociationIds {
		named[id] = true
	}
	found, err := list(s.store, instances, sc, func(i instanceRecord) bool {
		return i.Profile != nil && (len(named) == 0 || named[i.Profile.AssociationID]) && match(i)
	})
	if err != nil {
		return nil, err
	}
	found, next, err := paginate(found, func(i instanceRecord) string { return i.ID }, in.MaxResults, in.NextToken, limits{5, 1000})
	if err != nil {
		return nil, err
	}
	out := &awsec2.DescribeIamInstanceProfileAssociationsOutput{NextToken: next, IamInstanceProfileAssociations: []ec2types.IamInstanceProfileAssociation{}}
	for _, i := range found {
		out.IamInstanceProfileAssociations = append(out.IamInstanceProfileAssociations, *i.association(ec2types.IamInstanceProfileAssociationStateAssociated))
	}
	return out, nil
}
