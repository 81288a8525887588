package ssm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awssns "github.com/aws/aws-sdk-go-v2/service/sns"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A disk is the file system of a machine, which nothing writes to.
type disk struct {
	machine.Files
	files fstest.MapFS
}

func (d disk) ReadFile(name string) ([]byte, error)       { return d.files.ReadFile(name[1:]) }
func (d disk) Stat(name string) (fs.FileInfo, error)      { return d.files.Stat(name[1:]) }
func (d disk) ReadDir(name string) ([]fs.DirEntry, error) { return d.files.ReadDir(name[1:]) }

func (c computer) Files() (machine.Files, error) { return disk{files: c.fleet.files}, nil }

func (c computer) Instance() machine.Instance {
	return machine.Instance{ID: c.id, Region: testkit.Region}
}

// gathered waits until an association has run everywhere, and returns what it printed on the first instance.
func (w *world) gathered(t testing.TB, id string) string {
	t.Helper()
	var out string
	testkit.Eventually(t, 20*time.Second, func() error {
		all := w.runs(t, id)
		if len(all) == 0 || *all[0].Status == "Pending" || *all[0].Status == "InProgress" {
			return errors.New("the association has not run")
		}
		targets := testkit.Must(w.client.DescribeAssociationExecutionTargets(t.Context(), &awsssm.DescribeAssociationExecutionTargetsInput{AssociationId: &id, ExecutionId: all[0].ExecutionId}))(t).AssociationExecutionTargets
		i := testkit.Must(w.client.GetCommandInvocation(t.Context(), &awsssm.GetCommandInvocationInput{CommandId: targets[0].OutputSource.OutputSourceId, InstanceId: targets[0].ResourceId}))(t)
		out = string(i.Status) + ": " + *i.StandardOutputContent + *i.StandardErrorContent
		return nil
	})
	return out
}

