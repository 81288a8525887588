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

// A Scope is the account and region a call is about.
type Scope struct{ Account, Region string }

// Key is where the resource with an ID is stored.
func (sc Scope) Key(id string) store.Key {
	return store.Key{Account: sc.Account, Region: sc.Region, ID: id}
}

// All is the whole scope, for listing.
func (sc Scope) All() store.Scope { return store.Scope{Account: sc.Account, Region: sc.Region} }

// ARN returns the ARN of an EC2 resource: sc.ARN("instance", "i-…").
func (sc Scope) ARN(kind, id string) string {
	return arn.New("ec2", sc.Region, sc.Account, kind+"/"+id)
}

// KeyScope returns the scope that a key is in.
func KeyScope(k store.Key) Scope { return Scope{k.Account, k.Region} }

// ScopeOf returns the scope of ctx's call.
func ScopeOf(ctx context.Context) Scope {
	call := awsapi.CallFrom(ctx)
	return Scope{call.Account, call.Region}
}

// Update is a transaction that a dry run leaves without effect after everything
// has been checked.
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

// CheckDryRun is for operations that only read.
func CheckDryRun(dryRun *bool) error {
	if aws.ToBool(dryRun) {
		return ec2err.DryRun()
	}
	return nil
}

// Now is the time in the precision that EC2 answers with.
func (s *Core) Now() time.Time { return s.Clock.Now().UTC().Truncate(time.Millisecond) }

// NotFound reports whether the store has no such record.
func NotFound(err error) bool { return errors.Is(err, store.ErrNotFound) }

// CheckAttributes holds a request to one attribute. EC2 answers all its operations so;
// ModifyVpcAttribute's answer: https://github.com/apache/libcloud/pull/328
func CheckAttributes(given []string) error {
	switch len(given) {
	case 0:
		return ec2err.Combination("No attributes specified.")
	case 1:
		return nil
	}
	return ec2err.Combination("Fields for multiple attribute types specified: " + given[0] + ", " + given[1])
}

// PublicAccount keys the pools of public addresses, which all accounts share.
const PublicAccount = "amazon"

// ChooseZone finds a zone by name or ID; the region's first one if neither is given.
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

// CheckBorderGroup refuses border groups other than the region's own.
func CheckBorderGroup(sc Scope, group *string) error {
	if g := aws.ToString(group); g != "" && g != sc.Region {
		return ec2err.InvalidValue(g, "networkBorderGroup", "The network border group is not available in this Region.") // from memory
	}
	return nil
}
