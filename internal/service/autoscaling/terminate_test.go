package autoscaling

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/google/go-cmp/cmp"
)

// parse reads "ID zone age-in-minutes [tVERSION|cCONFIG] [spot] [type] [protected]".
func parse(t *testing.T, now time.Time, line string) memberRecord {
	t.Helper()
	f := strings.Fields(line)
	var minutes int
	if _, err := fmt.Sscan(f[2], &minutes); err != nil {
		t.Fatal(err)
	}
	m := memberRecord{ID: f[0], Zone: f[1], Launched: now.Add(-time.Duration(minutes) * time.Minute), State: autoscalingtypes.LifecycleStateInService}
	for _, w := range f[3:] {
		switch {
		case w == "spot":
			m.Spot = true
		case w == "protected":
			m.Protected = true
		case strings.Contains(w, "."):
			m.Type = w
		case w[0] == 't':
			m.Template = &autoscalingtypes.LaunchTemplateSpecification{LaunchTemplateId: aws.String("lt"), Version: aws.String(w[1:])}
		case w[0] == 'x':
			m.Template = &autoscalingtypes.LaunchTemplateSpecification{LaunchTemplateId: aws.String("other"), Version: aws.String(w[1:])}
		default:
			m.Config = w
		}
	}
	return m
}

func TestTerminationPolicies(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	current := launchSource{template: &autoscalingtypes.LaunchTemplateSpecification{LaunchTemplateId: aws.String("lt"), Version: aws.String("3")}}
	for _, tt := range []struct {
		name     string
		policies string
		members  string
		n        int
		mixed    bool
		spotWant int
		want     string
	}{
		// Zones take precedence over any policy.
		{name: "the fullest zone", policies: "NewestInstance", members: "a z1 9; b z1 8; c z2 1", n: 1, want: "b"},
		{name: "zone by zone", policies: "OldestInstance", members: "a z1 9; b z1 8; c z1 7; d z2 6; e z2 5", n: 3, want: "a b d"},
		{name: "a protected one stays", policies: "OldestInstance", members: "a z1 9 protected; b z1 8; c z2 1", n: 1, want: "b"},
		{name: "a zone of protected ones", policies: "OldestInstance", members: "a z1 9 protected; b z1 8 protected; c z2 1", n: 1, want: "c"},
		{name: "only protected ones", policies: "Default", members: "a z1 9 protected", n: 1, want: ""},
		// Single policies.
		{name: "the oldest", policies: "OldestInstance", members: "a z1 2; b z1 9; c z1 5", n: 2, want: "b c"},
		{name: "the newest", policies: "NewestInstance", members: "a z1 2; b z1 9; c z1 5", n: 2, want: "a c"},
		{name: "the oldest template version", policies: "OldestLaunchTemplate", members: "a z1 1 t3; b z1 2 t2; c z1 3 t10", n: 2, want: "b a"},
		{name: "another template first", policies: "OldestLaunchTemplate", members: "a z1 1 t1; b z1 2 x9", n: 1, want: "b"},
		{name: "a configuration before templates", policies: "OldestLaunchConfiguration", members: "a z1 9 t1; b z1 1 lc", n: 1, want: "b"},
		{name: "the hour that ends next", policies: "ClosestToNextInstanceHour", members: "a z1 10; b z1 119; c z1 70", n: 1, want: "b"},
		// Policies in order.
		{name: "one after the other", policies: "OldestLaunchTemplate NewestInstance", members: "a z1 9 t1; b z1 2 t1; c z1 1 t2", n: 1, want: "b"},
		{name: "default", policies: "Default", members: "a z1 10 t2; b z1 50 t2; c z1 59 t3", n: 1, want: "b"},
		{name: "the least ID at last", policies: "OldestLaunchTemplate", members: "c z1 1 t1; a z1 1 t1; b z1 1 t1", n: 1, want: "a"},
		// Purchase options.
		{name: "too many spot", policies: "AllocationStrategy OldestInstance", members: "a z1 9; b z1 8 spot; c z1 7 spot", n: 1, mixed: true, spotWant: 1, want: "b"},
		{name: "too much on demand", policies: "AllocationStrategy OldestInstance", members: "a z1 9; b z1 99 spot", n: 1, mixed: true, spotWant: 1, want: "a"},
		{name: "the least preferred type", policies: "Default", members: "a z1 9 m5.large; b z1 8 m4.large", n: 1, mixed: true, want: "b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var all []memberRecord
			for _, line := range strings.Split(tt.members, ";") {
				all = append(all, parse(t, now, line))
			}
			rules := scaleIn{policies: strings.Fields(tt.policies), source: current, now: now, spotWant: tt.spotWant, configAge: map[string]time.Time{}}
			if tt.mixed {
				rules.source.mixed, rules.source.offers = &autoscalingtypes.InstancesDistribution{}, []offer{{kind: "m5.large"}, {kind: "m4.large"}}
			}
			if diff := cmp.Diff(tt.want, strings.Join(rules.victims(all, tt.n), " ")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOnDemandShare(t *testing.T) {
	for _, tt := range []struct{ base, percent, n, want int32 }{
		{0, 100, 5, 5}, {0, 0, 5, 0}, {2, 0, 5, 2}, {2, 50, 5, 4}, {2, 50, 1, 1}, {0, 10, 5, 1},
	} {
		d := &autoscalingtypes.InstancesDistribution{OnDemandBaseCapacity: &tt.base, OnDemandPercentageAboveBaseCapacity: &tt.percent}
		if got := onDemand(d, int(tt.n)); got != int(tt.want) {
			t.Errorf("base %d, %d%% of %d: %d, want %d", tt.base, tt.percent, tt.n, got, tt.want)
		}
	}
}