// TestGatherInventory checks that AWS-GatherSoftwareInventory stores what a machine's programs and files say.
func TestGatherInventory(t *testing.T) {
	w := newWorld(t, nil)
	ctx := t.Context()
	w.fleet.answers = map[string]string{
		"if command -v dpkg-query": "bash\tAmazon Linux\t5.2.15\t1.amzn2023.0.2\t(none)\t1758067200\tUnspecified\tx86_64\t(none)\tThe GNU Bourne Again shell\tbash-5.2.15-1.amzn2023.0.2.src.rpm\n" +
			"amazon-ssm-agent\tAmazon Linux\t3.3.3050.0\t1.amzn2023\t(none)\t1758067200\tUnspecified\tx86_64\t(none)\tManage\tamazon-ssm-agent.src.rpm\nnonsense\n",
		"ip -o link": "1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 \\    link/loopback 00:00:00:00:00:00 brd 00:00:00:00:00:00\n2: ens5: <BROADCAST,UP> mtu 9001 \\    link/ether 0a:00:00:00:00:01 brd ff:ff:ff:ff:ff:ff\n",
		"ip -o addr": "1: lo    inet 127.0.0.1/8 scope host lo\n2: ens5    inet 10.0.0.9/24 brd 10.0.0.255 scope global ens5\n",
		"lscpu":      "Architecture:  x86_64\nCPU(s):   4\nThread(s) per core: 2\nCore(s) per socket: 2\nSocket(s): 1\n",
	}
	w.fleet.files = fstest.MapFS{
		"etc/a.conf":      {Data: []byte("12345"), ModTime: time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC)},
		"etc/sub/b.conf":  {Data: []byte("1")},
		"etc/sub/c.other": {Data: []byte("1")},
		"var/lib/amazon/ssm/" + instanceID + "/inventory/custom/rack.json": {Data: []byte(`{"SchemaVersion":"1.0","TypeName":"Custom:Rack","Content":{"Row":"C"}}`)},
		"var/lib/amazon/ssm/" + instanceID + "/inventory/custom/bad.json":  {Data: []byte(`{"TypeName":"AWS:Application"`)},
	}
	gather := func(parameters map[string][]string) string {
		return *testkit.Must(w.client.CreateAssociation(ctx, &awsssm.CreateAssociationInput{
			Name: aws.String("AWS-GatherSoftwareInventory"), Parameters: parameters, Targets: []ssmtypes.Target{{Key: aws.String("InstanceIds"), Values: []string{"*"}}},
		}))(t).AssociationDescription.AssociationId
	}
	id := gather(map[string][]string{"files": {`[{"Path":"/etc","Pattern":["*.conf"],"Recursive":true}]`}})
	const done = "Success: Inventory policy has been successfully applied and collected inventory data has been uploaded to SSM"
	if got := w.gathered(t, id); got != done {
		t.Fatal(got)
	}
	list := func(kind string) []map[string]string {
		return testkit.Must(w.client.ListInventoryEntries(ctx, &awsssm.ListInventoryEntriesInput{InstanceId: aws.String(instanceID), TypeName: &kind}))(t).Entries
	}
	for kind, want := range map[string]string{
		"AWS:Application":                 "map[ApplicationType:Unspecified Architecture:x86_64 InstalledTime:2025-09-17T00:00:00Z Name:amazon-ssm-agent PackageId:amazon-ssm-agent.src.rpm Publisher:Amazon Linux Release:1.amzn2023 Summary:Manage URL:(none) Version:3.3.3050.0] bash",
		"AWS:AWSComponent":                "amazon-ssm-agent",
		"AWS:Network":                     "map[IPV4:10.0.0.9 MacAddress:0a:00:00:00:00:01 Name:ens5]",
		"AWS:InstanceDetailedInformation": "map[CPUCores:2 CPUHyperThreadEnabled:true CPUModel: CPUSockets:1 CPUSpeedMHz: CPUs:4 OSServicePack:]",
		"AWS:File":                        "map[InstalledDir:/etc ModificationTime:2026-05-04T10:00:00Z Name:a.conf Size:5] b.conf",
		"Custom:Rack":                     "map[Row:C]",
	} {
		var got []string
		for i, e := range list(kind) {
			if strings.HasPrefix(want, "map") && i == 0 {
				got = append(got, fmt.Sprint(e))
			} else {
				got = append(got, e["Name"])
			}
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s: %s", kind, s)
		}
	}
	found := testkit.Must(w.client.GetInventory(ctx, &awsssm.GetInventoryInput{
		Filters:          []ssmtypes.InventoryFilter{{Key: aws.String("AWS:Application.Name"), Values: []string{"bash"}}},
		ResultAttributes: []ssmtypes.ResultAttribute{{TypeName: aws.String("AWS:Application")}},
	}))(t).Entities
	if len(found) != 1 || len(found[0].Data["AWS:Application"].Content) != 2 || aws.ToString(found[0].Data["AWS:Application"].ContentHash) == "" {
		t.Errorf("%+v", found)
	}

	// Two associations for one instance are in each other's way. A command cannot gather.
	if got := w.gathered(t, gather(nil)); !strings.HasPrefix(got, "Failed: aws:softwareInventory detected multiple inventory configurations") || !strings.HasSuffix(got, " and "+id) {
		t.Error(got)
	}
	_, all := w.command(t, &awsssm.SendCommandInput{DocumentName: aws.String("AWS-GatherSoftwareInventory")})
	if p := all[0].CommandPlugins[0]; *p.Name != "collectSoftwareInventoryItems" || p.Status != "Failed" || !strings.HasSuffix(*p.Output, "aws:softwareInventory plugin can only be invoked via ssm-associate") {
		t.Errorf("%+v", p)
	}

	// The instance's role needs ssm:PutInventory.
	for _, a := range testkit.Must(w.client.ListAssociations(ctx, &awsssm.ListAssociationsInput{}))(t).Associations {
		testkit.Must(w.client.DeleteAssociation(ctx, &awsssm.DeleteAssociationInput{AssociationId: a.AssociationId}))(t)
	}
	w.fleet.role = awsapi.Principal{Type: awsapi.IAMUser, Account: w.fleet.account, Name: "nothing", ARN: "arn:aws:iam::" + w.fleet.account + ":user/nothing"}
	w.user(t, "nothing", `{"Effect":"Deny","Action":"*","Resource":"*"}`)
	if got := w.gathered(t, gather(map[string][]string{"applications": {"Disabled"}})); !strings.HasPrefix(got, "Failed: inventory data could not be uploaded to Systems Manager. Additional troubleshooting information - AccessDeniedException: ") {
		t.Error(got)
	}
	_, err := w.client.CreateAssociation(ctx, &awsssm.CreateAssociationInput{Name: aws.String("AWS-GatherSoftwareInventory"), Parameters: map[string][]string{"applications": {"Maybe"}}, InstanceId: aws.String(instanceID)})
	testkit.WantErrorWith(t, err, "InvalidParameters", "Maybe")
}

