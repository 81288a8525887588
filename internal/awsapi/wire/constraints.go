package wire

import (
	"errors"
	"fmt"
	"strings"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/model"
)

// Constraints are the constraints on values in a service's requests that differ from its API model. The nil value
// means that none does.
type Constraints struct {
	shapes   map[*model.Shape]limits
	members  map[*model.Member]limits
	optional map[*model.Member]bool // although the model requires them
}

// limits are the constraints on one value.
type limits struct {
	min, max    *float64
	pattern     string
	patternText func(path string) string // of awsapi.Constraint
	enum        []string
}

func limitsOf(s *model.Shape) limits {
	return limits{min: s.Min, max: s.Max, pattern: s.Pattern, enum: s.Enum}
}

// NewConstraints applies a service's rows to its model. It is an error if a row has no source, names something that the
// model does not have, or says what the model says.
func NewConstraints(svc *model.Service, rows []awsapi.Constraint) (*Constraints, error) {
	c := &Constraints{shapes: map[*model.Shape]limits{}, members: map[*model.Member]limits{}, optional: map[*model.Member]bool{}}
	var errs []error
	for _, row := range rows {
		if row.Source == "" {
			errs = append(errs, fmt.Errorf("constraint on %s: no source", row.At))
		}
		for at := range strings.FieldsSeq(row.At) {
			if err := c.add(svc, at, row); err != nil {
				errs = append(errs, fmt.Errorf("constraint on %s: %w", at, err))
			}
		}
	}
	return c, errors.Join(errs...)
}

func (c *Constraints) add(svc *model.Service, at string, row awsapi.Constraint) error {
	within, name, isMember := strings.Cut(at, ".")
	shape := svc.Shapes[within]
	if !isMember {
		if shape == nil {
			return errors.New("the API model has no such shape")
		}
		if _, ok := c.shapes[shape]; ok {
			return errors.New("there are two rows for it")
		}
		if row.Unchecked == awsapi.UncheckedRequired {
			return errors.New("only members are required")
		}
		l, err := limitsOf(shape).corrected(row)
		c.shapes[shape] = l
		return err
	}
	if op := svc.Operations[within]; op != nil {
		shape = op.Input
	}
	m := shape.Member(name)
	if m == nil {
		return errors.New("the API model has no such member")
	}
	if _, ok := c.members[m]; ok || c.optional[m] {
		return errors.New("there are two rows for it")
	}
	if row.Unchecked == awsapi.UncheckedRequired {
		c.optional[m] = true
		if !m.Required {
			return errors.New("the API model does not require it")
		}
		return nil
	}
	l, err := limitsOf(m.Shape).corrected(row)
	c.members[m] = l
	return err
}

// corrected returns the limits with the corrections of a row, each of which must differ from them.
func (l limits) corrected(row awsapi.Constraint) (limits, error) {
	was := l
	switch row.Unchecked {
	case "":
	case awsapi.UncheckedSize:
		l.min, l.max = nil, nil
		if was.min == nil && was.max == nil {
			return l, errors.New("the API model has no minimum and no maximum")
		}
	case awsapi.UncheckedPattern:
		l.pattern = ""
		if was.pattern == "" {
			return l, errors.New("the API model has no pattern")
		}
	case awsapi.UncheckedEnum:
		l.enum = nil
		if was.enum == nil {
			return l, errors.New("the API model has no enumeration")
		}
	default:
		return l, fmt.Errorf("there is no kind %q of constraints", row.Unchecked)
	}
	same := func(a, b *float64) bool { return a != nil && b != nil && *a == *b }
	if same(row.Min, was.min) || same(row.Max, was.max) || row.Pattern != "" && row.Pattern == was.pattern {
		return l, errors.New("the API model says the same")
	}
	if row.Min != nil {
		l.min = row.Min
	}
	if row.Max != nil {
		l.max = row.Max
	}
	if row.Pattern != "" {
		l.pattern = row.Pattern
	}
	if row.Enum != nil {
		l.enum = row.Enum
	}
	l.patternText = row.PatternText
	if row.PatternText != nil && l.pattern == "" {
		return l, errors.New("the API model has no pattern")
	}
	if row.Pattern != "" && javaPattern(row.Pattern) == nil {
		return l, errors.New("Go cannot compile the pattern")
	}
	return l, nil
}

// limits returns the constraints on the value of a member, list element, map key or map value.
func (c *Constraints) limits(m *model.Member) limits {
	if c != nil {
		if l, ok := c.members[m]; ok {
			return l
		}
		if l, ok := c.shapes[m.Shape]; ok {
			return l
		}
	}
	return limitsOf(m.Shape)
}

func (c *Constraints) required(m *model.Member) bool {
	return m.Required && (c == nil || !c.optional[m])
}
