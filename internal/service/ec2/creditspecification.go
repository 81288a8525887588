package ec2

import (
	"context"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/store"
)

// ModifyInstanceCreditSpecification changes how burstable instances pay for CPU
// time above their baseline. What is wrong with one instance is told with it and
// leaves the others' change.
func (s *Service) ModifyInstanceCreditSpecification(ctx context.Context, in *awsec2.ModifyInstanceCreditSpecificationInput) (*awsec2.ModifyInstanceCreditSpecificationOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	if len(in.InstanceCreditSpecifications) == 0 {
		return nil, errMissing("InstanceCreditSpecification")
	}
	for _, spec := range in.InstanceCreditSpecifications {
		if c := aws.ToString(spec.CpuCredits); c != "standard" && c != "unlimited" {
			return nil, errInvalidValue(c, "CpuCredits", "")
		}
	}
	const operation = "ModifyInstanceCreditSpecification"
	done, err := s.recall(s.store, sc, operation, in.ClientToken, in)
	if err != nil {
		return nil, err
	}
	out := &awsec2.ModifyInstanceCreditSpecificationOutput{
		SuccessfulInstanceCreditSpecifications:   []ec2types.SuccessfulInstanceCreditSpecificationItem{},
		UnsuccessfulInstanceCreditSpecifications: []ec2types.UnsuccessfulInstanceCreditSpecificationItem{},
	}
	if done != nil {
		for _, id := range done.IDs {
			out.SuccessfulInstanceCreditSpecifications = append(out.SuccessfulInstanceCreditSpecifications, ec2types.SuccessfulInstanceCreditSpecificationItem{InstanceId: aws.String(id)})
		}
		return out, nil
	}
	for chunk := range slices.Chunk(in.InstanceCreditSpecifications, 80) {
		var refused map[string]smithy.APIError
		err := s.update(ctx, in.DryRun, func(tx *store.Tx) error {
			refused = map[string]smithy.APIError{}
			for _, spec := range chunk {
				id := aws.ToString(spec.InstanceId)
				err := setCredits(tx, sc, id, *spec.CpuCredits)
				var api smithy.APIError
				if errors.As(err, &api) {
					refused[id] = api
				} else if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		for _, spec := range chunk {
			api, bad := refused[aws.ToString(spec.InstanceId)]
			if !bad {
				out.SuccessfulInstanceCreditSpecifications = append(out.SuccessfulInstanceCreditSpecifications, ec2types.SuccessfulInstanceCreditSpecificationItem{InstanceId: spec.InstanceId})
				continue
			}
			out.UnsuccessfulInstanceCreditSpecifications = append(out.UnsuccessfulInstanceCreditSpecifications, ec2types.UnsuccessfulInstanceCreditSpecificationItem{
				InstanceId: spec.InstanceId,
				Error: &ec2types.UnsuccessfulInstanceCreditSpecificationItemError{
					Code: ec2types.UnsuccessfulInstanceCreditSpecificationErrorCode(api.ErrorCode()), Message: aws.String(api.ErrorMessage()),
				},
			})
		}
	}
	var changed []string
	for _, item := range out.SuccessfulInstanceCreditSpecifications {
		changed = append(changed, *item.InstanceId)
	}
	return out, s.store.Update(ctx, func(tx *store.Tx) error {
		return s.remember(tx, sc, operation, in.ClientToken, in, false, changed...)
	})
}

func setCredits(tx *store.Tx, sc scope, id, credits string) error {
	i, err := get(tx, instances, sc, instanceID, id)
	if err != nil {
		return err
	}
	if i.State != stateRunning && i.State != stateStopped {
		return errInstanceState(id, "modified")
	}
	if t, _ := instancetypes.Lookup(i.Type); !t.Burstable {
		return errNotBurstable(i.Type)
	}
	i.CPUCredits = credits
	return instances.Put(tx, sc.key(id), i)
}
