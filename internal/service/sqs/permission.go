package sqs

import (
	"context"
	"encoding/json"
	"slices"

	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/drydock-dev/drydock/internal/arn"
)

// permissions are the actions that AddPermission can allow.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_AddPermission.html
var permissions = []string{"*", "SendMessage", "ReceiveMessage", "DeleteMessage", "ChangeMessageVisibility", "GetQueueAttributes", "GetQueueUrl", "ListDeadLetterSourceQueues", "PurgeQueue"}

// A queuePolicy is a policy in the form that AddPermission writes. Other statements are left as
// they are.
type queuePolicy struct {
	Version   string            `json:"Version"`
	ID        string            `json:"Id,omitempty"`
	Statement []json.RawMessage `json:"Statement"`
}

type statement struct {
	Sid       string `json:"Sid"`
	Effect    string `json:"Effect"`
	Principal struct {
		AWS any `json:"AWS"`
	} `json:"Principal"`
	Action   any    `json:"Action"`
	Resource string `json:"Resource"`
}

// readPolicy returns a queue's policy, and the index of the statement with a label, or -1 if there
// is none.
func readPolicy(text, label string) (queuePolicy, int, error) {
	p := queuePolicy{Version: "2008-10-17"}
	if text == "" {
		return p, -1, nil
	}
	raw := struct {
		queuePolicy
		Statement json.RawMessage `json:"Statement"`
	}{}
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		return p, -1, err
	}
	p = queuePolicy{raw.Version, raw.ID, nil}
	if json.Unmarshal(raw.Statement, &p.Statement) != nil {
		p.Statement = []json.RawMessage{raw.Statement} // a single statement may be without a list
	}
	at := slices.IndexFunc(p.Statement, func(b json.RawMessage) bool {
		var st struct{ Sid string }
		return json.Unmarshal(b, &st) == nil && st.Sid == label
	})
	return p, at, nil
}

// one returns the list, or its element if there is only one.
func one(list []string) any {
	if len(list) == 1 {
		return list[0]
	}
	return list
}

// AddPermission adds a statement to the queue's policy.
func (s *Service) AddPermission(ctx context.Context, in *awssqs.AddPermissionInput) (*awssqs.AddPermissionOutput, error) {
	if len(in.Actions) > 7 {
		return nil, errManyActions(len(in.Actions))
	}
	if len(*in.Label) > 80 || !nameForm.MatchString(*in.Label) {
		return nil, errParameter(*in.Label, "Label", "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length") // from memory
	}
	var actions, principals []string
	for _, a := range in.Actions {
		if !slices.Contains(permissions, a) {
			return nil, errAction(a)
		}
		actions = append(actions, "SQS:"+a)
	}
	for _, account := range in.AWSAccountIds {
		if !isAccount(account) {
			return nil, errParameter(account, "PrincipalId", "Unable to verify.") // from memory
		}
		principals = append(principals, arn.IAM(account, "root"))
	}
	err := s.change(ctx, in.QueueUrl, func(sc scope, q *queueRecord) error {
		p, at, err := readPolicy(q.Attributes["Policy"], *in.Label)
		if err != nil {
			return err
		}
		if at >= 0 {
			return errLabelExists(*in.Label)
		}
		if p.ID == "" {
			p.ID = sc.arn(q.Name) + "/SQSDefaultPolicy"
		}
		st := statement{Sid: *in.Label, Effect: "Allow", Action: one(actions), Resource: sc.arn(q.Name)}
		st.Principal.AWS = one(principals)
		raw, err := json.Marshal(st)
		if err != nil {
			return err
		}
		p.Statement = append(p.Statement, raw)
		return q.setPolicy(p)
	})
	return &awssqs.AddPermissionOutput{}, err
}

// RemovePermission removes a statement from the queue's policy. If it was the last one, the policy
// is removed as well.
func (s *Service) RemovePermission(ctx context.Context, in *awssqs.RemovePermissionInput) (*awssqs.RemovePermissionOutput, error) {
	err := s.change(ctx, in.QueueUrl, func(_ scope, q *queueRecord) error {
		p, at, err := readPolicy(q.Attributes["Policy"], *in.Label)
		if err != nil {
			return err
		}
		if at < 0 {
			return errNoLabel(*in.Label)
		}
		p.Statement = slices.Delete(p.Statement, at, at+1)
		return q.setPolicy(p)
	})
	return &awssqs.RemovePermissionOutput{}, err
}

func (q *queueRecord) setPolicy(p queuePolicy) error {
	if len(p.Statement) == 0 {
		delete(q.Attributes, "Policy")
		return nil
	}
	raw, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if q.Attributes == nil {
		q.Attributes = map[string]string{}
	}
	q.Attributes["Policy"] = string(raw)
	return nil
}
