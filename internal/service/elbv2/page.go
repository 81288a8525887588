package elbv2

import "github.com/drydock-dev/drydock/internal/awsapi/paging"

var pages = paging.Rules{Usual: 400, BadToken: func(string) error { return errMarker() }}
