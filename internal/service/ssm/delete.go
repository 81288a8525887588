package ssm

import (
	"context"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/drydock-dev/drydock/internal/store"
)

func always(*parameterRecord) bool { return true }

// remove deletes a parameter if due accepts it, and reports whether it did.
func (s *Service) remove(ctx context.Context, sc scope, name string, due func(*parameterRecord) bool) (bool, error) {
	removed := false
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		p, err := parameters.Get(tx, sc.Key(name))
		if removed = err == nil && due(&p); !removed {
			if errors.Is(err, store.ErrNotFound) {
				return nil
			}
			return err
		}
		parameters.Delete(tx, sc.Key(name))
		return nil
	})
	if err != nil || !removed {
		return false, err
	}
	old := history(s.store, sc, name)
	for chunk := range slices.Chunk(old, 90) {
		err := s.store.Update(ctx, func(tx *store.Tx) error {
			for _, v := range chunk {
				versions.Delete(tx, versionKey(sc, name, v.Version))
			}
			return nil
		})
		if err != nil {
			return true, err
		}
	}
	return true, nil
}

// DeleteParameter deletes a parameter and its versions.
func (s *Service) DeleteParameter(ctx context.Context, in *awsssm.DeleteParameterInput) (*awsssm.DeleteParameterOutput, error) {
	removed, err := s.remove(ctx, scopeOf(ctx), aws.ToString(in.Name), always)
	if err == nil && !removed {
		err = errNotFound()
	}
	return &awsssm.DeleteParameterOutput{}, err
}

// DeleteParameters deletes up to ten parameters.
func (s *Service) DeleteParameters(ctx context.Context, in *awsssm.DeleteParametersInput) (*awsssm.DeleteParametersOutput, error) {
	out := &awsssm.DeleteParametersOutput{DeletedParameters: []string{}, InvalidParameters: []string{}}
	for _, name := range in.Names {
		removed, err := s.remove(ctx, scopeOf(ctx), name, always)
		switch {
		case err != nil:
			return nil, err
		case removed:
			out.DeletedParameters = append(out.DeletedParameters, name)
		default:
			out.InvalidParameters = append(out.InvalidParameters, name)
		}
	}
	return out, nil
}
