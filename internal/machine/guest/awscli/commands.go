package awscli

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/awsapi/model"
)

// loginPassword is aws ecr get-login-password.
func (c *command) loginPassword(ctx context.Context) error {
	svc, err := model.Get("ecr")
	if err != nil {
		return err
	}
	out, err := c.call(ctx, svc.Operations["GetAuthorizationToken"], map[string]any{})
	if err != nil {
		return err
	}
	list, _ := out["authorizationData"].([]any)
	if len(list) == 0 {
		return errors.New("there is no authorization data")
	}
	data, _ := list[0].(map[string]any)
	text, _ := data["authorizationToken"].(string)
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return err
	}
	_, password, _ := strings.Cut(string(b), ":")
	fmt.Fprintln(c.Stdout, password)
	return nil
}

// A waiter is one of botocore's: aws eks wait cluster-active.
// https://github.com/boto/botocore/tree/develop/botocore/data (waiters-2.json)
type waiter struct {
	service, name, operation string
	every                    time.Duration
	attempts                 int
	done                     func(out map[string]any, err error) (ended, failed bool)
}

func waiters() []waiter {
	status := func(list ...string) func(map[string]any) string {
		return func(out map[string]any) string {
			var v any = out
			for _, k := range list {
				m, _ := v.(map[string]any)
				v = m[k]
			}
			s, _ := v.(string)
			return s
		}
	}
	cluster := status("cluster", "status")
	code := func(err error) string {
		if ae := (*APIError)(nil); errors.As(err, &ae) {
			return ae.Code
		}
		return ""
	}
	// A stack's waiter succeeds in the wanted states and fails in the bad ones.
	stack := func(name string, wanted, bad []string, missing bool) waiter {
		return waiter{"cloudformation", name, "DescribeStacks", 30 * time.Second, 120, func(out map[string]any, err error) (bool, bool) {
			list, _ := out["Stacks"].([]any)
			if code(err) == "ValidationError" {
				return missing, !missing
			}
			for _, st := range list {
				m, _ := st.(map[string]any)
				s, _ := m["StackStatus"].(string)
				return slices.Contains(wanted, s), slices.Contains(bad, s)
			}
			return false, false
		}}
	}
	return []waiter{
		stack("stack-create-complete", []string{"CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_IN_PROGRESS", "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS", "UPDATE_FAILED", "UPDATE_ROLLBACK_IN_PROGRESS",
			"UPDATE_ROLLBACK_FAILED", "UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS", "UPDATE_ROLLBACK_COMPLETE"},
			[]string{"CREATE_FAILED", "DELETE_COMPLETE", "DELETE_FAILED", "ROLLBACK_FAILED", "ROLLBACK_COMPLETE"}, false),
		stack("stack-update-complete", []string{"UPDATE_COMPLETE"}, []string{"UPDATE_FAILED", "UPDATE_ROLLBACK_FAILED", "UPDATE_ROLLBACK_COMPLETE"}, false),
		stack("stack-rollback-complete", []string{"UPDATE_ROLLBACK_COMPLETE"}, []string{"UPDATE_FAILED", "UPDATE_ROLLBACK_FAILED", "DELETE_FAILED"}, false),
		stack("stack-delete-complete", []string{"DELETE_COMPLETE"}, []string{"DELETE_FAILED", "CREATE_FAILED", "ROLLBACK_FAILED", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_IN_PROGRESS",
			"UPDATE_ROLLBACK_FAILED", "UPDATE_ROLLBACK_COMPLETE"}, true),
		{"eks", "cluster-active", "DescribeCluster", 30 * time.Second, 40, func(out map[string]any, err error) (bool, bool) {
			s := cluster(out)
			return s == "ACTIVE", s == "DELETING" || s == "FAILED"
		}},
		{"eks", "cluster-deleted", "DescribeCluster", 30 * time.Second, 40, func(out map[string]any, err error) (bool, bool) {
			s := cluster(out)
			return code(err) == "ResourceNotFoundException", s == "ACTIVE" || s == "CREATING" || s == "PENDING"
		}},
		{"ec2", "instance-running", "DescribeInstances", 15 * time.Second, 40, func(out map[string]any, err error) (bool, bool) {
			return instancesAre(out, "running", "shutting-down", "terminated", "stopping")
		}},
		{"ec2", "instance-terminated", "DescribeInstances", 15 * time.Second, 40, func(out map[string]any, err error) (bool, bool) {
			return instancesAre(out, "terminated", "pending", "stopping")
		}},
		{"eks", "nodegroup-deleted", "DescribeNodegroup", 30 * time.Second, 40, func(out map[string]any, err error) (bool, bool) {
			return code(err) == "ResourceNotFoundException", status("nodegroup", "status")(out) == "DELETE_FAILED"
		}},
		{"ec2", "nat-gateway-available", "DescribeNatGateways", 15 * time.Second, 40, func(out map[string]any, err error) (bool, bool) {
			list, _ := out["NatGateways"].([]any)
			all := len(list) > 0
			for _, g := range list {
				m, _ := g.(map[string]any)
				switch m["State"] {
				case "failed", "deleting", "deleted":
					return false, true
				case "available":
				default:
					all = false
				}
			}
			return all, false
		}},
		{"ec2", "vpc-peering-connection-exists", "DescribeVpcPeeringConnections", 15 * time.Second, 40, func(out map[string]any, err error) (bool, bool) {
			return err == nil, false
		}},
		{"ec2", "instance-exists", "DescribeInstances", 5 * time.Second, 40, func(out map[string]any, err error) (bool, bool) {
			return err == nil, false
		}},
	}
}

