package controlplane

import "context"

// BeginRelease does the first step of a release, as if the daemon had been
// killed after it.
func BeginRelease(ctx context.Context, m *Manager, id string) error {
	return m.find(id).update(ctx, func(r *record) error { r.Releasing = true; return nil })
}

// Spares returns the IDs of the spares and the states they are in.
func Spares(m *Manager) map[string]State {
	out := map[string]State{}
	for _, p := range m.all() {
		if p.snapshot().Owner == "" {
			out[p.id] = p.currentStatus().State
		}
	}
	return out
}

// SpareDelay is how long the Manager waits before it starts spares.
const SpareDelay = spareDelay

// RenewInterval is how often the Manager looks at certificates.
const RenewInterval = renewInterval

// WebhookURL is where children send reviews.
func WebhookURL(m *Manager) string { return m.webhooks.url }

// AskCloud is what a plane is told of its cloud.
func AskCloud(ctx context.Context, cfg Config, id string) Cloud { return cloud(ctx, cfg, id) }
