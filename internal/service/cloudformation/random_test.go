package cloudformation_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscloudformation "github.com/aws/aws-sdk-go-v2/service/cloudformation"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// randomTemplate returns a template with some of 13 resources, each of which may refer to earlier ones. The type of a
// resource never changes.
func randomTemplate(r *rand.Rand) string {
	var out, params []string
	has := map[string]bool{}
	add := func(id, typ, properties string) {
		more := ""
		if len(out) > 0 && r.IntN(5) == 0 {
			on := out[r.IntN(len(out))]
			more += `"DependsOn": "` + on[1:strings.Index(on[1:], `"`)+1] + `", `
		}
		if r.IntN(12) == 0 && (typ == "SSM::Parameter" || typ == "SQS::Queue") { // others would be in the way of what they refer to
			more += `"DeletionPolicy": "Retain", `
		}
		has[id] = true
		out = append(out, `"`+id+`": {"Type": "AWS::`+typ+`", `+more+`"Properties": {`+properties+`}}`)
	}
	value := func() string {
		if len(params) > 0 && r.IntN(3) > 0 {
			return `{"Fn::Sub": "${` + params[r.IntN(len(params))] + `}-` + fmt.Sprint(r.IntN(2)) + `"}`
		}
		return fmt.Sprintf(`"v%d"`, r.IntN(3))
	}
	for i, id := range []string{"A", "B", "C", "D", "E", "F"} {
		if r.IntN(4) == 0 && i > 0 {
			continue
		}
		name := ""
		if r.IntN(6) == 0 {
			name = fmt.Sprintf(`"Name": "/random/%d%d", `, i, r.IntN(2))
		}
		add(id, "SSM::Parameter", name+`"Type": "String", "Value": `+value())
		params = append(params, id)
	}
	for _, id := range []string{"G", "H"} {
		if r.IntN(4) == 0 {
			continue
		}
		name := ""
		if r.IntN(3) == 0 {
			name = `"QueueName": "` + id + fmt.Sprint(r.IntN(2)) + `", `
		}
		add(id, "SQS::Queue", name+`"DelaySeconds": `+fmt.Sprint(r.IntN(3))+`, "Tags": [{"Key": "k", "Value": `+value()+`}]`)
	}
	if r.IntN(3) > 0 {
		add("V", "EC2::VPC", fmt.Sprintf(`"CidrBlock": "10.%d.0.0/16", "EnableDnsHostnames": %t`, r.IntN(2), r.IntN(2) == 0))
		if r.IntN(2) == 0 {
			add("S", "EC2::Subnet", `"VpcId": {"Ref": "V"}, "CidrBlock": {"Fn::Select": [`+fmt.Sprint(r.IntN(2))+`, {"Fn::Cidr": [{"Fn::GetAtt": "V.CidrBlock"}, 4, 8]}]}`)
		}
		if r.IntN(2) == 0 {
			add("T", "EC2::SecurityGroup", `"VpcId": {"Ref": "V"}, "GroupDescription": "`+fmt.Sprint(r.IntN(2))+`"`)
		}
	}
	if r.IntN(2) == 0 {
		add("R", "IAM::Role", `"MaxSessionDuration": `+fmt.Sprint(3600*(1+r.IntN(2)))+
			`, "AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}]}`)
		if r.IntN(2) == 0 {
			add("P", "IAM::InstanceProfile", `"Roles": [{"Ref": "R"}]`)
		}
	}
	return `{"Resources": {` + strings.Join(out, ", ") + `}}`
}

// A crasher is an API that kills its daemon at one of its calls: calls before that take effect, but the daemon does not
// receive their answers.
type crasher struct {
	awsapi.API
	// left is the number of calls until the kill, or 0 for no kill. after says that the last call is made.
	left  int
	after bool
	// killed is closed when the daemon makes no more calls, and dead at the end of the test.
	killed, dead chan struct{}

	mu      sync.Mutex
	down    bool
	running int
}

