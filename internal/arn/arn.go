// Package arn builds and parses Amazon Resource Names of the aws partition.
package arn

import (
	"fmt"
	"strings"
)

// An ARN is a parsed resource name: arn:Partition:Service:Region:Account:Resource.
type ARN struct {
	Partition, Service, Region, Account, Resource string
}

// New returns the ARN of a resource in the aws partition.
func New(service, region, account, resource string) string {
	return "arn:aws:" + service + ":" + region + ":" + account + ":" + resource
}

// IAM returns the ARN of an IAM resource, which has no region.
func IAM(account, resource string) string { return New("iam", "", account, resource) }

// Parse splits s. It fails if s has fewer than six fields or no arn: prefix.
func Parse(s string) (ARN, error) {
	p := strings.SplitN(s, ":", 6)
	if len(p) != 6 || p[0] != "arn" || p[5] == "" {
		return ARN{}, fmt.Errorf("%q is not an ARN", s)
	}
	return ARN{p[1], p[2], p[3], p[4], p[5]}, nil
}

func (a ARN) String() string {
	return strings.Join([]string{"arn", a.Partition, a.Service, a.Region, a.Account, a.Resource}, ":")
}
