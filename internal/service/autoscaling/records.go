package autoscaling

import (
	"encoding/json"
	"slices"
	"time"

	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/drydock-dev/drydock/internal/store"
)

// The service's records. Descriptions are kept as the SDK's own types, beside what
// AWS keeps to itself.
var (
	groups    = store.NewCollection[groupRecord]("autoscaling", "group")
	members   = store.NewCollection[memberRecord]("autoscaling", "member")    // GROUP/INSTANCE
	owners    = store.NewCollection[ownerRecord]("autoscaling", "owner")      // by instance ID
	plans     = store.NewCollection[planRecord]("autoscaling", "launch-plan") // GROUP/TOKEN
	actions   = store.NewCollection[activityRecord]("autoscaling", "activity")
	policies  = store.NewCollection[autoscalingtypes.ScalingPolicy]("autoscaling", "policy")
	refreshes = store.NewCollection[refreshRecord]("autoscaling", "instance-refresh")
	configs   = store.NewCollection[autoscalingtypes.LaunchConfiguration]("autoscaling", "launch-configuration")
)

// writes bounds a transaction, which may hold no more than 100 operations:
// launched instances take three each, beside their plan and group.
const batch = 30

type groupRecord struct {
	// Group is DescribeAutoScalingGroups' answer, but for its instances.
	Group   autoscalingtypes.AutoScalingGroup
	Subnets []subnet
	Hooks   []autoscalingtypes.LifecycleHook `json:",omitempty"`
	// Notifications are what PutNotificationConfiguration recorded.
	Notifications []autoscalingtypes.NotificationConfiguration `json:",omitempty"`
	// Causes say why the desired capacity changed, until an activity has reported
	// it.
	Causes []string `json:",omitempty"`
	// Owed counts instances taken out by cause, whose successors are to be launched
	// for that cause.
	Owed     map[string]int `json:",omitempty"`
	Deleting bool           `json:",omitempty"`
	// Failures counts launches that failed in a row; RetryAt is when to try again.
	Failures int       `json:",omitempty"`
	RetryAt  time.Time `json:",omitzero"`
	// Registered are the instances that were registered with traffic sources, by their
	// identifiers.
	Registered map[string][]string `json:",omitempty"`
	// Cooldown is when the last scaling activity began.
	LastActivity time.Time `json:",omitzero"`
}

func (g *groupRecord) name() string { return *g.Group.AutoScalingGroupName }

func (g *groupRecord) desired() int {
	if g.Deleting {
		return 0
	}
	return int(*g.Group.DesiredCapacity)
}

// runs reports whether a process is not suspended. Deleting a group ends its
// instances in any case.
func (g *groupRecord) runs(process string) bool {
	return g.Deleting || !slices.ContainsFunc(g.Group.SuspendedProcesses, func(p autoscalingtypes.SuspendedProcess) bool {
		return *p.ProcessName == process
	})
}

// fresh forgets failures: something changed, so trying again may help.
func (g *groupRecord) fresh() { g.Failures, g.RetryAt = 0, time.Time{} }

type subnet struct{ ID, Zone, ZoneID string }

type memberRecord struct {
	ID           string
	Group        string
	Zone, ZoneID string
	Subnet       string `json:",omitempty"`
	Type, Image  string
	Spot         bool                                          `json:",omitempty"`
	Template     *autoscalingtypes.LaunchTemplateSpecification `json:",omitempty"` // version as a number
	Config       string                                        `json:",omitempty"` // launch configuration
	Launched     time.Time
	State        autoscalingtypes.LifecycleState
	// InService is when it came into service.
	InService time.Time `json:",omitzero"`
	Unhealthy bool      `json:",omitempty"`
	// ByUser says that SetInstanceHealth called it unhealthy.
	ByUser bool `json:",omitempty"`
	// Failing is since when it fails the health checks of load balancers, by traffic
	// source; ByBalancer says that it is unhealthy for that.
	Failing    map[string]time.Time `json:",omitempty"`
	ByBalancer bool                 `json:",omitempty"`
	// Unadded are the traffic sources it is not registered with because it came into
	// service while AddToLoadBalancer was suspended.
	Unadded []string `json:",omitempty"`

	Protected bool `json:",omitempty"`
	// Surplus is launched beyond the desired capacity; other instances leave once it
	// is in service, and not before.
	Surplus  bool       `json:",omitempty"`
	Activity string     `json:",omitempty"` // the one under way
	Waits    []hookWait `json:",omitempty"`
}

// A hookWait is a lifecycle action under way.
type hookWait struct {
	Hook, Token string
	Default     string // CONTINUE or ABANDON
	Heartbeat   time.Duration
	Deadline    time.Time
	Limit       time.Time // heartbeats extend it no further
}

func (m *memberRecord) pending() bool {
	switch m.State {
	case autoscalingtypes.LifecycleStatePending, autoscalingtypes.LifecycleStatePendingWait, autoscalingtypes.LifecycleStatePendingProceed:
		return true
	}
	return false
}

func (m *memberRecord) terminating() bool {
	switch m.State {
	case autoscalingtypes.LifecycleStateTerminating, autoscalingtypes.LifecycleStateTerminatingWait, autoscalingtypes.LifecycleStateTerminatingProceed:
		return true
	}
	return false
}

// capacity reports whether the instance counts as capacity of its group.
func (m *memberRecord) capacity() bool {
	return m.pending() || m.State == autoscalingtypes.LifecycleStateInService
}

func (m *memberRecord) health() string {
	if m.Unhealthy {
		return "Unhealthy"
	}
	return "Healthy"
}

// An ownerRecord finds the group of an instance.
type ownerRecord struct{ Group string }

// A planRecord is a launch that was decided on. It holds everything that its
// RunInstances call is made of, so that a repeated call is the same call.
type planRecord struct {
	Token string
	Count int
	// Pools are where to try, in this order; Attempt is the one at hand.
	Pools    []pool
	Attempt  int             `json:",omitempty"`
	Request  json.RawMessage // of RunInstances, without place and type
	Spot     bool            `json:",omitempty"`
	Template *autoscalingtypes.LaunchTemplateSpecification
	Config   string `json:",omitempty"`
	Cause    string
	Started  time.Time
	Surplus  bool `json:",omitempty"`
	Mixed    bool `json:",omitempty"` // by a mixed instances policy
}

type pool struct {
	Subnet subnet
	Type   string `json:",omitempty"` // empty: the template's
}

type activityRecord struct {
	Activity autoscalingtypes.Activity
}

type refreshRecord struct {
	Refresh autoscalingtypes.InstanceRefresh
	Targets []string // instances still to be replaced, at the start
	Total   int
}

func (r *refreshRecord) active() bool {
	switch r.Refresh.Status {
	case autoscalingtypes.InstanceRefreshStatusPending, autoscalingtypes.InstanceRefreshStatusInProgress, autoscalingtypes.InstanceRefreshStatusCancelling:
		return true
	}
	return false
}
