package containers

import (
	"encoding/json"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
)

// attachmentsFile tells the driver of volumes how many an instance can have: EC2's answer, for which it has no permission.
// tools/nodebin/csi reads it.
const attachmentsFile = "/var/lib/kubelet/drydock-attachments.json"

// attachments returns the file of an instance type, or nil if EC2 says nothing of it.
func attachments(instanceType string) ([]byte, error) {
	info, ok := instancetypes.Info(instanceType)
	if !ok || info.EbsInfo == nil || info.EbsInfo.MaximumEbsAttachments == nil {
		return nil, nil
	}
	if info.Hypervisor == ec2types.InstanceTypeHypervisorXen {
		// EC2's answer says "shared", but only Nitro instances share the limit. Upstream's driver has this number for them.
		// https://github.com/kubernetes-sigs/aws-ebs-csi-driver/blob/master/pkg/cloud/limits/volume_limits.go
		return json.Marshal(map[string]any{"volumes": 39, "dedicated": true})
	}
	return json.Marshal(map[string]any{"volumes": aws.ToInt32(info.EbsInfo.MaximumEbsAttachments), "dedicated": info.EbsInfo.AttachmentLimitType == ec2types.AttachmentLimitTypeDedicated})
}
