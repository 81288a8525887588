package kms

import (
	"github.com/drydock-dev/drydock/internal/awsapi/paging"
)

func newPage(limit *int32, marker *string, standard int) (*paging.Cursor, error) {
	return paging.Rules{Usual: standard, BadToken: errMarker}.Start(limit, marker)
}
