package ec2

import (
	"encoding/base64"
	"sort"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// limits are the bounds of an operation's MaxResults.
type limits struct{ min, max int32 }

const tokenPrefix = "drydock/1/"

// paginate returns one page of items, which must be sorted by id, and the token
// of the next. Tokens name the last item returned, so that a listing survives
// changes between its pages. Without MaxResults and token everything is one page.
func paginate[T any](items []T, id func(T) string, maxResults *int32, nextToken *string, lim limits) ([]T, *string, error) {
	if t := aws.ToString(nextToken); t != "" {
		raw, err := base64.RawURLEncoding.DecodeString(t)
		last, ok := strings.CutPrefix(string(raw), tokenPrefix)
		if err != nil || !ok {
			return nil, nil, errInvalidNextToken(t)
		}
		items = items[sort.Search(len(items), func(i int) bool { return id(items[i]) > last }):]
	}
	if maxResults == nil || *maxResults == 0 {
		return items, nil, nil
	}
	n := *maxResults
	switch {
	case n < lim.min:
		return nil, nil, errMaxResultsTooSmall(n, lim.min)
	case n > lim.max:
		n = lim.max // EC2 caps silently
	}
	if len(items) <= int(n) {
		return items, nil, nil
	}
	items = items[:n]
	token := base64.RawURLEncoding.EncodeToString([]byte(tokenPrefix + id(items[n-1])))
	return items, &token, nil
}

// checkPageOfIDs refuses MaxResults together with a list of IDs.
func checkPageOfIDs(ids []string, param string, maxResults *int32) error {
	if len(ids) > 0 && maxResults != nil {
		return errCombination("The parameter " + param + " cannot be used with the parameter maxResults")
	}
	return nil
}
