package ec2

import (
	"slices"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// A volumeSpec is what a volume is made like.
type volumeSpec struct {
	SizeGiB    int32
	Type       string
	IOPS       int32  `json:",omitempty"` // provisioned
	Throughput int32  `json:",omitempty"` // provisioned, MiB/s
	Encrypted  bool   `json:",omitempty"`
	KMSKeyID   string `json:",omitempty"`
	SnapshotID string `json:",omitempty"`
}

// volumeKeyExcept says what is not done with the keys of volumes.
//
// AWS deviation: EBS asks KMS for the key, with a grant, and a launch whose key cannot
// be used ends as terminated.
// https://docs.aws.amazon.com/ebs/latest/userguide/how-ebs-encryption-works.html
const volumeKeyExcept = "KmsKeyId is recorded, but KMS is not asked for the key"

// volumeLimits are the bounds of a volume type.
type volumeLimits struct {
	minSize, maxSize int32 // GiB
	// minIOPS is zero for types without provisioned IOPS.
	minIOPS, maxIOPS, iopsPerGiB int32
}

// limitsOf returns a type's bounds.
// https://docs.aws.amazon.com/ebs/latest/userguide/ebs-volume-types.html
func limitsOf(volumeType string) volumeLimits {
	switch volumeType {
	case "gp3":
		return volumeLimits{1, 65536, 3000, 80000, 500}
	case "io1":
		return volumeLimits{4, 16384, 100, 64000, 50}
	case "io2":
		return volumeLimits{4, 65536, 100, 256000, 1000}
	case "st1", "sc1":
		return volumeLimits{minSize: 125, maxSize: 16384}
	case "standard":
		return volumeLimits{minSize: 1, maxSize: 1024}
	}
	return volumeLimits{minSize: 1, maxSize: 16384} // gp2
}

// The bounds of gp3's throughput in MiB/s, and how much of it an IOPS carries.
const (
	minThroughput     = 125
	maxThroughput     = 2000
	throughputPerIOPS = 0.25
)

// check completes and checks a new volume, whose type is otherwise if it has none.
func (v *volumeSpec) check(otherwise string) error {
	if v.Type == "" {
		v.Type = otherwise
	}
	if !slices.Contains(ec2types.VolumeType("").Values(), ec2types.VolumeType(v.Type)) {
		return errInvalidValue(v.Type, "volumeType", "")
	}
	lim := limitsOf(v.Type)
	switch {
	case v.SizeGiB < lim.minSize:
		return errVolumeTooSmall(v.SizeGiB, v.Type, lim.minSize)
	case v.SizeGiB > lim.maxSize:
		return errVolumeTooLarge(v.SizeGiB, v.Type, lim.maxSize)
	case v.IOPS == 0 && (v.Type == "io1" || v.Type == "io2"):
		return errMissingIOPS(v.Type)
	case v.IOPS != 0 && lim.minIOPS == 0:
		return errUnsupportedIOPS(v.Type)
	case v.Throughput != 0 && v.Type != "gp3":
		return errUnsupportedThroughput()
	case v.KMSKeyID != "" && !v.Encrypted:
		return errf("InvalidParameterDependency", "The parameter KmsKeyId requires the parameter Encrypted to be set.")
	}
	if v.IOPS != 0 {
		switch {
		case v.IOPS < lim.minIOPS:
			return errInvalidParameter("Volume iops of %d is too low; minimum is %d.", v.IOPS, lim.minIOPS)
		case v.IOPS > lim.maxIOPS:
			return errInvalidParameter("Volume iops of %d is too high; maximum is %d.", v.IOPS, lim.maxIOPS)
		case v.IOPS > max(lim.minIOPS, v.SizeGiB*lim.iopsPerGiB):
			return errIOPSRatio(v.IOPS, v.SizeGiB, lim.iopsPerGiB)
		}
	}
	if v.Throughput != 0 {
		switch {
		case v.Throughput < minThroughput:
			return errInvalidParameter("Throughput (MiB/s) of %d is too low; minimum is %d.", v.Throughput, minThroughput)
		case v.Throughput > maxThroughput:
			return errInvalidParameter("Throughput (MiB/s) of %d is too high; maximum is %d.", v.Throughput, maxThroughput)
		case float64(v.Throughput) > float64(v.iops())*throughputPerIOPS:
			return errThroughputRatio(v.Throughput, v.iops())
		}
	}
	return nil
}

// iops is how many operations a second the volume does; 0 for magnetic ones.
func (v volumeSpec) iops() int32 {
	switch v.Type {
	case "gp2":
		return min(max(100, 3*v.SizeGiB), 16000)
	case "gp3":
		return max(v.IOPS, 3000)
	}
	return v.IOPS
}

// throughput is what DescribeVolumes says of it: only gp3 has one.
func (v volumeSpec) throughput() int32 {
	if v.Type != "gp3" {
		return 0
	}
	return max(v.Throughput, minThroughput)
}
