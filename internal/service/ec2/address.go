package ec2

// An addressRecord is an elastic IP address. It is associated with one private
// address of an interface, or with none.
type addressRecord struct {
	ID            string // eipalloc-…
	PublicIP      string
	AssociationID string `json:",omitempty"` // eipassoc-…; empty while free
	InterfaceID   string `json:",omitempty"`
	InstanceID    string `json:",omitempty"`
	PrivateIP     string `json:",omitempty"`
	// Requester is the AWS service that made the address; empty for the user's own.
	Requester string `json:",omitempty"`
	Tags      Tags   `json:",omitempty"`
}

// An elasticAssociation is an elastic address as its interface sees it.
type elasticAssociation struct {
	AllocationID  string
	AssociationID string
	PublicIP      string
	PrivateIP     string
}
