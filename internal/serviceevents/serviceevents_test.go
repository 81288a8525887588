package serviceevents_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsevents "github.com/aws/aws-sdk-go-v2/service/eventbridge"
	eventstypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/bytestore"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/service/events"
	"github.com/drydock-dev/drydock/internal/serviceevents"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// received is a queue that collects the events sent to it.
type received struct {
	mu     sync.Mutex
	events []serviceevents.Event
}

func (r *received) SendMessage(_ context.Context, in *awssqs.SendMessageInput) (*awssqs.SendMessageOutput, error) {
	var e serviceevents.Event
	if err := json.Unmarshal([]byte(*in.MessageBody), &e); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
	return &awssqs.SendMessageOutput{}, nil
}

// instances is a fake EC2 in which the Spot Instance is called i-spot.
type instances struct {
	changes chan serviceevents.StateChange
}

func (i instances) WatchStates(ctx context.Context, fn func(serviceevents.StateChange)) error {
	for {
		select {
		case c := <-i.changes:
			fn(c)
		case <-ctx.Done():
			return nil
		}
	}
}

func (instances) InstanceByID(_, _, id string) (ec2types.Instance, bool) {
	i := ec2types.Instance{InstanceId: &id, Placement: &ec2types.Placement{AvailabilityZone: aws.String("us-east-1a")}}
	if id == "i-spot" {
		i.InstanceLifecycle = ec2types.InstanceLifecycleTypeSpot
	}
	return i, id != "i-none"
}

func TestEvents(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Date(2025, 11, 1, 10, 0, 0, 0, time.UTC))
	bytes, err := bytestore.Open(bytestore.Config{Dir: t.TempDir(), Ephemeral: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bytes.Close() })
	queue := &received{}
	var bus *events.Service
	front := testkit.NewServer(t, testkit.Config{Services: func(st *store.Store) []awsapi.Service {
		bus = events.New(events.Config{Store: st, Bytes: bytes, SQS: queue, Clock: clock, Log: testkit.Log(t)})
		return []awsapi.Service{bus.AWS()}
	}})
	account := front.Account(t)
	c := awsevents.NewFromConfig(front.AWSConfig(account))
	// These are the rules of Karpenter's template, which share one queue.
	// https://karpenter.sh/docs/reference/cloudformation/#interruption-handling
	for name, pattern := range map[string]string{
		"ScheduledChange": `{"source":["aws.health"],"detail-type":["AWS Health Event"]}`, "SpotInterruption": `{"source":["aws.ec2"],"detail-type":["EC2 Spot Instance Interruption Warning"]}`,
		"Rebalance": `{"source":["aws.ec2"],"detail-type":["EC2 Instance Rebalance Recommendation"]}`, "StateChange": `{"source":["aws.ec2"],"detail-type":["EC2 Instance State-change Notification"]}`,
	} {
		testkit.Must(c.PutRule(t.Context(), &awsevents.PutRuleInput{Name: &name, EventPattern: &pattern}))(t)
		target := eventstypes.Target{Id: aws.String("KarpenterInterruptionQueueTarget"), Arn: aws.String("arn:aws:sqs:us-east-1:" + account + ":karpenter")}
		testkit.Must(c.PutTargets(t.Context(), &awsevents.PutTargetsInput{Rule: &name, Targets: []eventstypes.Target{target}}))(t)
	}
	all := instances{make(chan serviceevents.StateChange)}
	s := serviceevents.New(serviceevents.Config{Bus: bus, EC2: all, Clock: clock, Log: testkit.Log(t)})
	testkit.Run(t, bus.Run, s.Run)
	// want waits for events, each given as its detail-type, resources and detail.
	want := func(wanted ...string) {
		t.Helper()
		testkit.Eventually(t, 10*time.Second, func() error {
			queue.mu.Lock()
			defer queue.mu.Unlock()
			var got []string
			for _, e := range queue.events {
				if e.Account != account || e.Region != testkit.Region || e.ID == "" || e.Time == "" {
					return fmt.Errorf("%+v", e)
				}
				got = append(got, strings.ReplaceAll(fmt.Sprintf("%s %s %s", e.DetailType, e.Resources, e.Detail), account, "ACCOUNT"))
			}
			left := append([]string(nil), got...)
			for _, w := range wanted {
				found := false
				for i, g := range left {
					if found = strings.HasPrefix(g, w); found {
						left = append(left[:i], left[i+1:]...)
						break
					}
				}
				if !found {
					return fmt.Errorf("there is no %s in\n%s", w, strings.Join(got, "\n"))
				}
			}
			if len(left) > 0 {
				return fmt.Errorf("besides: %s", strings.Join(left, "\n"))
			}
			queue.events = nil
			return nil
		})
	}
	change := func(id, state string, ago time.Duration) {
		all.changes <- serviceevents.StateChange{Account: account, Region: testkit.Region, ID: id, State: state, Since: clock.Now().Add(-ago)}
	}
	state := func(id, state string) string {
		return "EC2 Instance State-change Notification [arn:aws:ec2:us-east-1:ACCOUNT:instance/" + id + `] {"instance-id":"` + id + `","state":"` + state + `"}`
	}
	change("i-old", "running", time.Hour) // there was no event about it, and it is too old for one now
	change("i-1", "running", 0)
	change("i-1", "running", 0) // another change to the record
	want(state("i-1", "pending"), state("i-1", "running"))
	change("i-1", "shutting-down", 0)
	change("i-1", "terminated", 0)
	change("i-old", "stopped", 0)
	want(state("i-1", "shutting-down"), state("i-1", "terminated"), state("i-old", "stopping"), state("i-old", "stopped"))
	change("i-1", "", 0)
	change("i-1", "", 0) // by now the previous one has been handled
	if bus.Emitted(account, testkit.Region, "instance/i-1") != "" {
		t.Error("a forgotten instance is still known")
	}

	// A Spot Instance gets a recommendation at once and the warning two minutes before.
	f := &fault.Fault{ID: "F-1", Kind: fault.Terminate, Account: account, Region: testkit.Region, Instance: "i-spot", Until: clock.Now().Add(5 * time.Minute)}
	if next := s.Notice(f, 5*time.Minute); next != 3*time.Minute {
		t.Errorf("next after %v", next)
	}
	want("EC2 Instance Rebalance Recommendation [arn:aws:ec2:us-east-1:ACCOUNT:instance/i-spot] {\"instance-id\":\"i-spot\"}")
	for range 2 {
		if next := s.Notice(f, 2*time.Minute); next != 2*time.Minute {
			t.Errorf("next after %v", next)
		}
	}
	want(`EC2 Spot Instance Interruption Warning [arn:aws:ec2:us-east-1a:instance/i-spot] {"instance-action":"terminate","instance-id":"i-spot"}`)
	if err := s.Done(f); err != nil || bus.Emitted(account, testkit.Region, "fault/F-1") != "" {
		t.Errorf("after the end: %v", err)
	}
	stop := &fault.Fault{ID: "F-2", Kind: fault.Stop, Account: account, Region: testkit.Region, Instance: "i-2", Until: clock.Now().Add(time.Minute)}
	s.Notice(stop, time.Minute)
	s.Notice(stop, time.Second)
	want("AWS Health Event [i-2] {\"affectedAccount\"")
	if next := s.Notice(&fault.Fault{Instance: "i-none"}, time.Minute); next != time.Minute {
		t.Errorf("next after %v", next)
	}
}

