// Package journal keeps what Drydock decided and did.
package journal

// A Journal is an append-only record.
type Journal struct{}
