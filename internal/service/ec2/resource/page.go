package resource

import (
	"math"

	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/store"
)

// Limits are the minimum and maximum of an operation's MaxResults.
type Limits struct{ Min, Max int32 }

// rules returns the paging rules. Without MaxResults everything is on one page.
func (lim Limits) rules() paging.Rules {
	return paging.Rules{
		Size: func(n int32) (int, error) {
			switch {
			case n == 0:
				return math.MaxInt, nil
			case n < lim.Min:
				return 0, ec2err.MaxResultsTooSmall(n, lim.Min)
			}
			return int(min(n, lim.Max)), nil // EC2 silently reduces the value
		},
		BadToken: ec2err.InvalidNextToken,
	}
}

// Paginate returns one page of items, which must be sorted by id, and the token for the next page.
func Paginate[T any](items []T, id func(T) string, maxResults *int32, nextToken *string, lim Limits) ([]T, *string, error) {
	return paging.Cut(lim.rules(), items, id, maxResults, nextToken)
}

// Page returns one page of matching resources, sorted by ID, and the token for the next page. It
// reads only as many records as the page needs.
func Page[T any](r store.Reader, k Kind[T], sc Scope, match func(T) bool, maxResults *int32, nextToken *string, lim Limits) ([]T, *string, error) {
	page, err := lim.rules().Start(maxResults, nextToken)
	if err != nil {
		return nil, nil, err
	}
	out := []T{}
	k.Scan(r, sc.All(), page.After, func(at store.Key, v T) bool {
		switch {
		case !match(v):
		case page.Full():
			return false
		default:
			out = append(out, v)
			page.Add(at.ID)
		}
		return true
	})
	return out, page.Next(), nil
}

// CheckPageOfIDs rejects MaxResults in combination with a list of IDs.
func CheckPageOfIDs(ids []string, param string, maxResults *int32) error {
	if len(ids) > 0 && maxResults != nil {
		return ec2err.Combination("The parameter " + param + " cannot be used with the parameter maxResults")
	}
	return nil
}
