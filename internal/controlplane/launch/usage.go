package launch

// An APIUse counts one client's requests to a deprecated API.
type APIUse struct {
	// API is the path of the resource, such as /apis/resource.k8s.io/v1beta1/resourceclaims.
	API string
	// Removed is the Kubernetes version that removes the API, such as 1.38, or empty if no removal is planned.
	Removed   string `json:",omitempty"`
	UserAgent string
	Requests  int
}

// Usage holds the requests that a child has counted since its last message.
type Usage struct {
	Uses []APIUse `json:",omitempty"`
}

// UsagePath is the path of the daemon's webhook server for Usage.
const UsagePath = "/usage"
