package policy

// A Document is a parsed policy. It is immutable: share it.
type Document struct {
	Version    string // 2008-10-17 (also when absent) or 2012-10-17
	ID         string
	Statements []Statement
}

// A Statement is one statement of a policy. Exactly one of Actions and
// NotActions is set, and at most one of Resources and NotResources and of
// Principals and NotPrincipals.
type Statement struct {
	SID           string
	Deny          bool
	Principals    *Principals
	NotPrincipals *Principals
	Actions       []string
	NotActions    []string
	Resources     []string
	NotResources  []string
	Conditions    []Condition

	// byVendor holds the actions, or not-actions, by the lower-case vendor they
	// name, and under "" those that a wildcard may let match any. Nil if they are
	// few. AWS's ReadOnlyAccess names 2,500 actions.
	byVendor map[string][]string
}

// Principals are the identities a statement of a resource or trust policy names.
type Principals struct {
	All       bool     // "*" or {"AWS": "*"}
	AWS       []string // ARNs, account IDs, unique IDs
	Service   []string // eks.amazonaws.com
	Federated []string
	Canonical []string
}

// A Condition is one operator applied to one key: all of a statement's must hold.
type Condition struct {
	Operator string // StringEquals, ForAnyValue:StringLike, …
	Key      string // as written; keys compare without case
	Values   []string
}
