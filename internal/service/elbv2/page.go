package elbv2

import (
	"encoding/base64"
	"sort"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
)

const (
	markerPrefix = "drydock/elbv2/"
	maxPage      = 400
)

// page cuts one page out of items, which are sorted by id.
func page[T any](all []T, id func(T) string, size *int32, marker *string) ([]T, *string, error) {
	n := maxPage
	if size != nil {
		if err := errRange("pageSize", *size, 1, maxPage); err != nil {
			return nil, nil, err
		}
		n = int(*size)
	}
	if m := aws.ToString(marker); m != "" {
		raw, err := base64.RawURLEncoding.DecodeString(m)
		last, ok := strings.CutPrefix(string(raw), markerPrefix)
		if err != nil || !ok {
			return nil, nil, errMarker()
		}
		all = all[sort.Search(len(all), func(i int) bool { return id(all[i]) > last }):]
	}
	if len(all) <= n {
		return all, nil, nil
	}
	return all[:n], aws.String(base64.RawURLEncoding.EncodeToString([]byte(markerPrefix + id(all[n-1])))), nil
}
