package image

import (
	"context"
	"regexp"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/storage"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// CreateExcept is the text in the compatibility page about what CreateImage does not do.
const CreateExcept = "the instance is not restarted first: its files are consistent without that"

// RegisterExcept is the text in the compatibility page about what RegisterImage does not support.
const RegisterExcept = "root snapshots that are not of an instance's root volume"

// imageName matches the names that EC2 accepts.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateImage.html
var imageName = regexp.MustCompile(`^[a-zA-Z0-9()\[\] ./\-'@_]{3,128}$`)

func checkName(name string) error {
	if name == "" {
		return ec2err.Missing("name")
	}
	if !imageName.MatchString(name) {
		return ec2err.New("InvalidAMIName.Malformed", "AMI names must be between 3 and 128 characters long, and may contain letters, numbers, '(', ')', '.', '-', '/' and '_'")
	}
	return nil
}

// create stores an image in a transaction. Image names are unique within an account and region.
func create(tx *store.Tx, sc resource.Scope, img Image) error {
	for _, it := range Images.All(tx, sc.All()) {
		if it.Value.Name == img.Name {
			return ec2err.New("InvalidAMIName.Duplicate", "AMI name %s is already in use by AMI %s", img.Name, it.Value.ID)
		}
	}
	if err := Images.Create(tx, sc.Key(img.ID), img); err != nil {
		return err
	}
	return uses(tx, sc, &img, true)
}

// draft returns a new image with the name, description and tags of a request, and the tags for its snapshots.
func (s *Service) draft(ctx context.Context, name, description *string, specs []ec2types.TagSpecification) (img Image, snapshotTags tag.Set, err error) {
	img = Image{ID: ids.Resource("ami"), Name: aws.ToString(name), Description: aws.ToString(description), Created: s.Now()}
	if err = checkName(img.Name); err != nil {
		return img, nil, err
	}
	if img.Tags, err = tag.Specified(ctx, specs, ec2types.ResourceTypeImage, ec2types.ResourceTypeSnapshot); err != nil {
		return img, nil, err
	}
	snapshotTags, err = tag.Specified(ctx, specs, ec2types.ResourceTypeSnapshot, ec2types.ResourceTypeImage)
	return img, snapshotTags, err
}

// CreateImage creates an image from an instance. It takes snapshots of the instance's volumes, including the data on
// its root volume.
func (s *Service) CreateImage(ctx context.Context, in *awsec2.CreateImageInput) (*awsec2.CreateImageOutput, error) {
	sc := resource.ScopeOf(ctx)
	img, snapshotTags, err := s.draft(ctx, in.Name, in.Description, in.TagSpecifications)
	if err != nil {
		return nil, err
	}
	i, err := resource.Get(s.Store, record.Instances, sc, aws.ToString(in.InstanceId))
	if err != nil {
		return nil, err
	}
	if i.State != record.Running && i.State != record.Stopped && i.State != record.Stopping {
		return nil, ec2err.New("IncorrectState", "The instance '%s' is not in the 'running' or 'stopped' state.", i.ID) // from memory
	}
	img.SourceInstance, img.SourceImage, img.SourceRegion = i.ID, i.ImageID, sc.Region
	var made []storage.Snapshot
	var data []storage.Data
	for _, d := range i.Devices {
		volume, err := resource.Get(s.Store, storage.Volumes, sc, d.VolumeID)
		if err != nil {
			return nil, err
		}
		v, from, err := s.storage.NewSnapshot(s.Store, sc, volume, "Created by CreateImage("+i.ID+") for "+img.ID, snapshotTags)
		if err != nil {
			return nil, err
		}
		if d.Name == i.RootDevice {
			img.BaseImage = v.BaseImage
		}
		spec := volume.Spec
		spec.SnapshotID = v.ID
		img.Devices = append(img.Devices, device{Name: d.Name, Spec: spec, DeleteOnTermination: d.DeleteOnTermination})
		made, data = append(made, v), append(data, from)
	}
	if img.Devices, err = s.mapped(sc, img.Devices, i.RootDevice, in.BlockDeviceMappings); err != nil {
		return nil, err
	}
	kept := map[string]bool{}
	for _, d := range img.Devices {
		kept[d.SnapshotID] = true
	}
	for n := len(made) - 1; n >= 0; n-- { // take no snapshots of devices that the request omits
		if !kept[made[n].ID] {
			made, data = slices.Delete(made, n, n+1), slices.Delete(data, n, n+1)
		}
	}
	if img.BaseImage == "" {
		return nil, ec2err.New("IncorrectState", "The operating system of instance '%s' is not known.", i.ID)
	}
	err = s.storage.SaveSnapshots(ctx, in.DryRun, made, data, func(tx *store.Tx) error { return create(tx, sc, img) })
	return &awsec2.CreateImageOutput{ImageId: &img.ID}, err
}

// mapped applies the block device mappings of a request to devices.
func (s *Service) mapped(sc resource.Scope, devices []device, root string, mappings []ec2types.BlockDeviceMapping) ([]device, error) {
	plan := make([]storage.DeviceSpec, len(devices))
	for n, d := range devices {
		plan[n] = storage.DeviceSpec(d)
	}
	plan, err := storage.Mapped(s.Store, sc, plan, root, mappings)
	if err != nil {
		return nil, err
	}
	return resource.Map(plan, func(d storage.DeviceSpec) device { return device(d) }), nil
}

// RegisterImage creates an image from a snapshot of a root volume.
func (s *Service) RegisterImage(ctx context.Context, in *awsec2.RegisterImageInput) (*awsec2.RegisterImageOutput, error) {
	sc := resource.ScopeOf(ctx)
	img, _, err := s.draft(ctx, in.Name, in.Description, in.TagSpecifications)
	if err != nil {
		return nil, err
	}
	root := aws.ToString(in.RootDeviceName)
	if root == "" {
		return nil, ec2err.Missing("rootDeviceName")
	}
	if img.Devices, err = s.mapped(sc, nil, "", in.BlockDeviceMappings); err != nil {
		return nil, err
	}
	for _, d := range img.Devices {
		if d.Name != root || d.SnapshotID == "" {
			continue
		}
		v, _, err := storage.FindSnapshot(s.Store, sc, d.SnapshotID)
		if err != nil {
			return nil, err
		}
		img.BaseImage = v.BaseImage
	}
	base, ok := images.ByName(sc.Region, img.BaseImage)
	switch {
	case !ok:
		return nil, ec2err.New("InvalidBlockDeviceMapping", "The root device '%s' needs the snapshot of a root volume.", root)
	case in.Architecture != "" && string(in.Architecture) != base.Architecture:
		return nil, ec2err.InvalidParameterValue("The architecture of the snapshot's operating system is '%s', not '%s'.", base.Architecture, in.Architecture)
	case root != base.RootDevice:
		return nil, ec2err.InvalidParameterValue("The root device of the snapshot's operating system is '%s', not '%s'.", base.RootDevice, root)
	}
	err = s.Update(ctx, in.DryRun, func(tx *store.Tx) error {
		for _, d := range img.Devices {
			if d.SnapshotID == "" {
				continue
			}
			if _, _, err := storage.FindSnapshot(tx, sc, d.SnapshotID); err != nil { // deleted in the meantime
				return err
			}
		}
		return create(tx, sc, img)
	})
	return &awsec2.RegisterImageOutput{ImageId: &img.ID}, err
}

// CopyImage copies an image within a region or from another one.
func (s *Service) CopyImage(ctx context.Context, in *awsec2.CopyImageInput) (*awsec2.CopyImageOutput, error) {
	sc := resource.ScopeOf(ctx)
	img, snapshotTags, err := s.draft(ctx, in.Name, in.Description, in.TagSpecifications)
	if err != nil {
		return nil, err
	}
	if aws.ToString(in.SourceRegion) == "" {
		return nil, ec2err.Missing("sourceRegion")
	}
	from := resource.Scope{Account: sc.Account, Region: *in.SourceRegion}
	if err := resource.ImageID.Check(aws.ToString(in.SourceImageId)); err != nil {
		return nil, err
	}
	source, ok := s.ResolveImage(from, *in.SourceImageId)
	if !ok {
		return nil, resource.ImageID.NotFound(*in.SourceImageId)
	}
	var earlier *awsec2.CopyImageOutput
	err = s.Store.Update(ctx, func(tx *store.Tx) error {
		done, err := s.Recall(tx, sc, "CopyImage", in.ClientToken, in)
		if done != nil {
			earlier = &awsec2.CopyImageOutput{ImageId: &done.IDs[0]}
		}
		return err
	})
	if err != nil || earlier != nil {
		return earlier, err
	}
	img.BaseImage, img.SourceImage, img.SourceRegion = source.BaseName(), source.ID, from.Region
	if own, ok := s.find(s.Store, from, source.ID); ok && aws.ToBool(in.CopyImageTags) && own.OwnerID == sc.Account {
		img.Tags = own.tags().With(img.Tags)
	}
	var made []storage.Snapshot
	var data []storage.Data
	for n, d := range source.Devices {
		old, _, err := storage.FindSnapshot(s.Store, from, SnapshotOf(source, n))
		if err != nil && source.Base != "" {
			return nil, ec2err.New("InvalidRequest", "You do not have permission to access the storage of this ami")
		}
		if err != nil { // AWS's own snapshots are not in the store
			old = storage.Snapshot{SizeGiB: d.SizeGiB, Encrypted: d.Encrypted}
			if d.Name == source.RootDevice {
				old.BaseImage = source.BaseName()
			}
		}
		v, err := s.storage.Copied(sc, old, aws.ToBool(in.Encrypted), aws.ToString(in.KmsKeyId))
		if err != nil {
			return nil, err
		}
		v.Description, v.Tags = "Copied for DestinationAmi "+img.ID+" from SourceAmi "+source.ID+" for SourceSnapshot "+SnapshotOf(source, n)+".", snapshotTags
		img.Devices = append(img.Devices, device{
			Name: d.Name, DeleteOnTermination: !d.Keep,
			Spec: storage.Spec{SizeGiB: d.SizeGiB, Type: d.Type, IOPS: d.IOPS, Throughput: d.Throughput, Encrypted: v.Encrypted, KMSKeyID: v.KMSKeyID, SnapshotID: v.ID},
		})
		var from storage.Data
		if old.ID != "" {
			from = storage.Data{old.ID}
		}
		made, data = append(made, v), append(data, from)
	}
	err = s.storage.SaveSnapshots(ctx, in.DryRun, made, data, func(tx *store.Tx) error {
		if err := create(tx, sc, img); err != nil {
			return err
		}
		return s.Remember(tx, sc, "CopyImage", in.ClientToken, in, false, img.ID)
	})
	return &awsec2.CopyImageOutput{ImageId: &img.ID}, err
}

// DeregisterImage removes an image and, if requested, its snapshots. Its instances keep running.
func (s *Service) DeregisterImage(ctx context.Context, in *awsec2.DeregisterImageInput) (*awsec2.DeregisterImageOutput, error) {
	sc := resource.ScopeOf(ctx)
	out := &awsec2.DeregisterImageOutput{Return: aws.Bool(true)}
	_, err := resource.Delete(ctx, s.Core, Images, in.DryRun, in.ImageId, func(tx *store.Tx, img *Image) error {
		out.DeleteSnapshotResults = nil
		if err := uses(tx, sc, img, false); err != nil || !aws.ToBool(in.DeleteAssociatedSnapshots) {
			return err
		}
		for _, d := range img.Devices {
			v, err := storage.Snapshots.Get(tx, sc.Key(d.SnapshotID))
			if resource.NotFound(err) {
				continue
			} else if err != nil {
				return err
			}
			code := ec2types.SnapshotReturnCodesSuccess
			if len(v.Images) > 0 {
				code = ec2types.SnapshotReturnCodesWarnSkipped
			} else {
				storage.Snapshots.Delete(tx, sc.Key(v.ID))
			}
			out.DeleteSnapshotResults = append(out.DeleteSnapshotResults, ec2types.DeleteSnapshotReturnCode{SnapshotId: aws.String(v.ID), ReturnCode: code})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
