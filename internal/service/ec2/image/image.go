package image

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/catalog/regions"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// An imageAliasRecord maps a literal image ID, such as one from another account, to an image of the
// catalogue. It applies to all accounts and regions.
type imageAliasRecord struct{ Name string }

func aliasKey(id string) store.Key { return store.Key{Account: resource.PublicAccount, ID: id} }

// AliasImage makes the image ID id an alias of a catalogue image. name is the image's name or a
// public SSM parameter with an image ID. An empty name removes the alias.
func (s *Service) AliasImage(ctx context.Context, id, name string) error {
	if err := resource.ImageID.Check(id); err != nil {
		return err
	}
	if name == "" {
		return s.Store.Update(ctx, func(tx *store.Tx) error {
			imageAliases.Delete(tx, aliasKey(id))
			return nil
		})
	}
	if !slices.ContainsFunc(regions.All(), func(r regions.Region) bool {
		_, ok := images.ByName(r.Name, name)
		return ok
	}) {
		return ec2err.InvalidParameterValue("The image name '%s' does not exist. DescribeImages and the public SSM parameters list the existing names.", name)
	}
	return s.Store.Update(ctx, func(tx *store.Tx) error {
		return imageAliases.Put(tx, aliasKey(id), imageAliasRecord{name})
	})
}

// ImageAliases returns the aliases: image names by image ID.
func (s *Service) ImageAliases(context.Context) (map[string]string, error) {
	items := imageAliases.All(s.Store, store.Scope{Account: resource.PublicAccount, Global: true})
	out := make(map[string]string, len(items))
	for _, it := range items {
		out[it.Key.ID] = it.Value.Name
	}
	return out, nil
}

// ResolveImage returns the image with an ID or alias. It returns false if no such image exists or the account may not
// use it.
func (s *Service) ResolveImage(sc resource.Scope, id string) (images.Image, bool) {
	e, ok := s.resolve(sc, id)
	return e.Image, ok
}

func (s *Service) resolve(sc resource.Scope, id string) (entry, bool) {
	if img, ok := images.ByID(sc.Region, id); ok {
		return entry{Image: img}, true
	}
	if e, ok := s.find(s.Store, sc, id); ok {
		return e, true
	}
	alias, err := imageAliases.Get(s.Store, aliasKey(id))
	if err != nil {
		return entry{}, false
	}
	img, ok := images.ByName(sc.Region, alias.Name)
	img.ID = id
	return entry{Image: img}, ok
}

// LookupImage is ResolveImage, and also resolves resolve:ssm:PARAMETER, where the parameter is the
// account's own or public.
func (s *Service) LookupImage(sc resource.Scope, id string) (images.Image, bool) {
	img, _, _, ok := s.ImageOf(sc, id)
	return img, ok
}

// ImageOf is like LookupImage. It also returns whether the image is public, and its tags.
func (s *Service) ImageOf(sc resource.Scope, id string) (img images.Image, public bool, tags tag.Set, ok bool) {
	if parameter, ok := strings.CutPrefix(id, "resolve:ssm:"); ok {
		if s.parameter == nil {
			img, ok := images.ByName(sc.Region, parameter)
			return img, true, nil, ok
		}
		if id, ok = s.parameter(sc.Account, sc.Region, parameter); !ok {
			return images.Image{}, false, nil, false
		}
	}
	e, ok := s.resolve(sc, id)
	return e.Image, e.public(), e.tags(), ok
}

