package authz

import "github.com/drydock-dev/drydock/internal/awsapi"

// Global returns the condition keys that every request has, in lower case: for
// services that weigh a policy themselves, as STS does a role's trust policy.
func Global(call *awsapi.Call) map[string][]string { return global(call) }
