// Package regional says where the store keeps the resources of a call: under the caller's account, in the call's
// region.
package regional

import (
	"context"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/store"
)

// A Scope is an account and a region. Services that build ARNs from it embed it in a type of their own.
type Scope struct{ Account, Region string }

// At returns the scope of an account in a region.
func At(account, region string) Scope { return Scope{account, region} }

// Of returns the scope of ctx's call.
func Of(ctx context.Context) Scope {
	call := awsapi.CallFrom(ctx)
	return Scope{call.Account, call.Region}
}

// Key returns the store key of the resource with the given ID.
func (s Scope) Key(id string) store.Key {
	return store.Key{Account: s.Account, Region: s.Region, ID: id}
}

// All selects the whole scope, for listing.
func (s Scope) All() store.Scope { return store.Scope{Account: s.Account, Region: s.Region} }

// Below selects what belongs to the resource with the given ID: records whose keys are ID/….
func (s Scope) Below(id string) store.Scope {
	return store.Scope{Account: s.Account, Region: s.Region, Prefix: id + "/"}
}
