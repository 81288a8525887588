// Package serviceevents sends the events that AWS services send on their own to the default
// bus of EventBridge: changes of instances' states, and the notices before an interruption. A
// service sends the events that concern only itself (Events of its module), using Follow.
//
// Events are derived from the records of the store, so none is lost if the daemon stops
// between a change and its event. Services and EventBridge use the types of this package;
// internal/app connects them.
package serviceevents

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/store"
)

// An Event is an EventBridge event as JSON, on its way to the rules of a bus.
type Event struct {
	Version    string          `json:"version"`
	ID         string          `json:"id"`
	DetailType string          `json:"detail-type"`
	Source     string          `json:"source"`
	Account    string          `json:"account"`
	Time       string          `json:"time"`
	Region     string          `json:"region"`
	Resources  []string        `json:"resources"`
	Detail     json.RawMessage `json:"detail"`
}

// TimeForm is the layout of times in events.
const TimeForm = "2006-01-02T15:04:05Z"

// A StateChange reports that an instance's record changed.
type StateChange struct {
	Account, Region, ID string
	State               string // empty if the instance has been forgotten
	Since               time.Time
}

// Bus is the part of EventBridge that events are sent through.
type Bus interface {
	// Emit sends an event.
	Emit(account, region string, e *Event) error
	// EmitOnce sends an event about a new state of something, unless the last event about it
	// already had that state. A nil event only records the state.
	EmitOnce(account, region, thing, state string, e *Event) error
	// Emitted returns the state of the last event about something, or "" if there was none.
	Emitted(account, region, thing string) string
	// Forget removes the recorded state of something, and of what is below it: THING/….
	Forget(account, region, thing string) error
}

// atOnce is how many calls of fn Follow makes at once. Each waits until its event is on disk, and events that wait together are written
// together.
const atOnce = 64

