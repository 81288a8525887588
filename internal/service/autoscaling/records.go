package autoscaling

import (
	"encoding/json"
	"slices"
	"time"

	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/drydock-dev/drydock/internal/store"
)

// The service's records. Descriptions are stored as SDK types, next to internal data that AWS does
// not show.
var (
	groups    = store.NewCollection[groupRecord]("autoscaling", "group")
	members   = store.NewCollection[memberRecord]("autoscaling", "member", store.Same, store.Same)    // GROUP/INSTANCE
	owners    = store.NewCollection[ownerRecord]("autoscaling", "owner")                              // by instance ID
	plans     = store.NewCollection[planRecord]("autoscaling", "launch-plan", store.Same, store.Same) // GROUP/TOKEN
	actions   = store.NewCollection[activityRecord]("autoscaling", "activity")
	policies  = store.NewCollection[autoscalingtypes.ScalingPolicy]("autoscaling", "policy")
	refreshes = store.NewCollection[refreshRecord]("autoscaling", "instance-refresh", store.Same)
	scheduled = store.NewCollection[scheduledRecord]("autoscaling", "scheduled-action") // GROUP/NAME
	configs   = store.NewCollection[autoscalingtypes.LaunchConfiguration]("autoscaling", "launch-configuration")
)

// batch keeps transactions below 100 operations: each launched instance takes three, in addition to
// the plan and the group.
const batch = 30

type groupRecord struct {
	// Group is the group's description without its instances.
	Group   autoscalingtypes.AutoScalingGroup
	Subnets []subnet
	Hooks   []autoscalingtypes.LifecycleHook `json:",omitempty"`
	// Notifications are the settings of PutNotificationConfiguration.
	Notifications []autoscalingtypes.NotificationConfiguration `json:",omitempty"`
	// Causes are the reasons why the desired capacity changed. An activity reports and clears them.
	Causes []string `json:",omitempty"`
	// Owed counts, by cause, replacements to be launched for instances that were taken out.
	Owed     map[string]int `json:",omitempty"`
	Deleting bool           `json:",omitempty"`
	// Failures counts consecutive failed launches. RetryAt is when to try again.
	Failures int       `json:",omitempty"`
	RetryAt  time.Time `json:",omitzero"`
	// Registered are the instances that this group has registered with each traffic source, by
	// identifier.
	Registered map[string][]string `json:",omitempty"`
	// LastActivity is when the last scaling activity began.
	LastActivity time.Time `json:",omitzero"`
}

func (g *groupRecord) name() string { return *g.Group.AutoScalingGroupName }

func (g *groupRecord) desired() int {
	if g.Deleting {
		return 0
	}
	return int(*g.Group.DesiredCapacity)
}

// runs reports whether a process is not suspended. While a group is being deleted, all processes
// run.
func (g *groupRecord) runs(process string) bool {
	return g.Deleting || !slices.ContainsFunc(g.Group.SuspendedProcesses, func(p autoscalingtypes.SuspendedProcess) bool {
		return *p.ProcessName == process
	})
}

// fresh resets the failures, because something changed and trying again may help.
func (g *groupRecord) fresh() { g.Failures, g.RetryAt = 0, time.Time{} }

type subnet struct{ ID, Zone, ZoneID string }

