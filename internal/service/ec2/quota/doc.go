// Package quota defines the quotas that EC2 enforces on networks, and the values that users set
// instead. Quotas on vCPUs belong to Service Quotas; the instance package gets them through its
// Config.
package quota
