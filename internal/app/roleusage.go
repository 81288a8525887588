package app

import (
	"context"
	"maps"
	"slices"
)

// roleUsage answers what IAM asks before it deletes a service-linked role: what of each
// service needs it, by region.
func (d *daemon) roleUsage(ctx context.Context, account, principal string) map[string][]string {
	usage := map[string][]string{}
	for _, m := range d.modules {
		if m.RoleUsage == nil {
			continue
		}
		used, err := m.RoleUsage(ctx, account, principal)
		if err != nil {
			d.log.WarnContext(ctx, "listing what needs a service-linked role", "service", m.Service.Name, "principal", principal, "err", err)
		}
		for _, region := range slices.Sorted(maps.Keys(used)) {
			usage[region] = append(usage[region], used[region]...)
		}
	}
	return usage
}
