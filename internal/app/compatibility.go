package app

import (
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/server"
	"github.com/drydock-dev/drydock/internal/node"
)

// WriteCompatibility writes docs/compatibility.md. The operation tables are
// constant, so it needs no running service.
func WriteCompatibility(w io.Writer) error {
	table, err := server.Compatibility(operations())
	if err != nil {
		return err
	}
	if err := server.WriteCompatibility(w, table); err != nil {
		return err
	}
	_, err = io.WriteString(w, unevaluated()+recorded+assumed()+ofPods()+ofNodes+ofBuckets+ofQueues()+ofLogs()+ofImages()+ofZones()+ofEvents()+ofStacks())
	return err
}

// supported is what the page says of operations, for `drydock supports`.
func supported() ([]api.ServiceSupport, error) {
	table, err := server.Compatibility(operations())
	if err != nil {
		return nil, err
	}
	states := map[server.State]string{server.Handled: api.SupportHandled, server.Partly: api.SupportPartly, server.None: api.SupportNone}
	var out []api.ServiceSupport
	for _, t := range table {
		s := api.ServiceSupport{Service: t.Name, Title: t.Title, Handled: t.Count(server.Handled), Partly: t.Count(server.Partly), Not: t.Count(server.None)}
		for _, op := range t.Operations {
			s.Operations = append(s.Operations, api.OperationSupport{
				Service: t.Name, Operation: op.Name, State: states[op.State], Refused: op.Refused, Except: op.Except, Why: op.Why,
			})
		}
		out = append(out, s)
	}
	return out, nil
}

// recorded returns the page's section on CloudTrail events.
const recorded = `
## What CloudTrail records

LookupEvents returns the calls that change something, the calls that use KMS keys, and the reads that were denied or failed because of a fault. Other reads are not recorded.
The names in requestParameters and responseElements follow rules derived from recorded events of AWS. Events differ from AWS's as follows:

- Members of EC2 for which we found no recorded event have the name that the rules give them, which may differ on AWS. The same applies to defaults that
  EC2 adds to a request.
- Parameters or elements over 100 KB are omitted, and userAgent and errorMessage are cut at 1 KB, as on AWS.
- The session token that STS returns is hidden. AWS shows it.
- A call across accounts is recorded in both accounts only if it is a call to STS or KMS.
- Only events of STS, KMS and Systems Manager list resources. Those of KMS do not if the call names its key by an alias and the answer does not contain the key.
- additionalEventData, apiVersion, eventContext, addendum and sessionCredentialFromConsole are absent.
`

// ofEndpoints has the page's sections on the default VPC and on the endpoints of clusters.
const ofEndpoints = `
## Default VPC

A region's default VPC has a subnet in each of its zones. In us-east-1 it has only three of six, so that EKS accepts every default subnet: it refuses the zone use1-az3.

## Endpoints of clusters

A client that a cluster's endpoint access refuses waits, as on AWS, but gets a different error, because Drydock cannot drop packets:

| | AWS | Drydock |
|---|---|---|
| kubectl | ` + "`dial tcp 10.0.1.5:443: i/o timeout`" + `, after 30 seconds | ` + "`net/http: TLS handshake timeout`" + `, after 10 seconds |
| a client without a time-out | as above | connection reset, after 30 seconds |
| a client of ` + "`drydock run`" + `, by the endpoint's AWS name | as above | status 504 of its proxy, after 30 seconds |

` + "`drydock up --refuse-fast`" + ` resets such connections at once. ` + "`drydock why cluster`" + ` says whether this machine may connect.

## Identity providers of clusters

The API server of a cluster fetches the keys of an OIDC provider from this machine, so a provider on this machine or in its network
is enough. On EKS, it must be reachable from the internet. Its certificate must be issued by an authority that the daemon trusts;
` + "`SSL_CERT_FILE`" + ` in the environment of ` + "`drydock up`" + ` names others. If the provider does not answer, the configuration becomes ACTIVE
anyway, as on EKS, and tokens are refused until it answers; the API server tries again once a minute.
`

