package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/fault"
)

func newFaultSet(o *globalOptions) *cobra.Command {
	cmd := &cobra.Command{Use: "set", Short: "Make something fail from now on", Args: cobra.NoArgs}
	instance := func(f *fault.Fault, arg string) { f.Instance = arg }
	operation := func(f *fault.Fault, arg string) { f.Operation = arg }
	targets := func(of func(api.FaultTargets) []string) completion {
		return func(ctx context.Context, o *globalOptions, f *faultFlags, begun string) []string {
			return faultTargets(ctx, o, f, begun, of)
		}
	}
	instances := targets(func(t api.FaultTargets) []string { return t.Instances })
	operations := targets(func(t api.FaultTargets) []string { return t.Operations })
	cmd.AddCommand(
		faultCommand(o, fault.Terminate, "INSTANCE-ID", "Take an instance away",
			`Take an instance away: a Spot Instance as when EC2 needs its capacity back, another
one as if somebody had terminated it by hand. What protects it from termination does
not help. Its Auto Scaling group launches another one.

With --notice a Spot Instance is told that long before, by spot/instance-action of
its metadata; drydock fault clear calls it off.`,
			"  drydock fault set terminate i-0123456789abcdef0\n  drydock fault set terminate i-0123456789abcdef0 --notice 2m",
			instance, func(cmd *cobra.Command, f *faultFlags) {
				cmd.Flags().DurationVar(&f.until, "notice", 0, "how long before the instance is told (at once if not given)")
			}, instances),
		faultCommand(o, fault.Stop, "INSTANCE-ID", "Stop an instance",
			"Stop an instance, as when the hardware below it retires. It can be started again.",
			"  drydock fault set stop i-0123456789abcdef0", instance, nil, instances),
		faultCommand(o, fault.Isolate, "INSTANCE-ID", "Drop everything an instance sends or is sent",
			`Drop everything that an instance sends or is sent, connections under way included, as
a failed link does. Its node becomes NotReady after some 40 seconds, as on AWS, and
Ready again when the fault is cleared. Metadata and DNS, which its host answers, work.`,
			"  drydock fault set isolate i-0123456789abcdef0 --for 5m", instance, nil, instances),
		faultCommand(o, fault.Zone, "ZONE", "Let an availability zone fail",
			`Let an availability zone fail: launches in it fail with InsufficientInstanceCapacity,
and nothing gets to the network interfaces in it: instances, VPC endpoints, NAT gateways,
those of control planes.`,
			"  drydock fault set zone us-east-1a\n  drydock fault set zone use1-az1 --for 10m",
			func(f *fault.Fault, arg string) { f.Zone = arg }, nil, targets(func(t api.FaultTargets) []string { return t.Zones })),
		faultCommand(o, fault.Capacity, "", "Let EC2 run out of instances",
			`Let EC2 run out of instances of a type, in a zone, on demand or Spot: RunInstances
fails with InsufficientInstanceCapacity, fleets and Auto Scaling groups fall back to
their other pools. Instances that run are left alone.`,
			"  drydock fault set capacity --type m5.large --zone us-east-1a --capacity-type spot",
			nil, func(cmd *cobra.Command, f *faultFlags) {
				cmd.Flags().StringVar(&f.fault.InstanceType, "type", "", `instance type, such as m5.large or "m5.*" (all if not given)`)
				cmd.Flags().StringVar(&f.fault.Zone, "zone", "", "availability zone (all if not given)")
				cmd.Flags().StringVar(&f.fault.CapacityType, "capacity-type", "", "on-demand or spot (both if not given)")
			}, nil),
		faultCommand(o, fault.Throttle, "SERVICE:OPERATION", "Throttle calls of the AWS API",
			`Answer calls of the AWS API as AWS does to who calls too often: RequestLimitExceeded
of EC2, TooManyRequestsException of EKS, Throttling or ThrottlingException of others.
SDKs try again. What Drydock's own parts do inside is never throttled.`,
			"  drydock fault set throttle 'ec2:Describe*' --percent 50\n  drydock fault set throttle eks:DescribeCluster --count 3 --principal 'arn:aws:iam::*:role/karpenter*'",
			operation, callFlags, operations),
		faultCommand(o, fault.Latency, "SERVICE:OPERATION", "Delay calls of the AWS API",
			"Answer calls of the AWS API later. Calls that fail by other faults are delayed, too.",
			"  drydock fault set latency 'sts:*' --delay 2s", operation, func(cmd *cobra.Command, f *faultFlags) {
				callFlags(cmd, f)
				cmd.Flags().DurationVar(&f.fault.Delay, "delay", 0, "how much later, such as 500ms")
			}, operations),
		faultCommand(o, fault.Error, "SERVICE:OPERATION", "Let calls of the AWS API fail",
			`Let calls of the AWS API fail: with the service's own internal error, with status 503
as unavailable, or with any code and message.`,
			"  drydock fault set error ec2:RunInstances\n  drydock fault set error 'iam:*' --status 503\n  drydock fault set error ec2:CreateTags --code InvalidID --message \"The ID 'x' is not valid\"",
			operation, func(cmd *cobra.Command, f *faultFlags) {
				callFlags(cmd, f)
				cmd.Flags().StringVar(&f.fault.Code, "code", "", "the error's code (the service's internal error if not given)")
				cmd.Flags().StringVar(&f.fault.Message, "message", "", "the error's message, for codes that Drydock has no text of")
				cmd.Flags().IntVar(&f.fault.Status, "status", 0, "the HTTP status (that of the code if not given)")
			}, operations),
		faultCommand(o, fault.IMDS, "INSTANCE-ID", "Keep an instance's metadata service from answering",
			`Keep an instance's metadata service from answering: what boots then finds no user data,
and what needs the instance role's credentials fails. An instance that booted without
must be rebooted once the fault is cleared.`,
			"  drydock fault set imds i-0123456789abcdef0", instance, nil, instances),
		faultCommand(o, fault.DNS, "VPC-ID|INSTANCE-ID", "Keep AmazonProvidedDNS from answering",
			"Keep AmazonProvidedDNS from answering in a VPC, or one instance: no name resolves there.",
			"  drydock fault set dns vpc-0123456789abcdef0", func(f *fault.Fault, arg string) {
				if strings.HasPrefix(arg, "i-") {
					f.Instance = arg
				} else {
					f.VPC = arg
				}
			}, nil, targets(func(t api.FaultTargets) []string { return append(t.VPCs, t.Instances...) })),
	)
	return cmd
}

// callFlags are those of faults of calls.
func callFlags(cmd *cobra.Command, f *faultFlags) {
	cmd.Flags().StringVar(&f.fault.Principal, "principal", "", "only calls of this user or role: an ARN, with * for any characters")
	cmd.Flags().Float64Var(&f.fault.Percent, "percent", 0, "how many of the calls, at random (all if not given)")
	cmd.Flags().Int64Var(&f.fault.Count, "count", 0, "for so many calls, then never again")
}

// faultTargets proposes what a fault can be of.
func faultTargets(ctx context.Context, o *globalOptions, f *faultFlags, begun string, of func(api.FaultTargets) []string) []string {
	daemon, err := o.client()
	if err != nil {
		return nil
	}
	t, err := daemon.FaultTargets(ctx, api.Place{Account: f.fault.Account, Region: f.fault.Region})
	if err != nil {
		return nil
	}
	var out []string
	for _, name := range of(t) {
		if strings.HasPrefix(strings.ToLower(name), strings.ToLower(begun)) {
			out = append(out, name)
		}
	}
	return out
}
