package ec2

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/store"
)

// A volumeView is a volume: so far only those that instances are born with
// exist, and they go with their instances.
type volumeView struct {
	blockDevice
	instance instanceRecord
}

func (v volumeView) sdk(scope) ec2types.Volume {
	out := ec2types.Volume{
		VolumeId: aws.String(v.VolumeID), Size: aws.Int32(v.SizeGiB), VolumeType: ec2types.VolumeType(v.Type), State: ec2types.VolumeStateInUse,
		AvailabilityZone: aws.String(v.instance.Zone), AvailabilityZoneId: aws.String(v.instance.ZoneID), CreateTime: aws.Time(v.Attached),
		Encrypted: aws.Bool(v.Encrypted), KmsKeyId: optional(v.KMSKeyID), SnapshotId: aws.String(v.SnapshotID), MultiAttachEnabled: aws.Bool(false),
		Attachments: []ec2types.VolumeAttachment{{
			VolumeId: aws.String(v.VolumeID), InstanceId: aws.String(v.instance.ID), Device: aws.String(v.Name), AttachTime: aws.Time(v.Attached),
			State: ec2types.VolumeAttachmentStateAttached, DeleteOnTermination: aws.Bool(v.DeleteOnTermination),
		}},
		Tags: v.Tags.sdk(),
	}
	if v.IOPS > 0 {
		out.Iops = aws.Int32(v.IOPS)
	}
	if v.Throughput > 0 {
		out.Throughput = aws.Int32(v.Throughput)
	}
	return out
}

func volumeID() idKind {
	return idKind{"vol", "InvalidVolumeID.Malformed", "InvalidVolume.NotFound", "The volume '%s' does not exist.", "The volumes '%s' do not exist."}
}

func listVolumes(r store.Reader, sc scope) ([]volumeView, error) {
	all, err := list(r, instances, sc, func(instanceRecord) bool { return true })
	var out []volumeView
	for _, i := range all {
		for _, d := range i.Devices {
			out = append(out, volumeView{d, i})
		}
	}
	slices.SortFunc(out, func(a, b volumeView) int { return strings.Compare(a.VolumeID, b.VolumeID) })
	return out, err
}

// DescribeVolumes lists volumes.
func (s *Service) DescribeVolumes(ctx context.Context, in *awsec2.DescribeVolumesInput) (*awsec2.DescribeVolumesOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	type v = volumeView
	match, err := compileFilters(in.Filters, fields[v]{
		"attachment.attach-time":           one(func(v v) string { return timeText(v.Attached) }),
		"attachment.delete-on-termination": flag(func(v v) bool { return v.DeleteOnTermination }),
		"attachment.device":                one(func(v v) string { return v.Name }),
		"attachment.instance-id":           one(func(v v) string { return v.instance.ID }),
		"attachment.status":                one(func(v) string { return "attached" }),
		"availability-zone":                one(func(v v) string { return v.instance.Zone }),
		"availability-zone-id":             one(func(v v) string { return v.instance.ZoneID }),
		"create-time":                      one(func(v v) string { return timeText(v.Attached) }),
		"encrypted":                        flag(func(v v) bool { return v.Encrypted }),
		"fast-restored":                    flag(func(v) bool { return false }),
		"multi-attach-enabled":             flag(func(v) bool { return false }),
		"operator.managed":                 flag(func(v) bool { return false }),
		"operator.principal":               never[v],
		"size":                             one(func(v v) string { return strconv.Itoa(int(v.SizeGiB)) }),
		"snapshot-id":                      one(func(v v) string { return v.SnapshotID }),
		"status":                           one(func(v) string { return "in-use" }),
		"volume-id":                        one(func(v v) string { return v.VolumeID }),
		"volume-type":                      one(func(v v) string { return v.Type }),
	}, func(v v) Tags { return v.Tags })
	if err != nil {
		return nil, err
	}
	if err := checkDryRun(in.DryRun); err != nil {
		return nil, err
	}
	all, err := listVolumes(s.store, sc)
	if err != nil {
		return nil, err
	}
	kind := volumeID()
	for _, id := range in.VolumeIds {
		if err := kind.check(id); err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(all, func(v v) bool { return v.VolumeID == id }) {
			return nil, kind.notFound(id)
		}
	}
	var found []volumeView
	for _, v := range all {
		if (len(in.VolumeIds) == 0 || slices.Contains(in.VolumeIds, v.VolumeID)) && match(v) {
			found = append(found, v)
		}
	}
	found, next, err := paginate(found, func(v v) string { return v.VolumeID }, in.MaxResults, in.NextToken, limits{5, 1000})
	return &awsec2.DescribeVolumesOutput{Volumes: sdkAll(sc, found), NextToken: next}, err
}

// volumeTags finds volumes inside their instances.
func volumeTags() taggable {
	kind := volumeID()
	return taggable{
		id: kind, kind: ec2types.ResourceTypeVolume,
		edit: func(tx *store.Tx, sc scope, id string, fn func(Tags) (Tags, error)) error {
			all, err := listVolumes(tx, sc)
			if err != nil {
				return err
			}
			n := slices.IndexFunc(all, func(v volumeView) bool { return v.VolumeID == id })
			if n < 0 {
				return kind.notFound(id)
			}
			return instances.Update(tx, sc.key(all[n].instance.ID), func(i *instanceRecord) error {
				for d := range i.Devices {
					if i.Devices[d].VolumeID == id {
						tags, err := fn(i.Devices[d].Tags)
						i.Devices[d].Tags = tags
						return err
					}
				}
				return nil
			})
		},
		list: func(r store.Reader, sc scope) ([]taggedResource, error) {
			all, err := listVolumes(r, sc)
			var out []taggedResource
			for _, v := range all {
				if len(v.Tags) > 0 {
					out = append(out, taggedResource{v.VolumeID, v.Tags})
				}
			}
			return out, err
		},
	}
}
