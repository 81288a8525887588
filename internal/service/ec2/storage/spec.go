package storage

import (
	"slices"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
)

// A Spec has the properties that a volume is created with.
type Spec struct {
	SizeGiB    int32
	Type       string
	IOPS       int32  `json:",omitempty"` // provisioned
	Throughput int32  `json:",omitempty"` // provisioned, MiB/s
	Encrypted  bool   `json:",omitempty"`
	KMSKeyID   string `json:",omitempty"`
	SnapshotID string `json:",omitempty"`
}

// CreateExcept describes what Drydock does not do with volume encryption keys.
//
// AWS deviation: EBS asks KMS for the key, with a grant, and if the key cannot be used, the
// launched instance terminates.
// https://docs.aws.amazon.com/ebs/latest/userguide/how-ebs-encryption-works.html
const CreateExcept = "KmsKeyId is recorded, but not checked with KMS"

// volumeLimits are the limits of a volume type.
type volumeLimits struct {
	minSize, maxSize int32 // GiB
	// minIOPS is zero for types without provisioned IOPS.
	minIOPS, maxIOPS, iopsPerGiB int32
}

// limitsOf returns a volume type's limits.
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

const (
	minThroughput = 125
	maxThroughput = 2000
)

// Check validates a new volume and fills in defaults. otherwise is the default type.
func (v *Spec) Check(otherwise string) error {
	if v.Type == "" {
		v.Type = otherwise
	}
	if !slices.Contains(ec2types.VolumeType("").Values(), ec2types.VolumeType(v.Type)) {
		return ec2err.InvalidValue(v.Type, "volumeType", "")
	}
	lim := limitsOf(v.Type)
	switch {
	case v.SizeGiB < lim.minSize:
		return ec2err.VolumeTooSmall(v.SizeGiB, v.Type, lim.minSize)
	case v.SizeGiB > lim.maxSize:
		return ec2err.VolumeTooLarge(v.SizeGiB, v.Type, lim.maxSize)
	case v.IOPS == 0 && (v.Type == "io1" || v.Type == "io2"):
		return ec2err.MissingIOPS(v.Type)
	case v.IOPS != 0 && lim.minIOPS == 0:
		return ec2err.UnsupportedIOPS(v.Type)
	case v.Throughput != 0 && v.Type != "gp3":
		return ec2err.UnsupportedThroughput()
	case v.KMSKeyID != "" && !v.Encrypted:
		return ec2err.New("InvalidParameterDependency", "The parameter KmsKeyId requires the parameter Encrypted to be set.")
	}
	if v.IOPS != 0 {
		switch {
		case v.IOPS < lim.minIOPS:
			return ec2err.InvalidParameterValue("Volume iops of %d is too low; minimum is %d.", v.IOPS, lim.minIOPS)
		case v.IOPS > lim.maxIOPS:
			return ec2err.InvalidParameterValue("Volume iops of %d is too high; maximum is %d.", v.IOPS, lim.maxIOPS)
		case v.IOPS > max(lim.minIOPS, v.SizeGiB*lim.iopsPerGiB):
			return ec2err.IOPSRatio(v.IOPS, v.SizeGiB, lim.iopsPerGiB)
		}
	}
	if v.Throughput != 0 {
		switch {
		case v.Throughput < minThroughput:
			return ec2err.InvalidParameterValue("Throughput (MiB/s) of %d is too low; minimum is %d.", v.Throughput, minThroughput)
		case v.Throughput > maxThroughput:
			return ec2err.InvalidParameterValue("Throughput (MiB/s) of %d is too high; maximum is %d.", v.Throughput, maxThroughput)
		case float64(v.Throughput) > float64(v.iops())*ec2err.ThroughputPerIOPS:
			return ec2err.ThroughputRatio(v.Throughput, v.iops())
		}
	}
	return nil
}

// iops returns the volume's I/O operations per second, or 0 for magnetic volumes.
func (v Spec) iops() int32 {
	switch v.Type {
	case "gp2":
		return min(max(100, 3*v.SizeGiB), 16000)
	case "gp3":
		return max(v.IOPS, 3000)
	}
	return v.IOPS
}

// throughput returns the throughput that DescribeVolumes shows, which is only set for gp3.
func (v Spec) throughput() int32 {
	if v.Type != "gp3" {
		return 0
	}
	return max(v.Throughput, minThroughput)
}
