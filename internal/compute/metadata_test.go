package compute

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials/ec2rolecreds"
	awsimds "github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	awscloudtrail "github.com/aws/aws-sdk-go-v2/service/cloudtrail"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/google/go-cmp/cmp"
	clocks "k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/journal"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/service/cloudtrail"
	"github.com/drydock-dev/drydock/internal/service/ec2"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/service/sts"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

const ec2Trust = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`

// world is what metadata are derived from.
type world struct {
	store    *store.Store
	machines *Machines
	iam      *iam.Service
	sts      *sts.Service
	ec2      *ec2.Service
	server   *testkit.Server
	faults   *fault.Set
}

// profiles are those of IAM.
type profiles struct{ iam *iam.Service }

func (p profiles) InstanceProfile(ctx context.Context, account, name string) (ec2.Profile, bool, error) {
	got, role, err := p.iam.InstanceProfileRole(ctx, account, name)
	return ec2.Profile{ARN: got.ARN, ID: got.ID, RoleARN: role.ARN}, err == nil, err
}

// metadataWorld is EC2, IAM and STS with one running instance, and its metadata.
func metadataWorld(t *testing.T, edit func(*awsec2.RunInstancesInput)) (d *world, ctx context.Context, instance ec2types.Instance) {
	t.Helper()
	st, err := store.Open(t.Context(), store.Config{Ephemeral: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	d = &world{store: st, machines: &Machines{cfg: Config{Store: st, Clock: clocks.RealClock{}}, running: map[string]machine.Instance{}}}
	d.iam = iam.New(iam.Config{Store: st})
	d.ec2 = ec2.New(ec2.Config{Store: st, Profiles: profiles{d.iam}})
	authorizer := authz.New(authz.Config{Services: []awsapi.Service{d.iam.AWS(), new(sts.Service).AWS()}, Policies: d.iam.PoliciesOf, Resolvers: map[string]authz.Resolver{"iam": d.iam.Authz()}, Store: st})
	d.sts = sts.New(sts.Config{Store: st, Directory: d.iam, Authorize: authorizer.AuthorizeTargets})
	calls, err := journal.Open(t.TempDir(), journal.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = calls.Close() })
	d.faults = fault.NewSet(fault.Config{})
	d.server = testkit.NewServer(t, testkit.Config{Store: st, Journal: calls, Faults: d.faults, Services: func(*store.Store) []awsapi.Service {
		return []awsapi.Service{d.sts.AWS(), cloudtrail.New(cloudtrail.Config{Journal: calls}).AWS()}
	}})
	d.machines.cfg.API, d.machines.cfg.EC2, d.machines.cfg.IAM, d.machines.cfg.STS = d.server.Front, d.ec2, d.iam, d.sts
	if err := d.machines.connectMetadata(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.iam.EnsureAccount(t.Context(), awsapi.DefaultAccount); err != nil {
		t.Fatal(err)
	}
	ctx = awsapi.WithCall(t.Context(), &awsapi.Call{Account: awsapi.DefaultAccount, Region: "eu-west-1"})
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(nil, d.ec2.Prepare(ctx, awsapi.DefaultAccount, "eu-west-1"))
	must(d.iam.CreateRole(ctx, &awsiam.CreateRoleInput{RoleName: aws.String("node"), AssumeRolePolicyDocument: aws.String(ec2Trust)}))
	must(d.iam.CreateInstanceProfile(ctx, &awsiam.CreateInstanceProfileInput{InstanceProfileName: aws.String("profile")}))
	must(d.iam.AddRoleToInstanceProfile(ctx, &awsiam.AddRoleToInstanceProfileInput{InstanceProfileName: aws.String("profile"), RoleName: aws.String("node")}))
	must(d.ec2.CreateKeyPair(ctx, &awsec2.CreateKeyPairInput{KeyName: aws.String("mine"), KeyType: ec2types.KeyTypeEd25519}))
	img, _ := images.EKS("eu-west-1", images.AL2023, "1.36", "x86_64", "")
	in := &awsec2.RunInstancesInput{
		ImageId: aws.String(img.ID), InstanceType: "m5.large", MinCount: aws.Int32(1), MaxCount: aws.Int32(1), KeyName: aws.String("mine"),
		IamInstanceProfile: &ec2types.IamInstanceProfileSpecification{Name: aws.String("profile")},
		MetadataOptions:    &ec2types.InstanceMetadataOptionsRequest{HttpTokens: "required", HttpPutResponseHopLimit: aws.Int32(1), InstanceMetadataTags: "enabled"},
		TagSpecifications:  []ec2types.TagSpecification{{ResourceType: "instance", Tags: []ec2types.Tag{{Key: aws.String("Name"), Value: aws.String("web")}}}},
	}
	if edit != nil {
		edit(in)
	}
	run, err := d.ec2.RunInstances(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	instance = run.Instances[0]
	// What EC2's reconciler passes when it starts a machine.
	d.machines.running[*instance.InstanceId] = machine.Instance{
		Account: awsapi.DefaultAccount, Region: "eu-west-1", ID: *instance.InstanceId, ReservationID: *run.ReservationId, LaunchTime: *instance.LaunchTime,
		Type: instancetypes.Type{Name: "m5.large"}, Image: img, PrivateIP: netip.MustParseAddr(*instance.PrivateIpAddress), KeyName: "mine",
		AvailabilityZone: *instance.Placement.AvailabilityZone, ZoneID: "euw1-az3", MAC: *instance.NetworkInterfaces[0].MacAddress, UserData: []byte("#!/bin/sh\n"),
	}
	return d, ctx, instance
}

func metadataClient(d *world, id string, hops int) *awsimds.Client {
	return awsimds.New(awsimds.Options{
		HTTPClient: &http.Client{Transport: d.machines.metadata.Transport(id, hops)}, Retryer: aws.NopRetryer{}, ClientEnableState: awsimds.ClientEnabled,
	})
}

func TestMetadataIsEC2s(t *testing.T) {
	d, ctx, i := metadataWorld(t, nil)
	id := *i.InstanceId
	c := metadataClient(d, id, 1)
	get := func(path string) string {
		t.Helper()
		out, err := c.GetMetadata(ctx, &awsimds.GetMetadataInput{Path: path})
		if err != nil {
			t.Errorf("%s: %v", path, err)
			return ""
		}
		b, err := io.ReadAll(out.Content)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	nic := i.NetworkInterfaces[0]
	mac := "network/interfaces/macs/" + *nic.MacAddress + "/"
	subnets, err := d.ec2.DescribeSubnets(ctx, &awsec2.DescribeSubnetsInput{SubnetIds: []string{*i.SubnetId}})
	if err != nil {
		t.Fatal(err)
	}
	got, want := map[string]string{}, map[string]string{
		"instance-id": id, "ami-id": *i.ImageId, "instance-type": "m5.large", "local-ipv4": *i.PrivateIpAddress, "local-hostname": *i.PrivateDnsName,
		"mac": *nic.MacAddress, "placement/availability-zone": *i.Placement.AvailabilityZone, "placement/region": "eu-west-1",
		"security-groups": *i.SecurityGroups[0].GroupName, "tags/instance/Name": "web", "iam/security-credentials/": "node", "system": "nitro",
		"block-device-mapping/root": "/dev/xvda", "public-keys": "0=mine", "services/domain": "amazonaws.com",
		mac + "interface-id": *nic.NetworkInterfaceId, mac + "subnet-id": *i.SubnetId, mac + "vpc-id": *i.VpcId, mac + "device-number": "0",
		mac + "vpc-ipv4-cidr-blocks": "172.31.0.0/16", mac + "subnet-ipv4-cidr-block": *subnets.Subnets[0].CidrBlock,
		mac + "security-group-ids": *nic.Groups[0].GroupId, mac + "local-ipv4s": *i.PrivateIpAddress, mac + "owner-id": awsapi.DefaultAccount,
	}
	for path := range want {
		got[path] = get(path)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	if key := get("public-keys/0/openssh-key"); !strings.HasPrefix(key, "ssh-ed25519 ") {
		t.Errorf("the key is %q", key)
	}
	if listed := strings.Split(get(""), "\n"); !slices.Contains(listed, "network/") || !slices.Contains(listed, "iam/") {
		t.Errorf("listed %q", listed)
	}
	doc, err := c.GetInstanceIdentityDocument(ctx, nil)
	if err != nil || doc.InstanceID != id || doc.AccountID != awsapi.DefaultAccount || doc.ImageID != *i.ImageId || doc.Architecture != "x86_64" {
		t.Errorf("%+v %v", doc, err)
	}
	data, err := c.GetUserData(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(data.Content); err != nil || string(b) != "#!/bin/sh\n" {
		t.Errorf("%q %v", b, err)
	}
	// Tags are the current ones.
	if _, err := d.ec2.CreateTags(ctx, &awsec2.CreateTagsInput{Resources: []string{id}, Tags: []ec2types.Tag{{Key: aws.String("Name"), Value: aws.String("db")}}}); err != nil {
		t.Fatal(err)
	}
	if name := get("tags/instance/Name"); name != "db" {
		t.Errorf("Name is %q", name)
	}
}

// Volumes that are attached later are not listed: the EBS CSI driver counts those that are listed as the instance's own.
func TestMetadataListsVolumesOfTheLaunch(t *testing.T) {
	d, ctx, i := metadataWorld(t, func(in *awsec2.RunInstancesInput) {
		in.BlockDeviceMappings = []ec2types.BlockDeviceMapping{{DeviceName: aws.String("/dev/sdf"), Ebs: &ec2types.EbsBlockDevice{VolumeSize: aws.Int32(1)}}}
	})
	listed := func() string {
		t.Helper()
		out, err := metadataClient(d, *i.InstanceId, 1).GetMetadata(ctx, &awsimds.GetMetadataInput{Path: "block-device-mapping"})
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(out.Content)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if got := listed(); got != "ami\nebs1\nroot" {
		t.Errorf("after the launch: %q", got)
	}
	done := make(chan error)
	run, stop := context.WithCancel(t.Context())
	go func() { done <- d.ec2.Run(run) }()
	defer func() { stop(); <-done }()
	reaches := func(want ec2types.InstanceStateName) {
		t.Helper()
		testkit.Eventually(t, 10*time.Second, func() error {
			if now, _ := d.ec2.InstanceByID(awsapi.DefaultAccount, "eu-west-1", *i.InstanceId); now.State.Name != want {
				return fmt.Errorf("the instance is %s, not %s", now.State.Name, want)
			}
			return nil
		})
	}
	reaches("running")
	later := ec2.New(ec2.Config{Store: d.store, Clock: testclock.NewFakeClock(i.LaunchTime.Add(time.Minute))})
	v, err := later.CreateVolume(ctx, &awsec2.CreateVolumeInput{AvailabilityZone: i.Placement.AvailabilityZone, Size: aws.Int32(1)})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 10*time.Second, func() error {
		_, err := later.AttachVolume(ctx, &awsec2.AttachVolumeInput{InstanceId: i.InstanceId, VolumeId: v.VolumeId, Device: aws.String("/dev/sdg")})
		return err
	})
	if got := listed(); got != "ami\nebs1\nroot" {
		t.Errorf("after another volume was attached: %q", got)
	}
	if _, err := d.ec2.StopInstances(ctx, &awsec2.StopInstancesInput{InstanceIds: []string{*i.InstanceId}}); err != nil {
		t.Fatal(err)
	}
	reaches("stopped")
	if _, err := later.StartInstances(ctx, &awsec2.StartInstancesInput{InstanceIds: []string{*i.InstanceId}}); err != nil {
		t.Fatal(err)
	}
	if got := listed(); got != "ami\nebs1\nebs2\nroot" {
		t.Errorf("after another start: %q", got)
	}
}

func TestMetadataCredentials(t *testing.T) {
	d, ctx, i := metadataWorld(t, nil)
	id := *i.InstanceId
	creds, err := ec2rolecreds.New(func(o *ec2rolecreds.Options) { o.Client = metadataClient(d, id, 1) }).Retrieve(ctx)
	if err != nil {
		t.Fatal(err)
	}
	secret, principal, err := d.sts.OpenSession(ctx, creds.AccessKeyID, creds.SessionToken)
	if err != nil || secret != creds.SecretAccessKey || principal.ARN != "arn:aws:sts::000000000000:assumed-role/node/"+id {
		t.Errorf("%s %v", principal.ARN, err)
	}
	if want := (awsapi.SourceInstance{
		ARN: "arn:aws:ec2:eu-west-1:000000000000:instance/" + id, VPCID: *i.VpcId, PrivateIP: *i.PrivateIpAddress, Delivery: "2.0",
	}); principal.Instance != want {
		t.Errorf("%+v, want %+v", principal.Instance, want)
	}
	if _, err := metadataClient(d, id, 2).GetMetadata(ctx, &awsimds.GetMetadataInput{Path: "instance-id"}); err == nil {
		t.Error("a container behind two hops got metadata")
	}
	// EC2 has assumed the role, as CloudTrail shows.
	cfg := d.server.AWSConfig(awsapi.DefaultAccount)
	cfg.Region = "eu-west-1"
	testkit.Eventually(t, 10*time.Second, func() error {
		got, err := awscloudtrail.NewFromConfig(cfg).LookupEvents(ctx, &awscloudtrail.LookupEventsInput{})
		if err != nil || len(got.Events) == 0 {
			return fmt.Errorf("%d events, %w", len(got.Events), err)
		}
		event := *got.Events[0].CloudTrailEvent
		for _, want := range []string{
			`"eventName":"AssumeRole"`, `"userIdentity":{"invokedBy":"ec2.amazonaws.com","type":"AWSService"}`, `"sourceIPAddress":"ec2.amazonaws.com"`,
			`"requestParameters":{"roleArn":"arn:aws:iam::000000000000:role/node","roleSessionName":"` + id + `"}`, creds.AccessKeyID,
		} {
			if !strings.Contains(event, want) {
				t.Errorf("%s is not in %s", want, event)
			}
		}
		return nil
	})
	// What STS throttles, the instance gets later.
	d.machines.metadata.Forget(id)
	d.faults.Replace([]fault.Fault{{Kind: fault.Throttle, Account: awsapi.DefaultAccount, Region: "eu-west-1", Operation: "sts:AssumeRole"}})
	if _, err := d.machines.credentials(ctx, id); err == nil {
		t.Error("credentials while STS throttles EC2")
	}
	d.faults.Replace(nil)
	if _, err := d.machines.credentials(ctx, id); err != nil {
		t.Error(err)
	}
	// A role that EC2 may not assume is shown as such once what was issued is rotated.
	untrusted := strings.ReplaceAll(ec2Trust, "ec2.", "lambda.")
	if _, err := d.iam.UpdateAssumeRolePolicy(ctx, &awsiam.UpdateAssumeRolePolicyInput{RoleName: aws.String("node"), PolicyDocument: &untrusted}); err != nil {
		t.Fatal(err)
	}
	d.machines.metadata.Forget(id)
	if _, err := d.machines.credentials(ctx, id); err == nil || !strings.Contains(err.Error(), "AssumeRoleUnauthorizedAccess: EC2 cannot assume the role node.") {
		t.Errorf("untrusted: %v", err)
	}
	if _, err := d.iam.RemoveRoleFromInstanceProfile(ctx, &awsiam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: aws.String("profile"), RoleName: aws.String("node")}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.machines.credentials(ctx, id); err == nil || !strings.Contains(err.Error(), "no instance profile") {
		t.Errorf("without a role: %v", err)
	}
	if _, err := d.machines.credentials(ctx, "i-00000000000000000"); err == nil {
		t.Error("an instance that is not there has credentials")
	}
}

func TestMetadataDisabled(t *testing.T) {
	d, ctx, i := metadataWorld(t, func(in *awsec2.RunInstancesInput) {
		in.MetadataOptions = &ec2types.InstanceMetadataOptionsRequest{HttpEndpoint: "disabled"}
	})
	if _, err := d.machines.credentials(ctx, *i.InstanceId); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("%v", err)
	}
}

// Tokens and identity documents remain valid after a restart of the daemon.
func TestMetadataSecretsStay(t *testing.T) {
	d, ctx, _ := metadataWorld(t, nil)
	first, err := d.machines.metadata.Certificate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := metadataSecrets.Get(d.store, metadataKey)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.machines.connectMetadata(ctx); err != nil {
		t.Fatal(err)
	}
	second, err := d.machines.metadata.Certificate(ctx)
	again, err2 := metadataSecrets.Get(d.store, metadataKey)
	if err != nil || err2 != nil || string(first) != string(second) || string(secret.Secret) != string(again.Secret) {
		t.Errorf("another identity after a restart: %v %v", err, err2)
	}
}
