package storage

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// A Snapshot is an EBS snapshot. The snapshot of a root volume holds the files that the instance has written to it, and
// that of another one its file system; see Disks.
type Snapshot struct {
	ID, VolumeID string
	SizeGiB      int32
	Encrypted    bool      `json:",omitempty"`
	KMSKeyID     string    `json:",omitempty"`
	Description  string    `json:",omitempty"`
	Started      time.Time // also the time of completion
	// BaseImage is the name of the catalogue image whose operating system the volume holds. Only
	// snapshots of root volumes have one.
	BaseImage string           `json:",omitempty"`
	Images    []string         `json:",omitempty"` // the images that use it
	Shared    resource.Sharing `json:",omitzero"`  // who may create volumes from it
	Tags      tag.Set          `json:",omitempty"`
}

// Snapshots is the collection of snapshots.
var Snapshots = resource.NewKind("snapshot", resource.SnapshotID, func(v *Snapshot) (string, *tag.Set) { return v.ID, &v.Tags })

// Disks stores what instances have written to their volumes. The keys are the IDs of instances, for their root volumes, of
// other volumes, and of snapshots.
type Disks interface {
	// Copy copies the data stored under one ID to another ID. If there is no data, or a volume or snapshot of that ID has
	// some already, it does nothing.
	Copy(from, to string) error
	// Remove removes the data stored under an ID, if any.
	Remove(id string) error
}

// copiedVolume is the volume ID of snapshots that were copied from others.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CopySnapshot.html
const copiedVolume = "vol-ffffffff"

// DataIDs returns the IDs of all volumes and snapshots in all accounts and regions.
func (s *Service) DataIDs() map[string]bool {
	out := map[string]bool{}
	for _, k := range slices.Concat(Snapshots.Unreadable(s.Store, store.Scope{}), Volumes.Unreadable(s.Store, store.Scope{})) {
		out[k.ID] = true
	}
	for _, v := range Snapshots.All(s.Store, store.Scope{}) {
		out[v.Value.ID] = true
	}
	for _, v := range Volumes.All(s.Store, store.Scope{}) {
		out[v.Value.ID] = true
	}
	return out
}

// An ownedSnapshot is a snapshot and the account that owns it.
type ownedSnapshot struct {
	Snapshot
	owner string
}

func (v ownedSnapshot) sdk() ec2types.Snapshot {
	return ec2types.Snapshot{
		SnapshotId: aws.String(v.ID), VolumeId: aws.String(v.VolumeID), VolumeSize: aws.Int32(v.SizeGiB), Encrypted: aws.Bool(v.Encrypted), KmsKeyId: resource.Optional(v.KMSKeyID),
		Description: aws.String(v.Description), StartTime: aws.Time(v.Started), CompletionTime: aws.Time(v.Started), OwnerId: aws.String(v.owner),
		State: ec2types.SnapshotStateCompleted, Progress: aws.String("100%"), StorageTier: ec2types.StorageTierStandard, Tags: v.Tags.SDK(),
	}
}

// FindSnapshot returns a snapshot that belongs to the scope's account or is shared with it, and the snapshot's owner.
func FindSnapshot(r store.Reader, sc resource.Scope, id string) (v Snapshot, owner string, err error) {
	if v, err = resource.Get(r, Snapshots, sc, id); err == nil {
		return v, sc.Account, nil
	}
	for _, it := range Snapshots.All(r, store.Scope{}) {
		if it.Key.ID == id && it.Key.Region == sc.Region && it.Value.Shared.Allows(it.Key.Account, sc.Account) {
			return it.Value, it.Key.Account, nil
		}
	}
	return v, "", err
}

// Data are the IDs under which Disks may store the data of a volume. The first one that has data counts. For the root volume of
// an instance, it is the instance's ID. Otherwise it is the volume's own, and the ID of the snapshot that it was created from.
type Data []string

