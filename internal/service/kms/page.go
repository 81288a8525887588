package kms

import (
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/paging"
)

func newPage(limit *int32, marker *string, standard, most int) (*paging.Cursor, error) {
	return paging.Rules{
		Usual: standard,
		Size: func(n int32) (int, error) { // the limit of the longest lists in the model
			return int(n), awserr.Range("ValidationException", "limit", n, 1, int32(most)) //nolint:gosec // a thousand
		},
		BadToken: errMarker,
	}.Start(limit, marker)
}
