package record

import (
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// An AccessEntry lets an IAM principal into a cluster. It is kept under CLUSTER/PRINCIPAL.
type AccessEntry struct {
	Entry ekstypes.AccessEntry
	// PrincipalID is the identity's unique ID when the entry was made. A role
	// made anew under the same ARN has another and is not let in.
	// https://docs.aws.amazon.com/eks/latest/userguide/deleting-access-entries.html
	PrincipalID string
	Policies    []ekstypes.AssociatedAccessPolicy
	Token       string
	Request     string
	// Managed entries, EKS's own, cannot be changed.
	Managed bool
}

// An Identity names an IAM identity for good: an identity made anew under an
// old ARN is another one.
type Identity struct {
	ARN string
	ID  string
}
