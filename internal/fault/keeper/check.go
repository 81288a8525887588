package keeper

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/api/httpapi"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/model"
	"github.com/drydock-dev/drydock/internal/awsapi/server"
	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/catalog/regions"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/node"
)

// partitionWide are the services whose calls count as made in us-east-1.
var partitionWide = []string{"iam", "route53"}

// completeFault checks a fault against what exists, and fills in what the user may leave out. It rejects a fault that
// could never have an effect.
func (a *API) completeFault(f *fault.Fault) error {
	if f.Account == "" {
		f.Account = awsapi.DefaultAccount
	}
	if err := httpapi.CheckAccount(f.Account); err != nil {
		return err
	}
	region, ok := regions.Lookup(f.Region)
	if !ok {
		return fmt.Errorf("%q is not a region", f.Region)
	}
	if err := f.Check(); err != nil {
		return err
	}
	if f.Kind.Cluster() {
		if !slices.Contains(a.Clusters(f.Account, f.Region), f.Cluster) {
			return fmt.Errorf("there is no cluster %q in %s: aws eks list-clusters --region %s lists them", f.Cluster, f.Region, f.Region)
		}
		if f.Kind == fault.FargatePatch && f.Until.IsZero() {
			f.Until = a.Keeper.cfg.Clock.Now().Add(a.FargateNotice)
		}
		return nil
	}
	switch f.Kind {
	case fault.Zone:
		z, ok := findZone(region, f.Zone)
		if !ok {
			return fmt.Errorf("%q is not an availability zone of %s: want one of %s", f.Zone, f.Region, strings.Join(region.ZoneNames(), ", "))
		}
		f.Zone = z.Name
	case fault.Capacity:
		return completePool(region, f)
	case fault.Throttle, fault.Latency, fault.Error:
		return a.completeCalls(f)
	case fault.DNS:
		if f.VPC != "" {
			return a.knownVPC(f)
		}
		fallthrough
	default:
		i, ok := a.EC2.InstanceByID(f.Account, f.Region, f.Instance)
		if !ok || i.State == nil || i.State.Name == "terminated" {
			return fmt.Errorf("there is no instance %s in %s: aws ec2 describe-instances --region %s lists them", f.Instance, f.Region, f.Region)
		}
		if f.Kind == fault.Terminate && f.Until.IsZero() && i.InstanceLifecycle == ec2types.InstanceLifecycleTypeSpot {
			f.Until = a.Keeper.cfg.Clock.Now().Add(a.SpotWarning)
		}
	}
	return nil
}

func findZone(r regions.Region, name string) (regions.Zone, bool) {
	i := slices.IndexFunc(r.Zones, func(z regions.Zone) bool { return z.Name == name || z.ID == name })
	if i < 0 {
		return regions.Zone{}, false
	}
	return r.Zones[i], true
}

func completePool(region regions.Region, f *fault.Fault) error {
	if z, ok := findZone(region, f.Zone); ok {
		f.Zone = z.Name
	}
	some := func(pattern string, names []string) bool {
		return pattern == "" || slices.ContainsFunc(names, func(n string) bool { return fault.Match(pattern, n) })
	}
	switch {
	case !some(f.InstanceType, instancetypes.Names()):
		return fmt.Errorf("there is no instance type %q", f.InstanceType)
	case !some(f.Zone, region.ZoneNames()):
		return fmt.Errorf("%q is not an availability zone of %s: want one of %s", f.Zone, f.Region, strings.Join(region.ZoneNames(), ", "))
	case !some(f.CapacityType, []string{"on-demand", "spot"}):
		return fmt.Errorf("%q is not a capacity type: want on-demand or spot", f.CapacityType)
	}
	return nil
}

// completeCalls checks a fault of API calls: some operation must match it, and the text of its error must be known.
func (a *API) completeCalls(f *fault.Fault) error {
	service, operation, _ := strings.Cut(f.Operation, ":")
	found := false
	for _, s := range a.Services() {
		m, err := model.Get(s.Name)
		if err != nil {
			return err
		}
		if !fault.Match(service, m.Package) && !fault.Match(service, m.SigningName) {
			continue
		}
		if slices.Contains(partitionWide, s.Name) && service == s.Name {
			f.Region = "us-east-1"
		}
		found = found || slices.ContainsFunc(s.Operations, func(o awsapi.Operation) bool { return fault.Match(operation, o.Name) })
	}
	// So far only nodes call the registry.
	for _, action := range []string{node.ActionGetToken, node.ActionGetImage, node.ActionGetLayer} {
		found = found || fault.Match(f.Operation, action)
	}
	if !found {
		return fmt.Errorf("no operation that Drydock answers matches %q\nTry: drydock supports", f.Operation)
	}
	if f.Code != "" && f.Message == "" {
		if _, ok := server.FaultText(f.Code); !ok {
			return fmt.Errorf("the message of %s differs between services: set it with --message", f.Code)
		}
	}
	return nil
}

func (a *API) knownVPC(f *fault.Fault) error {
	ctx := awsapi.WithCall(context.Background(), &awsapi.Call{Account: f.Account, Region: f.Region, Service: "ec2"})
	out, err := a.EC2.DescribeVpcs(ctx, &awsec2.DescribeVpcsInput{VpcIds: []string{f.VPC}})
	if err != nil || len(out.Vpcs) == 0 || aws.ToString(out.Vpcs[0].VpcId) != f.VPC {
		return fmt.Errorf("there is no VPC %s in %s: aws ec2 describe-vpcs --region %s lists them", f.VPC, f.Region, f.Region)
	}
	return nil
}
