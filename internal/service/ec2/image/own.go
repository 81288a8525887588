package image

import (
	"slices"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/storage"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// An Image is an image that a user made. It has the operating system of the catalogue image that it derives from.
type Image struct {
	ID, Name    string
	Description string `json:",omitempty"`
	Created     time.Time
	BaseImage   string // the catalogue image's name
	Devices     []device
	// The source of the image, if known.
	SourceInstance string           `json:",omitempty"`
	SourceImage    string           `json:",omitempty"`
	SourceRegion   string           `json:",omitempty"`
	Shared         resource.Sharing `json:",omitzero"` // who may launch it
	Tags           tag.Set          `json:",omitempty"`
}

// A device is a block device in an image's mapping.
type device struct {
	Name string
	storage.Spec
	DeleteOnTermination bool
}

// Images is the collection of images that users made.
var Images = resource.NewKind("image", resource.ImageID, func(v *Image) (string, *tag.Set) { return v.ID, &v.Tags })

// An entry is an image as DescribeImages lists it. own is nil for images of the catalogue.
type entry struct {
	images.Image
	own *Image
}

func (e *entry) tags() tag.Set {
	if e.own == nil {
		return nil
	}
	return e.own.Tags
}

func (e *entry) public() bool { return e.own == nil || e.own.Shared.Public }

// asEntry returns the entry for an image that belongs to owner. It returns false if the catalogue does not have the
// image's base.
func asEntry(region, owner string, own Image) (entry, bool) {
	img, ok := images.ByName(region, own.BaseImage)
	img.Base = own.BaseImage
	img.ID, img.Name, img.Description, img.OwnerID, img.OwnerAlias, img.Created = own.ID, own.Name, own.Description, owner, "", own.Created
	img.Devices = nil
	for _, d := range own.Devices {
		img.Devices = append(img.Devices, images.Device{
			Name: d.Name, SizeGiB: d.SizeGiB, Type: d.Type, IOPS: d.IOPS, Throughput: d.Throughput, Encrypted: d.Encrypted, KMSKeyID: d.KMSKeyID,
			SnapshotID: d.SnapshotID, Keep: !d.DeleteOnTermination,
		})
	}
	return entry{img, &own}, ok
}

// find returns the user-made image with an ID, if the scope's account may use it.
func (s *Service) find(r store.Reader, sc resource.Scope, id string) (entry, bool) {
	if own, err := Images.Get(r, sc.Key(id)); err == nil {
		return asEntry(sc.Region, sc.Account, own)
	}
	for _, it := range Images.All(r, store.Scope{}) {
		if it.Key.ID == id && it.Key.Region == sc.Region && it.Value.Shared.Allows(it.Key.Account, sc.Account) {
			return asEntry(sc.Region, it.Key.Account, it.Value)
		}
	}
	return entry{}, false
}

// visible returns the user-made images that the scope's account may use.
func (s *Service) visible(sc resource.Scope) []entry {
	var out []entry
	for _, it := range Images.All(s.Store, store.Scope{}) {
		if it.Key.Region != sc.Region || !it.Value.Shared.Allows(it.Key.Account, sc.Account) {
			continue
		}
		if e, ok := asEntry(sc.Region, it.Key.Account, it.Value); ok {
			out = append(out, e)
		}
	}
	return out
}

// sdk renders an image for the SDK.
func (e *entry) sdk() ec2types.Image {
	out := sdkImage(e.Image)
	if e.own == nil {
		return out
	}
	public, location := e.own.Shared.Public, e.OwnerID+"/"+e.Name
	out.Public, out.ImageLocation, out.DeprecationTime, out.Tags = &public, &location, nil, e.own.Tags.SDK()
	out.SourceInstanceId, out.SourceImageId, out.SourceImageRegion = resource.Optional(e.own.SourceInstance), resource.Optional(e.own.SourceImage), resource.Optional(e.own.SourceRegion)
	return out
}

// uses records in the snapshots of an image's devices whether the image uses them.
func uses(tx *store.Tx, sc resource.Scope, img *Image, use bool) error {
	for _, d := range img.Devices {
		err := storage.Snapshots.Update(tx, sc.Key(d.SnapshotID), func(v *storage.Snapshot) error {
			v.Images = slices.DeleteFunc(slices.Clone(v.Images), func(id string) bool { return id == img.ID })
			if use {
				v.Images = append(v.Images, img.ID)
			}
			return nil
		})
		if err := store.IgnoreNotFound(err); err != nil {
			return err
		}
	}
	return nil
}