// ofPods returns the page's section on programs that run as pods.
func ofPods() string {
	return `
## Programs that run as pods

Pods of simulated nodes run nothing. ` + "`drydock run --pod`" + ` runs a program of this machine as one of them. It differs from AWS as follows:

- The EKS Pod Identity Agent of the pod's node always answers at AWS_CONTAINER_CREDENTIALS_FULL_URI, which names an address of this machine.
  It answers at 169.254.170.23 and fd00:ec2::23 only if the program uses its proxy for these addresses. If the agent's pod does not run, the
  connection is not refused but fails with status 502.
- A connection that would time out fails at once with status 504.
- Its connections leave through the node's primary network interface: security groups for pods and custom networking are ignored.
- Names of Services do not resolve, and volumes other than those with projected tokens are missing.

## Fargate

Pods of Fargate profiles run on simulated machines, or on machines that run containers (docs/containers.md). They differ from AWS as follows:

- A pod that is held up by a claim, its profile's role, a full subnet or its security groups is tried again. Fargate tries once.
- Containers of simulated machines write no logs, so the ConfigMap ` + "`aws-logging`" + ` sends none. It decides the event and the annotation.
- On machines that run containers, the log router sends to CloudWatch Logs through the outputs cloudwatch_logs and cloudwatch, without templates in names and without roles of its own.
  Other outputs are left out, and an event says so. The available filters are parser, kubernetes, grep, record_modifier and modify, and parsers can have the formats regex and
  json, with Go's regular expressions. With any other, the pod's logs are not sent: its annotation is ` + "`LoggingDisabled: LOGGING_NOT_AVAILABLE_IN_DRYDOCK`" + `.
- Log lines that cannot be sent are retried until the machine ends. Fluent Bit gives up. The last lines of a container are lost if the kubelet removes its log before they are sent.
- ` + "`flb_log_cw`" + ` has no effect: ` + "`drydock why pod`" + ` says what keeps logs from being sent.
- On machines that run containers, connections to the instance metadata service are accepted and reset, and a pod may use a whole vCPU if its combination has a fraction of one.
  Without cgroup controllers nothing bounds it (docs/containers.md).
- EFS volumes are not available.

## Network policies

Nodes that run containers enforce NetworkPolicies and ClusterNetworkPolicies (docs/running.md). These parts differ from AWS or are missing:

- The mode ` + "`strict`" + ` on a new node until its agent has started: the first pods there may send and receive everything for a moment. On EKS they wait.
- ApplicationNetworkPolicies, which EKS Auto Mode has: their type does not exist, so kubectl refuses them.
- A ClusterNetworkPolicy for peers in several namespaces is resolved for all of them. EKS's controller looks at the first peer of a rule of ingress to find the namespaces, so there a rule may lack others.
- Policies for IPv6, and policies on nodes of EKS Auto Mode: these have no effect.
- The maximum size of a PolicyEndpoint, beyond which EKS writes several for one policy. Here there is always one. The same is true of ClusterPolicyEndpoints.
- Ranges in egress rules of NetworkPolicies: a range is compared with the address behind a Service. On EKS it is compared with the Service's own address. For ClusterNetworkPolicies, either address matches.
- A ClusterNetworkPolicy that resolves to more than 1.5 MiB of addresses and ports: it has no effect, or keeps its former one. The daemon's log and an event (` + "`kubectl events`" + `) say so.
- Repairs of PolicyEndpoints that a user changes or deletes: they are written again only when their contents have to change.
- ` + "`drydock why reach`" + ` knows policies between addresses of pods, but no addresses of Services.
`
}

