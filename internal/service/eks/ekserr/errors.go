// Package ekserr builds the errors that several parts of EKS return. Errors of a single part are in that part's
// errors.go.
package ekserr

import (
	"fmt"
	"strings"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/service/eks/record"
)

// QuotedID returns which of the ids an EC2 error quotes.
func QuotedID(err error, of []string) string {
	asked := make(map[string]bool, len(of))
	for _, id := range of {
		asked[id] = true
	}
	for word := range strings.SplitSeq(err.Error(), "'") {
		if asked[word] {
			return word
		}
	}
	return of[0]
}

// Messages marked [seen] are quoted in public issues or matched by clients (terraform-provider-aws,
// eksctl, CDK, Karpenter). The others follow the wording of the API reference.

// InvalidParameter rejects a value in a request. cluster may be "".
func InvalidParameter(cluster, format string, args ...any) error {
	return &ekstypes.InvalidParameterException{Message: new(fmt.Sprintf(format, args...)), ClusterName: record.Optional(cluster)}
}

// InvalidRequest rejects a request that the current state does not allow.
func InvalidRequest(cluster, format string, args ...any) error {
	return &ekstypes.InvalidRequestException{Message: new(fmt.Sprintf(format, args...)), ClusterName: record.Optional(cluster)}
}

// InvalidState rejects a request because of what EKS knows about the cluster.
func InvalidState(cluster, format string, args ...any) error {
	return &ekstypes.InvalidStateException{Message: new(fmt.Sprintf(format, args...)), ClusterName: record.Optional(cluster)}
}

// InUse refuses to create a resource that exists, or to change one that is already changing.
func InUse(cluster, format string, args ...any) error {
	return &ekstypes.ResourceInUseException{Message: new(fmt.Sprintf(format, args...)), ClusterName: record.Optional(cluster)}
}

// NotFound says that a resource does not exist.
func NotFound(format string, args ...any) error {
	return &ekstypes.ResourceNotFoundException{Message: new(fmt.Sprintf(format, args...))}
}

// [seen] terraform-provider-aws and eksctl match the code; kubectl users see the text.
func NoCluster(name string) error { return NotFound("No cluster found for name: %s.", name) }

// [seen] terraform-provider-aws retries DeleteCluster and updates on "in progress".
func UpdateInProgress(what, cluster, update string) error {
	return InUse(cluster, "Cannot %s because cluster %s currently has update %s in progress", what, cluster, update)
}

// [seen]
func ClusterExists(name string) error {
	return InUse(name, "Cluster already exists with name: %s", name)
}

// ConnectedCluster refuses to work on a cluster from elsewhere. The text is from memory.
func ConnectedCluster(name string) error {
	return InvalidRequest(name, "Cluster %s is a connected cluster. This operation is not supported for connected clusters.", name)
}

// ClusterNotActive refuses to work on a cluster that is not ACTIVE.
func ClusterNotActive(cluster string, status ekstypes.ClusterStatus) error {
	return InvalidRequest(cluster, "Cluster '%s' is not in ACTIVE status. Current status: %s", cluster, status)
}

// The next two codes are from
// https://docs.aws.amazon.com/eks/latest/APIReference/API_ListClusters.html; the texts are from
// memory.
func NextToken() error { return InvalidParameter("", "Invalid nextToken") }

func MaxResults() error {
	return InvalidParameter("", "maxResults must be between 1 and 100")
}

// TokenReused rejects a client request token that was used with a different request.
func TokenReused(cluster string) error {
	return InvalidRequest(cluster, "The clientRequestToken was used before with different parameters.")
}

// [seen] for clusterName and nodegroupName.
func BadName(cluster, parameter string) error {
	return InvalidParameter(cluster, "The %s parameter contains invalid characters. It should begin with letter or digit and can have any of the following characters: the set of Unicode letters, digits, hyphens and underscores.", parameter)
}

func LongName(cluster, parameter string, limit int) error {
	return InvalidParameter(cluster, "The %s parameter is too long. It can have at most %d characters.", parameter, limit)
}

// Missing rejects a request that lacks a parameter.
func Missing(parameter string) error {
	return &ekstypes.InvalidParameterException{Message: new(parameter + " cannot be null or empty.")}
}

// [seen] hashicorp/terraform-provider-aws#30645, about an add-on's role
func CrossAccountRole() error {
	return &ekstypes.AccessDeniedException{Message: new("Cross-account pass role is not allowed.")}
}
