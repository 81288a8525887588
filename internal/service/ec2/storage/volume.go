package storage

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// A Volume is an EBS volume. The record of the instance that it is attached to
// refers to it as well (record.BlockDevice).
type Volume struct {
	ID string
	Spec
	Zone, ZoneID string
	Created      time.Time
	Attachment   attachment   `json:",omitzero"`
	Modification modification `json:",omitzero"`
	Tags         tag.Set      `json:",omitempty"`
}

// An attachment is a volume's attachment. Without an instance, the volume is not attached.
type attachment struct {
	InstanceID          string
	Device              string
	DeleteOnTermination bool
	Time                time.Time
}

func (v Volume) state() ec2types.VolumeState {
	if v.Attachment.InstanceID != "" {
		return ec2types.VolumeStateInUse
	}
	return ec2types.VolumeStateAvailable
}

func (v Volume) sdkAttachments() []ec2types.VolumeAttachment {
	at := v.Attachment
	if at.InstanceID == "" {
		return []ec2types.VolumeAttachment{}
	}
	return []ec2types.VolumeAttachment{{
		VolumeId: aws.String(v.ID), InstanceId: aws.String(at.InstanceID), Device: aws.String(at.Device), AttachTime: aws.Time(at.Time),
		State: ec2types.VolumeAttachmentStateAttached, DeleteOnTermination: aws.Bool(at.DeleteOnTermination),
	}}
}

// SDK renders the record for the SDK.
func (v Volume) SDK(sc resource.Scope) ec2types.Volume {
	return ec2types.Volume{
		VolumeId: aws.String(v.ID), Size: aws.Int32(v.SizeGiB), VolumeType: ec2types.VolumeType(v.Type), State: v.state(),
		AvailabilityZone: aws.String(v.Zone), AvailabilityZoneId: aws.String(v.ZoneID), CreateTime: aws.Time(v.Created),
		Encrypted: aws.Bool(v.Encrypted), KmsKeyId: resource.Optional(v.KMSKeyID), SnapshotId: aws.String(v.SnapshotID),
		MultiAttachEnabled: aws.Bool(false), Iops: positive(v.iops()), Throughput: positive(v.throughput()),
		Attachments: v.sdkAttachments(), Tags: v.Tags.SDK(), Operator: &ec2types.OperatorResponse{Managed: aws.Bool(false)},
	}
}

// positive returns nil for zero, for members that some volumes do not have.
func positive(n int32) *int32 {
	if n == 0 {
		return nil
	}
	return &n
}

