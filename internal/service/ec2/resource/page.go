package resource

import (
	"encoding/base64"
	"math"
	"sort"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/store"
)

// Limits are the bounds of an operation's MaxResults.
type Limits struct{ Min, Max int32 }

const tokenPrefix = "drydock/1/"

// Paginate returns one page of items, which must be sorted by id, and the token
// of the next. Tokens name the last item returned, so that a listing survives
// changes between its pages. Without MaxResults and token everything is one page.
func Paginate[T any](items []T, id func(T) string, maxResults *int32, nextToken *string, lim Limits) ([]T, *string, error) {
	last, err := tokenID(nextToken)
	if err != nil {
		return nil, nil, err
	}
	if last != "" {
		items = items[sort.Search(len(items), func(i int) bool { return id(items[i]) > last }):]
	}
	n, err := lim.pageSize(maxResults)
	if err != nil || len(items) <= n {
		return items, nil, err
	}
	return items[:n], pageToken(id(items[n-1])), nil
}

// Page returns one page of the resources of a scope that match, in the order of
// their IDs, and the token of the next. It looks no further than the page goes.
func Page[T any](r store.Reader, c store.Collection[T], sc Scope, match func(T) bool, maxResults *int32, nextToken *string, lim Limits) ([]T, *string, error) {
	after, err := tokenID(nextToken)
	if err != nil {
		return nil, nil, err
	}
	n, err := lim.pageSize(maxResults)
	if err != nil {
		return nil, nil, err
	}
	out := make([]T, 0, min(n, 1000))
	var last string
	more := false
	err = c.Scan(r, sc.All(), after, func(k store.Key, v T) bool {
		if !match(v) {
			return true
		}
		if len(out) == n {
			more = true
			return false
		}
		out, last = append(out, v), k.ID
		return true
	})
	if err != nil || !more {
		return out, nil, err
	}
	return out, pageToken(last), nil
}

// tokenID is the ID of the last resource of the page before; empty without a token.
func tokenID(nextToken *string) (string, error) {
	t := aws.ToString(nextToken)
	if t == "" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(t)
	last, ok := strings.CutPrefix(string(raw), tokenPrefix)
	if err != nil || !ok {
		return "", ec2err.InvalidNextToken(t)
	}
	return last, nil
}

func pageToken(last string) *string {
	return aws.String(base64.RawURLEncoding.EncodeToString([]byte(tokenPrefix + last)))
}

// pageSize is how many results a page has; without MaxResults there is one page.
func (lim Limits) pageSize(maxResults *int32) (int, error) {
	switch {
	case maxResults == nil || *maxResults == 0:
		return math.MaxInt, nil
	case *maxResults < lim.Min:
		return 0, ec2err.MaxResultsTooSmall(*maxResults, lim.Min)
	}
	return int(min(*maxResults, lim.Max)), nil // EC2 caps silently
}

// CheckPageOfIDs refuses MaxResults together with a list of IDs.
func CheckPageOfIDs(ids []string, param string, maxResults *int32) error {
	if len(ids) > 0 && maxResults != nil {
		return ec2err.Combination("The parameter " + param + " cannot be used with the parameter maxResults")
	}
	return nil
}