func sdkImage(img images.Image) ec2types.Image {
	out := ec2types.Image{
		ImageId: aws.String(img.ID), Name: aws.String(img.Name), Description: aws.String(img.Description),
		Architecture: ec2types.ArchitectureValues(img.Architecture), State: ec2types.ImageStateAvailable, Public: aws.Bool(true),
		OwnerId: aws.String(img.OwnerID), ImageOwnerAlias: resource.Optional(img.OwnerAlias), ImageType: ec2types.ImageTypeValuesMachine,
		ImageLocation: aws.String("amazon/" + img.Name), CreationDate: aws.String(resource.TimeText(img.Created)),
		DeprecationTime: aws.String(resource.TimeText(img.Created.AddDate(2, 0, 0))),
		RootDeviceName:  aws.String(img.RootDevice), RootDeviceType: ec2types.DeviceTypeEbs,
		VirtualizationType: ec2types.VirtualizationTypeHvm, Hypervisor: ec2types.HypervisorTypeXen,
		EnaSupport: aws.Bool(true), SriovNetSupport: aws.String("simple"),
		PlatformDetails: aws.String("Linux/UNIX"), UsageOperation: aws.String("RunInstances"), ProductCodes: []ec2types.ProductCode{},
		BootMode: bootMode(img),
	}
	if img.Family == images.AL2023 {
		out.ImdsSupport = ec2types.ImdsSupportValuesV20
	}
	for i, d := range img.Devices {
		out.BlockDeviceMappings = append(out.BlockDeviceMappings, ec2types.BlockDeviceMapping{
			DeviceName: aws.String(d.Name),
			Ebs: &ec2types.EbsBlockDevice{
				VolumeSize: aws.Int32(d.SizeGiB), VolumeType: ec2types.VolumeType(d.Type), Encrypted: aws.Bool(d.Encrypted),
				DeleteOnTermination: aws.Bool(!d.Keep), SnapshotId: resource.Optional(SnapshotOf(img, i)),
			},
		})
	}
	return out
}

func bootMode(img images.Image) ec2types.BootModeValues {
	if img.Architecture == "arm64" {
		return ec2types.BootModeValuesUefi
	}
	return ec2types.BootModeValuesUefiPreferred
}

// SnapshotOf returns the snapshot ID of an image's device. For catalogue images, the ID is stable, but no snapshot
// with it is listed. For images that users made, it may be empty.
func SnapshotOf(img images.Image, device int) string {
	if img.Base != "" {
		return img.Devices[device].SnapshotID
	}
	hex := strings.TrimPrefix(img.ID, "ami-")
	return "snap-" + hex[:len(hex)-1] + strconv.FormatInt(int64(device%16), 16)
}

func imageFields(region string) filter.Fields[entry] {
	type v = entry
	parameters := sync.OnceValue(func() map[string][]string {
		byImage := map[string][]string{}
		for _, p := range images.Parameters(region) {
			if p.DataType == "aws:ec2:image" {
				byImage[p.Value] = append(byImage[p.Value], p.Name)
			}
		}
		return byImage
	})
	device := func(get func(images.Device) string) func(v) []string {
		return func(i v) []string {
			var out []string
			for _, d := range i.Devices {
				out = append(out, get(d))
			}
			return out
		}
	}
	own := func(get func(*Image) string) func(v) []string {
		return filter.One(func(i v) string {
			if i.own == nil {
				return ""
			}
			return get(i.own)
		})
	}
	constant := func(s string) func(v) []string { return func(v) []string { return []string{s} } }
	out := filter.Fields[v]{
		"boot-mode":                 filter.One(func(i v) string { return string(bootMode(i.Image)) }),
		"public-ssm-parameter-name": func(i v) []string { return parameters()[i.ID] },
		"architecture":              filter.One(func(i v) string { return i.Architecture }),
		"block-device-mapping.delete-on-termination": device(func(d images.Device) string { return strconv.FormatBool(!d.Keep) }),
		"block-device-mapping.device-name":           device(func(d images.Device) string { return d.Name }),
		"block-device-mapping.snapshot-id": func(i v) []string {
			var out []string
			for n := range i.Devices {
				out = append(out, SnapshotOf(i.Image, n))
			}
			return out
		},
		"block-device-mapping.volume-size": device(func(d images.Device) string { return strconv.Itoa(int(d.SizeGiB)) }),
		"block-device-mapping.volume-type": device(func(d images.Device) string { return d.Type }),
		"block-device-mapping.encrypted":   device(func(d images.Device) string { return strconv.FormatBool(d.Encrypted) }),
		"creation-date":                    filter.One(func(i v) string { return resource.TimeText(i.Created) }),
		"description":                      filter.One(func(i v) string { return i.Description }),
		"ena-support":                      constant("true"),
		"free-tier-eligible":               constant("false"),
		"hypervisor":                       constant("xen"),
		"image-allowed":                    constant("true"),
		"image-id":                         filter.One(func(i v) string { return i.ID }),
		"image-type":                       constant("machine"),
		"is-public":                        filter.Flag(func(i v) bool { return i.public() }),
		"kernel-id":                        filter.Never[v],
		"manifest-location":                filter.One(func(i v) string { return *i.sdk().ImageLocation }),
		"name":                             filter.One(func(i v) string { return i.Name }),
		"owner-alias":                      filter.One(func(i v) string { return i.OwnerAlias }),
		"owner-id":                         filter.One(func(i v) string { return i.OwnerID }),
		"platform":                         filter.Never[v],
		"product-code":                     filter.Never[v],
		"product-code.type":                filter.Never[v],
		"ramdisk-id":                       filter.Never[v],
		"root-device-name":                 filter.One(func(i v) string { return i.RootDevice }),
		"root-device-type":                 constant("ebs"),
		"source-image-id":                  own(func(i *Image) string { return i.SourceImage }),
		"source-image-region":              own(func(i *Image) string { return i.SourceRegion }),
		"source-instance-id":               own(func(i *Image) string { return i.SourceInstance }),
		"state":                            constant("available"),
		"state-reason-code":                filter.Never[v],
		"state-reason-message":             filter.Never[v],
		"sriov-net-support":                constant("simple"),
		"virtualization-type":              constant("hvm"),
	}
	for _, name := range strings.Fields(unusedImageFields) {
		out[name] = filter.Never[v]
	}
	return out
}

