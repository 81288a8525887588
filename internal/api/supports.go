package api

// How completely an AWS operation is handled.
const (
	SupportHandled = "handled"
	SupportPartly  = "partly"
	SupportNone    = "not"
)

// A ServiceSupport says which operations of an AWS service are handled.
type ServiceSupport struct {
	Service    string             `json:"service"` // as the aws CLI names it
	Title      string             `json:"title"`
	Handled    int                `json:"handled"`
	Partly     int                `json:"partly"`
	Not        int                `json:"not"`
	Operations []OperationSupport `json:"operations,omitempty"`
}

// An OperationSupport says which parts of an operation are handled.
type OperationSupport struct {
	Service   string `json:"service"`
	Operation string `json:"operation"`
	State     string `json:"state"`
	// Refused are members that a request may not carry, as dotted paths; Except says in
	// words which values of other members are refused.
	Refused []string `json:"refused,omitempty"`
	Except  string   `json:"except,omitempty"`
	// Why explains why an operation that clients use is not handled.
	Why string `json:"why,omitempty"`
}