func (c *crasher) Call(ctx context.Context, in any) (any, error) {
	c.mu.Lock()
	c.left--
	mine := c.left == 0
	c.down = c.down || mine && !c.after
	if c.down {
		c.drained()
		c.mu.Unlock()
		<-c.dead
		return nil, errKilled
	}
	c.running++
	c.mu.Unlock()
	out, err := c.API.Call(ctx, in)
	c.mu.Lock()
	c.running--
	c.down = c.down || mine
	down := c.down
	c.drained()
	c.mu.Unlock()
	if down {
		<-c.dead
		return nil, errKilled
	}
	return out, err
}

// drained closes killed after the last call that was being made at the kill. The caller holds mu.
func (c *crasher) drained() {
	if !c.down || c.running > 0 {
		return
	}
	select {
	case <-c.killed:
	default:
		close(c.killed)
	}
}

// A crashing world has a daemon that is killed and started again.
type crashing struct {
	*world
	api    awsapi.API
	crash  *crasher
	cancel func()
	done   []func() // what ends the daemons of the past
}

// start starts a daemon that is killed at its nth call, or never.
func (c *crashing) start(nth int, after bool) {
	c.crash = &crasher{API: c.api, left: nth, after: after, killed: make(chan struct{}), dead: make(chan struct{})}
	cancel, ended := c.run(c.crash)
	crash := c.crash
	c.cancel = cancel
	c.done = append(c.done, func() { cancel(); close(crash.dead); <-ended })
}

// again starts the next daemon: after the last one has been killed, or instead of it.
func (c *crashing) again(nth int, after bool) {
	c.crash.mu.Lock()
	c.crash.down = true
	c.crash.drained()
	c.crash.mu.Unlock()
	<-c.crash.killed
	for quiet := false; !quiet; { // what had its answer is written
		select {
		case <-c.config.Store.Changed():
		case <-time.After(50 * time.Millisecond):
			quiet = true
		}
	}
	c.cancel()
	c.start(nth, after)
}

// ended waits until nothing is in progress, and starts the next daemon whenever one is killed.
func (c *crashing) ended(t *testing.T, id string) {
	for {
		ctx, stop := context.WithCancel(t.Context())
		final := make(chan struct{})
		go func() {
			defer close(final)
			for ctx.Err() == nil {
				changed := c.config.Store.Changed()
				all, err := c.DescribeStacks(ctx, &awscloudformation.DescribeStacksInput{StackName: &id})
				if err == nil && !strings.HasSuffix(string(all.Stacks[0].StackStatus), "_IN_PROGRESS") {
					return
				}
				select {
				case <-changed:
				case <-ctx.Done():
				}
			}
		}()
		select {
		case <-final:
			stop()
			return
		case <-c.crash.killed:
			stop()
			<-final
			c.again(0, false)
		case <-time.After(time.Minute):
			stop()
			t.Fatalf("it does not come to an end\n%s", c.script(t, id))
		}
	}
}

// physical returns the IDs of everything in the account of the types in random templates.
func (w *world) physical(t *testing.T) (out []string) {
	t.Helper()
	ctx, machines := t.Context(), awsec2.NewFromConfig(w.cfg)
	out = append(out, testkit.Must(awssqs.NewFromConfig(w.cfg).ListQueues(ctx, &awssqs.ListQueuesInput{}))(t).QueueUrls...)
	for _, p := range testkit.Must(awsssm.NewFromConfig(w.cfg).DescribeParameters(ctx, &awsssm.DescribeParametersInput{}))(t).Parameters {
		out = append(out, *p.Name)
	}
	for _, v := range testkit.Must(machines.DescribeVpcs(ctx, nil))(t).Vpcs {
		out = append(out, *v.VpcId)
	}
	for _, v := range testkit.Must(machines.DescribeSubnets(ctx, nil))(t).Subnets {
		out = append(out, *v.SubnetId)
	}
	for _, g := range testkit.Must(machines.DescribeSecurityGroups(ctx, nil))(t).SecurityGroups {
		if *g.GroupName != "default" { // it comes with the VPC
			out = append(out, *g.GroupId)
		}
	}
	for _, v := range testkit.Must(awsiam.NewFromConfig(w.cfg).ListRoles(ctx, nil))(t).Roles {
		out = append(out, *v.RoleName)
	}
	for _, v := range testkit.Must(awsiam.NewFromConfig(w.cfg).ListInstanceProfiles(ctx, nil))(t).InstanceProfiles {
		out = append(out, *v.InstanceProfileName)
	}
	slices.Sort(out)
	return out
}