// NewSnapshot returns a new snapshot of a volume, and where the volume's data is.
func (s *Service) NewSnapshot(r store.Reader, sc resource.Scope, v Volume, description string, tags tag.Set) (out Snapshot, data Data, err error) {
	out = Snapshot{
		ID: ids.Resource("snap"), VolumeID: v.ID, SizeGiB: v.SizeGiB, Encrypted: v.Encrypted, KMSKeyID: v.KMSKeyID, Description: description, Started: s.Now(), Tags: tags,
	}
	if i, err := record.Instances.Get(r, sc.Key(v.Attachment.InstanceID)); err == nil && i.RootDevice == v.Attachment.Device {
		out.BaseImage = i.BaseImage
		if img, ok := images.ByID(sc.Region, i.ImageID); ok && out.BaseImage == "" { // launched by an older version of Drydock
			out.BaseImage = img.Name
		}
		return out, Data{i.ID}, nil
	} else if err != nil && !resource.NotFound(err) {
		return out, nil, err
	}
	data = Data{v.ID}
	if from, _, err := FindSnapshot(r, sc, v.SnapshotID); err == nil { // AWS's own snapshots hold no data
		out.BaseImage = from.BaseImage
		data = append(data, from.ID)
	}
	return out, data, nil
}

// SaveSnapshots stores new snapshots, and copies the data of each. with runs in the same transaction.
func (s *Service) SaveSnapshots(ctx context.Context, dryRun *bool, made []Snapshot, data []Data, with func(*store.Tx) error) error {
	sc := resource.ScopeOf(ctx)
	if err := resource.CheckDryRun(dryRun); err != nil {
		return err
	}
	err := s.copyData(made, data)
	if err == nil {
		err = s.Store.Update(ctx, func(tx *store.Tx) error {
			for _, v := range made {
				if err := Snapshots.Create(tx, sc.Key(v.ID), v); err != nil {
					return err
				}
			}
			return with(tx)
		})
	}
	if err != nil {
		for _, v := range made {
			s.forget(v.ID)
		}
	}
	return err
}

