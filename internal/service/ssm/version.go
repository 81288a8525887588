package ssm

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/drydock-dev/drydock/internal/store"
)

// history returns the stored versions of a parameter, oldest first.
func history(r store.Reader, sc scope, name string) []parameterRecord {
	items := versions.All(r, store.Scope{Account: sc.Account, Region: sc.Region, Prefix: name + ":"})
	out := make([]parameterRecord, len(items))
	for i, it := range items {
		out[i] = it.Value
	}
	return out
}

// GetParameterHistory lists the versions of a parameter.
func (s *Service) GetParameterHistory(ctx context.Context, in *awsssm.GetParameterHistoryInput) (*awsssm.GetParameterHistoryOutput, error) {
	sc := scopeOf(ctx)
	name := aws.ToString(in.Name)
	if _, err := s.parameter(s.store, sc.Key(name)); err != nil {
		if errors.Is(err, store.ErrNotFound) {
			err = errNotFound()
		}
		return nil, err
	}
	all := history(s.store, sc, name)
	for i := range all {
		all[i].Name = fmt.Sprintf("%012d", all[i].Version) // page by version
	}
	all, next, err := page(all, in.MaxResults, in.NextToken, 50)
	if err != nil {
		return nil, err
	}
	out := &awsssm.GetParameterHistoryOutput{NextToken: next, Parameters: []ssmtypes.ParameterHistory{}}
	for _, p := range all {
		p.Name = name
		if p, err = s.reveal(ctx, sc, p, in.WithDecryption); err != nil {
			return nil, err
		}
		out.Parameters = append(out.Parameters, ssmtypes.ParameterHistory{
			Name: aws.String(name), Type: ssmtypes.ParameterType(p.Type), Value: aws.String(p.Value), Version: p.Version, Labels: append([]string{}, p.Labels...), KeyId: keyOf(p),
			LastModifiedDate: aws.Time(p.Modified), LastModifiedUser: aws.String(p.ModifiedBy), Description: optional(p.Description),
			AllowedPattern: optional(p.Pattern), DataType: aws.String(p.DataType), Tier: ssmtypes.ParameterTier(p.Tier), Policies: p.policies(s.clock.Now()),
		})
	}
	return out, nil
}

// labelled returns the version of a parameter with a label.
func (s *Service) labelled(sc scope, name, label string) (parameterRecord, error) {
	all := history(s.store, sc, name)
	for _, v := range all {
		if slices.Contains(v.Labels, label) {
			return v, nil
		}
	}
	return parameterRecord{}, errLabelNotFound(name, label)
}

// withLabel returns the newest version of p with one of the labels.
func (s *Service) withLabel(sc scope, p parameterRecord, labels []string) (parameterRecord, bool) {
	all := history(s.store, sc, p.Name)
	for _, v := range slices.Backward(all) {
		if slices.ContainsFunc(labels, func(l string) bool { return slices.Contains(v.Labels, l) }) {
			return v, true
		}
	}
	return p, false
}

// maxLabels is the maximum number of labels per version.
const maxLabels = 10

// https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_LabelParameterVersion.html
var labelForm = regexp.MustCompile(`^[a-zA-Z0-9_.\-]+$`)

func validLabel(l string) bool {
	lower := strings.ToLower(l)
	return labelForm.MatchString(l) && !(l[0] >= '0' && l[0] <= '9') && !strings.HasPrefix(lower, "aws") && !strings.HasPrefix(lower, "ssm")
}

// editLabels changes the labels of version n, or of the newest one if n is nil. edit gets all
// stored versions and the index of that version.
func (s *Service) editLabels(ctx context.Context, name string, n *int64, edit func(all []parameterRecord, at int) error) (int64, error) {
	sc := scopeOf(ctx)
	var version int64
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		current, err := s.parameter(tx, sc.Key(name))
		if errors.Is(err, store.ErrNotFound) {
			return errNotFound()
		}
		if err != nil {
			return err
		}
		if version = current.Version; n != nil {
			version = *n
		}
		all := history(tx, sc, name)
		at := slices.IndexFunc(all, func(v parameterRecord) bool { return v.Version == version })
		if at < 0 {
			return errVersionNotFound(name, strconv.FormatInt(version, 10))
		}
		before := make([][]string, len(all))
		for i := range all {
			before[i], all[i].Labels = all[i].Labels, slices.Clone(all[i].Labels)
		}
		if err := edit(all, at); err != nil {
			return err
		}
		for i, v := range all {
			if slices.Equal(before[i], v.Labels) {
				continue
			}
			if err := versions.Put(tx, versionKey(sc, name, v.Version), v); err != nil {
				return err
			}
		}
		return nil
	})
	return version, err
}

// LabelParameterVersion adds labels to a version and removes them from other versions.
func (s *Service) LabelParameterVersion(ctx context.Context, in *awsssm.LabelParameterVersionInput) (*awsssm.LabelParameterVersionOutput, error) {
	invalid := []string{}
	var valid []string
	for _, l := range in.Labels {
		if validLabel(l) {
			valid = append(valid, l)
		} else {
			invalid = append(invalid, l)
		}
	}
	n, err := s.editLabels(ctx, aws.ToString(in.Name), in.ParameterVersion, func(all []parameterRecord, at int) error {
		for i := range all {
			all[i].Labels = slices.DeleteFunc(all[i].Labels, func(l string) bool { return i != at && slices.Contains(valid, l) })
		}
		for _, l := range valid {
			if !slices.Contains(all[at].Labels, l) {
				all[at].Labels = append(all[at].Labels, l)
			}
		}
		if len(all[at].Labels) > maxLabels {
			return errLabelLimit()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &awsssm.LabelParameterVersionOutput{InvalidLabels: invalid, ParameterVersion: n}, nil
}

// UnlabelParameterVersion removes labels from a version.
func (s *Service) UnlabelParameterVersion(ctx context.Context, in *awsssm.UnlabelParameterVersionInput) (*awsssm.UnlabelParameterVersionOutput, error) {
	out := &awsssm.UnlabelParameterVersionOutput{RemovedLabels: []string{}, InvalidLabels: []string{}}
	_, err := s.editLabels(ctx, aws.ToString(in.Name), in.ParameterVersion, func(all []parameterRecord, at int) error {
		out.RemovedLabels, out.InvalidLabels = out.RemovedLabels[:0], out.InvalidLabels[:0] // a transaction may be repeated
		for _, l := range in.Labels {
			if !slices.Contains(all[at].Labels, l) {
				out.InvalidLabels = append(out.InvalidLabels, l)
				continue
			}
			out.RemovedLabels = append(out.RemovedLabels, l)
			all[at].Labels = slices.DeleteFunc(all[at].Labels, func(have string) bool { return have == l })
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