type memberRecord struct {
	ID           string
	Group        string
	Zone, ZoneID string
	Subnet       string `json:",omitempty"`
	Type, Image  string
	// Weight is how many units of capacity the instance counted as when it was launched. 0 means 1.
	Weight   int                                           `json:",omitempty"`
	Spot     bool                                          `json:",omitempty"`
	Template *autoscalingtypes.LaunchTemplateSpecification `json:",omitempty"` // with a version number
	Config   string                                        `json:",omitempty"` // name of the launch configuration
	Launched time.Time
	State    autoscalingtypes.LifecycleState
	// InService is when the instance came into service.
	InService time.Time `json:",omitzero"`
	Unhealthy bool      `json:",omitempty"`
	// ByUser means that SetInstanceHealth made the instance unhealthy.
	ByUser bool `json:",omitempty"`
	// Failing is since when the instance has failed load balancer health checks, by traffic source.
	// ByBalancer means that it is unhealthy because of that.
	Failing    map[string]time.Time `json:",omitempty"`
	ByBalancer bool                 `json:",omitempty"`
	// Unadded are the traffic sources with which the instance is not registered because it came
	// into service while AddToLoadBalancer was suspended.
	Unadded []string `json:",omitempty"`

	Protected bool `json:",omitempty"`
	// Surplus means that the instance was launched beyond the desired capacity. Others are
	// terminated once it is in service.
	Surplus bool `json:",omitempty"`
	// Starting means that the instance comes from the warm pool and is to be started, and Reuse that it returns there.
	Starting bool       `json:",omitempty"`
	Reuse    bool       `json:",omitempty"`
	Activity string     `json:",omitempty"` // activity in progress
	Waits    []hookWait `json:",omitempty"`
}

// A hookWait is a lifecycle action in progress.
type hookWait struct {
	Hook, Token string
	Default     string // CONTINUE or ABANDON
	Heartbeat   time.Duration
	Deadline    time.Time
	Limit       time.Time // heartbeats do not extend the deadline beyond it
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
	case autoscalingtypes.LifecycleStateTerminating, autoscalingtypes.LifecycleStateTerminatingWait, autoscalingtypes.LifecycleStateTerminatingProceed,
		autoscalingtypes.LifecycleStateWarmedTerminating, autoscalingtypes.LifecycleStateWarmedTerminatingWait, autoscalingtypes.LifecycleStateWarmedTerminatingProceed:
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

// An ownerRecord maps an instance to its group.
type ownerRecord struct{ Group string }

// A planRecord is a planned launch. It contains everything in its RunInstances call, so that a
// repeated call is identical.
type planRecord struct {
	Token string
	Count int // units of capacity
	// Pools are the pools to try, in this order. Attempt is the index of the current one.
	Pools    []pool
	Attempt  int             `json:",omitempty"`
	Request  json.RawMessage // the RunInstances request, without subnet and type
	Spot     bool            `json:",omitempty"`
	Template *autoscalingtypes.LaunchTemplateSpecification
	Config   string `json:",omitempty"`
	Cause    string
	Started  time.Time
	Surplus  bool `json:",omitempty"`
	Mixed    bool `json:",omitempty"` // uses a mixed instances policy
	Warm     bool `json:",omitempty"` // launches into the warm pool
}

type pool struct {
	Subnet subnet
	Type   string `json:",omitempty"` // empty for the launch template's
	// Weight is how many units of capacity an instance from this pool counts as. 0 means 1.
	Weight int `json:",omitempty"`
	// Template and Image are those of the override, if it has its own.
	Template *autoscalingtypes.LaunchTemplateSpecification `json:",omitempty"`
	Image    string                                        `json:",omitempty"`
}

func (p pool) units() int { return max(1, p.Weight) }

type activityRecord struct {
	Activity autoscalingtypes.Activity
}

type refreshRecord struct {
	Refresh autoscalingtypes.InstanceRefresh
	Targets []string // instances to replace, as of the start, or of the start of the rollback
	Total   int      // their number
	Before  []string `json:",omitempty"` // the group's instances at the start
	Left    int      `json:",omitempty"` // how many of them were left at the last change
	Reached int      `json:",omitempty"` // checkpoints that were reached
	// Since is when the refresh made progress, Until when its pause, at a checkpoint or for the bake time, ends.
	Since, Until time.Time `json:",omitzero"`
}

func (r *refreshRecord) active() bool {
	switch r.Refresh.Status {
	case autoscalingtypes.InstanceRefreshStatusPending, autoscalingtypes.InstanceRefreshStatusInProgress, autoscalingtypes.InstanceRefreshStatusCancelling,
		autoscalingtypes.InstanceRefreshStatusBaking, autoscalingtypes.InstanceRefreshStatusRollbackInProgress:
		return true
	}
	return false
}

func (r *refreshRecord) rollingBack() bool {
	return r.Refresh.Status == autoscalingtypes.InstanceRefreshStatusRollbackInProgress
}
