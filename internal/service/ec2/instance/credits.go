package instance

import (
	"context"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/store"
)

// ModifyInstanceCreditSpecification changes how burstable instances pay for CPU time above their
// baseline. An error for one instance is reported for that instance and does not affect the others.
func (s *Service) ModifyInstanceCreditSpecification(ctx context.Context, in *awsec2.ModifyInstanceCreditSpecificationInput) (*awsec2.ModifyInstanceCreditSpecificationOutput, error) {
	sc := resource.ScopeOf(ctx)
	if len(in.InstanceCreditSpecifications) == 0 {
		return nil, ec2err.Missing("InstanceCreditSpecification")
	}
	for _, spec := range in.InstanceCreditSpecifications {
		if c := aws.ToString(spec.CpuCredits); c != "standard" && c != "unlimited" {
			return nil, ec2err.InvalidValue(c, "CpuCredits", "")
		}
	}
	const operation = "ModifyInstanceCreditSpecification"
	done, err := s.Recall(s.Store, sc, operation, in.ClientToken, in)
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
		err := s.Update(ctx, in.DryRun, func(tx *store.Tx) error {
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
	return out, s.Store.Update(ctx, func(tx *store.Tx) error {
		return s.Remember(tx, sc, operation, in.ClientToken, in, false, changed...)
	})
}

func setCredits(tx *store.Tx, sc resource.Scope, id, credits string) error {
	i, err := resource.Get(tx, record.Instances, sc, id)
	if err != nil {
		return err
	}
	if i.State != record.Running && i.State != record.Stopped {
		return ec2err.InstanceState(id, "modified")
	}
	if t, _ := instancetypes.Lookup(i.Type); !t.Burstable {
		return ec2err.NotBurstable(i.Type)
	}
	i.CPUCredits = credits
	return record.Instances.Put(tx, sc.Key(id), i)
}
