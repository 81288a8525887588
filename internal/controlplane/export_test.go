package controlplane

import (
	"context"
	"log/slog"
	"time"

	testclock "k8s.io/utils/clock/testing"
)

// BeginRelease does the first step of a release, as if the daemon was killed after it.
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

// RefusedByUser reports whether an object permanently stays unencrypted after an error.
func RefusedByUser(err error) bool { return refusedByUser(err) }

// AwaitKey waits for a key like a plane without a process.
func AwaitKey(ctx context.Context, kms KMS, keyARN string) error {
	m := &Manager{
		cfg:   Config{KeyPause: longestKeyPause, Clock: testclock.NewFakeClock(time.Now()), Log: slog.Default()},
		hooks: Hooks{KMS: kms},
	}
	return newPlane(m, record{ID: "plane"}, secrets{}).awaitKey(ctx, keyARN)
}

// AskCloud returns what a plane is told about its cloud.
func AskCloud(ctx context.Context, hooks Hooks, id string) Cloud { return cloud(ctx, hooks, id) }

// Unseal makes a plane look as if an older Drydock had created it.
func (m *Manager) Unseal(ctx context.Context, id string) error {
	return m.find(id).update(ctx, func(r *record) error { r.Sealed = false; return nil })
}
