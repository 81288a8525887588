package ssm

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/drydock-dev/drydock/internal/serviceevents"
	"github.com/drydock-dev/drydock/internal/store"
)

// The types of parameter policies.
// https://docs.aws.amazon.com/systems-manager/latest/userguide/parameter-store-policies.html
const (
	expires     = "Expiration"
	willExpire  = "ExpirationNotification"
	notChanged  = "NoChangeNotification"
	maxPolicies = 10
)

// A parameterPolicy is a policy of a parameter.
type parameterPolicy struct {
	Type string
	Text string // the policy as JSON
	// At is when an Expiration deletes the parameter. After is the time from the last change to a NoChangeNotification, or
	// from an ExpirationNotification to the expiration.
	At    time.Time
	After time.Duration
}

// policiesOf reads the policies in a request. The errors have the texts of AWS's reference.
func policiesOf(text string) ([]parameterPolicy, error) {
	badAttribute := &ssmtypes.InvalidPolicyAttributeException{Message: aws.String("A policy attribute or its value is invalid.")}
	var raw []json.RawMessage
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		return nil, badAttribute
	}
	if len(raw) > maxPolicies {
		return nil, &ssmtypes.PoliciesLimitExceededException{Message: aws.String("You specified more than the maximum number of allowed policies for the parameter. The maximum is 10.")}
	}
	seen := map[string]int{}
	var out []parameterPolicy
	for _, r := range raw {
		var p struct {
			Type, Version string
			Attributes    struct{ Timestamp, Before, After, Unit string }
		}
		if err := json.Unmarshal(r, &p); err != nil {
			return nil, badAttribute
		}
		if p.Type == "" && len(raw) == 1 {
			return nil, nil // [{}] removes all policies
		}
		policy := parameterPolicy{Type: p.Type, Text: string(r)}
		count := p.Attributes.After
		switch p.Type {
		case expires:
			var err error
			if policy.At, err = time.Parse(time.RFC3339, p.Attributes.Timestamp); err != nil {
				return nil, badAttribute
			}
		case willExpire:
			count = p.Attributes.Before
			fallthrough
		case notChanged:
			n, err := strconv.Atoi(count)
			if err != nil || n < 1 || p.Attributes.Unit != "Days" && p.Attributes.Unit != "Hours" {
				return nil, badAttribute
			}
			policy.After = time.Duration(n) * time.Hour
			if p.Attributes.Unit == "Days" {
				policy.After *= 24
			}
		default:
			return nil, &ssmtypes.InvalidPolicyTypeException{Message: aws.String("The policy type isn't supported. Parameter Store supports the following policy types: Expiration, ExpirationNotification, and NoChangeNotification.")}
		}
		if p.Version != "1.0" {
			return nil, badAttribute
		}
		seen[p.Type]++
		out = append(out, policy)
	}
	if seen[expires] > 1 || seen[willExpire] > 0 && seen[expires] == 0 {
		return nil, &ssmtypes.IncompatiblePolicyException{Message: aws.String("There is a conflict in the policies specified for this parameter. You can't, for example, specify two Expiration policies for a parameter. Review your policies, and try again.")}
	}
	return out, nil
}

// due returns when a policy of the parameter takes effect.
func (p *parameterRecord) due(policy *parameterPolicy) time.Time {
	switch policy.Type {
	case expires:
		return policy.At
	case notChanged:
		return p.Modified.Add(policy.After)
	}
	for _, other := range p.Policies {
		if other.Type == expires {
			return other.At.Add(-policy.After)
		}
	}
	return time.Time{} // not reached: policiesOf refuses a notification without an Expiration
}

// expired reports whether a parameter has expired.
func (p *parameterRecord) expired(now time.Time) bool {
	for _, policy := range p.Policies {
		if policy.Type == expires && !now.Before(policy.At) {
			return true
		}
	}
	return false
}

// policies returns the policies of a parameter and their states.
func (p *parameterRecord) policies(now time.Time) []ssmtypes.ParameterInlinePolicy {
	out := []ssmtypes.ParameterInlinePolicy{}
	for _, policy := range p.Policies {
		status := "Pending"
		if !now.Before(p.due(&policy)) {
			status = "Finished"
		}
		out = append(out, ssmtypes.ParameterInlinePolicy{PolicyText: aws.String(policy.Text), PolicyType: aws.String(policy.Type), PolicyStatus: aws.String(status)})
	}
	return out
}

// parameter returns a parameter, unless it has expired.
func (s *Service) parameter(r store.Reader, key store.Key) (parameterRecord, error) {
	p, err := parameters.Get(r, key)
	if err == nil && p.expired(s.clock.Now()) {
		return parameterRecord{}, store.ErrNotFound // followPolicies will delete it
	}
	return p, err
}

// policyInterval is how often policies are applied.
const policyInterval = time.Minute

// followPolicies deletes parameters that have expired and sends the events of policies until ctx ends.
func (s *Service) followPolicies(ctx context.Context, bus serviceevents.Bus) error {
	for {
		var errs []error
		for _, i := range parameters.All(s.store, store.Scope{}) {
			p := i.Value
			sc := scope{}
			sc.Account, sc.Region = i.Key.Account, i.Key.Region
			for n := range p.Policies {
				if policy := &p.Policies[n]; !s.clock.Now().Before(p.due(policy)) {
					errs = append(errs, s.apply(ctx, bus, sc, &p, policy))
				}
			}
		}
		if err := errors.Join(errs...); err != nil && ctx.Err() == nil {
			s.log.Warn("policies of parameters could not be applied; trying again", "error", err)
		}
		timer := s.clock.NewTimer(policyInterval)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C():
		}
	}
}

// apply sends the event of a policy that is due, once for each version, and deletes an expired parameter.
func (s *Service) apply(ctx context.Context, bus serviceevents.Bus, sc scope, p *parameterRecord, policy *parameterPolicy) error {
	detail, err := json.Marshal(map[string]string{"parameter-name": p.Name, "parameter-type": p.Type, "policy-type": policy.Type, "policy-content": policy.Text})
	if err != nil {
		return err
	}
	thing := "ssm parameter " + p.Name + " " + policy.Text // there may be several notifications of one type
	err = bus.EmitOnce(sc.Account, sc.Region, thing, strconv.FormatInt(p.Version, 10)+" "+p.Modified.Format(time.RFC3339Nano), &serviceevents.Event{
		DetailType: "Parameter Store Policy Action", Source: "aws.ssm", Time: s.clock.Now().UTC().Format(serviceevents.TimeForm), Resources: []string{sc.arn(p.Name)}, Detail: detail,
	})
	if err != nil || policy.Type != expires {
		return err
	}
	_, err = s.remove(ctx, sc, p.Name, func(now *parameterRecord) bool { return now.Modified.Equal(p.Modified) })
	return err
}
