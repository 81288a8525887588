package ssm_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/internal/serviceevents"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A bus records events.
type bus struct {
	mu     sync.Mutex
	states map[string]string
	events []string
}

func (b *bus) Emit(string, string, *serviceevents.Event) error { return errors.New("not expected") }

func (b *bus) EmitOnce(_, _, thing, state string, e *serviceevents.Event) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.states[thing] != state {
		b.states[thing] = state
		b.events = append(b.events, e.DetailType+" "+thing)
	}
	return nil
}

func (b *bus) Emitted(_, _, thing string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.states[thing]
}

func (b *bus) Forget(string, string, string) error { return nil }

func TestParameterPolicies(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	w := newWorld(t, clock)
	c, ctx := w.client, t.Context()
	const notice = `{"Type":"%s","Version":"1.0","Attributes":{"%s":"%d","Unit":"Days"}}`
	expiration := `{"Type":"Expiration","Version":"1.0","Attributes":{"Timestamp":"` + clock.Now().UTC().Add(10*24*time.Hour).Format("2006-01-02T15:04:05.000Z") + `"}}`
	put := func(name, tier, policies string) error {
		_, err := c.PutParameter(ctx, &awsssm.PutParameterInput{Name: &name, Value: aws.String("v"), Type: "String", Overwrite: aws.Bool(true), Tier: "Advanced", Policies: &policies})
		if tier != "" {
			_, err = c.PutParameter(ctx, &awsssm.PutParameterInput{Name: aws.String(name + "-standard"), Value: aws.String("v"), Type: "String", Policies: &policies})
		}
		return err
	}
	before, after := fmt.Sprintf(notice, "ExpirationNotification", "Before", 3), fmt.Sprintf(notice, "NoChangeNotification", "After", 5)
	for policies, code := range map[string]string{
		`[{"Type":"Other","Version":"1.0"}]`: "InvalidPolicyTypeException",
		`{`:                                  "InvalidPolicyAttributeException",
		`[{"Type":"Expiration","Version":"1.0","Attributes":{"Timestamp":"tomorrow"}}]`: "InvalidPolicyAttributeException",
		"[" + expiration + "," + expiration + "]":                                       "IncompatiblePolicyException",
		"[" + before + "]": "IncompatiblePolicyException",
		"[" + strings.Repeat(after+",", 10) + after + "]": "PoliciesLimitExceededException",
	} {
		testkit.WantError(t, put("/p", "", policies), code, "")
	}
	testkit.WantErrorWith(t, put("/p", "Standard", "["+after+"]"), "ValidationException", "advanced tier")
	if err := put("/p", "", "["+expiration+","+before+","+after+"]"); err != nil {
		t.Fatal(err)
	}
	states := func() (out []string) {
		t.Helper()
		list, err := c.DescribeParameters(ctx, &awsssm.DescribeParametersInput{})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range list.Parameters {
			for _, policy := range p.Policies {
				out = append(out, *policy.PolicyType+" "+*policy.PolicyStatus)
			}
		}
		return out
	}
	if got := strings.Join(states(), ", "); got != "Expiration Pending, ExpirationNotification Pending, NoChangeNotification Pending" {
		t.Errorf("the policies are %s", got)
	}
	events := &bus{states: map[string]string{}}
	testkit.Run(t, func(ctx context.Context) error { return w.service.Module(w.fleet).Events(ctx, events) })
	step := func(d time.Duration, want int) {
		t.Helper()
		clock.Step(d)
		testkit.Eventually(t, 10*time.Second, func() error {
			clock.Step(time.Minute)
			events.mu.Lock()
			defer events.mu.Unlock()
			if len(events.events) != want {
				return fmt.Errorf("the events are %q", events.events)
			}
			return nil
		})
	}
	step(5*24*time.Hour, 1)
	step(3*24*time.Hour, 2)
	if got := strings.Join(states(), ", "); got != "Expiration Pending, ExpirationNotification Finished, NoChangeNotification Finished" {
		t.Errorf("the policies are %s", got)
	}
	step(3*24*time.Hour, 3)
	_, err := c.GetParameter(ctx, &awsssm.GetParameterInput{Name: aws.String("/p")})
	testkit.WantError(t, err, "ParameterNotFound", "")
	if got := states(); got != nil {
		t.Errorf("%s", got)
	}
	if err := put("/p", "", "[{}]"); err != nil || states() != nil {
		t.Errorf("a new parameter of the name: %v, %v", err, states())
	}
}
