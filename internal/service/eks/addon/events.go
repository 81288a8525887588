package addon

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"golang.org/x/sync/errgroup"

	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/serviceevents"
	"github.com/drydock-dev/drydock/internal/store"
)

// Events sends the events of add-ons. AWS documents their types, but not their details. The only other event that EKS
// sends, EKS Fargate Pod Scheduled Termination, is package fargate's.
// https://docs.aws.amazon.com/eventbridge/latest/ref/events-ref-eks.html
func (s *Service) Events(ctx context.Context, bus serviceevents.Bus) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return serviceevents.Follow(ctx, s.Store, record.Addons, s.Log, func(key store.Key, r *record.Addon) error { return s.statusEvent(bus, key, r) })
	})
	group.Go(func() error {
		return serviceevents.Follow(ctx, s.Store, record.Updates, s.Log, func(key store.Key, r *record.Update) error { return s.updateEvent(bus, key, r) })
	})
	return group.Wait()
}

// statusEvent sends the event of an add-on's new status.
func (s *Service) statusEvent(bus serviceevents.Bus, key store.Key, r *record.Addon) error {
	thing := "eks/addon/" + key.ID
	last := bus.Emitted(key.Account, key.Region, thing)
	before, arn, _ := strings.Cut(last, " ")
	if r == nil {
		if before != "" { // the status DELETING may have passed too quickly to be seen
			if err := bus.EmitOnce(key.Account, key.Region, thing, "gone", eventAbout(key, arn, nil, "EKS Addon Deletion Succeeded")); err != nil {
				return err
			}
		}
		return bus.Forget(key.Account, key.Region, thing)
	}
	event := eventOf(ekstypes.AddonStatus(before), r.Addon.Status)
	if last == "" && s.Clock.Since(r.Since) > serviceevents.News {
		event = ""
	}
	arn = aws.ToString(r.Addon.AddonArn)
	return bus.EmitOnce(key.Account, key.Region, thing, string(r.Addon.Status)+" "+arn, eventAbout(key, arn, r, event))
}

// updateEvent sends the event of an add-on's update that has ended. The add-on's status alone does not show updates that
// end quickly.
func (s *Service) updateEvent(bus serviceevents.Bus, key store.Key, r *record.Update) error {
	thing := "eks/update/" + key.ID
	switch {
	case r == nil:
		return bus.Forget(key.Account, key.Region, thing)
	case r.Addon == "" || r.Update.Status == ekstypes.UpdateStatusInProgress:
		return nil
	}
	event := "EKS Addon Update Failed"
	if r.Update.Status == ekstypes.UpdateStatusSuccessful {
		event = "EKS Addon Update Succeeded"
	}
	cluster, _, _ := strings.Cut(key.ID, "/")
	addon := key
	addon.ID = cluster + "/" + r.Addon
	now, err := record.Addons.Get(s.Store, addon)
	if err != nil || s.Clock.Since(aws.ToTime(r.Update.CreatedAt)) > serviceevents.News {
		event = ""
	}
	return bus.EmitOnce(key.Account, key.Region, thing, string(r.Update.Status), eventAbout(addon, aws.ToString(now.Addon.AddonArn), &now, event))
}

// eventAbout returns an event about an add-on, or nil if event is empty. r is nil if the add-on is gone.
func eventAbout(key store.Key, arn string, r *record.Addon, event string) *serviceevents.Event {
	if event == "" {
		return nil
	}
	cluster, name, _ := strings.Cut(key.ID, "/")
	detail := map[string]any{"clusterName": cluster, "addonName": name}
	if r != nil {
		detail["addonVersion"], detail["status"] = r.Addon.AddonVersion, r.Addon.Status
		if r.Addon.Health != nil && len(r.Addon.Health.Issues) > 0 {
			var issues []map[string]any
			for _, i := range r.Addon.Health.Issues {
				issues = append(issues, map[string]any{"code": i.Code, "message": i.Message, "resourceIds": i.ResourceIds})
			}
			detail["issues"] = issues
		}
	}
	return &serviceevents.Event{DetailType: event, Source: "aws.eks", Resources: []string{arn}, Detail: serviceevents.Detail(detail)}
}

// eventOf returns the type of the event of an add-on's new status, or "" if there is none.
func eventOf(before, now ekstypes.AddonStatus) string {
	if before == now || before == ekstypes.AddonStatusUpdating { // see updateEvent
		return ""
	}
	switch now {
	case ekstypes.AddonStatusActive:
		switch before {
		case ekstypes.AddonStatusDegraded:
			return "EKS Addon Health Restored"
		case "", ekstypes.AddonStatusCreating:
			return "EKS Addon Creation Succeeded"
		}
	case ekstypes.AddonStatusDegraded:
		return "EKS Addon Health Degraded"
	case ekstypes.AddonStatusCreateFailed:
		return "EKS Addon Creation Failed"
	case ekstypes.AddonStatusDeleteFailed:
		return "EKS Addon Deletion Failed"
	}
	return ""
}