// ofNodes is the page's section on getting onto instances. docs/node-access.md says the rest.
const ofNodes = `
## Access to instances

Session Manager, Run Command, EC2 Instance Connect and SSH work with unmodified clients ([docs/node-access.md](node-access.md)). These parts differ from AWS or are missing:

- Of AWS's documents, SendCommand runs AWS-RunShellScript and AWS-UpdateSSMAgent, and associations also run AWS-GatherSoftwareInventory. All others are refused, for example AWS-ConfigureAWSPackage, AWS-RunPatchBaseline,
  AWS-RunRemoteScript, AWS-RunDocument, AWS-ApplyAnsiblePlaybooks, AWS-InstallApplication, AWS-ConfigureDocker and AWS-RunPowerShellScript. In your own documents, the only action is ` + "`aws:runShellScript`" + `.
- Session documents are those of the session types Standard_Stream, InteractiveCommands, NonInteractiveCommands and Port. Sessions with ECS containers and Windows are not supported.
- Bottlerocket has sessions on simulated machines only, where its admin container has no SSH server. Bottlerocket machines that run containers refuse sessions with ` + "`TargetNotConnected`" + `; ` + "`drydock why session`" + ` says so.
- On simulated machines, full-screen programs do not work: editors print what works instead, ` + "`less`" + ` and ` + "`more`" + ` print everything at once, and ` + "`top`" + ` needs ` + "`-b`" + `. Jobs in the background end with their session, even with nohup.
- The kubelet of a simulated node answers at port 10250 with a self-signed certificate, and has only ` + "`/pods`" + ` and ` + "`/healthz`" + `. exec, logs, attach, port-forward, statistics and metrics get status 501.
  That of a node that runs containers is the real one.
- On machines that run containers, ` + "`/proc`" + ` shows the processors, memory and load of the instance, and otherwise the real machine, for example its uptime.
- ssh's list of methods in ` + "`Permission denied`" + ` lacks gssapi-keyex.
- The serial console does not support ` + "`SysRq`" + `.
`

// ofBuckets is the page's section on S3.
const ofBuckets = `
## Buckets

S3 differs from AWS as follows:

- Requests without a signature can send at most 512 KiB. They are answered for a bucket in any region, and with AccessDenied instead of NoSuchBucket if there is no such bucket.
- Objects belong to the owner of their bucket, whoever writes them, even with the object ownership ObjectWriter.
- A grant to any well-formed canonical user ID is accepted. Grantees by e-mail address are refused, as on AWS since October 2025.
`

// ofQueues returns the page's section on SQS.
func ofQueues() string {
	return `
## Queues

SQS differs from AWS as follows:

- The messages of an account are limited to 2 GiB. Beyond that, SendMessage is refused with ` + "`OverLimit`" + `.
- Requests without a signature are refused, even if a queue policy allows everyone.
- Nothing is throttled: the quotas of FIFO queues on messages per second are not enforced. ` + "`drydock fault`" + ` throttles on purpose.
- A name is free at once after DeleteQueue, and PurgeQueue works again at once, unless with ` + "`--timing aws`" + `.
- A queue policy that denies http denies requests to ` + "`AWS_ENDPOINT_URL=http://…`" + `. The same port answers https, as does ` + "`drydock run`" + `.
- AWS CLI 1 does not use AWS_ENDPOINT_URL for SQS: use ` + "`drydock run -- aws sqs …`" + ` or ` + "`--endpoint-url`" + `. See ` + "`drydock env --help`" + `.
`
}

// ofLogs returns the page's section on CloudWatch Logs.
func ofLogs() string {
	return `
## Log groups

CloudWatch Logs differs from AWS as follows:

- Events can be read as soon as they are written.
- The events of an account are limited to 1 GiB. Beyond that, the oldest events of its largest log group are removed.
- KMS decides whether CloudWatch Logs may use a key when the key is associated with a log group. The key encrypts nothing on disk, and disabling it later does not stop readers.
- Resource policies belong to an account, not to a log group.
- ` + "`aws logs tail`" + ` is part of AWS CLI 2. Earlier versions have ` + "`aws logs filter-log-events`" + `.
`
}

