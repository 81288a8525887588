// Package quota holds the quotas that EC2 enforces on networks, and what a user has
// set them to. Those on vCPUs are Service Quotas' and reach the instance package
// through its Config.
package quota
