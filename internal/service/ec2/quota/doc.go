// Package quota has the quotas that EC2 enforces on networks, and their overrides by users. Quotas
// on vCPUs belong to Service Quotas; the instance package gets them through its Config.
package quota