// ofImages returns the page's section on ECR.
func ofImages() string {
	return `
## Images

Registry clients use ECR by these names, after ` + "`aws ecr get-login-password | docker login --username AWS --password-stdin NAME`" + `:

| where | name of an image |
|---|---|
| under ` + "`drydock run`" + `, and for programs that run as pods | ` + "`ACCOUNT.dkr.ecr.REGION.amazonaws.com/REPOSITORY:TAG`" + ` |
| everywhere on this machine, without TLS | ` + "`localhost:PORT/ACCOUNT.dkr.ecr.REGION.amazonaws.com/REPOSITORY:TAG`" + `, where PORT is that of AWS_ENDPOINT_URL |
| ECR Public, everywhere on this machine | ` + "`localhost:PORT/public.ecr.aws/ALIAS/REPOSITORY:TAG`" + `; pods use the name from ` + "`public.ecr.aws`" + ` on |

docker's daemon connects by itself, so it needs the second name. ECR differs from AWS as follows:

- Nodes find an image of an account that Drydock has, private or public, if it was pushed there. Other registries, such as EKS's own, docker.io and other aliases of public.ecr.aws, are assumed to have
  every image; with ` + "`drydock up --images strict`" + ` only AWS's own are. Nothing is downloaded.
- The images of an account are limited to 20 GiB, together with the objects of S3. Beyond that, UploadLayerPart is refused with ` + "`LimitExceededException`" + `.
- Images are not scanned: a scan ends with the status UNSUPPORTED_IMAGE.
- Nothing is replicated, so repository creation templates have no effect on replication.
- Pull-through cache rules work with ` + "`drydock up --internet on`" + `, and are only records otherwise. A pull waits until the images of all platforms of a list are imported. Only registry clients cause imports, not calls of
  BatchGetImage. Rules whose upstream registry is in ECR always work, and copy from Drydock's own registries: from repositories that exist, but not through other rules.
- No policy stops ECR from reading the secret of a rule, as it uses its service-linked role. ECR sends an event when it imports an image or fails to, but none when a check after 24 hours finds nothing new.
- That check is only made for tags whose image ECR has imported, never for images that users pushed, nor for immutable tags. If it fails, a pull tries it again after 10 minutes at the earliest.
- Simulated nodes do not pull, and find only images that have been imported.
- Lifecycle policies are applied every 30 seconds, and a preview is complete at once.
- A KMS key is checked when a repository is created, but encrypts nothing on disk.
- Layers cannot be mounted from another repository, as on AWS unless an account setting allows it. Clients upload them again.
- In ECR Public, the alias of a registry follows from its account (` + "`aws ecr-public describe-registries`" + `), and there are no custom aliases, logos or gallery. ` + "`drydock run`" + ` leaves
  the name public.ecr.aws to the internet, where everyone else's images are; use the name with localhost there. It serves layers itself, without a redirect.
- Tokens are valid in all regions. They keep the tags that their principal had at the time of GetAuthorizationToken.
`
}

// ofZones returns the page's section on Route 53.
func ofZones() string {
	return `
## Zonal shifts

EKS clusters whose zonalShiftConfig is enabled can be shifted away from a zone; [a cluster's life](cluster-life.md) says what that does. Differences from AWS:

- Load balancers and Auto Scaling groups are not registered: ListManagedResources has only clusters. The attribute ` + "`zonal_shift.config.enabled`" + ` of a load balancer is
  stored and has no effect.
- EndpointSlices and Services keep the endpoints in the zone, which EKS removes. The in-cluster traffic of existing pods does not change.
- A cluster counts as deployed in the zones of its own subnets and those of its node groups. Shifts are listed for 30 days after their end.
- Error messages follow the API reference, because no answers of AWS were found.

## Hosted zones

Records resolve for instances, pods and ` + "`drydock why reach`" + `: those of private zones in their VPCs, those of public zones everywhere. There is no DNS server: a
program on this machine does not resolve them. Route 53 differs from AWS as follows:

- A change takes effect at once. The operation that makes it says PENDING, and GetChange says INSYNC. Changes are kept for a day.
- Public zones answer as if their domains were delegated to them. A load balancer's alias needs no particular zone ID.
- Records have no health checks and no geographic routing. For records with a routing policy, a name resolves to all addresses of multivalue records, and otherwise
  to those of one record: the one with the greatest weight, the primary one, or the first by its identifier.
- Quotas are fixed: 500 zones in an account, 10,000 record sets in a zone, 1,000 records and 32,000 characters in a batch.
`
}