// unusedImageFields are documented filters on attributes that no catalogue image has.
const unusedImageFields = `image-watermark.source-image-creation-time image-watermark.source-image-id image-watermark.source-image-region
	image-watermark.watermark-creation-time image-watermark.watermark-key instance-type-specification.supported-instance-type
	instance-type-specification.unsupported-instance-type scan-result.critical-fix-available-since scan-result.finding-scan-date
	scan-result.high-fix-available-since scan-result.highest-finding-severity-label scan-result.informational-fix-available-since
	scan-result.low-fix-available-since scan-result.medium-fix-available-since`

// DescribeImages lists the catalogue images, which are public and belong to AWS, their aliases, the account's own
// images, and the images that other accounts share with it.
func (s *Service) DescribeImages(ctx context.Context, in *awsec2.DescribeImagesInput) (*awsec2.DescribeImagesOutput, error) {
	sc := resource.ScopeOf(ctx)
	match, err := filter.Compile(in.Filters, imageFields(sc.Region), func(e entry) tag.Set { return e.tags() })
	if err != nil {
		return nil, err
	}
	if err := resource.CheckDryRun(in.DryRun); err != nil {
		return nil, err
	}
	if err := resource.CheckPageOfIDs(in.ImageIds, "imageIds", in.MaxResults); err != nil {
		return nil, err
	}
	candidates := s.visible(sc)
	for _, img := range images.All(sc.Region) {
		candidates = append(candidates, entry{Image: img})
	}
	if len(in.ImageIds) > 0 {
		candidates = nil
		var missing []string
		for _, id := range in.ImageIds {
			if err := resource.ImageID.Check(id); err != nil {
				return nil, err
			}
			if e, ok := s.resolve(sc, id); ok {
				candidates = append(candidates, e)
			} else {
				missing = append(missing, id)
			}
		}
		if len(missing) > 0 {
			return nil, resource.ImageID.NotFound(missing...)
		}
	}
	var found []entry
	for _, img := range candidates {
		owned := len(in.Owners) == 0 || slices.ContainsFunc(in.Owners, func(o string) bool {
			return o == img.OwnerID || o != "" && o == img.OwnerAlias || o == "self" && img.OwnerID == sc.Account
		})
		executable := len(in.ExecutableUsers) == 0 || slices.ContainsFunc(in.ExecutableUsers, func(by string) bool {
			switch by {
			case "all":
				return img.public()
			case "self": // shared with the caller by name
				by = sc.Account
			}
			return img.own != nil && slices.Contains(img.own.Shared.Accounts, by)
		})
		if owned && executable && match(img) {
			found = append(found, img)
		}
	}
	slices.SortFunc(found, func(a, b entry) int { return strings.Compare(a.ID, b.ID) })
	found, next, err := resource.Paginate(found, func(e entry) string { return e.ID }, in.MaxResults, in.NextToken, resource.Limits{Min: 1, Max: 1000})
	if err != nil {
		return nil, err
	}
	out := &awsec2.DescribeImagesOutput{NextToken: next, Images: make([]ec2types.Image, len(found))}
	for i, img := range found {
		out.Images[i] = img.sdk()
	}
	return out, nil
}

var imageAliases = store.NewCollection[imageAliasRecord]("ec2", "image-alias")