// CreateVolume creates an empty volume, or one from a snapshot.
func (s *Service) CreateVolume(ctx context.Context, in *awsec2.CreateVolumeInput) (*awsec2.CreateVolumeOutput, error) {
	sc := resource.ScopeOf(ctx)
	if aws.ToBool(in.MultiAttachEnabled) {
		return nil, awserr.NotImplemented("Multi-Attach volumes in EC2 CreateVolume")
	}
	if in.AvailabilityZone == nil && in.AvailabilityZoneId == nil {
		return nil, ec2err.Missing("AvailabilityZone")
	}
	zone, invalid := resource.ChooseZone(sc, aws.ToString(in.AvailabilityZone), aws.ToString(in.AvailabilityZoneId))
	if invalid != nil {
		return nil, ec2err.New("InvalidZone.NotFound", "The zone '%s' does not exist.", aws.ToString(in.AvailabilityZone)+aws.ToString(in.AvailabilityZoneId))
	}
	if in.Size == nil && aws.ToString(in.SnapshotId) == "" {
		return nil, ec2err.New("MissingParameter", "The request must contain the parameter size/snapshot")
	}
	spec := Spec{
		SizeGiB: aws.ToInt32(in.Size), SnapshotID: aws.ToString(in.SnapshotId), Type: string(in.VolumeType), IOPS: aws.ToInt32(in.Iops), Throughput: aws.ToInt32(in.Throughput),
		Encrypted: aws.ToBool(in.Encrypted), KMSKeyID: aws.ToString(in.KmsKeyId),
	}
	tags, err := tag.Specified(ctx, in.TagSpecifications, ec2types.ResourceTypeVolume)
	if err != nil {
		return nil, err
	}
	id := ids.Resource("vol")
	if err := s.restore(sc, in.DryRun, spec.SnapshotID, id); err != nil {
		return nil, err
	}
	v, err := resource.Create(ctx, s.Core, Volumes, in.DryRun, in.ClientToken, in, func(tx *store.Tx, v *Volume) error {
		spec := spec
		if spec.SnapshotID != "" {
			from, _, err := FindSnapshot(tx, sc, spec.SnapshotID)
			if err != nil {
				return err
			}
			if spec.SizeGiB = cmp.Or(spec.SizeGiB, from.SizeGiB); spec.SizeGiB < from.SizeGiB {
				return ec2err.InvalidParameterValue("Volume of size %dGB is smaller than snapshot '%s', expect size >= %dGB", spec.SizeGiB, from.ID, from.SizeGiB)
			}
			if from.Encrypted {
				spec.Encrypted, spec.KMSKeyID = true, resource.Or(spec.KMSKeyID, from.KMSKeyID)
			}
		}
		if err := spec.Check("gp2"); err != nil {
			return err
		}
		defaults, err := encryptionOf(tx, sc)
		if err != nil {
			return err
		}
		defaults.apply(&spec)
		*v = Volume{ID: id, Spec: spec, Zone: zone.Name, ZoneID: zone.ID, Created: s.Now(), Tags: tags}
		return nil
	})
	if v.ID != id { // the request has failed, or an earlier one has made the volume
		s.forget(id)
	}
	if err != nil {
		return nil, err
	}
	o := v.SDK(sc)
	return &awsec2.CreateVolumeOutput{
		VolumeId: o.VolumeId, Size: o.Size, VolumeType: o.VolumeType, State: ec2types.VolumeStateCreating, AvailabilityZone: o.AvailabilityZone,
		AvailabilityZoneId: o.AvailabilityZoneId, CreateTime: o.CreateTime, Encrypted: o.Encrypted, KmsKeyId: o.KmsKeyId, SnapshotId: o.SnapshotId,
		MultiAttachEnabled: o.MultiAttachEnabled, Iops: o.Iops, Throughput: o.Throughput, Attachments: o.Attachments, Tags: o.Tags,
	}, nil
}

// restore copies the data of a snapshot for a new volume, before anybody can see the volume.
func (s *Service) restore(sc resource.Scope, dryRun *bool, snapshot, volume string) error {
	if s.disks == nil || snapshot == "" || aws.ToBool(dryRun) {
		return nil
	}
	if _, _, err := FindSnapshot(s.Store, sc, snapshot); err != nil {
		return nil //nolint:nilerr // the transaction reports it
	}
	return s.disks.Copy(snapshot, volume)
}

// DeleteVolume deletes a volume that is not attached.
func (s *Service) DeleteVolume(ctx context.Context, in *awsec2.DeleteVolumeInput) (*awsec2.DeleteVolumeOutput, error) {
	_, err := resource.Delete(ctx, s.Core, Volumes, in.DryRun, in.VolumeId, func(tx *store.Tx, v *Volume) error {
		if v.Attachment.InstanceID != "" {
			return ec2err.VolumeAttached(v.ID, v.Attachment.InstanceID)
		}
		return nil
	})
	return &awsec2.DeleteVolumeOutput{}, err
}

// volumeFields are the filters of DescribeVolumes.
func volumeFields() filter.Fields[Volume] {
	type v = Volume
	attached := func(get func(attachment) string) func(v) []string {
		return func(x v) []string {
			if x.Attachment.InstanceID == "" {
				return nil
			}
			return []string{get(x.Attachment)}
		}
	}
	return filter.Fields[v]{
		"attachment.attach-time":           attached(func(a attachment) string { return resource.TimeText(a.Time) }),
		"attachment.delete-on-termination": attached(func(a attachment) string { return strconv.FormatBool(a.DeleteOnTermination) }),
		"attachment.device":                attached(func(a attachment) string { return a.Device }),
		"attachment.instance-id":           attached(func(a attachment) string { return a.InstanceID }),
		"attachment.status":                attached(func(attachment) string { return "attached" }),
		"availability-zone":                filter.One(func(x v) string { return x.Zone }),
		"availability-zone-id":             filter.One(func(x v) string { return x.ZoneID }),
		"create-time":                      filter.One(func(x v) string { return resource.TimeText(x.Created) }),
		"encrypted":                        filter.Flag(func(x v) bool { return x.Encrypted }),
		"fast-restored":                    filter.Flag(func(v) bool { return false }),
		"multi-attach-enabled":             filter.Flag(func(v) bool { return false }),
		"operator.managed":                 filter.Flag(func(v) bool { return false }),
		"operator.principal":               filter.Never[v],
		"size":                             filter.One(func(x v) string { return strconv.Itoa(int(x.SizeGiB)) }),
		"snapshot-id":                      filter.One(func(x v) string { return x.SnapshotID }),
		"status":                           filter.One(func(x v) string { return string(x.state()) }),
		"volume-id":                        filter.One(func(x v) string { return x.ID }),
		"volume-type":                      filter.One(func(x v) string { return x.Type }),
	}
}

