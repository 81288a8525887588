package record

import (
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// An AccessEntry lets an IAM principal into a cluster. It is kept under CLUSTER/PRINCIPAL.
type AccessEntry struct {
	Entry ekstypes.AccessEntry
	// PrincipalID is the identity's unique ID when the entry was made. A role
	// that is created again with the same ARN has another ID and is not let in.
	// https://docs.aws.amazon.com/eks/latest/userguide/deleting-access-entries.html
	PrincipalID string
	Policies    []ekstypes.AssociatedAccessPolicy
	Token       string
	Request     string
	// Managed entries, EKS's own, cannot be changed.
	Managed bool
}

// An Identity is one IAM identity: a role or user that is created again with the same
// ARN is another one.
type Identity struct {
	ARN string
	ID  string
}