func (s *Service) copyData(made []Snapshot, data []Data) error {
	if s.disks == nil {
		return nil
	}
	for n, v := range made {
		for _, from := range data[n] {
			if err := s.disks.Copy(from, v.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

// forget removes the data of a volume or snapshot that was not created.
func (s *Service) forget(id string) {
	if s.disks == nil {
		return
	}
	if err := s.disks.Remove(id); err != nil {
		s.Log.Error("the data of a volume or snapshot that was not created could not be removed; the next start removes it", "id", id, "err", err)
	}
}

func nothingElse(*store.Tx) error { return nil }

// CreateSnapshot creates a snapshot of a volume.
func (s *Service) CreateSnapshot(ctx context.Context, in *awsec2.CreateSnapshotInput) (*awsec2.CreateSnapshotOutput, error) {
	sc := resource.ScopeOf(ctx)
	tags, err := tag.Specified(ctx, in.TagSpecifications, ec2types.ResourceTypeSnapshot)
	if err != nil {
		return nil, err
	}
	volume, err := resource.Get(s.Store, Volumes, sc, aws.ToString(in.VolumeId))
	if err != nil {
		return nil, err
	}
	made, data, err := s.NewSnapshot(s.Store, sc, volume, aws.ToString(in.Description), tags)
	if err != nil {
		return nil, err
	}
	if err := s.SaveSnapshots(ctx, in.DryRun, []Snapshot{made}, []Data{data}, nothingElse); err != nil {
		return nil, err
	}
	return &awsec2.CreateSnapshotOutput{
		SnapshotId: &made.ID, VolumeId: &made.VolumeID, VolumeSize: &made.SizeGiB, Encrypted: &made.Encrypted, KmsKeyId: resource.Optional(made.KMSKeyID), Description: &made.Description,
		StartTime: &made.Started, OwnerId: &sc.Account, State: ec2types.SnapshotStatePending, Progress: aws.String(""), Tags: made.Tags.SDK(),
	}, nil
}

// CreateSnapshots creates snapshots of the volumes of an instance.
func (s *Service) CreateSnapshots(ctx context.Context, in *awsec2.CreateSnapshotsInput) (*awsec2.CreateSnapshotsOutput, error) {
	sc := resource.ScopeOf(ctx)
	tags, err := tag.Specified(ctx, in.TagSpecifications, ec2types.ResourceTypeSnapshot)
	if err != nil {
		return nil, err
	}
	of := in.InstanceSpecification
	if of == nil {
		return nil, ec2err.Missing("InstanceSpecification")
	}
	i, err := resource.Get(s.Store, record.Instances, sc, aws.ToString(of.InstanceId))
	if err != nil {
		return nil, err
	}
	var made []Snapshot
	var data []Data
	for _, d := range i.Devices {
		if d.Name == i.RootDevice && aws.ToBool(of.ExcludeBootVolume) || slices.Contains(of.ExcludeDataVolumeIds, d.VolumeID) {
			continue
		}
		volume, err := resource.Get(s.Store, Volumes, sc, d.VolumeID)
		if err != nil {
			return nil, err
		}
		all := tags
		if in.CopyTagsFromSource == ec2types.CopyTagsFromSourceVolume {
			all = userTags(volume.Tags).With(tags)
		}
		v, from, err := s.NewSnapshot(s.Store, sc, volume, aws.ToString(in.Description), all)
		if err != nil {
			return nil, err
		}
		made, data = append(made, v), append(data, from)
	}
	if err := s.SaveSnapshots(ctx, in.DryRun, made, data, nothingElse); err != nil {
		return nil, err
	}
	return &awsec2.CreateSnapshotsOutput{Snapshots: resource.Map(made, func(v Snapshot) ec2types.SnapshotInfo {
		return ec2types.SnapshotInfo{
			SnapshotId: &v.ID, VolumeId: &v.VolumeID, VolumeSize: &v.SizeGiB, Encrypted: &v.Encrypted, Description: &v.Description,
			StartTime: &v.Started, OwnerId: &sc.Account, State: ec2types.SnapshotStatePending, Progress: aws.String(""), Tags: v.Tags.SDK(),
		}
	})}, nil
}

// userTags returns the tags that may be copied, which are those without the prefix aws:.
func userTags(t tag.Set) tag.Set {
	out := tag.Set{}
	for k, v := range t {
		if !tag.IsReservedKey(k) {
			out[k] = v
		}
	}
	return out
}

// CopySnapshot copies a snapshot within a region or from another one.
func (s *Service) CopySnapshot(ctx context.Context, in *awsec2.CopySnapshotInput) (*awsec2.CopySnapshotOutput, error) {
	sc := resource.ScopeOf(ctx)
	tags, err := tag.Specified(ctx, in.TagSpecifications, ec2types.ResourceTypeSnapshot)
	if err != nil {
		return nil, err
	}
	if aws.ToString(in.SourceRegion) == "" {
		return nil, ec2err.Missing("SourceRegion")
	}
	source, _, err := FindSnapshot(s.Store, resource.Scope{Account: sc.Account, Region: *in.SourceRegion}, aws.ToString(in.SourceSnapshotId))
	if err != nil {
		return nil, err
	}
	made, err := s.Copied(sc, source, aws.ToBool(in.Encrypted), aws.ToString(in.KmsKeyId))
	if err != nil {
		return nil, err
	}
	made.Description, made.Tags = aws.ToString(in.Description), tags
	if err := s.SaveSnapshots(ctx, in.DryRun, []Snapshot{made}, []Data{{source.ID}}, nothingElse); err != nil {
		return nil, err
	}
	return &awsec2.CopySnapshotOutput{SnapshotId: &made.ID, Tags: made.Tags.SDK()}, nil
}

// Copied returns a new snapshot that is a copy of source. The copy is encrypted if source is, if encrypted is true,
// or if encryption is the account's default.
func (s *Service) Copied(sc resource.Scope, source Snapshot, encrypted bool, key string) (Snapshot, error) {
	spec := Spec{Encrypted: encrypted || source.Encrypted, KMSKeyID: key}
	if key != "" && !spec.Encrypted {
		return Snapshot{}, ec2err.New("InvalidParameterDependency", "The parameter KmsKeyId requires the parameter Encrypted to be set.")
	}
	defaults, err := encryptionOf(s.Store, sc)
	defaults.apply(&spec)
	return Snapshot{
		ID: ids.Resource("snap"), VolumeID: copiedVolume, SizeGiB: source.SizeGiB, Encrypted: spec.Encrypted, KMSKeyID: spec.KMSKeyID, BaseImage: source.BaseImage, Started: s.Now(),
	}, err
}

// DeleteSnapshot deletes a snapshot, unless an image uses it.
func (s *Service) DeleteSnapshot(ctx context.Context, in *awsec2.DeleteSnapshotInput) (*awsec2.DeleteSnapshotOutput, error) {
	_, err := resource.Delete(ctx, s.Core, Snapshots, in.DryRun, in.SnapshotId, func(_ *store.Tx, v *Snapshot) error {
		if len(v.Images) > 0 {
			return ec2err.New("InvalidSnapshot.InUse", "The snapshot %s is currently in use by %s", v.ID, strings.Join(v.Images, ", "))
		}
		return nil
	})
	return &awsec2.DeleteSnapshotOutput{}, err
}

// snapshotFields are the filters of DescribeSnapshots.
func snapshotFields() filter.Fields[ownedSnapshot] {
	type v = ownedSnapshot
	constant := func(s string) func(v) []string { return func(v) []string { return []string{s} } }
	return filter.Fields[v]{
		"description":   filter.One(func(x v) string { return x.Description }),
		"encrypted":     filter.Flag(func(x v) bool { return x.Encrypted }),
		"owner-alias":   filter.Never[v],
		"owner-id":      filter.One(func(x v) string { return x.owner }),
		"progress":      constant("100%"),
		"snapshot-id":   filter.One(func(x v) string { return x.ID }),
		"start-time":    filter.One(func(x v) string { return resource.TimeText(x.Started) }),
		"status":        constant("completed"),
		"storage-tier":  constant("standard"),
		"transfer-type": filter.Never[v],
		"volume-id":     filter.One(func(x v) string { return x.VolumeID }),
		"volume-size":   filter.One(func(x v) string { return strconv.Itoa(int(x.SizeGiB)) }),
	}
}

// DescribeSnapshots lists the account's snapshots and those that other accounts share with it. The snapshots of AWS's
// own images are not listed.
func (s *Service) DescribeSnapshots(ctx context.Context, in *awsec2.DescribeSnapshotsInput) (*awsec2.DescribeSnapshotsOutput, error) {
	sc := resource.ScopeOf(ctx)
	match, err := filter.Compile(in.Filters, snapshotFields(), func(v ownedSnapshot) tag.Set { return v.Tags })
	if err != nil {
		return nil, err
	}
	if err := resource.CheckDryRun(in.DryRun); err != nil {
		return nil, err
	}
	if err := resource.CheckPageOfIDs(in.SnapshotIds, "snapshotIds", in.MaxResults); err != nil {
		return nil, err
	}
	missing := map[string]bool{}
	for _, id := range in.SnapshotIds {
		if err := resource.SnapshotID.Check(id); err != nil {
			return nil, err
		}
		missing[id] = true
	}
	var found []ownedSnapshot
	for _, it := range Snapshots.All(s.Store, store.Scope{}) {
		v := ownedSnapshot{it.Value, it.Key.Account}
		asked := missing[v.ID] || len(in.SnapshotIds) == 0
		if it.Key.Region != sc.Region || !asked || !v.Shared.Allows(v.owner, sc.Account) {
			continue
		}
		delete(missing, v.ID)
		owned := len(in.OwnerIds) == 0 || slices.Contains(in.OwnerIds, v.owner) || slices.Contains(in.OwnerIds, "self") && v.owner == sc.Account
		restorable := len(in.RestorableByUserIds) == 0 || slices.ContainsFunc(in.RestorableByUserIds, func(by string) bool {
			return v.Shared.Public && by == "all" || by == "self" || v.Shared.Allows(v.owner, by)
		})
		if owned && restorable && match(v) {
			found = append(found, v)
		}
	}
	if len(missing) > 0 {
		return nil, resource.SnapshotID.NotFound(resource.SortedUnique(in.SnapshotIds)...)
	}
	slices.SortFunc(found, func(a, b ownedSnapshot) int { return strings.Compare(a.ID, b.ID) })
	found, next, err := resource.Paginate(found, func(v ownedSnapshot) string { return v.ID }, in.MaxResults, in.NextToken, resource.Limits{Min: 5, Max: 1000})
	return &awsec2.DescribeSnapshotsOutput{Snapshots: resource.Map(found, ownedSnapshot.sdk), NextToken: next}, err
}

func volumePermissions(in []ec2types.CreateVolumePermission) []resource.Permission {
	return resource.Map(in, func(p ec2types.CreateVolumePermission) resource.Permission {
		return resource.Permission{Account: aws.ToString(p.UserId), Group: string(p.Group)}
	})
}

// ModifySnapshotAttribute changes who may create volumes from a snapshot.
func (s *Service) ModifySnapshotAttribute(ctx context.Context, in *awsec2.ModifySnapshotAttributeInput) (*awsec2.ModifySnapshotAttributeOutput, error) {
	if in.Attribute != "" && in.Attribute != ec2types.SnapshotAttributeNameCreateVolumePermission {
		return nil, ec2err.InvalidValue(string(in.Attribute), "attribute", "")
	}
	change := in.CreateVolumePermission
	if change == nil {
		change = &ec2types.CreateVolumePermissionModifications{}
	}
	add, remove, err := resource.Requested(string(in.OperationType), in.UserIds, in.GroupNames, volumePermissions(change.Add), volumePermissions(change.Remove))
	if err != nil {
		return nil, err
	}
	_, err = resource.Change(ctx, s.Core, Snapshots, in.DryRun, in.SnapshotId, func(_ *store.Tx, v *Snapshot) (err error) {
		if v.Shared, err = v.Shared.Change(add, remove); err == nil && v.Shared.Public && v.Encrypted {
			err = ec2err.InvalidParameterValue("Encrypted snapshots cannot be shared publicly") // from memory
		}
		return err
	})
	return &awsec2.ModifySnapshotAttributeOutput{}, err
}

// ResetSnapshotAttribute stops sharing a snapshot.
func (s *Service) ResetSnapshotAttribute(ctx context.Context, in *awsec2.ResetSnapshotAttributeInput) (*awsec2.ResetSnapshotAttributeOutput, error) {
	if in.Attribute != ec2types.SnapshotAttributeNameCreateVolumePermission {
		return nil, ec2err.InvalidValue(string(in.Attribute), "attribute", "")
	}
	_, err := resource.Change(ctx, s.Core, Snapshots, in.DryRun, in.SnapshotId, func(_ *store.Tx, v *Snapshot) error {
		v.Shared = resource.Sharing{}
		return nil
	})
	return &awsec2.ResetSnapshotAttributeOutput{}, err
}

// DescribeSnapshotAttribute returns who may create volumes from a snapshot. No snapshot has product codes.
func (s *Service) DescribeSnapshotAttribute(ctx context.Context, in *awsec2.DescribeSnapshotAttributeInput) (*awsec2.DescribeSnapshotAttributeOutput, error) {
	if err := resource.CheckDryRun(in.DryRun); err != nil {
		return nil, err
	}
	v, err := resource.Get(s.Store, Snapshots, resource.ScopeOf(ctx), aws.ToString(in.SnapshotId))
	if err != nil {
		return nil, err
	}
	out := &awsec2.DescribeSnapshotAttributeOutput{SnapshotId: &v.ID}
	switch in.Attribute {
	case ec2types.SnapshotAttributeNameCreateVolumePermission:
		out.CreateVolumePermissions = resource.Map(v.Shared.Permissions(), func(p resource.Permission) ec2types.CreateVolumePermission {
			return ec2types.CreateVolumePermission{UserId: resource.Optional(p.Account), Group: ec2types.PermissionGroup(p.Group)}
		})
	case ec2types.SnapshotAttributeNameProductCodes:
		out.ProductCodes = []ec2types.ProductCode{}
	default:
		return nil, ec2err.InvalidValue(string(in.Attribute), "attribute", "")
	}
	return out, nil
}