// ofEvents returns the page's section on EventBridge.
func ofEvents() string {
	return `
## Event buses

EventBridge differs from AWS as follows:

- AWS services send these events by themselves: EC2 Instance State-change Notification; EC2 Instance Rebalance Recommendation and EC2 Spot Instance
  Interruption Warning for a Spot Instance that drydock fault takes away, and AWS Health Event for another instance; launches, terminations, lifecycle actions
  and instance refreshes of Auto Scaling; the events of EKS add-ons, whose details AWS does not document; rotations and deletions of KMS keys; the calls that a trail of
  CloudTrail logs, if they change something; and ECR Image Action. EKS Fargate Pod Scheduled Termination comes from drydock fault set fargate-patch.
- A trail sends calls to EventBridge. It writes no files to its bucket, which need not exist.
- Targets are queues of SQS, topics of SNS and log groups of CloudWatch Logs. Calls of a target with a role (RoleArn) are refused.
- The delay between attempts to deliver an event grows from one second to five minutes.
- AWS has its own rule for refusing wildcard patterns that are expensive to match. Drydock refuses more than four wildcards that are followed by the same character.
`
}

// assumed returns the page's section on the steps of a node's join that no source documents.
func assumed() string {
	var b strings.Builder
	b.WriteString(`
## Behavior based on assumptions

The steps by which an instance joins its cluster, as ` + "`drydock why node`" + ` names them. The code of each step cites its sources; the most important ones
are listed here. The second column lists behavior that has no source, or that differs from AWS.

| step | assumed | sources for the rest |
|---|---|---|
`)
	for _, p := range node.Provenances() {
		var from []string
		for i, s := range p.Sources {
			from = append(from, fmt.Sprintf("[%d](%s)", i+1, s))
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", p.Step, strings.Join(p.Assumed, "; "), strings.Join(from, " "))
	}
	return b.String() + ofEndpoints
}

// unevaluated returns the page's section on what authorization does not evaluate.
func unevaluated() string {
	var b strings.Builder
	b.WriteString("\n## What authorization does not evaluate\n\n")
	for _, n := range authz.NotEvaluated {
		fmt.Fprintf(&b, "- %s: %s.\n", n.What, n.Effect)
	}
	fmt.Fprintf(&b, "- Absent from every request: `%s`.\n", strings.Join(authz.AbsentKeys, "` `"))
	b.WriteString(`
The authorization reference lists the condition keys below for operations that Drydock handles, but Drydock does not know their values.
A statement that uses one is undecided: an Allow does not allow, and a Deny denies. ` + "`drydock why request`" + ` names the key.

| condition key | in requests of |
|---|---|
`)
	authorizer := authz.New(authz.Config{Services: operations()})
	inRequests := map[string][]string{}
	for _, svc := range operations() {
		ops := svc.Operations
		if svc.Name == "iam" {
			ops = append(slices.Clone(ops), awsapi.Operation{Name: "PassRole"}) // authorized along with other operations
		}
		for _, op := range ops {
			var in any
			if m := reflect.ValueOf(svc.Handler).MethodByName(op.Name); m.IsValid() {
				in = reflect.New(m.Type().In(1).Elem()).Interface()
			}
			for _, key := range authorizer.Unresolved(svc.Name, op.Name, in) {
				inRequests[key] = append(inRequests[key], op.Name)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(inRequests)) {
		fmt.Fprintf(&b, "| `%s` | %s |\n", key, strings.Join(slices.Sorted(slices.Values(inRequests[key])), ", "))
	}
	return b.String()
}