// TestFollowOverlaps: calls about several records overlap, and all are over before a record is reported again.
func TestFollowOverlaps(t *testing.T) {
	st := testkit.Store(t)
	things := store.NewCollection[int]("test", "thing")
	put := func(value int) {
		t.Helper()
		if err := st.Update(t.Context(), func(tx *store.Tx) error {
			for _, id := range []string{"a", "b"} {
				if err := things.Put(tx, store.Key{Account: "111122223333", ID: id}, value); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	put(1)
	var mu sync.Mutex
	active, last := map[string]bool{}, map[string]int{}
	both, all := make(chan struct{}), make(chan struct{})
	testkit.Run(t, func(ctx context.Context) error {
		return serviceevents.Follow(ctx, st, things, testkit.Log(t), func(key store.Key, value *int) error {
			mu.Lock()
			if active[key.ID] {
				t.Errorf("two calls about %s at once", key.ID)
			}
			if active[key.ID] = true; len(active) == 2 && *value == 1 {
				close(both)
			}
			mu.Unlock()
			select {
			case <-both:
			case <-ctx.Done():
			}
			mu.Lock()
			defer mu.Unlock()
			delete(active, key.ID)
			if last[key.ID] = *value; last["a"] == 2 && last["b"] == 2 {
				close(all)
			}
			return nil
		})
	})
	wait := func(step <-chan struct{}) {
		t.Helper()
		select {
		case <-step:
		case <-time.After(10 * time.Second):
			t.Fatal("the calls did not come")
		}
	}
	wait(both)
	put(2)
	wait(all)
}
