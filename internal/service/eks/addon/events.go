package addon

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/serviceevents"
	"github.com/drydock-dev/drydock/internal/store"
)

// Events sends the events of add-ons. AWS documents their types, but not their details.
// https://docs.aws.amazon.com/eventbridge/latest/ref/events-ref-eks.html
//
// AWS deviation: EKS Fargate Pod Scheduled Termination is not sent, since nobody patches the hosts of pods here.
func (s *Service) Events(ctx context.Context, bus serviceevents.Bus) error {
	return serviceevents.Follow(ctx, s.Store, record.Addons, s.Log, func(key store.Key, r *record.Addon) error {
		thing := "eks/addon/" + key.ID
		last := bus.Emitted(key.Account, key.Region, thing)
		before, arn, _ := strings.Cut(last, " ")
		cluster, name, _ := strings.Cut(key.ID, "/")
		var event string
		detail := map[string]any{"clusterName": cluster, "addonName": name}
		state := ""
		if r == nil {
			if before == string(ekstypes.AddonStatusDeleting) {
				event, state = "EKS Addon Deletion Succeeded", "gone"
			}
		} else {
			arn = aws.ToString(r.Addon.AddonArn)
			if event = eventOf(ekstypes.AddonStatus(before), r.Addon.Status); last == "" && s.Clock.Since(r.Since) > serviceevents.News {
				event = ""
			}
			state = string(r.Addon.Status) + " " + arn
			detail["addonVersion"], detail["status"] = r.Addon.AddonVersion, r.Addon.Status
			if r.Addon.Health != nil && len(r.Addon.Health.Issues) > 0 {
				var issues []map[string]any
				for _, i := range r.Addon.Health.Issues {
					issues = append(issues, map[string]any{"code": i.Code, "message": i.Message, "resourceIds": i.ResourceIds})
				}
				detail["issues"] = issues
			}
		}
		if state != "" {
			var e *serviceevents.Event
			if event != "" {
				e = &serviceevents.Event{DetailType: event, Source: "aws.eks", Resources: []string{arn}, Detail: serviceevents.Detail(detail)}
			}
			if err := bus.EmitOnce(key.Account, key.Region, thing, state, e); err != nil {
				return err
			}
		}
		if r == nil {
			return bus.Forget(key.Account, key.Region, thing)
		}
		return nil
	})
}

// eventOf returns the type of the event of an add-on's new status, or "" if there is none.
func eventOf(before, now ekstypes.AddonStatus) string {
	if before == now {
		return ""
	}
	updating := before == ekstypes.AddonStatusUpdating
	switch now {
	case ekstypes.AddonStatusActive:
		switch {
		case updating:
			return "EKS Addon Update Succeeded"
		case before == ekstypes.AddonStatusDegraded:
			return "EKS Addon Health Restored"
		}
		return "EKS Addon Creation Succeeded"
	case ekstypes.AddonStatusDegraded:
		if updating {
			return "EKS Addon Update Failed"
		}
		return "EKS Addon Health Degraded"
	case ekstypes.AddonStatusCreateFailed:
		return "EKS Addon Creation Failed"
	case ekstypes.AddonStatusUpdateFailed:
		return "EKS Addon Update Failed"
	case ekstypes.AddonStatusDeleteFailed:
		return "EKS Addon Deletion Failed"
	}
	return ""
}
