package ec2err

import (
	"fmt"
	"strings"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
)

func VolumeAttached(volume, instance string) error {
	return New("VolumeInUse", "Volume %s is currently attached to %s", volume, instance)
}

// https://github.com/sodafoundation/strato/issues/1116
func VolumeTooSmall(size int32, volumeType string, least int32) error {
	return InvalidParameterValue("The volume size is invalid for %s volumes: %d GiB. %[1]s volumes must be at least %[3]d GiB in size. Please specify a volume size above the minimum limit.", volumeType, size, least)
}

// from memory
func VolumeTooLarge(size int32, volumeType string, most int32) error {
	return InvalidParameterValue("Volume of %dGiB is too large for volume type %s; maximum is %dGiB.", size, volumeType, most)
}

// https://github.com/rocicorp/mono/pull/4410
func IOPSRatio(iops, size, most int32) error {
	return InvalidParameterValue("Iops to volume size ratio of %f is too high; maximum is %d", float64(iops)/float64(size), most)
}

// https://github.com/runs-on/runs-on/issues/260
func ThroughputRatio(throughput, iops int32) error {
	return InvalidParameterValue("Throughput (MiBps) to iops ratio of %f is too high; maximum is %f MiBps per iops", float64(throughput)/float64(iops), ThroughputPerIOPS)
}

// Karpenter and cluster-autoscaler check the code.
// https://github.com/red-hat-storage/ocs-ci/issues/9263 has text and status.
func NoCapacity(instanceType, zone string, others []string) error {
	message := fmt.Sprintf("We currently do not have sufficient %s capacity in the Availability Zone you requested (%s). Our system will be working on provisioning additional capacity.", instanceType, zone)
	if len(others) > 0 {
		message += fmt.Sprintf(" You can currently get %s capacity by not specifying an Availability Zone in your request or choosing %s.", instanceType, strings.Join(others, ", "))
	}
	return awserr.New("InsufficientInstanceCapacity", message).WithStatus(500)
}

// https://github.com/hashicorp/terraform-provider-aws/pull/26493
func NoSpotCapacity() error {
	return awserr.New("InsufficientInstanceCapacity", "There is no Spot capacity available that matches your request.").WithStatus(500)
}

// https://github.com/aws/parallelcluster-node/pull/415
func SpotPrice(offered string, least float64) error {
	return New("SpotMaxPriceTooLow", "Your Spot request price of %s is lower than the minimum required Spot request fulfillment price of %g.", offered, least)
}

// https://github.com/harmony-one/harmony-ops/issues/285
func SpotStopOnce() error {
	return Combination("The request with type 'one-time' is not supported when instanceInterruptionBehavior is set to 'stop'.")
}

// https://github.com/pahud/cdk-spot-one/issues/206; comments in Terraform modules mention the code.
func SpotTerminatePersistent() error {
	return Combination("The terminate InstanceInterruptionBehavior is not supported when requestType is set to persistent.")
}

// NotBurstable is RunInstances' error, which says T2 for all burstable types:
// https://github.com/hashicorp/terraform-provider-aws/issues/5067. Other operations return the same
// code: https://github.com/hashicorp/terraform-provider-aws/issues/8055
func NotBurstable(instanceType string) error {
	return New("InstanceCreditSpecification.NotSupported", "The %s instance type does not support T2 Unlimited.", instanceType)
}

// https://github.com/aws/amazon-cloudwatch-agent-test/pull/256
func VCPULimit(limit int) error {
	return New("VcpuLimitExceeded", "You have requested more vCPU capacity than your current vCPU limit of %d allows for the instance bucket that the specified instance type belongs to. Please visit http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this limit.", limit)
}

// FleetNotModifiable is ModifySpotFleetRequest's error. ModifyFleet's is assumed to be similar.
// https://github.com/jenkinsci/ec2-fleet-plugin/issues/131
func FleetNotModifiable(format string, args ...any) error {
	return New("FleetNotInModifiableState", format, args...)
}

// Karpenter checks the code.
func SpotLimit() error {
	return New("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded")
}

func UnsupportedOperation(format string, args ...any) error {
	return New("UnsupportedOperation", format, args...)
}

func NotHonoured(what string) error { return awserr.NotImplemented(what + " of EC2") }

const ThroughputPerIOPS = 0.25