// DescribeVolumes lists volumes.
func (s *Service) DescribeVolumes(ctx context.Context, in *awsec2.DescribeVolumesInput) (*awsec2.DescribeVolumesOutput, error) {
	sc := resource.ScopeOf(ctx)
	found, next, err := resource.Describe(s.Store, sc, Volumes, resource.Query{
		IDs: in.VolumeIds, Exclusive: "volumeIds", Filters: in.Filters, DryRun: in.DryRun, MaxResults: in.MaxResults, NextToken: in.NextToken, Limits: resource.Limits{Min: 5, Max: 1000},
	}, volumeFields())
	return &awsec2.DescribeVolumesOutput{Volumes: resource.SDKAll(sc, found), NextToken: next}, err
}

// DescribeVolumeStatus lists the status checks of volumes, which always pass.
func (s *Service) DescribeVolumeStatus(ctx context.Context, in *awsec2.DescribeVolumeStatusInput) (*awsec2.DescribeVolumeStatusOutput, error) {
	sc := resource.ScopeOf(ctx)
	type v = Volume
	constant := func(s string) func(v) []string { return func(v) []string { return []string{s} } }
	found, next, err := resource.Describe(s.Store, sc, Volumes, resource.Query{
		IDs: in.VolumeIds, Exclusive: "volumeIds", Filters: in.Filters, NoTags: true, DryRun: in.DryRun, MaxResults: in.MaxResults, NextToken: in.NextToken, Limits: resource.Limits{Min: 5, Max: 1000},
	}, filter.Fields[v]{
		"action.code":                         filter.Never[v],
		"action.description":                  filter.Never[v],
		"action.event-id":                     filter.Never[v],
		"availability-zone":                   filter.One(func(x v) string { return x.Zone }),
		"availability-zone-id":                filter.One(func(x v) string { return x.ZoneID }),
		"event.description":                   filter.Never[v],
		"event.event-id":                      filter.Never[v],
		"event.event-type":                    filter.Never[v],
		"event.not-after":                     filter.Never[v],
		"event.not-before":                    filter.Never[v],
		"operator.managed":                    constant("false"),
		"operator.principal":                  filter.Never[v],
		"volume-status.details-name":          func(v) []string { return []string{"io-enabled", "io-performance"} },
		"volume-status.details-status":        func(v) []string { return []string{"passed", "not-applicable"} },
		"volume-status.status":                constant("ok"),
		"volume-status.initialization-status": filter.Never[v],
	})
	return &awsec2.DescribeVolumeStatusOutput{NextToken: next, VolumeStatuses: resource.Map(found, func(x Volume) ec2types.VolumeStatusItem {
		return ec2types.VolumeStatusItem{
			VolumeId: aws.String(x.ID), AvailabilityZone: aws.String(x.Zone), AvailabilityZoneId: aws.String(x.ZoneID),
			VolumeStatus: &ec2types.VolumeStatusInfo{Status: ec2types.VolumeStatusInfoStatusOk, Details: []ec2types.VolumeStatusDetails{
				{Name: ec2types.VolumeStatusNameIoEnabled, Status: aws.String("passed")},
				{Name: ec2types.VolumeStatusNameIoPerformance, Status: aws.String("not-applicable")},
			}},
			Actions: []ec2types.VolumeStatusAction{}, Events: []ec2types.VolumeStatusEvent{}, AttachmentStatuses: []ec2types.VolumeStatusAttachmentStatus{},
		}
	})}, err
}

var Volumes = resource.NewKind("volume", resource.VolumeID, func(v *Volume) (string, *tag.Set) { return v.ID, &v.Tags })
