package eksauth

import "time"

// The types in this file match those that aws-sdk-go-v2 generates for its service eksauth, on which
// Drydock does not depend.

// AssumeRoleForPodIdentityInput is the operation's input.
type AssumeRoleForPodIdentityInput struct {
	ClusterName *string
	Token       *string
}

// AssumeRoleForPodIdentityOutput is the operation's output.
type AssumeRoleForPodIdentityOutput struct {
	AssumedRoleUser        *AssumedRoleUser
	Audience               *string
	Credentials            *Credentials
	PodIdentityAssociation *PodIdentityAssociation
	Subject                *Subject
}

// AssumedRoleUser is the role session.
type AssumedRoleUser struct {
	Arn          *string
	AssumeRoleId *string
}

// Credentials are temporary credentials of a role.
type Credentials struct {
	AccessKeyId     *string
	Expiration      *time.Time
	SecretAccessKey *string
	SessionToken    *string
}

// PodIdentityAssociation is the association that gives a pod its role.
type PodIdentityAssociation struct {
	AssociationArn *string
	AssociationId  *string
}

// Subject is the service account of a token.
type Subject struct {
	Namespace      *string
	ServiceAccount *string
}
