package awsapi

// An Authorization corrects and completes the service authorization reference for one service: which resources its
// operations touch, what else they need, and where the values of condition keys come from, if the reference and the
// names of members do not show that. Every row names its source; SAR is the reference itself,
// https://docs.aws.amazon.com/service-authorization/latest/reference/.
//
// Actions, resource types and condition keys are named without the service's IAM prefix, and keys in lower case.
// internal/authz reads it. The zero Authorization corrects nothing.
type Authorization struct {
	// Actions are the actions of operations whose action has another name.
	Actions map[string]string
	// Unnamed are the ARNs that an action without resources is checked for.
	Unnamed map[string]string
	// Targets are the resources that operations touch.
	Targets map[string]Targets
	// Members are the members that name a variable part of an ARN, if they have other names than the variable; best
	// first, separated by spaces.
	Members map[string]string
	// Owners are the IAM prefixes of the services that own resource types of the service's actions, if it does not.
	Owners map[string]string
	// ARNs fix the ARNs of resource types that the reference's pattern alone gets wrong.
	ARNs map[string]func(arn string) string
	// PassedRoles are the roles that operations pass to a service, which requires iam:PassRole.
	PassedRoles map[string][]PassedRole
	// Launches are the operations after which AWS launches instances on the caller's behalf.
	Launches map[string]Launch
	// Tagging says which action is needed to tag resources on creation. It is zero if none is needed.
	Tagging Tagging
	// KeyMembers are the members, by path, that have the values of condition keys. A key with the name of a top-level
	// member needs no row. Alternatives are separated by |.
	KeyMembers map[string]string
	// StoredKeys are the condition keys that the service resolves from what it has stored or from the request,
	// separated by white space. A test in internal/app compares them with the service's sources.
	StoredKeys string
	// AbsentKeys are the keys that no request can have, because Drydock lacks what they describe, separated by spaces.
	// A request for one of these gets a 501.
	AbsentKeys string
}

// Targets are the resources that an operation touches.
type Targets struct {
	// Resources are TYPE=MEMBERS, separated by spaces. TYPE? is left out if the request does not name it. MEMBERS are the
	// parts of the ARN joined by +, each one or more members, joined by |; 'x is the literal x, used if no member is
	// present. An empty string means an action without resources.
	Resources string
	Source    string
}

// A PassedRole is a role that a request passes to a service, if it has a certain member.
type PassedRole struct {
	Member  string // its value names the role, or the instance profile that holds it
	Profile bool   // the member names an instance profile
	Service string // iam:PassedToService; empty means EC2, which gets the roles of instance profiles
	Source  string
}

// A Launch is an operation after which AWS launches instances. The caller must be allowed to launch from the launch
// template itself, including passing its roles.
type Launch struct {
	// Templates are the members that hold a launch template: their own members are its ID, name and version.
	Templates []string
	Subnets   string // the member that holds the subnets, as a list or separated by commas
	Source    string
}

// A Tagging says which action is needed to tag resources on creation.
type Tagging struct {
	Action string
	// ByType are the actions of resource types, if they have different ones. Other types cannot be tagged on creation.
	ByType map[string]string
	// CreateAction says that the condition key PREFIX:CreateAction has the operation's name.
	CreateAction bool
	// Free are operations whose own permission covers tagging.
	Free   []string
	Source string
}
