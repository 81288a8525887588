// Package lifecycle parses and evaluates the lifecycle policies of ECR: which images of a repository have expired. It
// is pure.
//
// https://docs.aws.amazon.com/AmazonECR/latest/userguide/LifecyclePolicies.html
package lifecycle

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/glob"
)

// An Image is an image of a repository.
type Image struct {
	Digest string
	Tags   []string
	Pushed time.Time
	Pulled time.Time // zero if it was never pulled
}

// A Policy is a lifecycle policy.
type Policy struct{ rules []rule } // by priority

type rule struct {
	Priority    *int32     `json:"rulePriority"`
	Description string     `json:"description"`
	Selection   *selection `json:"selection"`
	Action      *struct {
		Type string `json:"type"`
	} `json:"action"`
}

type selection struct {
	TagStatus      string   `json:"tagStatus"`
	TagPrefixList  []string `json:"tagPrefixList"`
	TagPatternList []string `json:"tagPatternList"`
	CountType      string   `json:"countType"`
	CountUnit      string   `json:"countUnit"`
	CountNumber    *int     `json:"countNumber"`
}

// Count types.
const (
	moreThan    = "imageCountMoreThan"
	sincePushed = "sinceImagePushed"
	sincePulled = "sinceImagePulled"
)

// Parse parses a policy. Its error messages are ECR's as far as users have reported them
// (https://github.com/getmoto/moto, tests/test_ecr/test_ecr_policy_validation.py); the others are from memory.
func Parse(text string) (*Policy, error) {
	var doc struct {
		Rules []rule `json:"rules"`
	}
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&doc); err != nil {
		if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			return nil, fmt.Errorf("object instance has properties which are not allowed by the schema: ([%s])", name)
		}
		return nil, errors.New("Could not map policyString into LifecyclePolicy.") //nolint:staticcheck // ECR's text
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("Could not map policyString into LifecyclePolicy.") //nolint:staticcheck // ECR's text
	}
	if len(doc.Rules) == 0 {
		return nil, missing("rules")
	}
	p := &Policy{rules: doc.Rules}
	slices.SortStableFunc(p.rules, func(a, b rule) int { return cmp.Compare(priority(a), priority(b)) })
	untagged := 0
	for i, r := range p.rules {
		if err := r.check(); err != nil {
			return nil, err
		}
		if i > 0 && priority(r) == priority(p.rules[i-1]) {
			return nil, fmt.Errorf("rulePriority must be unique: %d", priority(r))
		}
		if r.Selection.TagStatus == "any" && i < len(p.rules)-1 {
			return nil, errors.New("The rule with tagStatus any must have the highest rulePriority") //nolint:staticcheck // ECR's style
		}
		if r.Selection.TagStatus == "untagged" {
			untagged++
		}
	}
	if untagged > 1 {
		return nil, errors.New("Only one rule can select Untagged images.") //nolint:staticcheck // ECR's text
	}
	return p, nil
}

func priority(r rule) int32 {
	if r.Priority == nil {
		return 0
	}
	return *r.Priority
}

func missing(name string) error {
	return fmt.Errorf("object has missing required properties ([%q])", name)
}

func outside(value string, allowed ...string) error {
	return fmt.Errorf(`instance value (%s) not found in enum :(possible values: ["%s"])`, value, strings.Join(allowed, `", "`))
}

func tooLow(n int) error {
	return fmt.Errorf("numeric instance is lower than the required minimum (minimum: 1, found: %d)", n)
}

func (r *rule) check() error {
	switch s := r.Selection; {
	case r.Priority == nil:
		return missing("rulePriority")
	case *r.Priority < 1:
		return tooLow(int(*r.Priority))
	case s == nil:
		return missing("selection")
	case r.Action == nil:
		return missing("action")
	case r.Action.Type == "":
		return missing("type")
	case r.Action.Type != "expire":
		return outside(r.Action.Type, "expire")
	case s.TagStatus == "":
		return missing("tagStatus")
	case !slices.Contains([]string{"any", "tagged", "untagged"}, s.TagStatus):
		return outside(s.TagStatus, "any", "tagged", "untagged")
	case s.CountType == "":
		return missing("countType")
	case s.CountNumber == nil:
		return missing("countNumber")
	case *s.CountNumber < 1:
		return tooLow(*s.CountNumber)
	case !slices.Contains([]string{moreThan, sincePushed, sincePulled}, s.CountType), s.CountType == moreThan && s.CountUnit != "":
		return errors.New("instance failed to match exactly one schema (matched 0 out of 2)")
	case s.CountType != moreThan && s.CountUnit == "":
		return missing("countUnit")
	case s.CountType != moreThan && s.CountUnit != "days":
		return outside(s.CountUnit, "days")
	case s.TagStatus == "tagged" && len(s.TagPrefixList) == 0 && len(s.TagPatternList) == 0:
		return errors.New("tagPrefixList or tagPatternList is required when tagStatus is tagged")
	case len(s.TagPrefixList) > 0 && len(s.TagPatternList) > 0:
		return errors.New("tagPrefixList and tagPatternList cannot be used together")
	case s.TagStatus != "tagged" && len(s.TagPrefixList)+len(s.TagPatternList) > 0:
		return errors.New("tagPrefixList and tagPatternList require tagStatus tagged")
	}
	return nil
}

// selects reports whether the rule applies to an image. Each pattern must match one of the image's tags.
func (s *selection) selects(i *Image) bool {
	switch s.TagStatus {
	case "any":
		return true
	case "untagged":
		return len(i.Tags) == 0
	}
	has := func(pattern string) bool {
		return slices.ContainsFunc(i.Tags, func(tag string) bool { return glob.Match(pattern, tag) })
	}
	for _, p := range s.TagPrefixList {
		if !slices.ContainsFunc(i.Tags, func(tag string) bool { return strings.HasPrefix(tag, p) }) {
			return false
		}
	}
	for _, p := range s.TagPatternList {
		if !has(p) {
			return false
		}
	}
	return true
}

// An Expired is an expired image, with the priority of the rule that expires it.
type Expired struct {
	Image    Image
	Priority int32
}

// Expired returns the images that have expired, by rule and then oldest first. A rule never affects images that a rule
// with a lower priority number selects.
func (p *Policy) Expired(images []Image, now time.Time) []Expired {
	images = slices.Clone(images)
	slices.SortStableFunc(images, func(a, b Image) int {
		return cmp.Or(a.Pushed.Compare(b.Pushed), cmp.Compare(a.Digest, b.Digest))
	})
	claimed := map[string]bool{}
	var out []Expired
	for _, r := range p.rules {
		var selected []Image
		for _, i := range images {
			if !claimed[i.Digest] && r.Selection.selects(&i) {
				selected = append(selected, i)
			}
		}
		for n, i := range selected {
			claimed[i.Digest] = true
			if r.Selection.over(&i, len(selected)-n, now) {
				out = append(out, Expired{i, *r.Priority})
			}
		}
	}
	return out
}

// over reports whether an image has expired. It is the nth of the selected images, counted from the newest.
func (s *selection) over(i *Image, nth int, now time.Time) bool {
	since := i.Pushed
	switch s.CountType {
	case moreThan:
		return nth > *s.CountNumber
	case sincePulled:
		if !i.Pulled.IsZero() {
			since = i.Pulled
		}
	}
	return now.Sub(since) > time.Duration(*s.CountNumber)*24*time.Hour
}
