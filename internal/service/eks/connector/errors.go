package connector

import (
	"fmt"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
)

// The codes are from the API reference. The texts are from memory, but for the next one: EKS creates an activation of
// Systems Manager, which refuses roles with this text [seen] hashicorp/terraform-provider-aws#4048.
func errRole(cluster, role string) error {
	return ekserr.InvalidRequest(cluster, "Nonexistent role or missing ssm service principal in trust policy: %s", role)
}

func errProvider(cluster string, provider ekstypes.ConnectorConfigProvider) error {
	return ekserr.InvalidParameter(cluster, "Invalid provider: %s", provider)
}

func errNotConnected(cluster string) error {
	return ekserr.InvalidRequest(cluster, "Cluster %s is not a connected cluster. Use DeleteCluster to delete it.", cluster)
}

func errLimit() error {
	return &ekstypes.ResourceLimitExceededException{Message: new(fmt.Sprintf("Connected cluster limit exceeded for account: at most %d connected clusters are allowed in a region.", limit))}
}
