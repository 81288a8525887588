package cloudformation

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
)

// changed reports whether the update changes any of the properties.
func (r *request) changed(properties ...string) bool {
	now, before := r.unrevealed().props, r.was.unrevealed().props
	return slices.ContainsFunc(properties, func(p string) bool { return !same(now.Get(p), before.Get(p)) })
}

// same reports whether two values, which may be missing, are equal.
func same(a, b any) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return template.Equal(a, b)
}

// tagChanges returns the tags that an update adds or changes, and the keys of the tags that it removes. A tag that refers
// to a secret always counts as changed: the secret may have changed, and setting the tag again does no harm.
func (r *request) tagChanges() (set []tagRecord, gone []string) {
	now, before := r.tags(), r.was.unrevealed().tags()
	for _, t := range now {
		if !slices.Contains(before, t) {
			set = append(set, t)
		}
	}
	for _, b := range r.was.tags() {
		if !slices.ContainsFunc(now, func(t tagRecord) bool { return t.Key == b.Key }) {
			gone = append(gone, b.Key)
		}
	}
	return set, gone
}

// goneFrom returns the strings that the update removes from a list property.
func (r *request) goneFrom(property string) []string {
	now := r.list(property)
	return slices.DeleteFunc(r.was.list(property), func(e string) bool { return slices.Contains(now, e) })
}

// newIn returns the strings that the update adds to a list property.
func (r *request) newIn(property string) []string {
	before := r.was.list(property)
	return slices.DeleteFunc(r.list(property), func(e string) bool { return slices.Contains(before, e) })
}

// updateToken returns a token that makes the calls of an update idempotent. The update's
// rollback has another one.
func (r *request) updateToken() *string {
	sum := sha256.Sum256([]byte(r.o.step + r.logical))
	return aws.String(hex.EncodeToString(sum[:16]))
}
