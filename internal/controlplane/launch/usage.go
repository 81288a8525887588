package launch

// An APIUse counts one client's requests to a deprecated API.
type APIUse struct {
	// API is the path of the resource: /apis/resource.k8s.io/v1beta1/resourceclaims.
	API string
	// Removed is the Kubernetes version that no longer serves the API, such as 1.38, or empty if that is not planned.
	Removed   string `json:",omitempty"`
	UserAgent string
	Requests  int
}

// Usage holds what a child has counted since its last message.
type Usage struct {
	Uses []APIUse `json:",omitempty"`
}

// UsagePath is the path of the daemon's webhook server for Usage.
const UsagePath = "/usage"