// instancesAre reports whether all instances are in a state, and whether one is in a bad state.
func instancesAre(out map[string]any, state string, bad ...string) (all, failed bool) {
	reservations, _ := out["Reservations"].([]any)
	all = len(reservations) > 0
	for _, r := range reservations {
		m, _ := r.(map[string]any)
		list, _ := m["Instances"].([]any)
		for _, i := range list {
			im, _ := i.(map[string]any)
			st, _ := im["State"].(map[string]any)
			name, _ := st["Name"].(string)
			all = all && name == state
			for _, b := range bad {
				failed = failed || name == b
			}
		}
	}
	return all, failed
}

func (c *command) wait(ctx context.Context, svc *model.Service, words []string) error {
	if len(words) == 0 {
		return usagef("the following arguments are required: subcommand")
	}
	for _, w := range waiters() {
		if w.service != svc.Name || w.name != words[0] {
			continue
		}
		op := svc.Operations[w.operation]
		in, err := c.parameters(op, words[1:])
		if err != nil {
			return err
		}
		var title string // errors call instance-running InstanceRunning
		for part := range strings.SplitSeq(w.name, "-") {
			title += strings.ToUpper(part[:1]) + part[1:]
		}
		for n := 1; ; n++ {
			out, err := c.call(ctx, op, in)
			ended, failed := w.done(out, err)
			var ae *APIError
			switch {
			case ended:
				return nil
			case failed:
				return &failure{status: statusGeneral, text: fmt.Sprintf("\nWaiter %s failed: Waiter encountered a terminal failure state", title)}
			case err != nil && !errors.As(err, &ae):
				return err
			case err != nil:
				return &failure{status: statusGeneral, text: fmt.Sprintf("\nWaiter %s failed: %s", title, err), cause: err}
			case n == w.attempts:
				return &failure{status: statusGeneral, text: fmt.Sprintf("\nWaiter %s failed: Max attempts exceeded", title)}
			}
			if !c.Wait(ctx, w.every) {
				return &failure{status: statusGeneral, text: "", cause: ctx.Err()}
			}
		}
	}
	return unsupported("aws " + svc.Name + " wait " + words[0])
}
