package storage

import (
	"context"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/store"
)

// A modification is a volume's latest change. It completes at once because there is no data to
// move.
type modification struct {
	From, To Spec
	Time     time.Time
}

func (v Volume) sdkModification() ec2types.VolumeModification {
	m := v.Modification
	return ec2types.VolumeModification{
		VolumeId: aws.String(v.ID), ModificationState: ec2types.VolumeModificationStateCompleted, Progress: aws.Int64(100),
		StartTime: aws.Time(m.Time), EndTime: aws.Time(m.Time),
		OriginalSize: aws.Int32(m.From.SizeGiB), OriginalVolumeType: ec2types.VolumeType(m.From.Type),
		OriginalIops: positive(m.From.iops()), OriginalThroughput: positive(m.From.throughput()), OriginalMultiAttachEnabled: aws.Bool(false),
		TargetSize: aws.Int32(m.To.SizeGiB), TargetVolumeType: ec2types.VolumeType(m.To.Type),
		TargetIops: positive(m.To.iops()), TargetThroughput: positive(m.To.throughput()), TargetMultiAttachEnabled: aws.Bool(false),
	}
}

// ModifyVolume changes a volume's size, type and performance. The size can only grow.
func (s *Service) ModifyVolume(ctx context.Context, in *awsec2.ModifyVolumeInput) (*awsec2.ModifyVolumeOutput, error) {
	if aws.ToBool(in.MultiAttachEnabled) {
		return nil, awserr.NotImplemented("Multi-Attach volumes in EC2 ModifyVolume")
	}
	sc := resource.ScopeOf(ctx)
	v, err := resource.Change(ctx, s.Core, Volumes, in.DryRun, in.VolumeId, func(tx *store.Tx, v *Volume) error {
		from, to := v.Spec, v.Spec
		if in.Size != nil {
			if *in.Size < from.SizeGiB {
				return ec2err.InvalidParameterValue("New size cannot be smaller than existing size")
			}
			to.SizeGiB = *in.Size
		}
		if in.VolumeType != "" && string(in.VolumeType) != to.Type {
			to.Type, to.IOPS, to.Throughput = string(in.VolumeType), 0, 0
		}
		if in.Iops != nil {
			to.IOPS = *in.Iops
		}
		if in.Throughput != nil {
			to.Throughput = *in.Throughput
		}
		if err := to.Check(from.Type); err != nil {
			return err
		}
		v.Spec, v.Modification = to, modification{From: from, To: to, Time: s.Now()}
		if v.Attachment.InstanceID == "" {
			return nil
		}
		// Its machine sees the new size when the instance changes.
		i, err := resource.Get(tx, record.Instances, sc, v.Attachment.InstanceID)
		if err != nil {
			return err
		}
		return record.Instances.Put(tx, sc.Key(i.ID), i)
	})
	if err != nil {
		return nil, err
	}
	out := v.sdkModification()
	out.ModificationState, out.Progress, out.EndTime = ec2types.VolumeModificationStateModifying, aws.Int64(0), nil
	return &awsec2.ModifyVolumeOutput{VolumeModification: &out}, nil
}

// DescribeVolumesModifications lists the latest modification of each volume that has one.
func (s *Service) DescribeVolumesModifications(ctx context.Context, in *awsec2.DescribeVolumesModificationsInput) (*awsec2.DescribeVolumesModificationsOutput, error) {
	sc := resource.ScopeOf(ctx)
	type v = Volume
	spec := func(get func(modification) int32) func(v) []string {
		return func(x v) []string { return []string{strconv.Itoa(int(get(x.Modification)))} }
	}
	match, err := filter.Compile(in.Filters, filter.Fields[v]{
		"modification-state":            func(v) []string { return []string{"completed"} },
		"operator.managed":              filter.Flag(func(v) bool { return false }),
		"operator.principal":            filter.Never[v],
		"original-iops":                 spec(func(m modification) int32 { return m.From.iops() }),
		"original-multi-attach-enabled": filter.Flag(func(v) bool { return false }),
		"originalMultiAttachEnabled":    filter.Flag(func(v) bool { return false }), // as AWS documents it
		"original-size":                 spec(func(m modification) int32 { return m.From.SizeGiB }),
		"original-volume-type":          filter.One(func(x v) string { return x.Modification.From.Type }),
		"start-time":                    filter.One(func(x v) string { return resource.TimeText(x.Modification.Time) }),
		"target-iops":                   spec(func(m modification) int32 { return m.To.iops() }),
		"target-multi-attach-enabled":   filter.Flag(func(v) bool { return false }),
		"targetMultiAttachEnabled":      filter.Flag(func(v) bool { return false }),
		"target-size":                   spec(func(m modification) int32 { return m.To.SizeGiB }),
		"target-volume-type":            filter.One(func(x v) string { return x.Modification.To.Type }),
		"volume-id":                     filter.One(func(x v) string { return x.ID }),
	}, nil)
	if err != nil {
		return nil, err
	}
	if err := resource.CheckDryRun(in.DryRun); err != nil {
		return nil, err
	}
	found, err := resource.Choose(s.Store, Volumes, sc, in.VolumeIds, func(x v) bool { return !x.Modification.Time.IsZero() && match(x) })
	if err != nil {
		return nil, err
	}
	if len(in.VolumeIds) > 0 && len(found) < len(resource.SortedUnique(in.VolumeIds)) && len(in.Filters) == 0 {
		for _, id := range in.VolumeIds {
			if x, err := Volumes.Get(s.Store, sc.Key(id)); err == nil && x.Modification.Time.IsZero() {
				return nil, ec2err.New("InvalidVolumeModification.NotFound", "Modification for volume '%s' does not exist.", id)
			}
		}
	}
	found, next, err := resource.Paginate(found, func(x v) string { return x.ID }, in.MaxResults, in.NextToken, resource.Limits{Min: 1, Max: 500})
	return &awsec2.DescribeVolumesModificationsOutput{NextToken: next, VolumesModifications: resource.Map(found, func(x Volume) ec2types.VolumeModification { return x.sdkModification() })}, err
}