// TestUpdateAgent checks AWS-UpdateSSMAgent against the agent's own messages.
func TestUpdateAgent(t *testing.T) {
	w := newWorld(t, nil)
	const source = "Successfully downloaded https://s3.us-east-1.amazonaws.com/amazon-ssm-us-east-1/ssm-agent-manifest.json\n"
	for _, tc := range []struct {
		parameters map[string][]string
		away       error
		want       string
	}{
		{nil, nil, "Success: Updating amazon-ssm-agent from 3.3.3050.0 to latest\n" + source + "amazon-ssm-agent 3.3.3050.0 has already been installed, update skipped\n"},
		{map[string][]string{"version": {"3.2.0.0"}}, nil, "Failed: Updating amazon-ssm-agent from 3.3.3050.0 to 3.2.0.0\n" + source + "\n----------ERROR-------\nupdating amazon-ssm-agent to an older version, please enable allow downgrade to proceed"},
		{map[string][]string{"version": {"3.2.0.0"}, "allowDowngrade": {"true"}}, nil, "Failed: Updating amazon-ssm-agent from 3.3.3050.0 to 3.2.0.0\n" + source + "\n----------ERROR-------\namazon-ssm-agent version 3.2.0.0 is unsupported"},
		{nil, errors.New("dial tcp: i/o timeout"), "Failed: Updating amazon-ssm-agent from 3.3.3050.0 to latest\n\n----------ERROR-------\nfailed to download manifest: dial tcp: i/o timeout"},
	} {
		w.fleet.away = tc.away
		_, all := w.command(t, &awsssm.SendCommandInput{DocumentName: aws.String("AWS-UpdateSSMAgent"), Parameters: tc.parameters})
		if p := all[0].CommandPlugins[0]; string(p.Status)+": "+*p.Output != tc.want || *p.Name != "aws:updateSsmAgent" {
			t.Errorf("%s %s: %s", *p.Name, p.Status, *p.Output)
		}
	}
}

