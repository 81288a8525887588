package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/fault"
)

func newFaultSet(o *globalOptions) *cobra.Command {
	cmd := &cobra.Command{Use: "set", Short: "Make something fail", Args: cobra.NoArgs}
	instance := func(f *fault.Fault, arg string) { f.Instance = arg }
	operation := func(f *fault.Fault, arg string) { f.Operation = arg }
	targets := func(of func(api.FaultTargets) []string) completion {
		return func(ctx context.Context, o *globalOptions, f *faultFlags, begun string) []string {
			return faultTargets(ctx, o, f, begun, of)
		}
	}
	instances := targets(func(t api.FaultTargets) []string { return t.Instances })
	cluster := func(f *fault.Fault, arg string) { f.Cluster = arg }
	clusters := targets(func(t api.FaultTargets) []string { return t.Clusters })
	operations := targets(func(t api.FaultTargets) []string { return t.Operations })
	cmd.AddCommand(
		faultCommand(o, fault.Terminate, "INSTANCE-ID", "Terminate an instance",
			`Terminate an instance: a Spot Instance as if EC2 reclaimed its capacity, any other
instance as if someone had terminated it by hand. Termination protection does not
prevent this. Its Auto Scaling group launches a replacement.

A Spot Instance is warned first, through spot/instance-action in its metadata and
EventBridge events: two minutes in advance as on AWS, five seconds with
drydock up --timing fast, or what --notice says; drydock fault clear cancels the interruption.`,
			"  drydock fault set terminate i-0123456789abcdef0\n  drydock fault set terminate i-0123456789abcdef0 --notice 2m",
			instance, func(cmd *cobra.Command, f *faultFlags) {
				cmd.Flags().DurationVar(&f.until, "notice", 0, "how long in advance the instance is warned; 0s means no warning (default: as on AWS)")
			}, instances),
		faultCommand(o, fault.Stop, "INSTANCE-ID", "Stop an instance",
			"Stop an instance, as when its host hardware is retired. It can be started again.",
			"  drydock fault set stop i-0123456789abcdef0", instance, nil, instances),
		faultCommand(o, fault.Isolate, "INSTANCE-ID", "Cut an instance off from the network",
			`Drop all traffic to and from an instance, including open connections, as a failed link
does. Its node becomes NotReady after about 40 seconds, as on AWS, and Ready again when
the fault is cleared. Metadata and DNS still work, because the instance's host answers them.`,
			"  drydock fault set isolate i-0123456789abcdef0 --for 5m", instance, nil, instances),
		faultCommand(o, fault.Zone, "ZONE", "Take an Availability Zone down",
			`Take an Availability Zone down: launches in it fail with InsufficientInstanceCapacity,
and no traffic reaches the network interfaces in it: those of instances, VPC endpoints,
NAT gateways and control planes.`,
			"  drydock fault set zone us-east-1a\n  drydock fault set zone use1-az1 --for 10m",
			func(f *fault.Fault, arg string) { f.Zone = arg }, nil, targets(func(t api.FaultTargets) []string { return t.Zones })),
		faultCommand(o, fault.Capacity, "", "Make EC2 run out of capacity",
			`Make EC2 run out of capacity for an instance type, in a zone, On-Demand or Spot:
RunInstances fails with InsufficientInstanceCapacity; fleets and Auto Scaling groups
fall back to their other pools. Running instances are not affected.`,
			"  drydock fault set capacity --type m5.large --zone us-east-1a --capacity-type spot",
			nil, func(cmd *cobra.Command, f *faultFlags) {
				cmd.Flags().StringVar(&f.fault.InstanceType, "type", "", `instance type, such as m5.large or "m5.*" (default: all)`)
				cmd.Flags().StringVar(&f.fault.Zone, "zone", "", "availability zone (default: all)")
				cmd.Flags().StringVar(&f.fault.CapacityType, "capacity-type", "", "on-demand or spot (default: both)")
			}, nil),
		faultCommand(o, fault.Throttle, "SERVICE:OPERATION", "Throttle AWS API calls",
			`Throttle AWS API calls as AWS does: EC2 returns RequestLimitExceeded, EKS
TooManyRequestsException, other services Throttling or ThrottlingException. SDKs
retry. The calls that services make to one another are throttled too.`,
			"  drydock fault set throttle 'ec2:Describe*' --percent 50\n  drydock fault set throttle eks:DescribeCluster --count 3 --principal 'arn:aws:iam::*:role/karpenter*'",
			operation, callFlags, operations),
		faultCommand(o, fault.Latency, "SERVICE:OPERATION", "Delay AWS API calls",
			"Delay the responses of the AWS API. Calls that fail because of other faults are delayed too.",
			"  drydock fault set latency 'sts:*' --delay 2s", operation, func(cmd *cobra.Command, f *faultFlags) {
				callFlags(cmd, f)
				cmd.Flags().DurationVar(&f.fault.Delay, "delay", 0, "how long to delay, such as 500ms")
			}, operations),
		faultCommand(o, fault.Error, "SERVICE:OPERATION", "Make AWS API calls fail",
			`Make AWS API calls fail: with the service's internal error, with status 503 to make
the service look unavailable, or with any code and message.`,
			"  drydock fault set error ec2:RunInstances\n  drydock fault set error 'iam:*' --status 503\n  drydock fault set error ec2:CreateTags --code InvalidID --message \"The ID 'x' is not valid\"",
			operation, func(cmd *cobra.Command, f *faultFlags) {
				callFlags(cmd, f)
				cmd.Flags().StringVar(&f.fault.Code, "code", "", "the error's code (default: the service's internal error)")
				cmd.Flags().StringVar(&f.fault.Message, "message", "", "the error's message, required for codes whose text Drydock does not know")
				cmd.Flags().IntVar(&f.fault.Status, "status", 0, "the HTTP status (default: the code's own)")
			}, operations),
		faultCommand(o, fault.IMDS, "INSTANCE-ID", "Take an instance's metadata service down",
			`Take an instance's metadata service down: an instance that boots finds no
user data, and whatever needs the instance role's credentials fails. An instance that
booted without its user data must be rebooted after the fault is cleared.`,
			"  drydock fault set imds i-0123456789abcdef0", instance, nil, instances),
		faultCommand(o, fault.Agent, "INSTANCE-ID", "Kill an instance's Systems Manager agent",
			`Kill the Systems Manager agent on an instance whenever it runs: no session and no command
reaches the instance. It starts again when the fault is cleared.`,
			"  drydock fault set agent i-0123456789abcdef0", instance, nil, instances),
		faultCommand(o, fault.Kubelet, "INSTANCE-ID", "Kill an instance's kubelet",
			`Kill the kubelet on an instance whenever it runs. Its node becomes NotReady when its lease
has expired, after about 40 seconds, and Ready again when the fault is cleared.`,
			"  drydock fault set kubelet i-0123456789abcdef0 --for 5m", instance, nil, instances),
		faultCommand(o, fault.Disk, "INSTANCE-ID", "Fill an instance's root volume",
			`Fill the root volume of an instance: programs get "No space left on device", the node reports
DiskPressure, and the kubelet evicts pods, except those of kube-system.`,
			"  drydock fault set disk i-0123456789abcdef0", instance, nil, instances),
		faultCommand(o, fault.DNS, "VPC-ID|INSTANCE-ID", "Take AmazonProvidedDNS down",
			"Take AmazonProvidedDNS down for a VPC or one instance: no name resolves there.",
			"  drydock fault set dns vpc-0123456789abcdef0", func(f *fault.Fault, arg string) {
				if strings.HasPrefix(arg, "i-") {
					f.Instance = arg
				} else {
					f.VPC = arg
				}
			}, nil, targets(func(t api.FaultTargets) []string { return append(t.VPCs, t.Instances...) })),
		faultCommand(o, fault.ControlPlane, "CLUSTER", "Take a cluster's control plane down",
			`Take a cluster's control plane down: its API server accepts no connections and no controllers
run. Nodes and pods keep running. Nothing is lost; it starts again when the fault is cleared.`,
			"  drydock fault set control-plane dev --for 5m", cluster, nil, clusters),
		faultCommand(o, fault.SlowAPIServer, "CLUSTER", "Delay the responses of a cluster's API server",
			"Delay every request to a cluster's API server, except health checks.",
			"  drydock fault set slow-api-server dev --delay 3s", cluster, func(cmd *cobra.Command, f *faultFlags) {
				cmd.Flags().DurationVar(&f.fault.Delay, "delay", 0, "how long to delay, such as 500ms; at most 30s")
			}, clusters),
		faultCommand(o, fault.EtcdFull, "CLUSTER", "Fill a cluster's etcd up to its size limit",
			`Fill a cluster's etcd database up to its size limit: reads and deletions work, every write
fails with "etcdserver: mvcc: database space exceeded". Nodes cannot renew their leases.`,
			"  drydock fault set etcd-full dev", cluster, nil, clusters),
		faultCommand(o, fault.ExpiredCA, "CLUSTER", "Expire a cluster's certificate authority",
			`Expire a cluster's certificate authority: kubectl, kubelets and controllers refuse the API
server's certificate with "x509: certificate has expired or is not yet valid".`,
			"  drydock fault set expired-ca dev", cluster, nil, clusters),
		faultCommand(o, fault.Upgrade, "CLUSTER", "Make changes of a cluster's version fail midway",
			`Make changes of a cluster's Kubernetes version fail: the new API server starts, is found
unhealthy, and the cluster keeps its version, as when AWS reverts an upgrade.`,
			"  drydock fault set upgrade dev && aws eks update-cluster-version --name dev --kubernetes-version 1.36", cluster, nil, clusters),
		faultCommand(o, fault.PlatformVersion, "CLUSTER", "Move a cluster to the next platform version",
			`Move a cluster to the next platform version, as AWS does about once a month without being asked: the
control plane is replaced while it serves. With drydock up --timing aws it happens automatically.`,
			"  drydock fault set platform-version dev", cluster, nil, clusters),
		faultCommand(o, fault.EndOfSupport, "CLUSTER", "Upgrade a cluster as at the end of its support",
			`Upgrade a cluster to the next Kubernetes version, as AWS does when the support of a version
ends: it does not ask, insights and old node groups do not prevent it, and nodes and add-ons
keep their versions. With drydock up --timing aws it happens automatically on the version's dates.`,
			"  drydock fault set end-of-support dev", cluster, nil, clusters),
		faultCommand(o, fault.FargatePatch, "CLUSTER", "Recycle the hosts of a cluster's Fargate pods",
			`Recycle the hosts of a cluster's Fargate pods, as AWS does to patch them: pods are evicted. If a
disruption budget prevents that, EventBridge gets "EKS Fargate Pod Scheduled Termination", and
the pod is evicted or deleted later: three days later, 30 seconds with drydock up --timing fast,
or after --notice.`,
			"  drydock fault set fargate-patch dev --notice 1m", cluster, func(cmd *cobra.Command, f *faultFlags) {
				cmd.Flags().DurationVar(&f.until, "notice", 0, "how long to wait for pods that cannot be evicted; 0s means not at all (default: as on AWS)")
			}, clusters),
	)
	return cmd
}

// callFlags adds the flags of faults of API calls.
func callFlags(cmd *cobra.Command, f *faultFlags) {
	cmd.Flags().StringVar(&f.fault.Principal, "principal", "", "only calls by this user or role: an ARN, with * for any characters")
	cmd.Flags().Float64Var(&f.fault.Percent, "percent", 0, "percentage of the calls, chosen at random (default: all)")
	cmd.Flags().Int64Var(&f.fault.Count, "count", 0, "end the fault after this many calls")
}

// faultTargets proposes targets for a fault.
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
