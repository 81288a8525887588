package resource

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/catalog/regions"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/store"
)

// A Scope is the account and region of a call.
type Scope struct{ Account, Region string }

// Key returns the key of the resource with an ID.
func (sc Scope) Key(id string) store.Key {
	return store.Key{Account: sc.Account, Region: sc.Region, ID: id}
}

// All returns the store scope for listing everything in sc.
func (sc Scope) All() store.Scope { return store.Scope{Account: sc.Account, Region: sc.Region} }

// ARN returns the ARN of an EC2 resource: sc.ARN("instance", "i-…").
func (sc Scope) ARN(kind, id string) string {
	return arn.New("ec2", sc.Region, sc.Account, kind+"/"+id)
}

// KeyScope returns the scope of a key.
func KeyScope(k store.Key) Scope { return Scope{k.Account, k.Region} }

// ScopeOf returns the scope of the call in ctx.
func ScopeOf(ctx context.Context) Scope {
	call := awsapi.CallFrom(ctx)
	return Scope{call.Account, call.Region}
}

// Update runs a transaction. A dry run fails with DryRun after all checks, so that nothing is
// stored.
func (s *Core) Update(ctx context.Context, dryRun *bool, fn func(*store.Tx) error) error {
	return s.Store.Update(ctx, func(tx *store.Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		if aws.ToBool(dryRun) {
			return ec2err.DryRun()
		}
		return nil
	})
}

// CheckDryRun handles dry runs of read-only operations.
func CheckDryRun(dryRun *bool) error {
	if aws.ToBool(dryRun) {
		return ec2err.DryRun()
	}
	return nil
}

// Now returns the time in EC2's precision.
func (s *Core) Now() time.Time { return s.Clock.Now().UTC().Truncate(time.Millisecond) }

// NotFound reports whether err means that a record does not exist.
func NotFound(err error) bool { return errors.Is(err, store.ErrNotFound) }

// CheckAttributes checks that a request sets exactly one attribute. EC2 uses the same errors for
// all its operations; ModifyVpcAttribute's are in https://github.com/apache/libcloud/pull/328
func CheckAttributes(given []string) error {
	switch len(given) {
	case 0:
		return ec2err.Combination("No attributes specified.")
	case 1:
		return nil
	}
	return ec2err.Combination("Fields for multiple attribute types specified: " + given[0] + ", " + given[1])
}

// PublicAccount is the account in the keys of public address pools, which all accounts share.
const PublicAccount = "amazon"

// ChooseZone returns a zone by name or ID, or the region's first zone if neither is given.
func ChooseZone(sc Scope, name, id string) (regions.Zone, error) {
	region, _ := regions.Lookup(sc.Region)
	if name == "" && id == "" {
		return region.Zones[0], nil
	}
	if name != "" && id != "" {
		return regions.Zone{}, ec2err.Combination("AvailabilityZone and AvailabilityZoneId cannot be used together.")
	}
	z, ok := region.Zone(name + id)
	if !ok || name != "" && z.Name != name || id != "" && z.ID != id {
		if id != "" {
			return z, ec2err.InvalidValue(id, "availabilityZoneId", "")
		}
		return z, ec2err.InvalidValue(name, "availabilityZone", "Subnets can currently only be created in the following availability zones: "+joinComma(region.ZoneNames())+".")
	}
	return z, nil
}

// CheckBorderGroup rejects border groups other than the region itself.
func CheckBorderGroup(sc Scope, group *string) error {
	if g := aws.ToString(group); g != "" && g != sc.Region {
		return ec2err.InvalidValue(g, "networkBorderGroup", "The network border group is not available in this Region.") // from memory
	}
	return nil
}