// TestNotifications checks the messages that a command publishes, and who may ask for them.
func TestNotifications(t *testing.T) {
	w := newWorld(t, nil)
	ctx := t.Context()
	w.fleet.more = []string{"i-11111111"}
	topics, queues, roles := awssns.NewFromConfig(w.AWSConfig(w.fleet.account)), awssqs.NewFromConfig(w.AWSConfig(w.fleet.account)), awsiam.NewFromConfig(w.AWSConfig(w.fleet.account))
	topic := testkit.Must(topics.CreateTopic(ctx, &awssns.CreateTopicInput{Name: aws.String("commands")}))(t).TopicArn
	queue := "arn:aws:sqs:us-east-1:" + w.fleet.account + ":commands"
	url := testkit.Must(queues.CreateQueue(ctx, &awssqs.CreateQueueInput{QueueName: aws.String("commands"), Attributes: map[string]string{
		"Policy": `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"sqs:SendMessage","Resource":"` + queue + `"}]}`,
	}}))(t).QueueUrl
	testkit.Must(topics.Subscribe(ctx, &awssns.SubscribeInput{TopicArn: topic, Protocol: aws.String("sqs"), Endpoint: &queue, Attributes: map[string]string{"RawMessageDelivery": "true"}}))(t)
	role := func(name, service, action string) *string {
		r := testkit.Must(roles.CreateRole(ctx, &awsiam.CreateRoleInput{RoleName: &name, AssumeRolePolicyDocument: aws.String(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"` + service + `"},"Action":"sts:AssumeRole"}]}`)}))(t).Role
		testkit.Must(roles.PutRolePolicy(ctx, &awsiam.PutRolePolicyInput{RoleName: &name, PolicyName: aws.String("p"), PolicyDocument: aws.String(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"` + action + `","Resource":"*"}]}`)}))(t)
		return r.Arn
	}
	publisher := role("publisher", "ssm.amazonaws.com", "sns:Publish")
	send := func(script string, kind ssmtypes.NotificationType, as *string, events ...ssmtypes.NotificationEvent) *awsssm.SendCommandInput {
		return &awsssm.SendCommandInput{
			DocumentName: aws.String("AWS-RunShellScript"), Parameters: map[string][]string{"commands": {script}}, InstanceIds: []string{instanceID, "i-11111111"}, OutputS3KeyPrefix: aws.String("runs"),
			ServiceRoleArn: as, NotificationConfig: &ssmtypes.NotificationConfig{NotificationArn: topic, NotificationType: kind, NotificationEvents: events},
		}
	}
	// received returns the next n messages, each as its kind, status and instances.
	received := func(n int) []string {
		var out []string
		testkit.Eventually(t, 20*time.Second, func() error {
			for _, m := range testkit.Must(queues.ReceiveMessage(ctx, &awssqs.ReceiveMessageInput{QueueUrl: url, MaxNumberOfMessages: 10}))(t).Messages {
				var body map[string]any
				if err := json.Unmarshal([]byte(*m.Body), &body); err != nil {
					t.Fatal(err)
				}
				_, summary := body["expiresAfter"]
				out = append(out, fmt.Sprintf("%v %v %v %v %v %v", summary, body["status"], body["instanceId"], body["instanceIds"], body["documentName"], body["outputS3KeyPrefix"]))
				testkit.Must(queues.DeleteMessage(ctx, &awssqs.DeleteMessageInput{QueueUrl: url, ReceiptHandle: m.ReceiptHandle}))(t)
			}
			if len(out) < n {
				return fmt.Errorf("%d messages, want %d", len(out), n)
			}
			return nil
		})
		slices.Sort(out)
		return out
	}
	c, all := w.command(t, send("date", "Command", publisher, "All"))
	if *c.ServiceRole != *publisher || *c.NotificationConfig.NotificationArn != *topic || all[0].NotificationConfig.NotificationType != "Command" {
		t.Errorf("%+v", c)
	}
	both := "<nil> [" + instanceID + " i-11111111] AWS-RunShellScript runs"
	if got := fmt.Sprintf("%q", received(2)); got != fmt.Sprintf("%q", []string{"true InProgress " + both, "true Success " + both}) {
		t.Error(got)
	}
	w.command(t, send("fail", "Invocation", publisher, "Failed", "Success"))
	if got := fmt.Sprintf("%q", received(2)); got != fmt.Sprintf("%q", []string{"false Failed i-0123456789abcdef0 <nil> AWS-RunShellScript <nil>", "false Failed i-11111111 <nil> AWS-RunShellScript <nil>"}) {
		t.Error(got)
	}

	refused := func(in *awsssm.SendCommandInput, code string) {
		t.Helper()
		_, err := w.client.SendCommand(ctx, in)
		testkit.WantError(t, err, code, "")
	}
	refused(send("date", "Command", nil, "All"), "InvalidRole")
	refused(send("date", "Command", role("other", "ec2.amazonaws.com", "sns:Publish"), "All"), "InvalidRole")
	wrong := send("date", "Command", publisher, "All")
	wrong.NotificationConfig.NotificationArn = aws.String("commands")
	refused(wrong, "InvalidNotificationConfig")
	// What an answer of SendCommand says about a command without notifications is accepted in a request.
	none := send("date", "", nil)
	none.NotificationConfig = &ssmtypes.NotificationConfig{NotificationArn: aws.String("")}
	if c, _ := w.command(t, none); c.Status != "Success" || *c.NotificationConfig.NotificationArn != "" {
		t.Errorf("%+v", c)
	}
	carl := awsssm.NewFromConfig(w.AWSConfigWith(w.user(t, "carl", `{"Effect":"Allow","Action":"ssm:SendCommand","Resource":"*"}`)))
	_, err := carl.SendCommand(ctx, send("date", "Command", publisher, "All"))
	testkit.WantErrorWith(t, err, "AccessDeniedException", "iam:PassRole on resource: "+*publisher)

	// A role that may not publish does not affect the command.
	if c, _ := w.command(t, send("date", "Command", role("mute", "ssm.amazonaws.com", "sns:ListTopics"), "All")); c.Status != "Success" {
		t.Errorf("%+v", c)
	}
}

// assume returns a session of a role that trusts the service.
func (w *world) assume(ctx context.Context, roleARN string) (awsapi.Principal, error) {
	role, err := w.users.RoleByARN(ctx, roleARN)
	if err == nil && !w.users.TrustsService(role, "ssm.amazonaws.com") {
		err = errors.New("the role does not trust the service")
	}
	return awsapi.Principal{
		Type: awsapi.AssumedRole, Account: w.fleet.account, Name: role.Name, ARN: "arn:aws:sts::" + w.fleet.account + ":assumed-role/" + role.Name + "/SystemsManager", RoleARN: role.ARN, UserID: role.ID + ":SystemsManager", SessionName: "SystemsManager",
	}, err
}