// seeds returns the first seed of a test and how many there are: DRYDOCK_SEED and DRYDOCK_WORLDS, or 0 and usual.
func seeds(usual int) (first, n int) {
	n = usual
	if v, err := strconv.Atoi(os.Getenv("DRYDOCK_WORLDS")); err == nil {
		n = v
	}
	first, _ = strconv.Atoi(os.Getenv("DRYDOCK_SEED"))
	return first, n
}

// TestRandomStacks makes random stacks and updates, refuses random calls by errors and policies, and kills the daemon at
// random calls. A stack must always reach a final state and list the resources that exist, and its deletion must leave only
// what is retained. DRYDOCK_WORLDS is the number of stacks, DRYDOCK_SEED that of the first one.
func TestRandomStacks(t *testing.T) {
	first, n := seeds(12)
	for seed := first; seed < first+n; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			randomStack(t, uint64(seed))
		})
	}
}

func randomStack(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0))
	w, ctx := newWorld(t), t.Context()
	api := &refuser{API: w.front}
	c := &crashing{world: w, api: api}
	var mu sync.Mutex // guards r
	roll := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return r.IntN(n)
	}
	codes := []string{"AccessDeniedException", "LimitExceeded", "InternalFailure", "InvalidParameterValue"}
	odds := func(n int) {
		api.refuse.Store(func(in any) error {
			name := fmt.Sprintf("%T", in)
			if n == 0 || strings.Contains(name, ".Get") || strings.Contains(name, ".List") || strings.Contains(name, ".Describe") || roll(n) > 0 {
				return nil
			}
			return awserr.New(codes[roll(len(codes))], "not now")
		})
	}
	template := func() *string {
		mu.Lock()
		defer mu.Unlock()
		return aws.String(randomTemplate(r))
	}
	users := awsiam.NewFromConfig(w.cfg)
	testkit.Must(users.CreateRole(ctx, &awsiam.CreateRoleInput{
		RoleName:                 aws.String("stacks"),
		AssumeRolePolicyDocument: aws.String(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"cloudformation.amazonaws.com"},"Action":"sts:AssumeRole"}]}`),
	}))(t)
	may := func(denied string) {
		testkit.Must(users.PutRolePolicy(ctx, &awsiam.PutRolePolicyInput{
			RoleName: aws.String("stacks"), PolicyName: aws.String("own"),
			PolicyDocument: aws.String(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"},{"Effect":"Deny","Action":"` + denied + `","Resource":"*"}]}`),
		}))(t)
	}
	denials := []string{"ssm:Put*", "ssm:Delete*", "sqs:SetQueueAttributes", "ec2:CreateSubnet", "ec2:DeleteVpc", "iam:CreateRole", "iam:RemoveRoleFromInstanceProfile"}
	disturb := func() {
		odds(12)
		if may("kms:*"); roll(4) == 0 {
			may(denials[roll(len(denials))])
		}
		nth := 0
		if roll(2) == 0 {
			nth = 1 + roll(40)
		}
		c.again(nth, roll(2) == 0)
	}
	calm := func() {
		odds(0)
		may("kms:*")
	}
	c.start(0, false)
	defer func() {
		for _, end := range c.done {
			end()
		}
	}()
	before := w.physical(t)
	exists := func() []string {
		return slices.DeleteFunc(w.physical(t), func(id string) bool { return slices.Contains(before, id) })
	}

	disturb()
	var role *string
	if roll(2) == 0 {
		role = aws.String("arn:aws:iam::" + w.account + ":role/stacks")
	}
	id := w.create(t, fmt.Sprintf("random%d", seed), *template(), func(in *awscloudformation.CreateStackInput) {
		in.RoleARN = role
		if roll(4) == 0 {
			in.DisableRollback = aws.Bool(true)
		}
	})
	for range 6 {
		c.ended(t, id)
		st := w.settled(t, id)
		disturb()
		switch st.StackStatus {
		case "CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE", "CREATE_FAILED", "UPDATE_FAILED":
			if failed := strings.HasSuffix(string(st.StackStatus), "_FAILED"); failed && roll(2) == 0 {
				testkit.Must(w.RollbackStack(ctx, &awscloudformation.RollbackStackInput{StackName: &id}))(t)
				break
			}
			keep := roll(2) == 0
			_, err := w.UpdateStack(ctx, &awscloudformation.UpdateStackInput{
				StackName: &id, TemplateBody: template(), DisableRollback: &keep, Capabilities: st.Capabilities, RoleARN: st.RoleARN,
			})
			var refused smithy.APIError
			if err != nil && !(errors.As(err, &refused) && refused.ErrorMessage() == "No updates are to be performed.") {
				t.Fatal(err)
			}
			if roll(6) == 0 {
				_, _ = w.CancelUpdateStack(ctx, &awscloudformation.CancelUpdateStackInput{StackName: &id}) // it may have ended
			}
		case "UPDATE_ROLLBACK_FAILED":
			calm()
			testkit.Must(w.ContinueUpdateRollback(ctx, &awscloudformation.ContinueUpdateRollbackInput{StackName: &id}))(t)
			c.ended(t, id)
			w.want(t, id, "UPDATE_ROLLBACK_COMPLETE")
		case "ROLLBACK_COMPLETE", "ROLLBACK_FAILED":
		default:
			t.Fatalf("%s\n%s", st.StackStatus, w.script(t, id))
		}
	}
	c.ended(t, id)
	st := w.settled(t, id)
	script := w.script(t, id)
	retained := w.skipped(t, id)
	if !strings.Contains(script, "DELETE_FAILED") && !strings.HasSuffix(string(st.StackStatus), "_FAILED") {
		var listed []string
		for _, res := range testkit.Must(w.DescribeStackResources(ctx, &awscloudformation.DescribeStackResourcesInput{StackName: &id}))(t).StackResources {
			if res.PhysicalResourceId != nil && *res.PhysicalResourceId != "" && res.ResourceStatus != "DELETE_COMPLETE" && res.ResourceStatus != "DELETE_SKIPPED" {
				listed = append(listed, *res.PhysicalResourceId)
			}
		}
		slices.Sort(listed)
		have := slices.DeleteFunc(exists(), func(id string) bool { return slices.Contains(retained, id) && !slices.Contains(listed, id) })
		if !slices.Equal(listed, have) {
			t.Errorf("%s lists\n%v\nthere are\n%v\n%s", st.StackStatus, listed, have, script)
		}
	}
	calm()
	if roll(2) == 0 {
		c.again(1+roll(20), roll(2) == 0)
	}
	w.delete(t, id)
	c.ended(t, id)
	w.want(t, id, "DELETE_COMPLETE")
	retained = w.skipped(t, id)
	if left := slices.DeleteFunc(exists(), func(id string) bool { return slices.Contains(retained, id) }); len(left) > 0 {
		t.Errorf("left are %v\n%s", left, w.script(t, id))
	}
}

// skipped returns the physical IDs that a stack has retained.
func (w *world) skipped(t *testing.T, id string) (out []string) {
	t.Helper()
	pages := awscloudformation.NewDescribeStackEventsPaginator(w.Client, &awscloudformation.DescribeStackEventsInput{StackName: &id})
	for pages.HasMorePages() {
		for _, e := range testkit.Must(pages.NextPage(t.Context()))(t).StackEvents {
			if e.ResourceStatus == "DELETE_SKIPPED" {
				out = append(out, aws.ToString(e.PhysicalResourceId))
			}
		}
	}
	return out
}
