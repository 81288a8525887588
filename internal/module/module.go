// Package module defines what an AWS service is to the daemon: the operations that it handles, what authorization
// needs to know about its resources, what it runs, and what other parts of Drydock need from every service. A service
// declares all of it in its own folder, in its Module method. The composition root lists each service once.
//
// It holds declarations only. Services and internal/app import it.
package module

import (
	"context"
	"net/http"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/quotatable"
	"github.com/drydock-dev/drydock/internal/serviceevents"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// A Module is one AWS service. Only Service is required.
type Module struct {
	awsapi.Service
	// Resolver gives authorization the stored facts about the service's resources. Nil means that its operations name
	// no resources.
	Resolver authz.Resolver
	// Run runs the service's reconcilers until ctx ends.
	Run func(ctx context.Context) error
	// Tagging gives the Resource Groups Tagging API the service's resources.
	Tagging Tagging
	// Events sends the events that the service sends to EventBridge by itself, until ctx ends.
	Events func(ctx context.Context, bus serviceevents.Bus) error
	// RoleUsage returns the resources that need service-linked roles. IAM does not delete a role in use.
	RoleUsage []RoleUsage
	// Quotas are what Service Quotas shows of the service and can raise.
	Quotas []quotatable.Provider
	// Reset removes what the service keeps outside the store for an account, or for all accounts if account is
	// empty. The store itself has already been emptied.
	Reset func(ctx context.Context, account string) error
	// Import turns the answers of another AWS account into records of the service, with the IDs and names of that
	// account. It only converts and checks; the writes are made once every service has converted its part. gaps are parts
	// of the recording that the service cannot represent. Nil means that the service takes no part in twins.
	Import func(r *recording.Recording) (writes []Write, gaps []recording.Gap, err error)
	// DaemonAPI adds the service's own paths below /_drydock/.
	DaemonAPI func(mux *http.ServeMux)
}

// A Write puts records of an imported account. It may be repeated.
type Write struct {
	// Records is how many records Put writes at most. 0 means 1.
	Records int
	Put     func(*store.Tx) error
}

// Put returns a Write of one record.
func Put[T any](c store.Collection[T], k store.Key, v T) Write {
	return Write{Put: func(tx *store.Tx) error { return c.Put(tx, k, v) }}
}

// Tagging describes a service to the Resource Groups Tagging API.
type Tagging struct {
	// Resources returns the resources of an account and region that can have tags, including those that have none.
	// Resources without a region are in us-east-1. Nil means that the service has none.
	Resources func(account, region string) []Resource
	// Put and Remove return inputs of the service's own operations that add tags to a resource and remove them. They are
	// nil if the service has no such operation.
	Put    func(arn string, tags map[string]string) any
	Remove func(arn string, keys []string) any
}

// A Resource is a resource that can have tags.
type Resource struct {
	ARN  string
	Tags map[string]string
}

// Resources returns the resources of a collection in an account and region. of returns the ARN of one, or "" if it
// cannot have tags, and its tags.
func Resources[T any](st *store.Store, c store.Collection[T], account, region string, of func(store.Key, *T) (arn string, tags map[string]string)) []Resource {
	var out []Resource
	scope := store.Scope{Account: account, Region: region, Global: region == ""}
	for _, i := range c.All(st, scope) {
		if name, tags := of(i.Key, &i.Value); name != "" {
			out = append(out, Resource{name, tags})
		}
	}
	return out
}

// A RoleUsage returns the ARNs of the resources, by region, that need an account's
// service-linked role of a service principal.
type RoleUsage func(account, principal string) map[string][]string

// InUse returns the RoleUsage of resources that all need the service-linked role of one
// service principal. arn names a resource; it returns "" for one that does not need it.
func InUse[T any](principal string, st *store.Store, resources store.Collection[T], arn func(store.Item[T]) string) RoleUsage {
	return func(account, asked string) map[string][]string {
		if asked != principal {
			return nil
		}
		usage := map[string][]string{}
		for _, r := range resources.All(st, store.Scope{Account: account}) {
			if name := arn(r); name != "" {
				usage[r.Key.Region] = append(usage[r.Key.Region], name)
			}
		}
		return usage
	}
}
