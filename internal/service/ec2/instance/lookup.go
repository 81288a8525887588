package instance

import (
	"errors"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/store"
)

// Look-ups for other parts of Drydock that are not EC2 operations.

// InstanceByID returns an instance as DescribeInstances shows it, or false if there is no such
// instance.
func (s *Service) InstanceByID(account, region, id string) (ec2types.Instance, bool) {
	sc := resource.Scope{Account: account, Region: region}
	i, err := record.Instances.Get(s.Store, sc.Key(id))
	if err != nil {
		return ec2types.Instance{}, false
	}
	return s.sdkInstance(sc, i), true
}

// InstanceIDs returns the IDs of all instances of all accounts and regions that have not
// terminated.
func (s *Service) InstanceIDs() (map[string]bool, error) {
	all := record.Instances.All(s.Store, store.Scope{})
	out := make(map[string]bool, len(all))
	for _, k := range record.Instances.Unreadable(s.Store, store.Scope{}) {
		out[k.ID] = true
	}
	for _, i := range all {
		if i.Value.State != record.Terminated {
			out[i.Value.ID] = true
		}
	}
	return out, nil
}

// PrivateDNSName returns the private DNS name of an instance, which replaces {{EC2PrivateDNSName}}
// in aws-auth. It returns false if there is no such instance or it no longer has an address.
func (s *Service) PrivateDNSName(account, region, id string) (string, bool) {
	i, err := record.Instances.Get(s.Store, resource.Scope{Account: account, Region: region}.Key(id))
	if err != nil {
		return "", false
	}
	name := i.PrivateDNSName(region)
	return name, name != ""
}

// WatchInstances returns a watcher of instance records. The IDs of their keys are instance IDs.
// Stop it when done.
func (s *Service) WatchInstances(scope store.Scope) *store.Watcher {
	return record.Instances.Watch(s.Store, scope)
}

// InstanceState returns the state of an instance (running, terminated, …), or false if there is no
// such instance. The state is empty if the record cannot be read. It costs one look-up.
func (s *Service) InstanceState(account, region, id string) (string, bool) {
	i, err := record.Instances.Get(s.Store, resource.Scope{Account: account, Region: region}.Key(id))
	return i.State, !errors.Is(err, store.ErrNotFound)
}