// Follow calls fn for every record of a collection, and then for each record that changes,
// until ctx ends. rec is nil if the record has been deleted. Changes in quick succession may be
// reported as one. Calls about different records may overlap; those about the same record do not.
func Follow[T any](ctx context.Context, st *store.Store, c store.Collection[T], log *slog.Logger, fn func(key store.Key, rec *T) error) error {
	w := c.Watch(st, store.Scope{})
	defer w.Stop()
	for {
		keys, err := w.Next(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		var calls errgroup.Group
		calls.SetLimit(atOnce)
		for _, key := range keys {
			var rec *T
			switch v, err := c.Get(st, key); {
			case err == nil:
				rec = &v
			case !errors.Is(err, store.ErrNotFound):
				continue // unreadable
			}
			calls.Go(func() error {
				if err := fn(key, rec); err != nil {
					log.Warn("sending an event", "about", key.String(), "err", err)
				}
				return nil
			})
		}
		_ = calls.Wait() // no call returns an error
	}
}

// EC2 is the part of EC2 that a Sender uses.
type EC2 interface {
	WatchStates(ctx context.Context, fn func(StateChange)) error
	InstanceByID(account, region, id string) (ec2types.Instance, bool)
}

// Config has the dependencies of a Sender.
type Config struct {
	Bus   Bus
	EC2   EC2
	Clock clock.PassiveClock
	Log   *slog.Logger
}

// A Sender sends the events about instances.
type Sender struct{ cfg Config }

// New returns a Sender.
func New(cfg Config) *Sender { return &Sender{cfg} }

// News is the maximum age of an instance's state that is reported even though no event about
// the instance has been sent yet. Older states are from before Drydock sent events.
const News = 10 * time.Minute

// Run sends events about changes of instances' states until ctx ends.
func (s *Sender) Run(ctx context.Context) error {
	return s.cfg.EC2.WatchStates(ctx, func(c StateChange) {
		if err := s.state(c); err != nil {
			s.cfg.Log.Warn("sending the event of an instance's state", "instance", c.ID, "err", err)
		}
	})
}

// before maps a state to the state that precedes it.
var before = map[string]string{"running": "pending", "stopped": "stopping", "terminated": "shutting-down"}

// state sends the events for an instance up to its current state, including the state that it
// passed through unobserved.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/monitoring-instance-state-changes.html
func (s *Sender) state(c StateChange) error {
	thing := "instance/" + c.ID
	if c.State == "" {
		return s.cfg.Bus.Forget(c.Account, c.Region, thing)
	}
	last := s.cfg.Bus.Emitted(c.Account, c.Region, thing)
	if last == "" && s.cfg.Clock.Since(c.Since) > News {
		return s.cfg.Bus.EmitOnce(c.Account, c.Region, thing, c.State, nil)
	}
	path := []string{c.State}
	if p := before[c.State]; p != "" && last != p && last != c.State {
		path = slices.Insert(path, 0, p)
	}
	for _, state := range path {
		err := s.cfg.Bus.EmitOnce(c.Account, c.Region, thing, state, &Event{
			DetailType: "EC2 Instance State-change Notification", Source: "aws.ec2", Resources: []string{instanceARN(c.Account, c.Region, c.ID)},
			Detail: Detail(map[string]any{"instance-id": c.ID, "state": state}), Time: c.Since.UTC().Format(TimeForm),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func instanceARN(account, region, id string) string {
	return arn.New("ec2", region, account, "instance/"+id)
}

// Detail encodes the detail of an event, which consists of strings and of lists and maps of
// strings.
func Detail(v map[string]any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // these values always marshal
	}
	return raw
}

// Warning is how long before the interruption of a Spot Instance the warning is sent.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html
const Warning = 2 * time.Minute

// Notice sends the events that precede a fault's interruption of an instance. It returns the
// time until the next event may be due.
func (s *Sender) Notice(f *fault.Fault, left time.Duration) time.Duration {
	i, ok := s.cfg.EC2.InstanceByID(f.Account, f.Region, f.Instance)
	if !ok {
		return left
	}
	var err error
	thing, last := "fault/"+f.ID, s.cfg.Bus.Emitted(f.Account, f.Region, "fault/"+f.ID)
	switch spot := i.InstanceLifecycle == ec2types.InstanceLifecycleTypeSpot; {
	case !spot && last == "":
		err = s.cfg.Bus.EmitOnce(f.Account, f.Region, thing, "scheduled", scheduledChange(f))
	case spot && last == "":
		err = s.cfg.Bus.EmitOnce(f.Account, f.Region, thing, "recommended", &Event{
			DetailType: "EC2 Instance Rebalance Recommendation", Source: "aws.ec2", Resources: []string{instanceARN(f.Account, f.Region, f.Instance)},
			Detail: Detail(map[string]any{"instance-id": f.Instance}),
		})
	}
	if err == nil && i.InstanceLifecycle == ec2types.InstanceLifecycleTypeSpot && last != "warned" {
		if left > Warning {
			return left - Warning
		}
		zone := ""
		if i.Placement != nil && i.Placement.AvailabilityZone != nil {
			zone = *i.Placement.AvailabilityZone
		}
		err = s.cfg.Bus.EmitOnce(f.Account, f.Region, thing, "warned", &Event{
			// AWS's ARN contains the zone but no account.
			DetailType: "EC2 Spot Instance Interruption Warning", Source: "aws.ec2", Resources: []string{"arn:aws:ec2:" + zone + ":instance/" + f.Instance},
			Detail: Detail(map[string]any{"instance-id": f.Instance, "instance-action": string(f.Kind)}),
		})
	}
	if err != nil {
		s.cfg.Log.Warn("sending the event of an interruption", "instance", f.Instance, "err", err)
		return min(left, time.Second)
	}
	return left
}

// Done forgets a fault that is over.
func (s *Sender) Done(f *fault.Fault) error {
	return s.cfg.Bus.Forget(f.Account, f.Region, "fault/"+f.ID)
}

// scheduledChange returns AWS Health's event for an instance that will be stopped or
// terminated.
// https://docs.aws.amazon.com/health/latest/ug/aws-health-events-eventbridge-schema.html
func scheduledChange(f *fault.Fault) *Event {
	code := "AWS_EC2_PERSISTENT_INSTANCE_RETIREMENT_SCHEDULED"
	if f.Kind == fault.Stop {
		code = "AWS_EC2_INSTANCE_STOP_SCHEDULED"
	}
	return &Event{
		DetailType: "AWS Health Event", Source: "aws.health", Resources: []string{f.Instance},
		Detail: Detail(map[string]any{
			"eventArn": "arn:aws:health:" + f.Region + "::event/EC2/" + code + "/" + code + "_" + f.ID, "service": "EC2", "eventTypeCode": code,
			"eventTypeCategory": "scheduledChange", "eventScopeCode": "ACCOUNT_SPECIFIC", "eventRegion": f.Region, "statusCode": "upcoming",
			"startTime": f.Until.UTC().Format(time.RFC1123), "affectedAccount": f.Account, "affectedEntities": []map[string]string{{"entityValue": f.Instance, "status": "PENDING"}},
			"eventDescription": []map[string]string{{"language": "en_US", "latestDescription": "EC2 has detected degradation of the underlying hardware of the instance."}},
		}),
	}
}
