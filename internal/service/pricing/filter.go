package pricing

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	pricingtypes "github.com/aws/aws-sdk-go-v2/service/pricing/types"
)

// A filter is a condition on a field of a product.
type filter struct {
	field  string
	kind   pricingtypes.FilterType
	values []string // a single value, except for ANY_OF and NONE_OF
}

// filters are conditions that must all hold. text identifies them for comparison.
type filters struct {
	all  []filter
	text string
}

// compile parses the filters in a request.
// https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_pricing_Filter.html
func compile(in []pricingtypes.Filter) filters {
	out := filters{text: "products"}
	for _, f := range in {
		field, value := aws.ToString(f.Field), aws.ToString(f.Value)
		c := filter{field: field, kind: f.Type, values: []string{value}}
		if f.Type == pricingtypes.FilterTypeAnyOf || f.Type == pricingtypes.FilterTypeNoneOf {
			c.values = strings.Split(value, ",")
		}
		out.all = append(out.all, c)
		out.text += fmt.Sprintf("/%q %s %q", field, f.Type, value)
	}
	return out
}

func (f filter) allows(value string) bool {
	switch f.kind {
	case pricingtypes.FilterTypeContains:
		return strings.Contains(value, f.values[0])
	case pricingtypes.FilterTypeNoneOf:
		return !slices.Contains(f.values, value)
	default:
		return slices.Contains(f.values, value)
	}
}

// possible reports whether products with a value of a field may match, so that others need not be
// built.
func (f filters) possible(field, value string) bool {
	for _, c := range f.all {
		if strings.EqualFold(c.field, field) && !c.allows(value) {
			return false
		}
	}
	return true
}

func (f filters) match(p product) bool {
	for _, c := range f.all {
		value, ok := p.field(c.field)
		if !ok {
			if c.kind != pricingtypes.FilterTypeNoneOf {
				return false
			}
			continue
		}
		if !c.allows(value) {
			return false
		}
	}
	return true
}
