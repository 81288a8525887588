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
	"github.com/drydock-dev/drydock/internal/store"
)

// A Module is one AWS service. Only Service is required.
type Module struct {
	awsapi.Service
	// Resolver gives authorization the stored facts about the service's resources. Nil means that its operations name
	// no resources.
	Resolver authz.Resolver
	// Run runs the service's reconcilers until ctx ends.
	Run func(ctx context.Context) error
	// RoleUsage returns the resources that need service-linked roles. IAM does not delete a role in use.
	RoleUsage []RoleUsage
	// Reset removes what the service keeps outside of the store for an account, or for all accounts if account is
	// empty. The store itself has already been emptied.
	Reset func(ctx context.Context, account string) error
	// DaemonAPI adds the service's own paths below /_drydock/.
	DaemonAPI func(mux *http.ServeMux)
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
